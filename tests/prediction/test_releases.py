"""Which rule a version follows, and what its defaults are."""

import pytest

from orchestrator.prediction.releases import default_retention, rule_of


@pytest.mark.parametrize(
    ("version", "rule"),
    [
        ("0.15.1", "v0.15"),
        ("0.23.0", "v0.15"),
        ("0.25.1", "v0.24"),
        ("0.26.0", "v0.26"),
        ("0.27.1", "v0.27"),
        ("0.29.0", "v0.27"),
        ("0.29.0+cpu", "v0.27"),
        ("0.31.0", "v0.30"),
        ("0.32.0", "v0.32"),
        ("0.33.0", "v0.33"),
    ],
)
def test_a_release_that_was_read_has_its_rule(version: str, rule: str) -> None:
    """Each of these was compared with the rule case by case."""
    assert rule_of(version) == rule


@pytest.mark.parametrize("version", ["0.14.1", "0.34.0", "1.0.0", "0.1.dev20073+g8e685d198", ""])
def test_what_nobody_read_has_none(version: str) -> None:
    """Unknown is not the nearest known one."""
    assert rule_of(version) is None


def test_drafts_before_v0_26_have_none() -> None:
    """Their lookup could restore more than was cached; no rule here describes it."""
    assert rule_of("0.25.1", speculative=True) is None
    assert rule_of("0.26.0", speculative=True) == "v0.26"


@pytest.mark.parametrize(
    ("version", "speculative", "expected"),
    [
        ("0.26.0", False, None),
        ("0.28.0", True, None),
        ("0.29.0", False, 0),
        ("0.29.0", True, None),
        ("0.30.0", False, 0),
        ("0.30.0", True, 0),
    ],
)
def test_default_retention(
    version: str,
    speculative: bool,  # noqa: FBT001 - a parameter of the test
    expected: int | None,
) -> None:
    """Dense, sparse without drafts, sparse always: in this order of the releases."""
    assert default_retention(version, speculative=speculative) == expected
