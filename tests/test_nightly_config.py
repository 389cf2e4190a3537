"""`nightly.toml` held against what it names; nothing is started."""

from pathlib import Path

import pytest

from orchestrator.cli.nightly_config import checked_config
from orchestrator.errors import DefinitionError
from tests.conftest import PROJECT

STACKS = """
[[entries]]
experiment = "stack-compare"
baseline = "docs/evidence/cpu-stack-compare"
"""


def refusal(folder: Path, text: str) -> str:
    """What is said about a config of the project's own definitions."""
    config = folder / "nightly.toml"
    config.write_text(text)
    with pytest.raises(DefinitionError) as refused:
        checked_config(PROJECT, config)
    return str(refused.value)


def test_an_experiment_whose_arms_name_their_profiles_needs_none(tmp_path: Path) -> None:
    """`stack-compare` with the recorded run as its baseline."""
    config = tmp_path / "nightly.toml"
    config.write_text(STACKS)

    (entry,) = checked_config(PROJECT, config).config.entries

    assert (entry.profile, entry.title) == (None, "stack-compare")


def test_a_suite_is_an_entry_too(tmp_path: Path) -> None:
    """With the recorded run as its baseline."""
    config = tmp_path / "nightly.toml"
    config.write_text(
        '[[entries]]\nexperiment = "extraction-suite"\nprofile = "vllm-cpu-tiny-hybrid"\n'
        'baseline = "docs/evidence/cpu-extraction-suite"\n'
    )

    (entry,) = checked_config(PROJECT, config).config.entries

    assert entry.experiment == "extraction-suite"


def test_a_profile_is_said_once_by_the_arms_or_by_the_entry(tmp_path: Path) -> None:
    """Each error says what to do; the baseline, which is right, is not blamed."""
    both = refusal(tmp_path, STACKS + 'profile = "vllm-cpu-tiny-hybrid"\n')
    neither = refusal(tmp_path, STACKS.replace("stack-compare", "four-arm"))

    assert "entries.0: profile: the arms of stack-compare name their own (" in both
    assert both.endswith("; leave it out")
    assert neither.endswith("entries.0: profile: is missing, and the arms of four-arm name none")


def test_one_wrong_entry_is_one_error(tmp_path: Path) -> None:
    """That the list is empty without it is no second one; an empty list is one of its own."""
    wrong = refusal(tmp_path, STACKS + "starts = 0\n")

    assert wrong.endswith("entries.0.starts: Input should be greater than or equal to 1")
    assert "entries: Tuple should have at least 1 item" in refusal(tmp_path, "entries = []\n")


def test_a_folder_is_called_one(tmp_path: Path) -> None:
    """It is there, and is no file."""
    with pytest.raises(DefinitionError, match="is a folder; name the TOML file in it"):
        checked_config(PROJECT, tmp_path)
