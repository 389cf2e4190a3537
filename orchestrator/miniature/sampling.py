"""From a row of logits to a token and the list of its rivals."""

import numpy as np

from .arithmetic import FloatArray, log_softmax
from .requests import Candidate, Generated


def choose(
    logits: FloatArray,
    *,
    temperature: float,
    top_logprobs: int | None,
    generator: np.random.Generator,
) -> Generated:
    """Pick one token: the most probable one at temperature 0, else at random.

    Ties are resolved by the lower token id, here and in the list. Logits are bfloat16, so ties
    are common.
    """
    if temperature > 0:
        noise = generator.gumbel(size=len(logits))
        token = int(np.argmax(logits / temperature + noise))
    else:
        token = int(np.argmax(logits))
    if top_logprobs is None:
        return Generated(token, ())
    return Generated(token, _candidates(log_softmax(logits), token, top_logprobs))


def _candidates(logprobs: FloatArray, chosen: int, count: int) -> tuple[Candidate, ...]:
    """The chosen token first, then the best ones, as in vLLM's answers."""
    best = np.argsort(-logprobs, kind="stable")[:count]
    tokens = dict.fromkeys([chosen, *(int(token) for token in best)])
    return tuple(Candidate(token, float(logprobs[token])) for token in tokens)
