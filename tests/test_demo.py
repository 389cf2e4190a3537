"""`make demo`, as a user calls it: the whole product on the miniature."""

import subprocess
from pathlib import Path

import pytest

from orchestrator.model.host import RunEnd
from orchestrator.model.verdict import RunVerdict
from tests.conftest import COMMAND, PROJECT, newest_run


@pytest.fixture(scope="module")
def demo(project: Path) -> subprocess.CompletedProcess[str]:
    """The three arms on the miniature."""
    return subprocess.run(
        [*COMMAND, "run", "three-arm", "--profile", "miniature", "--project", str(project)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=PROJECT,
    )


def test_the_three_arms_are_as_expected(
    demo: subprocess.CompletedProcess[str], project: Path
) -> None:
    """Contaminated diverges in the article's own shape: first run equal, later ones not."""
    assert demo.returncode == 0, demo.stdout + demo.stderr
    verdict = newest_run(project).read("verdicts.json", RunVerdict)
    diverged = [cell for cell in verdict.arms[1].cells if cell.verdict == "diverged"]

    assert [arm.verdict for arm in verdict.arms] == ["stable", "diverged", "stable"]
    assert diverged
    for cell in diverged:
        assert cell.pattern is not None
        assert cell.pattern.repeats == "first-differs"
        assert set(cell.pattern.reference_before or "") == {cell.pattern.variants[0]}


def test_it_never_passes_for_vllm(demo: subprocess.CompletedProcess[str], project: Path) -> None:
    """The label is on the terminal, in the report, in the log and in the verdict."""
    assert demo.returncode == 0
    store = newest_run(project)

    assert "MINIATURE: not vLLM" in demo.stdout
    assert "Server: MINIATURE: not vLLM" in (store.root / "report.md").read_text()
    assert store.log("clean").startswith(b"MINIATURE: not vLLM")
    assert "MINIATURE" in store.read("verdicts.json", RunVerdict).not_covered[0]


def test_the_runs_folder_is_whole(demo: subprocess.CompletedProcess[str], project: Path) -> None:
    """Every file that `docs/results.md` promises is there, and no other kind."""
    assert demo.returncode == 0
    store = newest_run(project)
    promised = (PROJECT / "docs" / "results.md").read_text(encoding="utf-8")

    assert store.read("end.json", RunEnd).how == "finished"
    for path in [*store.root.iterdir(), *(store.root / "arms" / "clean").iterdir()]:
        assert f"`{path.name}" in promised or f"/{path.name}" in promised, path.name
    assert not list(store.root.rglob("*.partial"))


def test_nothing_differs_from_what_was_asked_for(
    demo: subprocess.CompletedProcess[str], project: Path
) -> None:
    """Intent and outcome agree on what defines the arms."""
    assert demo.returncode == 0
    for arm in newest_run(project).read("verdicts.json", RunVerdict).arms:
        said = {row.setting: row.agreement for row in arm.intent}
        assert said["prefix caching"] == said["block size"] == "agrees"
        assert "contradicts" not in said.values()
