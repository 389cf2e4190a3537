"""Steps with the length of the prompt, plateaus, and what can be neither."""

import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from orchestrator.adapters.host_sampling import read_samples
from orchestrator.model.host import MemorySample, Plateau
from orchestrator.plateau import MINIMUM_SAMPLES, Served, plateaus

RECORDED = Path(__file__).parent / "fixtures" / "memory"
MIB = 2**20
LENGTHS = (8_000, 16_000, 32_000)

Memory = Callable[[float, int], float]
"""Resident MiB at a second, while this many tokens are the last that were sent."""


def measured(
    memory: Memory, lengths: Sequence[int] = LENGTHS, seconds: int = 20, *, gpu: bool = False
) -> tuple[Plateau, ...]:
    """One request a length, and a sample a second until the next one."""
    served = [
        Served(prompt_tokens=length, started_s=1000.0 + n * seconds)
        for n, length in enumerate(lengths)
    ]
    samples = []
    for second in range(len(lengths) * seconds):
        used = round(memory(second, lengths[second // seconds]) * MIB)
        samples.append(
            MemorySample(
                at_s=1000.5 + second,
                memory_available_bytes=2**40 - used,
                swap_free_bytes=0,
                server_resident_bytes=None if gpu else used,
                gpu_used_bytes=(None, used) if gpu else None,
            )
        )
    return plateaus(samples, served)


def resident(memory: Memory, lengths: Sequence[int] = LENGTHS, seconds: int = 20) -> Plateau:
    """The result for the server's own memory."""
    found = {each.series: each for each in measured(memory, lengths, seconds)}
    return found["server_resident_bytes"]


def noise(seed: int, mib: float) -> Callable[[], float]:
    """Normal noise of so many MiB, the same at every run."""
    source = random.Random(seed)  # noqa: S311 - not a secret
    return lambda: source.gauss(0, mib)


def test_memory_that_rises_with_each_length_is_steps_with_their_sizes() -> None:
    """100 MiB each time, in noise of 5."""
    jitter = noise(1, 5)

    found = resident(lambda _, tokens: 5000 + 100 * LENGTHS.index(tokens) + jitter())

    assert found.result == "steps"
    assert [(step.from_tokens, step.to_tokens) for step in found.steps] == [
        (8_000, 16_000),
        (16_000, 32_000),
    ]
    assert [step.change_bytes / MIB for step in found.steps] == pytest.approx([100, 100], abs=6)


def test_one_step_is_told_where_it_is() -> None:
    """The last length needs another allocation, the ones before it do not."""
    jitter = noise(2, 1)

    found = resident(lambda _, tokens: 5000 + 64 * (tokens == 32_000) + jitter())

    assert [(step.from_tokens, step.to_tokens) for step in found.steps] == [(16_000, 32_000)]
    assert "+6" in found.reason
    assert "from 16000 to 32000 tokens" in found.reason


def test_less_memory_available_is_a_step_downwards() -> None:
    """The sign is the series' own."""
    found = measured(lambda _, tokens: 5000 + 100 * (tokens > 8_000))

    available = next(each for each in found if each.series == "memory_available_bytes")
    assert [step.change_bytes for step in available.steps] == [-100 * MIB]


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_is_flat(seed: int) -> None:
    """Twenty runs in noise of 13 MiB, the range of the article's readings on a GB10."""
    jitter = noise(seed, 13)

    found = resident(lambda _second, _tokens: 107_563 + jitter(), (8, 16, 24, 32, 48, 64))

    assert (found.result, found.steps) == ("flat", ())
    assert "would not stand out" in found.reason


def test_even_growth_with_time_is_no_step() -> None:
    """A leak moves the level from length to length, but also within each; it cannot be told."""
    jitter = noise(3, 1)

    found = resident(lambda second, _: 5000 + 3 * second + jitter())

    assert (found.result, found.steps) == ("cannot say", ())
    assert "with time" in found.reason


def test_a_step_within_noise_is_flat_and_says_what_it_could_not_see() -> None:
    """20 MiB in noise of 40: the reason names what would have had to be exceeded."""
    jitter = noise(4, 40)

    found = resident(lambda _, tokens: 5000 + 20 * (tokens > 8_000) + jitter())

    assert found.result == "flat"
    allowed_mib = float(found.reason.split("where +")[1].split(" MiB")[0])
    assert allowed_mib > 20


def test_too_much_noise_is_not_called_flat() -> None:
    """A step of 200 MiB could hide in noise of 100: nothing was seen, and nothing is claimed."""
    jitter = noise(6, 100)

    found = resident(lambda _second, _tokens: 5000 + jitter())

    assert (found.result, found.steps) == ("cannot say", ())
    assert "too much else" in found.reason


def test_single_peaks_do_not_make_a_step() -> None:
    """Another program takes 2 GiB for two seconds while the longest prompt runs."""
    jitter = noise(5, 2)

    found = resident(lambda second, _: 5000 + 2048 * (second in (45, 46)) + jitter())

    assert found.result == "flat"


def test_a_change_below_the_resolution_is_no_step() -> None:
    """Half a MiB without any noise: nvidia-smi could not even tell it."""
    assert resident(lambda _, tokens: 5000 + 0.5 * (tokens > 8_000)).result == "flat"


def test_a_shorter_prompt_after_a_longer_one_tells_nothing() -> None:
    """The server keeps what the long one took: falling lengths leave one level only."""
    found = resident(lambda _, tokens: 5000 + tokens / 100, lengths=(32_000, 16_000, 8_000))

    assert found.result == "cannot say"
    assert [(level.prompt_tokens, level.samples) for level in found.levels] == [(32_000, 20)]


def test_the_same_length_sent_again_counts_on() -> None:
    """Two requests of one length are one level, and short ones in between are passed over."""
    found = resident(lambda _second, _tokens: 5000.0, lengths=(8_000, 20, 8_000, 16_000))

    assert [(level.prompt_tokens, level.samples) for level in found.levels] == [
        (8_000, 40),
        (16_000, 20),
    ]


@pytest.mark.parametrize("seconds", [1, MINIMUM_SAMPLES - 1])
def test_too_few_samples_cannot_say(seconds: int) -> None:
    """Requests of a tenth of a second leave no plateau to look at."""
    found = resident(lambda _, tokens: 5000 + tokens, seconds=seconds)

    assert (found.result, found.steps) == ("cannot say", ())
    assert f"0 prompt lengths have {MINIMUM_SAMPLES} samples" in found.reason
    assert [level.samples for level in found.levels] == [seconds] * 3


def test_what_was_never_read_has_no_result() -> None:
    """No server memory, and a first GPU that does not say its own: neither is taken for zero."""
    found = measured(lambda _, tokens: 5000 + 100 * (tokens > 8_000), gpu=True)

    assert [each.series for each in found] == [
        "memory_available_bytes", "swap_free_bytes", "gpu_used_bytes[1]",
    ]  # fmt: skip
    assert found[-1].result == "steps"


def test_nothing_sent_or_nothing_sampled_is_no_result() -> None:
    """A server that never became ready has samples and no requests."""
    sample = MemorySample(
        at_s=1.0,
        memory_available_bytes=1,
        swap_free_bytes=1,
        server_resident_bytes=1,
        gpu_used_bytes=None,
    )

    assert plateaus([], [Served(prompt_tokens=1, started_s=0.0)]) == ()
    assert {each.result for each in plateaus([sample] * 99, [])} == {"cannot say"}


def test_a_real_servers_memory_is_read_length_by_length() -> None:
    """A vLLM for CPU: its own memory rises by a few MiB; the machine's has other users."""
    samples = read_samples((RECORDED / "five-lengths.jsonl").read_bytes())
    requests = json.loads((RECORDED / "five-lengths.served.json").read_text())
    served = [Served(prompt_tokens=tokens, started_s=start_s) for tokens, start_s in requests]

    found = {each.series: each for each in plateaus(samples, served)}

    own = found["server_resident_bytes"]
    assert [level.prompt_tokens for level in own.levels] == [500, 1000, 2000, 4000, 8000]
    assert own.reason == ("+3.0 MiB from 500 to 1000 tokens, +2.2 MiB from 1000 to 2000 tokens")
    assert found["memory_available_bytes"].result == "cannot say"
