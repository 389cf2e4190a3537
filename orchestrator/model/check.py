"""What `doctor` found out about one condition of a run."""

from dataclasses import dataclass
from typing import Literal

CheckResult = Literal["ok", "failed", "cannot say"]
"""`cannot say` is neither: the thing was not found out, and nothing follows from that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One condition, and what to do about it."""

    name: str
    result: CheckResult
    sentence: str
    """What was found, with the figures."""

    advice: str = ""
    """What to do; empty when there is nothing."""


def ok(name: str, sentence: str) -> Check:
    """The condition holds."""
    return Check(name=name, result="ok", sentence=sentence)


def failed(name: str, sentence: str, advice: str = "") -> Check:
    """It does not; without advice, the sentence says what to do."""
    return Check(name=name, result="failed", sentence=sentence, advice=advice)


def cannot_say(name: str, sentence: str, advice: str = "") -> Check:
    """It was not found out."""
    return Check(name=name, result="cannot say", sentence=sentence, advice=advice)
