"""The panel tells the rules apart."""

from orchestrator.prediction.panel import Restatement, answer, rules_giving, split_panel

PANEL = split_panel(4_000, seed=29)


def scheduled_by(restatement: Restatement) -> list[int]:
    """What a rule of ours answers to the panel."""
    return [answer(restatement, case) for case in PANEL]


def test_a_panel_is_the_same_every_time() -> None:
    """So that two machines ask two engines the same."""
    assert split_panel(50, seed=1) == split_panel(50, seed=1)
    assert split_panel(50, seed=1) != split_panel(50, seed=2)


def test_rules_that_split_alike_are_found_together() -> None:
    """v0.30 changed other things than the split."""
    found = rules_giving(PANEL, scheduled_by(Restatement("v0.27", every_boundary=False)))

    assert [(r.rule, r.every_boundary) for r in found] == [("v0.27", False), ("v0.30", False)]


def test_the_patch_is_recognised() -> None:
    """A patched copy keeps its version, and so must be told by what it does."""
    found = rules_giving(PANEL, scheduled_by(Restatement("v0.26", every_boundary=True)))

    assert [(r.rule, r.every_boundary) for r in found] == [("v0.26", True)]


def test_one_deviating_answer_is_no_known_rule() -> None:
    """Nearly is not equal."""
    answers = scheduled_by(Restatement("v0.33", every_boundary=False))
    answers[17] += 1

    assert rules_giving(PANEL, answers) == ()
