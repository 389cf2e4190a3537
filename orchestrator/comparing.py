"""Digests of a cell and of its references → the pattern that they make.

No verdict is given here: `judging` does that. A letter stands for answers that are numerically
equal (`digest.numeric_key`); letters are shared by all cells of one document on one start, in
order of appearance, so that a cell's letters can be read against its reference's.
"""

import math
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from orchestrator.digest import difference_kind, numeric_key
from orchestrator.model.observation import FLOOR, Observation, Position
from orchestrator.model.verdict import (
    AgainstReference,
    Difference,
    DifferenceKind,
    HitGroup,
    Movement,
    Pattern,
    Repeats,
    Timing,
)

_LETTERS = string.ascii_uppercase + string.ascii_lowercase


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """One answer to B, with what the comparison needs to know about it."""

    probe: str
    observation: Observation
    cached_tokens: int | None
    accepted_tokens: int | None

    @cached_property
    def key(self) -> bytes:
        """Its `numeric_key`; every repeat is compared with many others."""
        return numeric_key(self.observation)


class VariantLetters:
    """Hands out one letter per numerically distinct answer, in order of appearance."""

    def __init__(self) -> None:
        self._letters: dict[bytes, str] = {}

    def of(self, repeats: Iterable[Repeat]) -> str:
        """One letter a repeat; `?` for every variant after the fifty-second."""
        return "".join(self._letter(repeat.key) for repeat in repeats)

    def _letter(self, key: bytes) -> str:
        if key not in self._letters:
            number = len(self._letters)
            self._letters[key] = _LETTERS[number] if number < len(_LETTERS) else "?"
        return self._letters[key]


def pattern(
    repeats: Sequence[Repeat],
    *,
    before: Sequence[Repeat] | None,
    after: Sequence[Repeat] | None,
    letters: VariantLetters,
) -> Pattern:
    """Compare a cell's repeats with each other and with its reference cells.

    Args:
        repeats: All answers to B in the cell, in order; at least one.
        before: The reference cell of the same document before it; `None` when there is none.
        after: The one after it.
        letters: Shared by the document's cells on this start.
    """
    reference = [*(before or ()), *(after or ())]
    before_letters = None if before is None else letters.of(before)
    after_letters = None if after is None else letters.of(after)
    variants = letters.of(repeats)
    unlike = _first_unlike(repeats, reference)
    against = _against_reference(repeats, reference)
    pair = unlike if against == "differs" else _first_two_variants(repeats, variants)
    return Pattern(
        variants=variants,
        reference_before=before_letters,
        reference_after=after_letters,
        hit_groups=_hit_groups(repeats, variants),
        repeats=_repeats(variants),
        against_reference=against,
        kinds=_kinds(repeats, reference),
        difference=None if pair is None else _difference(*pair),
    )


def _repeats(variants: str) -> Repeats:
    if len(set(variants)) == 1:
        return "equal"
    return "first-differs" if len(set(variants[1:])) == 1 else "split"


def _counterparts(repeat: Repeat, reference: Sequence[Repeat]) -> Sequence[Repeat]:
    """The reference answers that a repeat must equal.

    A reference cell that agrees with itself is one answer. One that does not (its cold run and
    its cached runs differ) is compared in the same hit state only.
    """
    if len({entry.key for entry in reference}) == 1:
        return reference
    return [entry for entry in reference if entry.cached_tokens == repeat.cached_tokens]


def _against_reference(repeats: Sequence[Repeat], reference: Sequence[Repeat]) -> AgainstReference:
    if not reference:
        return "unknown"
    outcomes = [_agrees(repeat, _counterparts(repeat, reference)) for repeat in repeats]
    if False in outcomes:
        return "differs"
    return "unknown" if None in outcomes else "equal"


def _agrees(repeat: Repeat, counterparts: Sequence[Repeat]) -> bool | None:
    if not counterparts:
        return None
    key = repeat.key
    return all(entry.key == key for entry in counterparts)


def _first_unlike(
    repeats: Sequence[Repeat], reference: Sequence[Repeat]
) -> tuple[Repeat, Repeat] | None:
    for repeat in repeats:
        for entry in _counterparts(repeat, reference) if reference else ():
            if entry.key != repeat.key:
                return entry, repeat
    return None


def _first_two_variants(repeats: Sequence[Repeat], variants: str) -> tuple[Repeat, Repeat] | None:
    for repeat, letter in zip(repeats, variants, strict=True):
        if letter != variants[0]:
            return repeats[0], repeat
    return None


def _kinds(repeats: Sequence[Repeat], reference: Sequence[Repeat]) -> tuple[DifferenceKind, ...]:
    anchor = reference[0] if reference else repeats[0]
    kinds = {difference_kind(anchor.observation, repeat.observation) for repeat in repeats}
    return tuple(sorted(kinds - {"identical"}))


def _hit_groups(repeats: Sequence[Repeat], variants: str) -> tuple[HitGroup, ...]:
    groups: dict[int | None, list[int]] = {}
    for number, repeat in enumerate(repeats, start=1):
        groups.setdefault(repeat.cached_tokens, []).append(number)
    return tuple(
        HitGroup(
            cached_tokens=cached,
            repeats=tuple(numbers),
            variants="".join(variants[number - 1] for number in numbers),
        )
        for cached, numbers in groups.items()
    )


def _difference(left: Repeat, right: Repeat) -> Difference:
    pairs = list(zip(left.observation.positions, right.observation.positions, strict=False))
    first = next((i for i, (a, b) in enumerate(pairs) if _unlike(a, b)), len(pairs))
    last = next(
        (i for i, (a, b) in enumerate(pairs) if a.chosen.token_id != b.chosen.token_id),
        len(pairs) - 1,
    )
    return Difference(
        left=left.probe,
        right=right.probe,
        kind=difference_kind(left.observation, right.observation),
        first_token=first,
        timing=_timing(first, left, right),
        text_equal=left.observation.text == right.observation.text,
        movements=tuple(_movement(i, *pairs[i]) for i in range(last + 1)),
    )


def _unlike(left: Position, right: Position) -> bool:
    return left.chosen.token_id != right.chosen.token_id or set(left.candidates) != set(
        right.candidates
    )


def _timing(first: int, left: Repeat, right: Repeat) -> Timing:
    if first == 0:
        return "first-token"
    known = left.accepted_tokens is not None and right.accepted_tokens is not None
    if known and left.accepted_tokens != right.accepted_tokens:
        return "later, speculation-confounded"
    return "later"


def _movement(token: int, left: Position, right: Position) -> Movement:
    right_values = {c.token_id: c.logprob for c in right.candidates if c.logprob > FLOOR}
    shared = [
        (c.logprob, right_values[c.token_id])
        for c in left.candidates
        if c.logprob > FLOOR and c.token_id in right_values
    ]
    rounding = rounding_of_shifts(left, right)
    deltas = [b - a for a, b in shared]
    relative = [(b - right.argmax.logprob) - (a - left.argmax.logprob) for a, b in shared]
    moved = sum(abs(delta) > rounding for delta in relative)
    same = bool(deltas) and max(deltas) - min(deltas) <= rounding and all(deltas)
    return Movement(
        token=token,
        shared=len(shared),
        moved=moved,
        max_delta=max((abs(delta) for delta in deltas), default=0.0),
        max_relative_delta=max((abs(delta) for delta in relative), default=0.0),
        common_shift=deltas[0] if same else None,
        argmax_moved=left.argmax.token_id != right.argmax.token_id,
    )


def rounding_of_shifts(left: Position, right: Position) -> float:
    """How far apart two equal shifts can look: four roundings to float32, half an ulp each.

    A log probability is a logit minus the normaliser, rounded once in each of the four values
    that a difference of differences is made of.
    """
    largest = max(abs(c.logprob) for p in (left, right) for c in p.candidates if c.logprob > FLOOR)
    _, exponent = math.frexp(largest)
    return 4 * 0.5 * math.ldexp(1.0, exponent - 24)
