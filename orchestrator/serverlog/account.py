"""What is known of one server so far: phase, facts, findings; and what an exception means then."""

from collections import Counter
from collections.abc import Iterator

from orchestrator.model.serverlog import Fact, Finding, Phase, Severity, Value
from orchestrator.serverlog.lines import Line
from orchestrator.serverlog.rules import ExceptionRule, FactRule, FindingRule
from orchestrator.serverlog.tracebacks import Raised

MAX_VALUES_OF_A_FACT = 16
"""Different values kept of one name, the first ones. A server states each once for each of its
models (target and draft) and devices."""


ERROR_LOGGED = ("error_logged", "An exception was caught and logged; the server went on.")
START_FAILED = ("start_failed", "A process of the server ended with an exception at start.")
ENGINE_DEAD = ("engine_dead", "The engine died of an exception.")
RESTARTED = ("restarted", "The log has more than one start; caches and counters began anew.")


class Account:
    """Facts and findings of a log up to the line that was read last."""

    def __init__(self, exceptions: tuple[ExceptionRule, ...]) -> None:
        self._exceptions = exceptions
        self._phase: Phase = "start"
        self._facts: dict[str, dict[Value, Fact]] = {}
        self._findings: dict[tuple[str, Phase, Severity], Finding] = {}
        self._occurrences: Counter[tuple[str, Phase, Severity]] = Counter()
        self._suspect: Raised | None = None
        self._start_is_new = True
        self._start_has_cause = False

    @property
    def facts(self) -> tuple[Fact, ...]:
        """In the order of the log."""
        every = (fact for values in self._facts.values() for fact in values.values())
        return tuple(sorted(every, key=lambda fact: fact.line))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """In the order in which they became certain."""
        return tuple(
            Finding(**{**found.model_dump(), "occurrences": self._occurrences[key]})
            for key, found in self._findings.items()
        )

    def state(self, rule: FactRule, line: Line) -> Iterator[Finding]:
        """Take note of the facts of a message; a second start in one log is a finding."""
        stated = tuple(rule.read(line.text))
        if not stated:
            return
        if rule.phase == "start":
            yield from self._begin(line)
        for name, value in stated:
            values = self._facts.setdefault(name, {})
            if rule.rolling:
                values.clear()
            if value not in values and len(values) < MAX_VALUES_OF_A_FACT:
                values[value] = Fact(name=name, value=value, line=line.number, text=line.excerpt)
        self._start_is_new = rule.phase == "start"
        if rule.phase is not None:
            self._phase = rule.phase
        if rule.phase is not None or rule.rolling:
            self._suspect = None  # the server went on after it

    def find(self, rule: FindingRule, line: Line) -> Iterator[Finding]:
        """Take note of a message that is a finding by itself."""
        if rule.pattern.match(line.text):
            severity = rule.severity
            if self._phase == "serving" and rule.severity_when_serving is not None:
                severity = rule.severity_when_serving
            if rule.defers:
                yield from self._blame_suspect()
            yield from self._report(rule.name, rule.summary, severity, line)

    def judge(self, raised: Raised) -> Iterator[Finding]:
        """Take note of an exception: fatal when it ended a process of the server.

        When the server is shutting down, exceptions are how its parts learn of it.
        """
        if self._phase == "stop":
            return
        rule, line = self._explain(raised)
        if raised.ended_process or (rule is not None and rule.severity_when_logged == "fatal"):
            if rule is not None and rule.defers:
                yield from self._blame_suspect()
            yield from self._condemn(rule, line)
        elif line.source.level == b"ERROR":
            self._suspect = self._suspect or raised
            yield from self._report(*_named(rule, ERROR_LOGGED), "error", line)

    def _begin(self, line: Line) -> Iterator[Finding]:
        if not self._start_is_new:
            self._phase = "start"
            self._start_has_cause = False
            yield from self._report(*RESTARTED, "error", line)

    def _blame_suspect(self) -> Iterator[Finding]:
        """The first error since the last sign of health is the cause that something points to."""
        if self._suspect is not None and not self._start_has_cause and self._phase != "stop":
            yield from self._condemn(*self._explain(self._suspect))

    def _explain(self, raised: Raised) -> tuple[ExceptionRule | None, Line]:
        """The first exception of the chain that has a rule, else the first one."""
        for line in raised.chain:
            for rule in self._exceptions:
                if rule.pattern.match(line.text):
                    return rule, line
        return None, raised.chain[0]

    def _condemn(self, rule: ExceptionRule | None, line: Line) -> Iterator[Finding]:
        of_the_phase = START_FAILED if self._phase == "start" else ENGINE_DEAD
        yield from self._report(*_named(rule, of_the_phase), "fatal", line)

    def _report(self, name: str, summary: str, severity: Severity, line: Line) -> Iterator[Finding]:
        if severity == "fatal":
            if self._phase == "stop":  # it ends because it was told to
                return
            self._start_has_cause = True
        self._start_is_new = False
        key = (name, self._phase, severity)
        self._occurrences[key] += 1
        if key in self._findings:
            return
        found = Finding(
            name=name,
            severity=severity,
            phase=self._phase,
            summary=summary,
            line=line.number,
            excerpt=line.excerpt,
        )
        self._findings[key] = found
        yield found


def _named(rule: ExceptionRule | None, otherwise: tuple[str, str]) -> tuple[str, str]:
    if rule is None or rule.name is None or rule.summary is None:
        return otherwise
    return rule.name, rule.summary
