"""What a rule is: a message's literal beginning, what follows it, and what that means.

The literal beginning is also the prefilter: `scan` looks for all beginnings at once in a block of
the log, and only a line that has one is looked at with an expression of its own.

When vLLM rewords a message, add a rule and an entry to the corpus in `tests/fixtures/serverlog`,
and keep the old rule: logs of old versions stay readable.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from orchestrator.model.serverlog import Phase, Severity, Value

LOGGED = (b"DEBUG", b"INFO", b"WARNING", b"ERROR", b"CRITICAL")
"""Written by a logger, at whatever level: levels of one message change between releases."""

RAW = (None,)
"""Written past every logger: by a dying interpreter, by argparse, by C++ code."""


def count(text: str) -> int:
    """A whole number, with or without thousands separators.

    Raises:
        ValueError: It is none.
    """
    return int(text.replace(",", ""))


def number(text: str) -> float:
    """A decimal number.

    Raises:
        ValueError: It is none, or none that a double holds.
    """
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def flag(text: str) -> bool:
    """True and False in Python's own words."""
    return text == "True"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How a message is recognised."""

    source: str
    """Where vLLM writes it (file and function), or an issue that quotes it."""

    starts: str
    """The message's literal beginning."""

    rest: str = ""
    """Expression for what follows; empty when the beginning says it all."""

    levels: tuple[bytes | None, ...] = LOGGED

    continues: bool = False
    """Whether the message is one line of a longer one, such as the banner's."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The whole message, from its beginning."""
        return re.compile(re.escape(self.starts) + self.rest)


@dataclass(frozen=True, kw_only=True)
class FactRule(Rule):
    """A message that states something: each named group of `rest` is a fact."""

    parse: Mapping[str, Callable[[str], Value]] = field(default_factory=dict)
    """Fact (the group's name) → its type."""

    says: Mapping[str, Value] = field(default_factory=dict)
    """Facts that the message states without a variable part."""

    phase: Phase | None = None
    """Where the message moves the server to."""

    rolling: bool = False
    """A statistic that is written every few seconds: only the last one is kept."""

    def read(self, text: str) -> Iterator[tuple[str, Value]]:
        """Names and values, if the message is this rule's; a value of another form is left out."""
        match = self.pattern.match(text)
        if match is None:
            return
        yield from self.says.items()
        for name, parse in self.parse.items():
            if match[name] is not None:
                with suppress(ValueError):
                    yield name, parse(match[name])


@dataclass(frozen=True, kw_only=True)
class FindingRule(Rule):
    """A message that affects the result by itself."""

    name: str
    severity: Severity
    summary: str

    severity_when_serving: Severity | None = None
    """Where the same message is worse once the server is ready."""

    defers: bool = False
    """It only says that something above failed: that is the cause, where the log has it."""


@dataclass(frozen=True, kw_only=True)
class ExceptionRule(Rule):
    """What an exception's last line means, such as `OSError: [Errno 98] Address already in use`.

    It is fatal when it ended the process.
    """

    name: str | None = None
    """None: the exception does not tell, and is named after the phase that it ended."""

    summary: str | None = None

    severity_when_logged: Severity = "error"

    defers: bool = False
    """As for a finding rule."""


@dataclass(frozen=True, kw_only=True)
class IntroductionRule(Rule):
    """A message after which its process ends: the traceback that follows it is the cause."""


@dataclass(frozen=True, kw_only=True)
class Tables:
    """All rules of one scan."""

    facts: tuple[FactRule, ...]
    findings: tuple[FindingRule, ...]
    introductions: tuple[IntroductionRule, ...]
    exceptions: tuple[ExceptionRule, ...]
