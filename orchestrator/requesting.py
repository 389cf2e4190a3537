"""A planned probe → the request's body."""

import json

from orchestrator.model.plan import ArmPlan, ChatPlan, Plan, ProbePlan


def request_body(plan: Plan, arm: ArmPlan, probe: ProbePlan) -> bytes:
    """The body of one probe, as it is sent.

    Greedy, one token list for every generated token, candidates named by token id. A prompt of
    token ids is always answered with `max_tokens` tokens, the readiness probe with one; a chat may
    end sooner, since an answer that is forced on past its end is no answer.
    """
    chat = plan.chats.get(probe.prompt)
    common = {
        "model": arm.declared.served_model_name,
        "max_tokens": 1 if probe.role == "ready" else plan.max_tokens,
        "temperature": 0,
        "seed": 0,
        "return_tokens_as_token_ids": True,
        "cache_salt": probe.salt,
    }
    asked = _prompt(plan, probe) if chat is None else _conversation(plan, chat)
    return json.dumps(common | asked, separators=(",", ":")).encode()


def _prompt(plan: Plan, probe: ProbePlan) -> dict[str, object]:
    return {
        "prompt": plan.prompts[probe.prompt].token_ids,
        "ignore_eos": True,
        "logprobs": plan.top_logprobs,
    }


def _conversation(plan: Plan, chat: ChatPlan) -> dict[str, object]:
    asked: dict[str, object] = {
        "messages": [{"role": "user", "content": chat.content}],
        "logprobs": True,
        "top_logprobs": plan.top_logprobs,
        "return_token_ids": True,
    }
    if chat.response_format is not None:
        asked["response_format"] = chat.response_format
    return asked
