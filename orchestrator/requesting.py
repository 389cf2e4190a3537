"""A planned probe → the request's endpoint and body."""

import json

from orchestrator.model.plan import ArmPlan, Plan, ProbePlan

PATH = "/v1/completions"
"""Takes a prompt as token ids, so that nothing between us and the scheduler encodes text again."""


def request_body(plan: Plan, arm: ArmPlan, probe: ProbePlan) -> bytes:
    """The body of one probe, as it is sent.

    Greedy, one token list for every generated token, candidates named by token id, and always
    `max_tokens` tokens long. The readiness probe generates one.
    """
    body = {
        "model": arm.declared.served_model_name,
        "prompt": plan.prompts[probe.prompt].token_ids,
        "max_tokens": 1 if probe.role == "ready" else plan.max_tokens,
        "temperature": 0,
        "seed": 0,
        "ignore_eos": True,
        "logprobs": plan.top_logprobs,
        "return_tokens_as_token_ids": True,
        "cache_salt": probe.salt,
    }
    return json.dumps(body, separators=(",", ":")).encode()
