"""`docs/results.md` against the records that a run stores."""

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from orchestrator.model.comparison import CellChange, ColdSpeed, Comparison, FieldDifference
from orchestrator.model.engine import EngineFacts
from orchestrator.model.exchange import ExchangeTimes
from orchestrator.model.host import Beat, MemorySample, RunEnd, RunStart
from orchestrator.model.nightly import Nightly
from orchestrator.model.outcome import Completed, Failed
from orchestrator.model.patch import Overlay
from orchestrator.model.plan import LaunchPlan, Plan
from orchestrator.model.record import Record
from orchestrator.model.resumption import Resumption
from orchestrator.model.verdict import RunVerdict
from tests.conftest import PROJECT

STORED = (
    Plan, RunStart, RunEnd, LaunchPlan, EngineFacts, Overlay, MemorySample, Beat, ExchangeTimes,
    Completed, Failed, RunVerdict, Resumption, Nightly,
)  # fmt: skip

ELSEWHERE = (Comparison, FieldDifference, CellChange, ColdSpeed)
"""In docs/baselines.md."""

PAGE = (PROJECT / "docs" / "results.md").read_text()


def records(kind: Any) -> Iterator[type[Record]]:  # noqa: ANN401 - an annotation is anything
    """A record, and every record in its fields."""
    if isinstance(kind, type) and issubclass(kind, Record):
        yield kind
        for field in kind.model_fields.values():
            yield from records(field.annotation)
    else:
        for part in get_args(kind):
            yield from records(part)


ALL = {
    record.__name__: record
    for stored in STORED
    for record in records(stored)
    if record not in ELSEWHERE
}


def documented(name: str) -> list[str]:
    """The fields in the table under a record's heading."""
    _, _, rest = PAGE.partition(f"\n### {name}\n")
    section, _, _ = rest.partition("\n### ")
    return re.findall(r"^\| `(\w+)` \| .+ \|$", section, re.MULTILINE)


@pytest.mark.parametrize("name", ALL)
def test_every_stored_field_is_documented_and_no_other_one(name: str) -> None:
    """In the order of the record; a new field without a line here fails."""
    assert documented(name) == list(ALL[name].model_fields)


def test_a_field_that_may_be_null_says_what_that_means() -> None:
    """Missing is not zero: every such line explains the null, or refers to one that does."""
    silent = [
        f"{name}.{field}"
        for name, record in ALL.items()
        for field, info in record.model_fields.items()
        if type(None) in get_args(info.annotation)
        and not re.search(rf"\| `{field}` \| .*(`null`|likewise|see above)", _section(name))
    ]

    assert silent == []


def _section(name: str) -> str:
    return PAGE.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
