"""Puts Python tracebacks together again from interleaved lines, and keeps what was raised.

An exception ended a process if its traceback starts at the process's own outermost frame, or if
the server said so just before (the table of introductions). Every other traceback belongs to an
exception that somebody caught, and the server went on.
"""

import re
from dataclasses import dataclass, field, replace

from orchestrator.serverlog.lines import Line, Source, Wanted

OPENING = "Traceback (most recent call last):"
CHAINING = (
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
)
"""What Python writes between the exceptions of a chain (`Lib/traceback.py`)."""

OUTERMOST_FRAME = re.compile(
    r' +File "[^"]*", line \d+, in (?:<module>|_run_module_as_main)'  # an interpreter's main
    r'| +File "[^"]*multiprocessing/process\.py", line \d+, in _bootstrap'  # a child process's
)

EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?::|$)")

EXPLAINED_BELOW = re.compile(r"pydantic_core\.\S+: \d+ validation errors? for ")
"""A line that says nothing without the one after it."""

MAX_INTRODUCTION_DISTANCE_LINES = 20
"""Introduction and traceback are one message; other processes may write in between."""

MAX_TRACEBACK_LINES = 2_000
"""Then its end is missing and it is given up. The longest recorded one has 100 lines, and up to
16 workers of one host may write theirs at the same time."""

MAX_WRITERS = 64
"""Followed at a time; the oldest is forgotten. 16 workers write under two or three levels."""

MAX_CHAIN = 8
"""Exceptions kept of one chain, the first ones."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception, with what is known about where it went."""

    chain: tuple[Line, ...]
    """The last lines of the chained tracebacks, such as `ValueError: …`; the first cause first."""

    ended_process: bool


@dataclass(slots=True)
class _Writer:
    introduced_at: int | None = None
    opened_at: int | None = None
    first_frame: str | None = None
    unexplained: Line | None = None
    chain: list[Line] = field(default_factory=list)
    is_chained: bool = False

    @property
    def needs_next_line(self) -> bool:
        """Whether the line that follows matters even if it is indented."""
        return self.opened_at is not None and (
            self.first_frame is None or self.unexplained is not None
        )


class Tracebacks:
    """The tracebacks under way, by who writes them."""

    def __init__(self) -> None:
        self._writers: dict[Source, _Writer] = {}
        self._last_opened_at = -MAX_TRACEBACK_LINES
        self._wanted: Wanted = "beginnings"

    def wanted(self, number: int) -> Wanted:
        """Which of the lines after this one may matter to a traceback that is under way."""
        given_up = number - self._last_opened_at > MAX_TRACEBACK_LINES
        return "beginnings" if given_up else self._wanted

    def introduce(self, line: Line) -> None:
        """The next traceback of this source tells why its process ends."""
        self._writer(line.source).introduced_at = line.number

    def chain(self, line: Line) -> None:
        """The source's last exception led to the one of its next traceback."""
        self._writer(line.source).is_chained = True

    def open(self, line: Line) -> None:
        """A traceback begins on this line."""
        writer = self._writer(line.source)
        if not writer.is_chained:
            writer.chain.clear()
        writer.is_chained = False
        writer.first_frame = writer.unexplained = None
        writer.opened_at = self._last_opened_at = line.number
        self._wanted = "every"

    def read(self, line: Line) -> Raised | None:
        """What was raised, if this line is the last one of a traceback."""
        writer = self._writers.get(line.source)
        if writer is None or writer.opened_at is None:
            return None
        raised = self._advance(writer, line)
        open_writers = [other for other in self._writers.values() if other.opened_at is not None]
        if not open_writers:
            self._wanted = "beginnings"
        elif any(other.needs_next_line for other in open_writers):
            self._wanted = "every"
        else:
            self._wanted = "unindented"
        return raised

    def _advance(self, writer: _Writer, line: Line) -> Raised | None:
        if writer.unexplained is not None:
            explained = f"{writer.unexplained.text}: {line.text.strip()}"
            return self._close(writer, replace(writer.unexplained, text=explained))
        if not line.text or line.text[0].isspace():
            writer.first_frame = writer.first_frame or line.text or None
            return None
        if EXPLAINED_BELOW.match(line.text):
            writer.unexplained = line
            return None
        return self._close(writer, line)

    def _close(self, writer: _Writer, line: Line) -> Raised | None:
        opened_at, writer.opened_at = writer.opened_at or 0, None
        if not EXCEPTION.match(line.text) or line.number - opened_at > MAX_TRACEBACK_LINES:
            return None
        if len(writer.chain) < MAX_CHAIN:
            writer.chain.append(line)
        introduced = (
            writer.introduced_at is not None
            and opened_at - writer.introduced_at <= MAX_INTRODUCTION_DISTANCE_LINES
        )
        at_the_top = OUTERMOST_FRAME.match(writer.first_frame or "") is not None
        return Raised(
            chain=tuple(writer.chain),
            ended_process=introduced or (at_the_top and line.source.level is None),
        )

    def _writer(self, source: Source) -> _Writer:
        writer = self._writers.get(source)
        if writer is None:
            if len(self._writers) >= MAX_WRITERS:
                del self._writers[next(iter(self._writers))]
            writer = self._writers[source] = _Writer()
        return writer
