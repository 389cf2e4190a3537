"""`run stack-compare` as a user calls it, on the miniature in the place of both stacks."""

import subprocess
from pathlib import Path

import pytest

from orchestrator.model.verdict import RunVerdict
from tests.conftest import COMMAND, PROJECT, Call, newest_run


@pytest.fixture(scope="module")
def compared(project: Path) -> subprocess.CompletedProcess[str]:
    """Four starts, one document, two lengths."""
    path = project / "arms" / "stack-compare.toml"
    text = path.read_text(encoding="utf-8")
    for old in ('"vllm-cpu-tiny-hybrid"', '"vllm-cpu-0.28-tiny-hybrid"'):
        assert f"profile = {old}" in text
        text = text.replace(f"profile = {old}", 'profile = "miniature"')
    path.write_text(text.replace("hold_s = 15.0", "hold_s = 0.2"), encoding="utf-8")
    return subprocess.run(
        [*COMMAND, "run", "stack-compare", "--quick", "--project", str(project)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=PROJECT,
    )


def test_both_stacks_have_two_starts_and_times_by_both_clocks(
    compared: subprocess.CompletedProcess[str], project: Path
) -> None:
    """Every cold request counts: it was cold, alone, and of its exact length."""
    assert compared.returncode == 0, compared.stdout + compared.stderr
    stacks = newest_run(project, "stack-compare").read("verdicts.json", RunVerdict).stacks
    assert stacks is not None

    assert stacks.order == ("vllm-0.29", "vllm-0.28", "vllm-0.28.again", "vllm-0.29.again")
    for row in stacks.rows:
        for speed in row.speeds:
            assert speed.excluded == ()
            assert speed.first_token_s is not None
            assert speed.prefill_s is not None
            assert speed.first_token_s.n == speed.prefill_s.n == 10
            assert 0 < speed.prefill_s.median < speed.first_token_s.median
    for column in stacks.columns:
        assert column.decode_tokens_per_s is not None
        assert [(s.preemptions, s.crashed) for s in column.starts] == [(0, False)] * 2


def test_its_report_has_one_column_a_stack(
    compared: subprocess.CompletedProcess[str], project: Path
) -> None:
    """And the terminal says which is faster, or that none is."""
    assert "cold prompts: vllm-0.28 against vllm-0.29: " in compared.stdout
    report = (newest_run(project, "stack-compare").root / "report.md").read_text(encoding="utf-8")

    assert "| | vllm-0.29 | vllm-0.28 |" in report
    assert "| 255 | vllm-0.29 |" in report
    assert "- vllm-0.28.again: " in report


def test_it_is_judged_again_from_its_raw_bytes(
    compared: subprocess.CompletedProcess[str], project: Path, call: Call
) -> None:
    """Streams and their arrivals are on disk, so `analyze` comes to the same."""
    assert compared.returncode == 0
    code, output, _ = call("analyze", newest_run(project, "stack-compare").root)

    assert (code, "the same as this judgement" in output) == (0, True)


def test_a_trimmed_copy_is_judged_alike(
    compared: subprocess.CompletedProcess[str], project: Path, tmp_path: Path, call: Call
) -> None:
    """Its large texts are compressed, and read back as they were."""
    assert compared.returncode == 0
    run = newest_run(project, "stack-compare").root
    copy = tmp_path / "copy"

    assert call("trim", run, copy, "--project", project)[0] == 0
    assert (copy / "plan.json.xz").is_file()
    code, output, _ = call("analyze", copy)
    assert (code, "the same as this judgement" in output) == (0, True)
