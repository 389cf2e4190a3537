"""A planned probe → the request's body."""

import json

from orchestrator.model.plan import ArmPlan, ChatPlan, Plan, ProbePlan


def request_body(plan: Plan, arm: ArmPlan, probe: ProbePlan) -> bytes:
    """The body of one probe, as it is sent: greedy, and always of the same number of tokens.

    Greedy, one token list for every generated token, candidates named by token id. A prompt of
    token ids is always answered in full length, the readiness probe with one token; a chat may end
    sooner, since an answer that is forced on past its end is no answer. A cold request is streamed,
    and asks for no token lists: making them would be part of what is timed.
    """
    chat = plan.chats.get(probe.prompt)
    common = {
        "model": arm.declared.served_model_name,
        "max_tokens": _max_tokens(plan, probe),
        "temperature": 0,
        "seed": 0,
        "cache_salt": probe.salt,
    }
    asked = _prompt(plan, probe) if chat is None else _conversation(plan, chat)
    return json.dumps(common | asked, separators=(",", ":")).encode()


def _prompt(plan: Plan, probe: ProbePlan) -> dict[str, object]:
    asked: dict[str, object] = {"prompt": plan.prompt_ids(probe.prompt), "ignore_eos": True}
    if probe.role == "cold":
        return asked | {"stream": True, "stream_options": {"include_usage": True}}
    return asked | {"logprobs": plan.top_logprobs, "return_tokens_as_token_ids": True}


def _conversation(plan: Plan, chat: ChatPlan) -> dict[str, object]:
    asked: dict[str, object] = {
        "messages": [{"role": "user", "content": chat.content}],
        "logprobs": True,
        "top_logprobs": plan.top_logprobs,
        "return_tokens_as_token_ids": True,
        "return_token_ids": True,
    }
    if chat.response_format is not None:
        asked["response_format"] = chat.response_format
    return asked


def _max_tokens(plan: Plan, probe: ProbePlan) -> int:
    if probe.role == "cold" and plan.throughput is not None:
        return plan.throughput.max_tokens
    return 1 if probe.role == "ready" else plan.max_tokens
