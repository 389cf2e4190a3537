"""The published JSON Schema of `verdicts.json`."""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from orchestrator.adapters.run_store import RunStore
from orchestrator.reporting.schema import verdict_schema
from tests.conftest import PROJECT
from tests.scenarios import Scenario

PUBLISHED = PROJECT / "docs" / "schemas" / "verdicts-1.json"
RECORDED = sorted(path.parent for path in (PROJECT / "docs" / "evidence").glob("*/trimmed.json"))


@pytest.fixture
def validator() -> Draft202012Validator:
    """Of the published file, which is a schema itself."""
    schema = json.loads(PUBLISHED.read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_the_published_schema_is_the_one_that_the_code_stores() -> None:
    """Where this fails, the layout changed: `make schema`, and read docs/results.md on formats."""
    assert PUBLISHED.read_text() == verdict_schema()


@pytest.mark.parametrize("run", RECORDED, ids=lambda run: run.name)
def test_a_recorded_verdict_is_valid(run: Path, validator: Draft202012Validator) -> None:
    """By the jsonschema library, which knows nothing of our types."""
    stored = RunStore.open(run).read_bytes("verdicts.json")
    assert stored is not None
    validator.validate(json.loads(stored))


def test_a_verdict_of_today_is_valid(validator: Draft202012Validator) -> None:
    """As `run` stores it."""
    validator.validate(json.loads(Scenario().judge().model_dump_json()))


@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"result": "probably fine"}, {"exit_code": "0"}, {"surprise": 1}],
    ids=["another format", "unknown word", "text for a number", "unknown key"],
)
def test_what_is_no_verdict_is_refused(
    change: dict[str, Any], validator: Draft202012Validator
) -> None:
    """The schema is as strict as the types."""
    told = json.loads(Scenario().judge().model_dump_json()) | change
    with pytest.raises(ValidationError):
        validator.validate(told)


def test_a_file_without_its_format_is_refused(validator: Draft202012Validator) -> None:
    """Nothing would say which schema it is to be held against."""
    told = json.loads(Scenario().judge().model_dump_json())
    del told["format"]

    with pytest.raises(ValidationError, match="'format' is a required property"):
        validator.validate(told)
