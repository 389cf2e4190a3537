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
    assert "nothing here is evidence about vLLM" in (store.root / "report.html").read_text()
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


def test_the_page_is_drawn_of_a_finished_run(
    demo: subprocess.CompletedProcess[str], project: Path
) -> None:
    """Last of all: an error in drawing it leaves a run that is finished."""
    assert demo.returncode == 0
    root = newest_run(project).root

    assert "ended (UTC)" in (root / "report.html").read_text(encoding="utf-8")
    assert (root / "report.html").stat().st_mtime_ns >= (root / "end.json").stat().st_mtime_ns


def test_nothing_differs_from_what_was_asked_for(
    demo: subprocess.CompletedProcess[str], project: Path
) -> None:
    """Intent and outcome agree on what defines the arms."""
    assert demo.returncode == 0
    for arm in newest_run(project).read("verdicts.json", RunVerdict).arms:
        said = {row.setting: row.agreement for row in arm.intent}
        assert said["prefix caching"] == said["block size"] == "agrees"
        assert "contradicts" not in said.values()


def test_a_patch_removes_it_and_a_sham_does_not(project: Path) -> None:
    """Rule 7 end to end: overlay, marker, loaded module, own references, hits, sham."""
    arms = ["contaminated", "patched", "sham-patch"]
    done = subprocess.run(
        [
            *COMMAND, "run", "four-arm", "--profile", "miniature", "--project", str(project),
            *(word for arm in arms for word in ("--arm", arm)),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=PROJECT,
    )  # fmt: skip
    store = newest_run(project, "four-arm")
    verdict = store.read("verdicts.json", RunVerdict)

    assert done.returncode == 1, done.stdout + done.stderr  # nothing is expected of it: affected
    assert verdict.removal is not None
    assert verdict.removal.removed, verdict.removal.sentence
    assert "Removed by stop-at-every-boundary" in (store.root / "report.md").read_text()
    assert not (store.root / "arms" / "patched" / "overlay").exists()
    assert store.overlay("patched") is not None
    assert store.overlay("contaminated") is None
