"""Raw JSON of the completions and chat endpoints → Observation.

Shapes: vLLM 0.26.0 and 0.29.0, recorded under `tests/fixtures/responses/`. Both endpoints list
the chosen token first when it is outside the k best, and name tokens `token_id:N` when the
request sets `return_tokens_as_token_ids`.
"""

import json
import math
import re
import struct
from typing import Any, NoReturn

from orchestrator.errors import ProbeError
from orchestrator.model.observation import Candidate, Observation, Position

_TOKEN_ID = re.compile(r"token_id:([0-9]{1,18})")
"""How a token is named; its id fits 64 bits, as the digest writes it."""

_FLOAT32 = struct.Struct("<f")


def decode(body: bytes, *, top_logprobs: int) -> Observation:
    """Read one answer, strictly.

    Raises:
        ProbeError: The body is not JSON, lacks what was asked for (a choice, top lists of
            `top_logprobs` entries or one more, token ids, a usage block), names a token twice,
            or holds a log probability that is not exactly a float32 (NaN and infinity included).
    """
    answer = _object(_parse(body), "the answer")
    choices = answer.get("choices")
    if not isinstance(choices, list) or len(choices) != 1:
        raise ProbeError("the answer has not exactly one entry in `choices`")
    choice = _object(choices[0], "choices[0]")
    message = choice.get("message")
    text = choice.get("text") if message is None else _object(message, "message").get("content")
    usage = _object(answer.get("usage"), "usage")
    fingerprint = answer.get("system_fingerprint")
    model = answer.get("model")
    reason = choice.get("finish_reason")
    return Observation(
        positions=_positions(_object(choice.get("logprobs"), "logprobs"), top_logprobs),
        text=text if isinstance(text, str) else "",
        prompt_tokens=_count(usage.get("prompt_tokens"), "usage.prompt_tokens"),
        cached_tokens=_cached_tokens(usage),
        finish_reason=reason if isinstance(reason, str) else None,
        system_fingerprint=fingerprint if isinstance(fingerprint, str) else None,
        model=model if isinstance(model, str) else None,
        prompt_token_ids=_token_ids(answer.get("prompt_token_ids")),
    )


def _parse(body: bytes) -> object:
    try:
        return json.loads(
            body, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError) as error:  # a number of 4301 digits is a plain ValueError
        start = body[:80].decode("utf-8", "replace")
        raise ProbeError(f"the answer is no JSON ({error}); it begins {start!r}") from error


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ProbeError(f"the answer has the key {twice!r} twice in one object")
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise ProbeError(f"the answer contains {name}, which is no log probability")


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ProbeError(f"the answer has no `{what}` object")
    return value


def _count(value: object, what: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ProbeError(f"`{what}` is {value!r}, not a count")
    return value


def _cached_tokens(usage: dict[str, Any]) -> int | None:
    """`None` for an absent details block and for null: older servers write 0 as null."""
    details = usage.get("prompt_tokens_details")
    if details is None:
        return None
    value = _object(details, "usage.prompt_tokens_details").get("cached_tokens")
    return None if value is None else _count(value, "usage.prompt_tokens_details.cached_tokens")


def _token_ids(value: object) -> tuple[int, ...] | None:
    """`None` for null: only a chat that asked for them is told."""
    if value is None:
        return None
    if not isinstance(value, list):
        raise ProbeError("`prompt_token_ids` is no list")
    return tuple(_count(entry, "prompt_token_ids[]") for entry in value)


def _positions(logprobs: dict[str, Any], top_logprobs: int) -> tuple[Position, ...]:
    content = logprobs.get("content")
    lists = _chat_lists(content) if isinstance(content, list) else _completion_lists(logprobs)
    if not lists:
        raise ProbeError("the answer has no generated token with log probabilities")
    return tuple(_position(number, *entry, top_logprobs) for number, entry in enumerate(lists))


_Lists = list[tuple[Candidate, list[Candidate]]]


def _completion_lists(logprobs: dict[str, Any]) -> _Lists:
    columns = [logprobs.get(key) for key in ("tokens", "token_logprobs", "top_logprobs")]
    if not all(isinstance(column, list) for column in columns):
        raise ProbeError("the answer lacks `tokens`, `token_logprobs` or `top_logprobs`")
    tokens, values, tops = columns
    if not len(tokens) == len(values) == len(tops):  # type: ignore[arg-type]  # lists, by the check above
        raise ProbeError("`tokens`, `token_logprobs` and `top_logprobs` differ in length")
    return [
        (
            _candidate(token, value),
            [_candidate(name, logprob) for name, logprob in _object(top, "top_logprobs").items()],
        )
        for token, value, top in zip(tokens, values, tops, strict=True)  # type: ignore[arg-type]
    ]


def _chat_lists(content: list[Any]) -> _Lists:
    lists = []
    for raw in content:
        entry = _object(raw, "logprobs.content[]")
        top = entry.get("top_logprobs")
        if not isinstance(top, list):
            raise ProbeError("a generated token has no `top_logprobs` list")
        if not top and entry.get("token") == "":
            continue  # the empty entry that some versions append for the stop (vllm#17637)
        pairs = [_object(item, "top_logprobs[]") for item in top]
        lists.append(
            (
                _candidate(entry.get("token"), entry.get("logprob")),
                [_candidate(pair.get("token"), pair.get("logprob")) for pair in pairs],
            )
        )
    return lists


def _candidate(token: object, logprob: object) -> Candidate:
    named = _TOKEN_ID.fullmatch(token) if isinstance(token, str) else None
    if named is None:
        raise ProbeError(f"a candidate is named {token!r}, not by its token id")
    if isinstance(logprob, bool) or not isinstance(logprob, int | float):
        raise ProbeError(f"{token} has the log probability {logprob!r}")
    if not _is_float32(logprob):
        raise ProbeError(f"{token} has the log probability {logprob!r}, which is no float32")
    return Candidate(int(named[1]), float(logprob))


def _is_float32(value: float) -> bool:
    try:
        if not math.isfinite(value):
            return False
        (narrowed,) = _FLOAT32.unpack(_FLOAT32.pack(float(value)))  # JSON has integers too
    except OverflowError:
        return False
    return bool(narrowed == value)


def _position(
    number: int, chosen: Candidate, listed: list[Candidate], top_logprobs: int
) -> Position:
    if len({candidate.token_id for candidate in listed}) != len(listed):
        raise ProbeError(f"generated token {number}: a candidate stands twice in the top list")
    if chosen not in listed:
        raise ProbeError(f"generated token {number}: the chosen token is not in its top list")
    outside = len(listed) == top_logprobs + 1
    if not outside and len(listed) != top_logprobs:
        raise ProbeError(
            f"generated token {number}: {len(listed)} candidates, asked for {top_logprobs}"
            " (is the server's --max-logprobs below that?)"
        )
    best = [candidate for candidate in listed if candidate != chosen] if outside else listed
    return Position(chosen=chosen, candidates=tuple(best), chosen_outside=outside)
