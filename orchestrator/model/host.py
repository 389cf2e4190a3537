"""The machine that a run was made on, and the run's own record of itself."""

from datetime import datetime
from typing import Literal

from pydantic import AliasChoices, Field, field_validator

from orchestrator.model.ownership import Owner
from orchestrator.model.record import Record


class HostFacts(Record):
    """What does not change during a run. `None`: it could not be found out."""

    vllm_arms_version: str
    commit: str | None
    uncommitted_changes: bool | None
    python: str
    kernel: str
    architecture: str
    cpu: str | None
    cpus: int
    """Logical processors that we may run on."""

    memory_bytes: int

    gpu_driver: str | None = None
    """Version of the NVIDIA kernel module; `none` without one. Runs of 0.1.0 did not record it."""


class HostState(Record):
    """What may change during a run."""

    memory_available_bytes: int
    """Linux' MemAvailable."""

    swap_free_bytes: int
    shared_memory_files: int
    """Entries of /dev/shm."""


class RunStart(Record):
    """Written before anything starts."""

    started_at: datetime
    command: tuple[str, ...]
    """Makes such a run from nothing."""

    owner: Owner = Field(validation_alias=AliasChoices("owner", "owner_pid"))
    """Runs of version 0.1.0 told its process id alone, as `owner_pid`."""

    host: HostFacts
    state: HostState

    nightly: str | None = None
    """Name of the nightly that made the run; `None`: somebody ran it by hand."""

    @field_validator("owner", mode="before")
    @classmethod
    def _read_owner_pid(cls, value: object) -> object:
        return {"pid": value} if isinstance(value, int) else value


class RunEnd(Record):
    """Written last. Without it a run is still going on, or was killed."""

    ended_at: datetime
    """Of a run that was killed: the last sign of life in its folder."""

    how: Literal["finished", "interrupted", "failed"]
    exit_code: int
    reason: str | None
    state: HostState | None
    """`None`: it was killed, and nobody looked."""


class MemorySample(Record):
    """The memory of the machine and of one server at one moment. `None`: it was not read."""

    at_s: float
    """On the monotonic clock, as `ExchangeTimes.started_s`."""

    memory_available_bytes: int
    """Linux' MemAvailable."""

    swap_free_bytes: int

    server_resident_bytes: int | None
    """Of all the server's processes; pages that two of them share count twice."""

    gpu_used_bytes: tuple[int | None, ...] | None
    """By device, whoever uses it. `None` inside: the driver does not say, as on a GB10."""


class LengthLevel(Record):
    """The memory while prompts of one length were the longest that the server had seen."""

    prompt_tokens: int
    samples: int
    level_bytes: float
    """Median of the samples."""

    noise_bytes: float
    """Scaled median distance from the level: a standard deviation, were the noise normal."""

    drift_bytes: float
    """From the median of the earlier half of the samples to that of the later half."""


class MemoryStep(Record):
    """A change between two neighbouring lengths that stands out."""

    from_tokens: int
    to_tokens: int
    change_bytes: float
    allowed_bytes: float
    """What noise and drift of these two lengths could have made of no change."""


class Plateau(Record):
    """Whether one kind of memory steps with the length of the prompt."""

    series: str
    """A field of `MemorySample`; for a GPU with its number."""

    result: Literal["steps", "flat", "cannot say"]
    reason: str
    """In one sentence, with the figures."""

    levels: tuple[LengthLevel, ...]
    """By length, those with too few samples included."""

    steps: tuple[MemoryStep, ...]


class Beat(Record):
    """What the metrics page said while a request was under way."""

    at_s: float
    """On the monotonic clock, as `ExchangeTimes.started_s`."""

    counters: str
    """Its lines that count, as they are; empty when the page did not answer."""


class MemoryReading(Record):
    """The machine's memory at one moment."""

    memory_available_bytes: int
    """Linux' MemAvailable."""

    swap_free_bytes: int

    gpu_used_bytes: tuple[int | None, ...] | None
    """As in `MemorySample`."""


class KernelCounts(Record):
    """What the kernel logged while an arm's server lived, whoever caused it."""

    oom_kills: int
    """Processes that were killed for want of memory, of the machine's or of one cgroup's."""

    xids: int
    """Errors that a GPU reported (Xid)."""

    nvrm_out_of_memory: int
    """Allocations that NVIDIA's driver could not make. On a GB10 they are seen on healthy starts
    too (vLLM issue 56824), so they are counted and void nothing."""

    lines: tuple[str, ...]
    """The first of the counted ones."""

    lost: bool
    """The kernel wrote more than its buffer holds, so there may have been more."""


class HostAccount(Record):
    """What one arm did to its machine."""

    before: MemoryReading
    after: MemoryReading
    waited_s: float
    """From the server's end to `after`."""

    not_back: str | None
    """What did not come back, in one sentence with the figures; `None`: all of it did."""

    kernel: KernelCounts | None
    """`None`: the kernel's log could not be read."""
