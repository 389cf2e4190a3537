"""From the log of one server to facts and findings, while it grows or afterwards."""

import re
from collections.abc import Iterable, Iterator

from orchestrator.model.serverlog import Finding, LogScan
from orchestrator.serverlog.account import Account
from orchestrator.serverlog.cache_facts import CACHE_FACTS
from orchestrator.serverlog.exceptions import EXCEPTION_RULES, INTRODUCTION_RULES
from orchestrator.serverlog.findings import FINDING_RULES
from orchestrator.serverlog.lines import Line, LineReader
from orchestrator.serverlog.rules import FactRule, FindingRule, IntroductionRule, Tables
from orchestrator.serverlog.serving_facts import SERVING_FACTS
from orchestrator.serverlog.start_facts import MODEL_FACTS, START_FACTS
from orchestrator.serverlog.tracebacks import CHAINING, OPENING, Tracebacks

TABLES = Tables(
    facts=START_FACTS + MODEL_FACTS + CACHE_FACTS + SERVING_FACTS,
    findings=FINDING_RULES,
    introductions=INTRODUCTION_RULES,
    exceptions=EXCEPTION_RULES,
)

LineRule = FactRule | FindingRule | IntroductionRule
"""Applied to a line as it comes; rules for exceptions wait for the end of a traceback."""


def scan(blocks: Iterable[bytes]) -> LogScan:
    """Everything that a whole log says, read in memory that does not grow with it."""
    scanner = Scanner()
    for block in blocks:
        scanner.feed(block)
    return scanner.finish()


class Scanner:
    """Reads a log in pieces: `feed` each of them in order, then `finish`, once."""

    def __init__(self, tables: Tables = TABLES) -> None:
        self._rules = _by_beginning((*tables.facts, *tables.findings, *tables.introductions))
        self._beginning = re.compile("|".join(map(re.escape, self._rules)))
        self._reader = LineReader(
            beginning.encode() for beginning in (OPENING, *CHAINING, *self._rules)
        )
        self._tracebacks = Tracebacks()
        self._account = Account(tables.exceptions)
        self._names_processes = False

    def feed(self, block: bytes) -> tuple[Finding, ...]:
        """Findings that this block completed; one that is seen again is not repeated."""
        lines = self._reader.read(block, self._tracebacks.wanted)
        return tuple(found for line in lines for found in self._take(line))

    def finish(self) -> LogScan:
        """All facts and findings, those of an unfinished last line included."""
        for line in self._reader.finish(self._tracebacks.wanted):
            for _ in self._take(line):
                pass
        return LogScan(
            lines=self._reader.lines,
            bytes=self._reader.bytes,
            facts=self._account.facts,
            findings=self._account.findings,
        )

    def _take(self, line: Line) -> Iterator[Finding]:
        if line.source.process == b"APIServer":
            self._names_processes = True
        raised = self._tracebacks.read(line)
        if raised is not None and self._is_the_servers(line):
            yield from self._account.judge(raised)
        yield from self._follow(line)
        if line.text.endswith(OPENING):
            self._tracebacks.open(line)
        elif line.text in CHAINING:
            self._tracebacks.chain(line)

    def _follow(self, line: Line) -> Iterator[Finding]:
        """Apply the rules whose literal beginning the message has."""
        beginning = self._beginning.match(line.text)
        for rule in self._rules[beginning[0]] if beginning else ():
            if line.source.level not in rule.levels or (line.continues and not rule.continues):
                continue
            match rule:
                case FactRule():
                    yield from self._account.state(rule, line)
                case FindingRule():
                    yield from self._account.find(rule, line)
                case IntroductionRule():
                    if rule.pattern.match(line.text):
                        self._tracebacks.introduce(line)

    def _is_the_servers(self, line: Line) -> bool:
        """Since 0.10 all processes of the server are named; one without a name is a helper's."""
        return line.source.process is not None or not self._names_processes


def _by_beginning(rules: Iterable[LineRule]) -> dict[str, list[LineRule]]:
    """Rules by literal beginning; a beginning that another one starts with takes that one in."""
    grouped: dict[str, list[LineRule]] = {}
    for rule in sorted(rules, key=lambda rule: len(rule.starts)):
        group = next((known for known in grouped if rule.starts.startswith(known)), rule.starts)
        grouped.setdefault(group, []).append(rule)
    return grouped
