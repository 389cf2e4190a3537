"""Every command's RUN is the same thing: a folder, `latest`, a name, or a beginning of it."""

import shutil
from pathlib import Path

import pytest

from tests.conftest import PROJECT, Call

EVIDENCE = PROJECT / "docs" / "evidence" / "docker-cpu-three-arm"
NAME = "three-arm/2026-11-30T10-00-00Z-abc"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with one run in it, a trimmed one."""
    folder = tmp_path_factory.mktemp("names")
    shutil.copytree(EVIDENCE, folder / "runs" / NAME)
    (folder / "empty").mkdir()
    return folder


@pytest.mark.parametrize("text", ["latest", NAME, "2026-11-30T10", "three-arm/2026", EVIDENCE])
@pytest.mark.parametrize(
    "command", [["analyze"], ["report", "--format", "junit"], ["show"]], ids=lambda c: c[0]
)
def test_a_run_is_named_alike_everywhere(
    call: Call, place: Path, command: list[str], text: str | Path
) -> None:
    """Trimmed runs too: what is missing of them is nothing that these commands read."""
    code, output, errors = call(command[0], text, *command[1:], "--project", place)

    assert (code, errors) == (0, "")
    assert "contaminated" in output


def test_both_runs_of_a_comparison_are_named_so(call: Call, place: Path) -> None:
    """RUN and BASELINE."""
    code, output, _ = call("compare", "latest", NAME, "--project", place)

    assert code == 0
    assert "Unchanged: " in output


def test_trim_takes_a_name_and_a_comment_too(call: Call, place: Path, tmp_path: Path) -> None:
    """The commands that write."""
    assert call("trim", "2026-11", tmp_path / "trimmed", "--project", place)[0] == 0
    assert (tmp_path / "trimmed" / "trimmed.json").is_file()
    assert call("report", "latest", "--format", "comment", "--project", place)[0] == 0


def test_a_trimmed_run_is_found_to_be_resumed(call: Call, place: Path) -> None:
    """By its folder: found, and then refused for what it is."""
    code, _, errors = call("run", "--resume", EVIDENCE, "--project", place)

    assert code == 2
    assert "there is no such run" not in errors


@pytest.mark.parametrize("command", ["analyze", "report", "show"])
def test_a_folder_that_is_no_runs_says_so(call: Call, place: Path, command: str) -> None:
    """Not that there is no such run."""
    code, _, errors = call(command, place / "empty", "--project", place)

    assert code == 2
    assert "empty: is no run's folder: it has no plan.json" in errors
