"""The same plan on the miniature and on a real vLLM, side by side."""

import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator.model.verdict import CellVerdict, RunVerdict
from tests.conftest import COMMAND, PROJECT, newest_run

pytestmark = pytest.mark.vllm

REAL = "vllm-cpu-tiny-hybrid"
Seen = tuple[str, str | None, tuple[int | None, ...]]


@pytest.fixture(scope="module")
def miniature_verdict(project: Path, tmp_path_factory: pytest.TempPathFactory) -> RunVerdict:
    """`three-arm` on the miniature, with the sizes that the real one has."""
    folder = tmp_path_factory.mktemp("miniature")
    for name in ("arms", "launch_profiles"):
        shutil.copytree(project / name, folder / name)
    definition = folder / "arms" / "three-arm.toml"
    text = definition.read_text(encoding="utf-8")
    assert f"[sizes_for.{REAL}]" in text
    definition.write_text(text.replace(f"sizes_for.{REAL}", "sizes_for.miniature"), "utf-8")
    done = subprocess.run(
        [*COMMAND, "run", "three-arm", "--profile", "miniature", "--project", str(folder)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=PROJECT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return newest_run(folder).read("verdicts.json", RunVerdict)


def seen(cell: CellVerdict) -> Seen:
    """Verdict, eligibility, and the cached tokens of every probe in order."""
    return cell.verdict, cell.eligible, tuple(probe.cached_tokens for probe in cell.probes)


def by_cell(verdict: RunVerdict) -> dict[tuple[str, str], Seen]:
    """What was seen, by arm and cell."""
    return {(arm.arm, cell.cell): seen(cell) for arm in verdict.arms for cell in arm.cells}


def test_both_engines_give_the_same_pattern_over_the_panel(
    real_run: subprocess.CompletedProcess[str], real_project: Path, miniature_verdict: RunVerdict
) -> None:
    """Verdicts, cached tokens and eligibility of every cell of three arms; printed side by side."""
    assert real_run.returncode == 0, real_run.stdout + real_run.stderr
    real = by_cell(newest_run(real_project).read("verdicts.json", RunVerdict))
    small = by_cell(miniature_verdict)

    for key, value in real.items():
        print(*key, "| vLLM", *value, "| miniature", *small[key])  # noqa: T201 - shown by pytest
    assert len(real) == 18
    assert small == real


def test_the_miniature_never_passes_for_vllm(miniature_verdict: RunVerdict) -> None:
    """Its label is in the verdict and first among what is not covered."""
    assert miniature_verdict.engine.startswith("MINIATURE: not vLLM")
    assert "not vLLM" in miniature_verdict.not_covered[0]
