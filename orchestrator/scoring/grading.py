"""The answers to one item → agreement between the runs, and grades."""

import json
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal

from orchestrator.model.score import FieldScore, Grade
from orchestrator.model.suite import ExpectedField, Language, SuiteItem
from orchestrator.scoring.reading import canonical, same

Values = Mapping[str, str | None]
"""Field to what an answer says in it: as text, or `None` where it is not text and no number."""


def values_of(answer: str) -> Values | None:
    """The fields of an answer; `None` when it is no JSON object (cut off at its limit, perhaps)."""
    try:
        said = json.loads(answer, parse_float=Decimal)
    except (ValueError, RecursionError):  # ValueError also for a number of 4301 digits
        return None
    return {key: _text(value) for key, value in said.items()} if isinstance(said, dict) else None


def letters(texts: Sequence[str]) -> str:
    """One letter a text of at most 26, the same for equal ones, in order of appearance."""
    known = list(dict.fromkeys(texts))
    return "".join(string.ascii_uppercase[known.index(text)] for text in texts)


def majority(texts: Sequence[str]) -> str | None:
    """The text that more than half of the runs gave; `None` when there is none."""
    text, count = Counter(texts).most_common(1)[0]
    return text if 2 * count > len(texts) else None


def moved_fields(texts: Sequence[str], item: SuiteItem, language: Language) -> tuple[str, ...]:
    """Fields that do not say the same in all runs, whatever the document says.

    What is not readable is compared as it stands, and what is missing is a value of its own.
    """
    answers = [values_of(text) for text in texts]
    return tuple(
        name
        for name, expected in item.fields.items()
        if len({_said(values, name, expected, language) for values in answers}) > 1
    )


def scores(texts: Sequence[str], item: SuiteItem, language: Language) -> tuple[FieldScore, ...]:
    """Every field's grade in every run."""
    answers = [values_of(text) for text in texts]
    return tuple(
        FieldScore(
            field=name,
            grades=tuple(_grade(values, name, expected, language) for values in answers),
        )
        for name, expected in item.fields.items()
    )


def _grade(values: Values | None, name: str, expected: ExpectedField, language: Language) -> Grade:
    if values is None:
        return "unreadable"
    if name not in values:
        return "missing"
    said = values[name]
    read = None if said is None else canonical(said, expected.kind, language)
    if read is None:
        return "unreadable"
    return "right" if same(read, expected.value, expected.kind) else "wrong"


def _said(
    values: Values | None, name: str, expected: ExpectedField, language: Language
) -> tuple[bool, str | None]:
    if values is None or name not in values:
        return False, None
    said = values[name]
    return True, None if said is None else canonical(said, expected.kind, language) or said


def _text(value: object) -> str | None:
    """A JSON number is exact: as text it has no thousands and a decimal point, if any."""
    match value:
        case str():
            return value
        case bool():
            return None
        case int() | Decimal():
            return f"{value:f}" if isinstance(value, Decimal) else str(value)
        case _:
            return None
