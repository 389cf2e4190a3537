"""`arms/upstream-54076.toml`: a whole pull request, from a diff that the user brings.

The diff of these tests is git's, over several files, with the effect of the shipped one-line fix:
a new module, an edited scheduler that imports it, and a test that no server reads.
"""

import json
import re
import subprocess
from pathlib import Path

import pytest

from orchestrator.adapters.engine_preparation import PreparedEngine
from orchestrator.adapters.run_store import RunStore
from orchestrator.model.patch import Overlay
from orchestrator.model.plan import Plan
from orchestrator.runner import judge_run
from tests.conftest import PROJECT, Call, newest_run
from tests.patching.shipped import MINIATURE_SCHEDULER, SCHEDULER

OBTAIN = "gh pr diff 54076 --repo vllm-project/vllm > arms/patches/upstream-54076.diff"
STOP = "next_block_boundary if start % block_size != 0 else 0,"
MINIATURE_ANCHOR = """
    def __init__(self, limits: Limits) -> None:
"""
MINIATURE_MARKER = """
    def __init__(self, limits: Limits) -> None:
        from .log import log_core
        log_core.info("PATCH upstream-54076 active")
"""


def pull_request(folder: Path, package: Path, scheduler: str, before_import: str) -> str:
    """What `git diff` says of a copy in which every crossed boundary is a stop."""
    old, new = folder / "a", folder / "b"
    text = (package.parent / scheduler).read_text("utf-8")
    module = ".".join((*Path(scheduler).parent.parts, "crossed"))
    assert (text.count(STOP), text.count(before_import)) == (1, 1)
    changed = text.replace(STOP, "crossed(next_block_boundary),").replace(
        before_import, f"from {module} import crossed\n{before_import}"
    )
    files = {
        old / scheduler: text,
        new / scheduler: changed,
        new / Path(scheduler).with_name("crossed.py"): "def crossed(end):\n    return end\n",
        new / "tests/test_crossed.py": "def test_crossed():\n    assert True\n",
    }
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    command = ["git", "diff", "--no-index", "--no-prefix", "a", "b"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("command", ["plan", "run"])
def test_without_its_diff_it_says_how_to_get_it(call: Call, project: Path, command: str) -> None:
    """Nothing is invented in its place, and no run folder is begun."""
    code, _, errors = call(
        command, "upstream-54076", "--profile", "miniature", "--project", project
    )

    assert code == 2
    assert OBTAIN in errors
    assert not (project / "runs" / "upstream-54076").exists()


def test_a_diff_over_several_files_removes_the_effect_on_the_miniature(
    call: Call, tmp_path: Path, own_project: Path
) -> None:
    """The shipped experiment, with the marker's edit moved to the miniature: rule 7 whole."""
    patches = own_project / "arms" / "patches"
    diff = pull_request(
        tmp_path, PROJECT / "orchestrator", MINIATURE_SCHEDULER, "from .cache import Block, Cache"
    )
    (patches / "upstream-54076.diff").write_text(diff, encoding="utf-8")
    patch = patches / "upstream-54076.toml"
    head, _, _ = patch.read_text("utf-8").partition("\n# The marker")
    edit = {
        "file": MINIATURE_SCHEDULER, "anchor": MINIATURE_ANCHOR, "replacement": MINIATURE_MARKER,
    }  # fmt: skip
    told = "".join(f"{key} = {json.dumps(value)}\n" for key, value in edit.items())
    patch.write_text(f"{head}\n[[variants.edits]]\n{told}", encoding="utf-8")

    arms = [x for arm in ("contaminated", "patched", "sham-patch") for x in ("--arm", arm)]
    call("run", "upstream-54076", "-p", "miniature", *arms, "--project", own_project)

    store = newest_run(own_project, "upstream-54076")
    verdict = judge_run(store.read("plan.json", Plan), store)
    assert verdict.removal is not None
    assert verdict.removal.removed, verdict.removal.sentence
    assert_recorded(store, "orchestrator/miniature")


@pytest.mark.vllm
def test_a_diff_over_several_files_runs_in_a_real_engine_core(
    engine: PreparedEngine, call: Call, tmp_path: Path, own_project: Path
) -> None:
    """The shipped experiment and patch as they are; alone, a patched arm shows no removal."""
    (package,) = engine.python.parent.parent.glob("lib/python*/site-packages/vllm")
    diff = pull_request(tmp_path, package, SCHEDULER, "logger = init_logger(__name__)")
    (own_project / "arms" / "patches" / "upstream-54076.diff").write_text(diff, encoding="utf-8")

    call("run", "upstream-54076", "--quick", "--arm", "patched", "--project", own_project)

    store = newest_run(own_project, "upstream-54076")
    verdict = judge_run(store.read("plan.json", Plan), store)
    assert [arm.verdict for arm in verdict.arms] == ["stable"]
    assert verdict.removal is not None
    assert "the unpatched control did not run" in verdict.removal.sentence
    assert b"PATCH upstream-54076 active" in store.log("patched")
    assert_recorded(store, "vllm/v1/core/sched")


def assert_recorded(store: RunStore, folder: str) -> None:
    """Both files by hash and diff; the test left out, by name; no release claimed as read."""
    provenance = store.read("arms/patched/overlay.json", Overlay).provenance
    assert [file.file for file in provenance.files] == [
        f"{folder}/crossed.py", f"{folder}/scheduler.py",
    ]  # fmt: skip
    assert provenance.files[0].sha256_before is None
    assert re.search(
        r"^\+ +crossed\(next_block_boundary\),$", provenance.files[1].diff, re.MULTILINE
    )
    assert provenance.left_out == ("tests/test_crossed.py",)
    assert not provenance.read_for_release
