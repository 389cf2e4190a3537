"""What stacks are compared by: cold requests, their times and ratios, and how each start went.

A column is an arm of the experiment; where the experiment goes there and back, it has two starts.
Times are in seconds, speeds in tokens a second, ratios are speeds: 1.25 is a quarter faster.
"""

from typing import Literal

from orchestrator.model.host import Plateau
from orchestrator.model.record import Record

Faster = Literal["faster", "slower", "no difference shown", "cannot say"]


class Summary(Record):
    """Some values of one quantity."""

    median: float
    least: float
    greatest: float
    n: int


class Interval(Record):
    """Where a median may lie."""

    low: float
    high: float
    coverage: float
    """How many of such intervals contain it, from 0 to 1; exact if the values are independent."""


class ColdResult(Record):
    """One cold request: served from no cache, its answer streamed."""

    probe: str
    prompt_tokens: int
    repeat: int
    """Counted from 1; 0 is the warm-up of its length, which counts nowhere."""

    problem: str | None
    """Why it is no measurement; then nothing below means anything."""

    first_token_s: float | None
    """From the first byte sent to the arrival of the first token, by our clock."""

    prefill_s: float | None
    """By the server's own histogram, from its scheduling to its first token."""

    decode_tokens_per_s: float | None
    """Tokens after the first one, over the time from its arrival to the last one's; `None` where
    one of these two was read together with its neighbour."""

    draft_tokens: int | None
    accepted_tokens: int | None


class Ratio(Record):
    """A column's speed over the base column's, at one length."""

    median: float | None
    """Of repeats paired by start and number; `None` where none pairs."""

    interval: Interval | None
    """Over repeats; of what another start would bring it says nothing."""

    by_starts: tuple[float, ...]
    """The same median for each start of the column against each of the base's."""

    word: Faster
    reason: str


class Speed(Record):
    """One column at one length."""

    column: str
    first_token_s: Summary | None
    prefill_s: Summary | None
    tokens_per_s: float | None
    """Prompt tokens over the median time to the first token."""

    excluded: tuple[str, ...]
    """Requests that are no measurement, each with its reason."""

    drift: float | None
    """Speed of the last start over that of the first; `None` with one start."""

    ratio: Ratio | None
    """`None` for the base."""


class LengthRow(Record):
    """All columns at one length."""

    prompt_tokens: int
    speeds: tuple[Speed, ...]


class StartLine(Record):
    """How one start went, from its log and its counters."""

    arm: str
    outcome: str
    log_lines: int
    preemptions: int | None
    """Of the server's counter at the end; no log line tells them. `None`: not read."""

    crashed: bool
    """A fatal finding in the log, or the server ended by itself."""

    errors: int
    """Findings of severity error."""

    diverged: int
    cells: int
    memory: tuple[Plateau, ...]


class Column(Record):
    """One stack."""

    name: str
    profile: str
    vllm_version: str
    patch: str | None
    starts: tuple[StartLine, ...]
    """In the order in which they ran."""

    decode_tokens_per_s: Summary | None
    draft_tokens: int | None
    accepted_tokens: int | None


class StackComparison(Record):
    """Columns side by side."""

    base: str
    order: tuple[str, ...]
    """Names of the starts, as they ran."""

    repeats: int
    """Cold requests of each length on each start; one more of each, the first, warms up."""

    columns: tuple[Column, ...]
    rows: tuple[LengthRow, ...]
