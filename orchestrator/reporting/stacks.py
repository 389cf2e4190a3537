"""Stacks side by side as rows of text: one column a stack, one row a property or a length."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from orchestrator.model.host import Plateau
from orchestrator.model.stacks import (
    Column,
    LengthRow,
    Ratio,
    Speed,
    StackComparison,
    StartLine,
    Summary,
)

MEMORY_SERIES = {
    "memory_available_bytes": "memory available on the host",
    "server_resident_bytes": "memory of the server",
    "gpu_used_bytes": "memory of the GPU",
}
"""Prefix of a series' name → what a reader is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackRow:
    """One property of every stack."""

    name: str
    values: tuple[str, ...]
    """In the order of `StackComparison.columns`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedRow:
    """One length on one stack."""

    prompt_tokens: int
    column: str
    first_token: str
    prefill: str
    tokens_per_s: str
    ratio: str
    interval: str
    word: str
    by_starts: str
    drift: str
    excluded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StacksSection:
    """Everything that a report says of stacks."""

    comparison: StackComparison
    sentence: str
    rows: tuple[StackRow, ...]
    speeds: tuple[SpeedRow, ...]
    lines: tuple[str, ...]
    excluded: tuple[str, ...]
    """Cold requests that are no measurement, each with its reason."""


def stacks_section(comparison: StackComparison) -> StacksSection:
    """A comparison as text."""
    return StacksSection(
        comparison=comparison,
        sentence=speed_sentence(comparison),
        rows=tuple(_stack_rows(comparison)),
        speeds=tuple(_speed_row(row, speed) for row in comparison.rows for speed in row.speeds),
        lines=tuple(_start_lines(comparison)),
        excluded=tuple(
            f"{speed.column}: {problem}"
            for row in comparison.rows
            for speed in row.speeds
            for problem in speed.excluded
        ),
    )


def _stack_rows(comparison: StackComparison) -> list[StackRow]:
    """What is not about one length."""
    columns = comparison.columns
    rows = [
        StackRow(name=name, values=tuple(tell(column) for column in columns))
        for name, tell in (
            ("vLLM", lambda column: column.vllm_version),
            ("profile", lambda column: column.profile),
            ("patch", lambda column: column.patch or "–"),
            ("starts", lambda column: str(len(column.starts))),
            ("cells that diverged, by start", _diverged),
            ("decoding, tokens/s", lambda column: _summary(column.decode_tokens_per_s, "{:.1f}")),
            ("drafts accepted", _accepted),
            ("preemptions", _preemptions),
            ("crashes", lambda column: f"{sum(s.crashed for s in column.starts)}"),
        )
    ]
    return rows + [
        StackRow(name=told, values=tuple(_memory(column, series) for column in columns))
        for series, told in MEMORY_SERIES.items()
        if any(_levels(start, series) for column in columns for start in column.starts)
    ]


def _start_lines(comparison: StackComparison) -> Iterator[str]:
    """One line a server log, in the order of the starts."""
    by_name = {start.arm: start for column in comparison.columns for start in column.starts}
    for name in comparison.order:
        start = by_name[name]
        counted = "unknown" if start.preemptions is None else str(start.preemptions)
        crash = "a crash" if start.crashed else "no crash"
        yield (
            f"{name}: {start.log_lines} lines of log, {crash}, {start.errors} errors;"
            f" {counted} preemptions by the counter; {start.outcome}"
        )


def speed_sentence(comparison: StackComparison) -> str:
    """Which column is faster than the base at which lengths, in one sentence a column."""
    told = []
    for column in comparison.columns:
        if column.name == comparison.base:
            continue
        words = [
            (speed.ratio.word, row.prompt_tokens)
            for row in comparison.rows
            for speed in row.speeds
            if speed.column == column.name and speed.ratio is not None
        ]
        parts = [
            f"{word} at {', '.join(str(tokens) for _, tokens in group)} tokens"
            for word, group in groupby(words, key=lambda pair: pair[0])
        ]
        told.append(f"{column.name} against {comparison.base}: {'; '.join(parts)}.")
    return " ".join(told) or f"{comparison.base} ran alone: there is nothing to set beside it."


def _speed_row(row: LengthRow, speed: Speed) -> SpeedRow:
    ratio = speed.ratio
    return SpeedRow(
        prompt_tokens=row.prompt_tokens,
        column=speed.column,
        first_token=_milliseconds(speed.first_token_s),
        prefill=_milliseconds(speed.prefill_s),
        tokens_per_s="–" if speed.tokens_per_s is None else f"{speed.tokens_per_s:.0f}",
        ratio="–" if ratio is None or ratio.median is None else f"{ratio.median:.3f}",
        interval=_interval(ratio),
        word="base" if ratio is None else f"{ratio.word}: {ratio.reason}",
        by_starts="–" if ratio is None else _listed(ratio.by_starts),
        drift="–" if speed.drift is None else f"{speed.drift:.3f}",
        excluded=len(speed.excluded),
    )


def _milliseconds(seconds: Summary | None) -> str:
    return "–" if seconds is None else _summary(_scaled(seconds, 1000), "{:.1f}")


def _scaled(values: Summary, factor: float) -> Summary:
    return Summary(
        median=values.median * factor,
        least=values.least * factor,
        greatest=values.greatest * factor,
        n=values.n,
    )


def _summary(values: Summary | None, form: str) -> str:
    """`12.1 (11.8 to 14.0, n 10)`."""
    if values is None:
        return "–"
    median, least, greatest = (
        form.format(value) for value in (values.median, values.least, values.greatest)
    )
    return f"{median} ({least} to {greatest}, n {values.n})"


def _interval(ratio: Ratio | None) -> str:
    if ratio is None or ratio.interval is None:
        return "–"
    low, high, coverage = ratio.interval.low, ratio.interval.high, ratio.interval.coverage
    return f"{low:.3f} to {high:.3f} ({coverage:.1%})"


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.3f}" for value in values) or "–"


def _diverged(column: Column) -> str:
    return ", ".join(f"{start.diverged} of {start.cells}" for start in column.starts)


def _accepted(column: Column) -> str:
    if column.draft_tokens is None or column.accepted_tokens is None:
        return "unknown"
    if column.draft_tokens == 0:
        return "none drafted"
    share = column.accepted_tokens / column.draft_tokens
    return f"{column.accepted_tokens} of {column.draft_tokens} ({share:.1%})"


def _preemptions(column: Column) -> str:
    counts = [start.preemptions for start in column.starts]
    return "unknown" if None in counts else str(sum(filter(None, counts)))


def _levels(start: StartLine, series: str) -> list[Plateau]:
    return [plateau for plateau in start.memory if plateau.series.startswith(series)]


def _memory(column: Column, series: str) -> str:
    """`flat, flat`, or by start why not; with the range of the levels."""
    told = []
    for start in column.starts:
        for plateau in _levels(start, series):
            levels = [level.level_bytes / 2**20 for level in plateau.levels if level.samples]
            span = f" ({min(levels):.0f} to {max(levels):.0f} MiB)" if levels else ""
            told.append(f"{plateau.result}{span}")
    return ", ".join(told) or "–"
