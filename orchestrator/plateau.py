"""Does the memory step up with the length of the prompt, or is it a plateau? Pure.

**Which samples count for a length.** Each belongs to the request that was sent last before it:
memory that a request took is held while it runs, and as a rule afterwards. Once a longer prompt was
served, a shorter one's samples tell nothing (allocators keep what they have), so only requests that
are as long as any before them on this start count.

**When two neighbouring lengths differ.** Each length's level is the median of its samples. A change
of level is a step when it exceeds the largest of these:

- *noise*: 3 × the scaled median distance from the level, of the noisier length;
- *drift*: 2 × the change from the earlier to the later half of one length's samples. Memory that
  grows evenly with time, whatever is sent, moves by exactly this between two lengths;
- *resolution*: 1 MiB, the unit in which nvidia-smi tells memory.

Simulated with 12 samples a length, the fewest that are accepted, and no step: normal noise gave one
in 1 of 20,000 comparisons, an even drift in none. A level that wanders by itself (a random walk)
gave one in 8 of 100: what else the machine does is not told apart by any rule on these samples.

Without a step the result is flat only if the shortest and the longest length do not differ either,
by the same measure: a change too slow to stand out anywhere is no plateau, and nothing says whether
it came with length or with time. And it is flat only if 128 MiB would have stood out: the article's
six lengths lay within 45 MB of each other, and "flat" to within gigabytes says nothing.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from orchestrator.model.host import LengthLevel, MemorySample, MemoryStep, Plateau

MINIMUM_SAMPLES = 12
_LEAST_LENGTHS = 2
_NOISE_FACTOR, _DRIFT_FACTOR = 3, 2
_RESOLUTION_BYTES = 2**20
_FLAT_WITHIN_BYTES = 128 * 2**20
_DEVIATION_OF_NORMAL_NOISE = 1.4826
"""Standard deviation over median absolute deviation."""

_Result = Literal["steps", "flat", "cannot say"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A request, as far as memory is concerned."""

    prompt_tokens: int
    started_s: float
    """On the samples' clock."""


def plateaus(samples: Sequence[MemorySample], served: Sequence[Served]) -> tuple[Plateau, ...]:
    """One result for each kind of memory that was read at all.

    Args:
        samples: In the order in which they were taken.
        served: Every request of the start, the readiness probe and the warm-up included, in the
            order in which they were sent.
    """
    lengths = _lengths(samples, served)
    return tuple(
        _plateau(name, [(length, value) for length, value in zip(lengths, values, strict=True)])
        for name, values in _series(samples).items()
    )


def _lengths(samples: Iterable[MemorySample], served: Sequence[Served]) -> list[int | None]:
    """The length that each sample counts for; `None`: for none."""
    starts = [request.started_s for request in served]
    counted: list[int | None] = [None]
    longest = 0
    for request in served:
        longest = max(longest, request.prompt_tokens)
        counted.append(longest if request.prompt_tokens == longest else None)
    return [counted[bisect_right(starts, sample.at_s)] for sample in samples]


def _series(samples: Sequence[MemorySample]) -> dict[str, list[int | None]]:
    """Values by name, one a sample; a name without any value is left out."""
    devices = max((len(sample.gpu_used_bytes or ()) for sample in samples), default=0)
    readers: dict[str, Callable[[MemorySample], int | None]] = {
        "memory_available_bytes": lambda sample: sample.memory_available_bytes,
        "swap_free_bytes": lambda sample: sample.swap_free_bytes,
        "server_resident_bytes": lambda sample: sample.server_resident_bytes,
    }
    readers |= {f"gpu_used_bytes[{device}]": _of_device(device) for device in range(devices)}
    series = {name: [read(sample) for sample in samples] for name, read in readers.items()}
    return {name: values for name, values in series.items() if set(values) - {None}}


def _of_device(device: int) -> Callable[[MemorySample], int | None]:
    return lambda sample: next(iter((sample.gpu_used_bytes or ())[device : device + 1]), None)


def _plateau(name: str, points: Iterable[tuple[int | None, int | None]]) -> Plateau:
    by_length: dict[int, list[int]] = {}
    for length, value in points:
        if length is not None and value is not None:
            by_length.setdefault(length, []).append(value)
    levels = [_level(length, by_length[length]) for length in sorted(by_length)]
    usable = [level for level in levels if level.samples >= MINIMUM_SAMPLES]
    changes = [_change(shorter, longer) for shorter, longer in pairwise(usable)]
    steps = tuple(change for change in changes if _stands_out(change))
    result, reason = _conclude(usable, steps)
    return Plateau(series=name, result=result, reason=reason, levels=tuple(levels), steps=steps)


def _level(length: int, values: Sequence[int]) -> LengthLevel:
    level = median(values)
    half = len(values) // 2
    deviation = median(abs(value - level) for value in values)
    return LengthLevel(
        prompt_tokens=length,
        samples=len(values),
        level_bytes=level,
        noise_bytes=_DEVIATION_OF_NORMAL_NOISE * deviation,
        drift_bytes=median(values[-half:]) - median(values[:half]) if half else 0.0,
    )


def _change(shorter: LengthLevel, longer: LengthLevel) -> MemoryStep:
    noise_bytes = max(shorter.noise_bytes, longer.noise_bytes)
    drift_bytes = max(abs(shorter.drift_bytes), abs(longer.drift_bytes))
    return MemoryStep(
        from_tokens=shorter.prompt_tokens,
        to_tokens=longer.prompt_tokens,
        change_bytes=longer.level_bytes - shorter.level_bytes,
        allowed_bytes=max(
            _NOISE_FACTOR * noise_bytes, _DRIFT_FACTOR * drift_bytes, _RESOLUTION_BYTES
        ),
    )


def _stands_out(change: MemoryStep) -> bool:
    return abs(change.change_bytes) > change.allowed_bytes


def _conclude(usable: Sequence[LengthLevel], steps: Sequence[MemoryStep]) -> tuple[_Result, str]:
    if len(usable) < _LEAST_LENGTHS:
        return "cannot say", (
            f"{len(usable)} prompt lengths have {MINIMUM_SAMPLES} samples or more; two are needed,"
            " sent from the shortest to the longest"
        )
    if steps:
        told = ", ".join(
            f"{_mebibytes(step.change_bytes)} from {step.from_tokens} to {step.to_tokens} tokens"
            for step in steps
        )
        return "steps", told
    whole = _change(usable[0], usable[-1])
    told = (
        f"{_mebibytes(whole.change_bytes)} from {whole.from_tokens} to {whole.to_tokens} tokens,"
        f" where {_mebibytes(whole.allowed_bytes)} would not stand out"
    )
    if _stands_out(whole):
        return "cannot say", f"{told}, but in no single step: it may have come with time"
    if whole.allowed_bytes > _FLAT_WITHIN_BYTES:
        return "cannot say", f"{told}: too much else was going on"
    return "flat", told


def _mebibytes(count: float) -> str:
    return f"{count / 2**20:+.1f} MiB"
