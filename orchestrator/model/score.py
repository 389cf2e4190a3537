"""What a suite's answers come to: agreement between runs, and the fields where that is evidence."""

from typing import Literal

from orchestrator.model.record import Record
from orchestrator.model.suite import Language

Grade = Literal["right", "wrong", "missing", "unreadable"]
"""Equal to what the document says; another value; not answered; there, but of no readable form."""


class FieldScore(Record):
    """One field of one item, over all runs."""

    field: str
    grades: tuple[Grade, ...]
    """One a run, in order."""


class ItemResult(Record):
    """One item on one start. The digests' side of it is the cell of the same name."""

    item: str
    document: str
    language: Language
    answers: tuple[str, ...]
    """The text of each run, in order."""

    texts: str
    """One letter a run; equal letters are equal texts. Reported, never evidence."""

    majority: str | None
    """The text that more than half of the runs gave; `None` when there is none."""

    digests_moved: bool | None
    """Between runs, or against the item's references; `None` when that cannot be said."""

    fields_moved: tuple[str, ...]
    """Fields whose normalised value is not the same in all runs."""

    numeric: tuple[str, ...]
    """SHA-256 over each run's visible numbers (`digest.numeric_key`), by which two starts are set
    side by side."""

    reference_numeric: tuple[str, ...]
    """The same of the item's references, before and after."""

    scores: tuple[FieldScore, ...] | None
    """`None`: withheld, since the model is not said to be trained."""


class SuiteComparison(Record):
    """Two starts of one suite, item by item. Scores are never carried from one to the other."""

    left: str
    """Names of the arms."""

    right: str
    items: int
    """That both answered in full."""

    digests_comparable: bool
    """Whether the references of the two starts are bit-identical for every such item (rule 15)."""

    references_differ: tuple[str, ...]
    digests_differ: tuple[str, ...] | None
    """Items whose runs have other digests; `None` where `digests_comparable` is not."""

    texts_differ: tuple[str, ...]
    """Items whose texts, run by run, are not the same."""

    grades_differ: tuple[str, ...] | None
    """Items with a field that is graded otherwise; `None`: scores are withheld."""
