"""What is prepared for a GPU: every line of docs/gpu.md can be planned on a machine without one."""

import re
import shutil
from pathlib import Path

import pytest

from orchestrator.cli.planning import resolve_plan
from orchestrator.model.plan import Plan
from tests.conftest import PROJECT

RUN = re.compile(r"vllm-arms run ([a-z-]+) --profile (\S+)")
GUIDE = (PROJECT / "docs" / "gpu.md").read_text(encoding="utf-8")
LISTED = [match.groups() for match in re.finditer(rf"^\| `{RUN.pattern}`", GUIDE, re.MULTILINE)]
EXPERIMENTS = sorted({name for name, _ in LISTED})

OWN_MODEL = """extends = "docker-cuda"
name = "own-model"

[model]
model_dir = "{folder}"
tokenizer_file = "{tokenizer}"
"""


@pytest.fixture
def own_model(tmp_path: Path, tokenizer_file: Path) -> Path:
    """A project with the copy of `docker-cuda` that its first lines ask for."""
    for folder in ("arms", "launch_profiles"):
        shutil.copytree(PROJECT / folder, tmp_path / folder)
    text = OWN_MODEL.format(folder=tokenizer_file.parent, tokenizer=tokenizer_file)
    (tmp_path / "launch_profiles" / "own-model.toml").write_text(text, encoding="utf-8")
    return tmp_path


def launched(made: Plan, arm: str) -> str:
    """An arm's command line."""
    return " ".join(next(a for a in made.arms if a.name == arm).launch.argv)


def test_make_gpu_runs_what_the_guide_lists_in_its_order() -> None:
    """One list for people and one for make, and they are the same."""
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.split("\ngpu:")[1].split("\n\n")[0]
    default = re.search(r"^GPU_PROFILE \?= (\S+)", makefile, re.MULTILINE)

    assert default is not None
    lines = recipe.replace("$(GPU_PROFILE)", default[1]).replace("$(BIN)/", "")
    assert len(LISTED) == 5
    assert RUN.findall(lines) == LISTED


@pytest.mark.parametrize(("name", "profile"), LISTED)
def test_what_is_prepared_can_be_planned_for_the_vllm_of_a_gpu_machine(
    name: str, profile: str
) -> None:
    """As the line says it, with a prediction for every cell that is sent one request at a time."""
    made = resolve_plan(PROJECT, name, profile, "plain", (), None).plan
    cells = [cell for arm in made.arms for cell in arm.cells]

    assert (made.engine, made.block_size_tokens) == ("vLLM 0.26.0", 288)
    assert all(cell.prediction is not None for cell in cells if cell.concurrency == 1)
    starts = next(
        line for line in GUIDE.splitlines() if line.startswith(f"| `vllm-arms run {name} ")
    )
    assert f"| {len(made.arms)} |" in starts


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_is_prepared_can_be_planned_for_a_container_with_a_gpu(
    name: str, own_model: Path
) -> None:
    """All sizes follow the article's block of 1,600 tokens."""
    made = resolve_plan(own_model, name, "own-model", "plain", (), None).plan

    assert made.block_size_tokens == 1600
    assert made.b_tokens > 2 * 1600


def test_the_patched_arm_of_the_workarounds_is_cut_at_every_boundary() -> None:
    """Its patch covers the release, and its prediction is the patched rule's."""
    made = resolve_plan(
        PROJECT, "workarounds", "vllm-cuda-tiny-hybrid", "plain", (), None
    ).plan  # fmt: skip
    patched = next(arm for arm in made.arms if arm.name == "patched")
    control = next(arm for arm in made.arms if arm.name == "control")
    eligible = {
        arm.name: {cell.prediction.eligible for cell in arm.cells if cell.prediction}
        for arm in (patched, control)
    }

    assert patched.patch == "stop-at-every-boundary"
    assert eligible == {"patched": {"not eligible"}, "control": {"eligible", "not eligible"}}
    assert "--max-num-batched-tokens 288 " in launched(made, "budget-equals-block")


def test_memory_pressure_asks_a_server_for_a_small_cache_and_short_requests() -> None:
    """The length follows the block; the number of blocks is the arm's own."""
    made = resolve_plan(
        PROJECT, "memory-pressure", "vllm-cuda-tiny-hybrid", "plain", (), None
    ).plan  # fmt: skip

    assert launched(made, "too-small").endswith("--max-model-len 1440 --num-gpu-blocks-override 44")
    assert "override" not in launched(made, "room-for-all")
    assert made.b_tokens + made.max_tokens <= 1440
