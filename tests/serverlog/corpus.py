"""The corpus: lines and whole logs of vLLM servers, with what they must and must not say."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.model.serverlog import LogScan, Value
from orchestrator.serverlog.rules import Tables
from orchestrator.serverlog.scan import TABLES, Scanner

FOLDER = Path(__file__).parent.parent / "fixtures" / "serverlog"

BEFORE = {
    "ready": "INFO:     Application startup complete.\n",
    "stop": "INFO:     Application startup complete.\nINFO:     Shutting down\n",
}
"""What the server had said before a line of the corpus; its facts are not counted."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One or a few lines, and everything that they say."""

    origin: str
    text: str
    findings: list[str]
    facts: dict[str, Value] = field(default_factory=dict)
    after: str | None = None
    root_cause: str | None = None
    why: str = ""

    def scan(self, tables: Tables = TABLES) -> LogScan:
        """What the scanner makes of it, what was said before left out."""
        scanner = Scanner(tables)
        before = BEFORE[self.after] if self.after else ""
        scanner.feed((before + self.text + "\n").encode())
        scan = scanner.finish()
        facts = tuple(fact for fact in scan.facts if fact.line > before.count("\n"))
        return LogScan(lines=scan.lines, bytes=scan.bytes, facts=facts, findings=scan.findings)

    def is_told_by(self, scan: LogScan) -> bool:
        """Whether a scan says exactly what the corpus says."""
        root_cause = scan.root_cause.excerpt if scan.root_cause else None
        return (
            {fact.name: fact.value for fact in scan.facts} == self.facts
            and in_words(scan) == self.findings
            and self.root_cause in {None, root_cause}
        )


@dataclass(frozen=True, kw_only=True)
class Log:
    """A whole log, and what it must say at least."""

    name: str
    facts: dict[str, Value]
    findings: list[str]
    absent: list[str] = field(default_factory=list)
    root_cause: str | None = None

    @property
    def content(self) -> bytes:
        """The log as it was recorded, with the omissions that the README of the folder names."""
        return (FOLDER / "logs" / self.name).read_bytes()


def in_words(scan: LogScan) -> list[str]:
    """Findings as the corpus writes them."""
    return [f"{found.name} {found.severity} {found.phase}" for found in scan.findings]


def scan_bytes(content: bytes, tables: Tables = TABLES) -> LogScan:
    """A log in one block."""
    scanner = Scanner(tables)
    scanner.feed(content)
    return scanner.finish()


ENTRIES = [
    Entry(**entry) for entry in tomllib.loads((FOLDER / "lines.toml").read_text("utf-8"))["entry"]
]
LOGS = [Log(**log) for log in tomllib.loads((FOLDER / "logs.toml").read_text("utf-8"))["log"]]
HEALTHY = [log for log in LOGS if log.root_cause is None]
