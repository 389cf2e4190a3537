"""Every built run, family by family."""

from collections.abc import Iterator

from tests.truth import answering, gating, removing, running
from tests.truth.built import Case


def built_cases() -> Iterator[Case]:
    """In an order in which most mutations are noticed early."""
    for room in (removing, running, gating, answering):
        yield from room.cases()
