"""JUnit XML: a test suite an arm, a case for the arm's start and one for each of its cells.

| case | is |
|---|---|
| as expected, or not seen | passed |
| not as expected; in a `check`, diverged | a failure |
| inconclusive | skipped, with the reason: it was not tested, so it neither passes nor fails |
| the arm did not complete | an error, of the arm's own case |

A dashboard that shows skipped cases in green hides an inconclusive run; the exit code does not.
"""

import re
from collections.abc import Mapping
from io import BytesIO

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from orchestrator.model.experiment import Expectation
from orchestrator.model.outcome import Failed, Outcome
from orchestrator.model.verdict import ArmVerdict, CellVerdict, RunVerdict, Word

_BAD: dict[Word, str] = {"diverged": "affected", "batch-dependent": "batch-dependent"}
"""What a `check` must not come to, and how that is called."""

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The complement of XML 1.0's `Char`: an escape sequence of a terminal cannot be written even
escaped."""


def junit(verdict: RunVerdict, outcomes: Mapping[str, Outcome | None]) -> str:
    """The run as JUnit XML.

    Args:
        verdict: What was concluded.
        outcomes: By arm, how its start ended; `None`: it never did.
    """
    report = JUnitXml(verdict.experiment)
    for arm in verdict.arms:
        suite = TestSuite(arm.arm)
        suite.add_property("experiment", verdict.experiment)
        suite.add_property("profile", verdict.profile)
        suite.add_property("engine", verdict.engine)
        for case in (_start(verdict, arm, outcomes[arm.arm]), *_cells(verdict, arm)):
            suite.add_testcase(case)
        report.add_testsuite(suite)
    written = BytesIO()
    report.write(written, pretty=True)
    return written.getvalue().decode()


def _start(verdict: RunVerdict, arm: ArmVerdict, outcome: Outcome | None) -> TestCase:
    """The arm as a whole: whether it completed, and whether it came out as expected."""
    case = TestCase("arm", classname=f"{verdict.experiment}.{arm.arm}")
    if outcome is None:
        case.result = [Error("the run ended before this arm did", "unfinished")]
    elif isinstance(outcome, Failed):
        case.result = [Error(_text(outcome.error), f"failed at {outcome.stage}")]
    elif arm.verdict == "inconclusive":
        case.result = [Skipped(_text(f"inconclusive: {arm.reason}"))]
    elif verdict.purpose == "reproduce" and arm.as_expected is False:
        case.result = [Failure(f"expected {arm.expected}: {arm.reason}", "not as expected")]
    elif verdict.purpose == "check" and arm.verdict in _BAD:
        case.result = [Failure(arm.reason, _BAD[arm.verdict])]
    return case


def _cells(verdict: RunVerdict, arm: ArmVerdict) -> list[TestCase]:
    return [_cell(verdict, arm.expected, cell) for cell in arm.cells]


def _cell(verdict: RunVerdict, expected: Expectation | None, cell: CellVerdict) -> TestCase:
    times_s = [probe.latency_s for probe in cell.probes]
    case = TestCase(cell.cell, classname=f"{verdict.experiment}.{cell.arm}", time=sum(times_s))
    if cell.verdict == "inconclusive":
        case.result = [Skipped(_text(f"inconclusive: {cell.reason}"))]
    elif verdict.purpose == "check" and cell.verdict in _BAD:
        case.result = [Failure(cell.reason, _BAD[cell.verdict])]
    # `mostly-diverged` is about the arm: one stable cell is no failure of its own.
    elif verdict.purpose == "reproduce" and expected not in (None, "mostly-diverged", cell.verdict):
        case.result = [Failure(f"expected {expected}: {cell.reason}", "not as expected")]
    return case


def _text(said: str) -> str:
    """Of a server's words, what XML 1.0 can hold at all."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", said)
