"""What one server's log says: facts about it, and findings that affect the result."""

from typing import Literal

from orchestrator.model.record import Record

Value = int | float | str | bool

Severity = Literal["info", "warning", "error", "fatal"]
"""`fatal`: the server can no longer become ready, or stay so. A wait for it may stop at once."""

Phase = Literal["start", "serving", "stop"]
"""Before the first ready line, after it, and after the server began to shut down."""


class Fact(Record):
    """One thing that the server states about itself."""

    name: str
    value: Value

    line: int
    """Counted from 1, by line feeds: what an editor shows."""

    text: str
    """The message without its prefix, at most 400 characters."""


class Finding(Record):
    """Something that affects the result, or helps to explain it."""

    name: str
    severity: Severity
    phase: Phase

    summary: str
    """One sentence for somebody who does not know vLLM's messages."""

    line: int
    """Of the first occurrence; counted from 1."""

    excerpt: str
    """The message that says so, without its prefix, at most 400 characters."""

    occurrences: int = 1
    """How many messages of this name were seen in this phase."""


class LogScan(Record):
    """Everything that a log, or the part of it read so far, says."""

    lines: int
    bytes: int

    facts: tuple[Fact, ...]
    """In the order of the log. A repeated value is kept once; of rolling statistics only the
    last one is kept."""

    findings: tuple[Finding, ...]
    """In the order in which they became certain, one for each name and phase."""

    def value(self, name: str) -> Value | None:
        """The first fact of that name; None when the log does not say."""
        return next((fact.value for fact in self.facts if fact.name == name), None)

    @property
    def root_cause(self) -> Finding | None:
        """The first fatal finding: what came later followed from it."""
        return next((found for found in self.findings if found.severity == "fatal"), None)
