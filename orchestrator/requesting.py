"""A planned probe → the request's endpoint and body."""

import json

from orchestrator.model.plan import ArmPlan, Plan, ProbePlan

PATH = "/v1/completions"
"""Takes a prompt as token ids, so that nothing between us and the scheduler encodes text again."""


def request_body(plan: Plan, arm: ArmPlan, probe: ProbePlan) -> bytes:
    """The body of one probe, as it is sent: greedy, and always of the same number of tokens.

    One token list for every generated token, candidates named by token id; the readiness probe
    generates one token. A cold request is streamed, and asks for no token lists: making them would
    be part of what is timed.
    """
    body: dict[str, object] = {
        "model": arm.declared.served_model_name,
        "prompt": plan.prompt_ids(probe.prompt),
        "max_tokens": _max_tokens(plan, probe),
        "temperature": 0,
        "seed": 0,
        "ignore_eos": True,
        "cache_salt": probe.salt,
    }
    if probe.role == "cold":
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    else:
        body |= {"logprobs": plan.top_logprobs, "return_tokens_as_token_ids": True}
    return json.dumps(body, separators=(",", ":")).encode()


def _max_tokens(plan: Plan, probe: ProbePlan) -> int:
    if probe.role == "cold" and plan.throughput is not None:
        return plan.throughput.max_tokens
    return 1 if probe.role == "ready" else plan.max_tokens
