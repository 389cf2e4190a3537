"""How an engine's align-split function is found and run, on a package of our own making."""

import sys
from pathlib import Path

import pytest

from orchestrator.adapters.scheduler_source import ask_split, under_interpreter
from orchestrator.errors import HostError
from orchestrator.model.prediction import SplitCase

OURS = under_interpreter(Path(sys.executable))

FUNCTION = """
raise SystemExit("nothing of this file but the function is to be executed")

from vllm.utils.rounding import floored

class Scheduler:
    @property
    def _mamba_block_aligned_split(
        self, request: "Request", num_new_tokens: Tokens, num_new_local_computed_tokens=0
    ) -> Tokens:
        start = request.num_computed_tokens + num_new_local_computed_tokens
        return floored(start + num_new_tokens, self.cache_config.block_size) - start
"""
HELPER = """
def floored(tokens: Tokens, block: Tokens) -> Tokens:
    return tokens // block * block
"""

CASE = SplitCase(
    block_tokens=32,
    token_budget=2048,
    speculative=False,
    prompt_tokens=100,
    start=40,
    new_tokens=60,
    junction=None,
    first=True,
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package that looks like vLLM where it is looked at."""
    folder = tmp_path / "vllm"
    for name, text in {
        "v1/core/sched/scheduler.py": FUNCTION,
        "utils/rounding.py": HELPER,
        "_version.py": "__version__ = version = '0.29.7'\n",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def edit(package: Path, old: str, new: str) -> None:
    """Change the scheduler's text."""
    path = package / "v1/core/sched/scheduler.py"
    text = path.read_text("utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_the_function_runs_with_its_helpers_and_without_its_file(package: Path) -> None:
    """Located by syntax tree: decorators, annotations and the rest of the file do not matter."""
    source, scheduled = ask_split(OURS, [CASE, CASE], package=package)

    assert scheduled == (56, 56)
    assert (source.version, source.helpers) == ("0.29.7", ("floored",))
    assert source.path == str(package / "v1/core/sched/scheduler.py")


def test_the_hash_covers_the_helpers_and_nothing_else(package: Path) -> None:
    """A helper decides as much as the function does; another function of the file does not."""
    before, _ = ask_split(OURS, [], package=package)
    edit(package, "class Scheduler:", "class Scheduler:\n    def other(self): ...\n")
    elsewhere, _ = ask_split(OURS, [], package=package)
    (package / "utils/rounding.py").write_text(HELPER.replace("* block", "* block + 0"), "utf-8")
    in_helper, _ = ask_split(OURS, [], package=package)

    assert before.file_sha256 != elsewhere.file_sha256
    assert before.function_sha256 == elsewhere.function_sha256 != in_helper.function_sha256


def test_a_first_chunk_is_handed_its_start_as_restored_tokens(package: Path) -> None:
    """A later one has computed it; the function must be asked the way the scheduler asks."""
    edit(package, "return floored(", "return num_new_local_computed_tokens and floored(")
    later = SplitCase.model_validate({**CASE.model_dump(), "first": False})

    assert ask_split(OURS, [CASE, later], package=package)[1] == (56, 0)


@pytest.mark.parametrize(
    ("old", "new", "asked"),
    [
        ("self.cache_config.block_size", "self.cache_config.page_size", "page_size"),
        ("request.num_computed_tokens", "request.num_seen_tokens", "request.num_seen_tokens"),
        ("num_new_local_computed_tokens=0", "num_new_local_computed_tokens=0, mode=1", "mode"),
    ],
)
def test_an_unknown_shape_is_refused_by_name(package: Path, old: str, new: str, asked: str) -> None:
    """A function that asks for something else was never read by anybody here."""
    edit(package, old, new)

    with pytest.raises(HostError, match=f"unknown shape: it asks for .*{asked}"):
        ask_split(OURS, [CASE], package=package)


def test_a_helper_from_outside_vllm_is_refused(package: Path) -> None:
    """It would have to be imported, and nothing is."""
    edit(package, "from vllm.utils.rounding", "from numpy.utils.rounding")

    with pytest.raises(HostError, match=r"numpy\.utils\.rounding, which is no file of vLLM"):
        ask_split(OURS, [CASE], package=package)


def test_a_scheduler_without_the_function_is_refused(package: Path) -> None:
    """Releases before align mode, and whatever renames it."""
    edit(package, "def _mamba_block_aligned_split(", "def _split(")

    with pytest.raises(HostError, match="splits nothing in align mode"):
        ask_split(OURS, [CASE], package=package)


def test_an_interpreter_without_vllm_is_refused() -> None:
    """Ours must not have it: two PyTorch in one process is what the separation avoids."""
    with pytest.raises(HostError, match="has no vllm package"):
        ask_split(OURS, [CASE])


def test_an_interpreter_that_is_not_there_is_a_host_error(tmp_path: Path) -> None:
    """With the path that was tried."""
    with pytest.raises(HostError, match="nowhere"):
        ask_split(under_interpreter(tmp_path / "nowhere"), [CASE])


def test_a_script_that_fails_is_quoted(tmp_path: Path) -> None:
    """An interpreter that prints something else and fails."""
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'no such module: json' >&2\nexit 1\n", "utf-8")
    broken.chmod(0o755)

    with pytest.raises(HostError, match="no such module: json"):
        ask_split(under_interpreter(broken), [CASE])
