"""Releases that are at hand as wheels, virtual environments or folders, set side by side."""

import zipfile
from pathlib import Path

import pytest

from orchestrator.adapters.engine_packages import package_at
from orchestrator.errors import DefinitionError
from tests.conftest import PROJECT, Call

PAIR = ("--pair", "3196:3259:3052", "--block", 1600, "--budget", 8192, "--project", PROJECT)


def environment(folder: Path) -> Path:
    """A virtual environment in which a package lies that looks like vLLM."""
    package = folder / "lib" / "python3.12" / "site-packages" / "vllm"
    (package / "v1" / "core" / "sched").mkdir(parents=True)
    (package / "v1" / "core" / "sched" / "scheduler.py").write_text("", encoding="utf-8")
    return package


def test_a_package_is_found_however_it_is_given(tmp_path: Path) -> None:
    """The environment, the folder that holds the package, and the package itself."""
    package = environment(tmp_path)

    for given in (tmp_path, package.parent, package):
        with package_at(given) as found:
            assert found == package


def test_a_wheel_is_unpacked_for_the_time_being(tmp_path: Path) -> None:
    """Its Python files only; compiled code and other packages stay where they are."""
    wheel = tmp_path / "vllm-0.0.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("v1/core/sched/scheduler.py", "_version.py", "_C.abi3.so"):
            archive.writestr(f"vllm/{name}", "")
        archive.writestr("other/a.py", "")

    with package_at(wheel) as found:
        files = sorted(p.relative_to(found).as_posix() for p in found.rglob("*") if p.is_file())
        assert not (found.parent / "other").exists()

    assert files == ["_version.py", "v1/core/sched/scheduler.py"]
    assert not found.exists()


def test_what_holds_no_package_is_refused(tmp_path: Path) -> None:
    """With the flag, and with what may be given."""
    with (
        pytest.raises(DefinitionError, match="give a wheel, a virtual environment, or the folder"),
        package_at(tmp_path),
    ):
        pass
    (tmp_path / "no.whl").write_bytes(b"text")
    with (
        pytest.raises(DefinitionError, match=r"no\.whl: cannot be unpacked"),
        package_at(tmp_path / "no.whl"),
    ):
        pass


@pytest.mark.vllm
def test_a_wheel_of_a_real_release_is_set_beside_others(
    call: Call, engine_python: Path, tmp_path: Path
) -> None:
    """The real 0.29.0 as a wheel's Python files and as an environment, among releases by name."""
    (package,) = engine_python.parent.parent.glob("lib/python*/site-packages/vllm")
    wheel = tmp_path / "vllm-0.29.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in package.rglob("*.py"):
            archive.write(file, file.relative_to(package.parent))
    versions = ["0.26.0", str(wheel), str(engine_python.parent.parent), "0.30.0"]
    flags = [argument for version in versions for argument in ("--versions", version)]

    code, output, _ = call("predict", *flags, *PAIR)
    assert code == 0
    assert f"vLLM 0.29.0: rule v0.27, as its align-split function in {wheel} says" in output
    assert output.count("says in 5000 cases (sha256 191c81559dd0") == 2
    assert "0.26.0 → 0.29.0: rule v0.26 → v0.27" in output
    assert "0.29.0 → 0.29.0: no change of the rule; the function's text is the same" in output
    assert "0.29.0 → 0.30.0: rule v0.27 → v0.30, retention_tokens None → 0" in output


@pytest.mark.vllm
def test_a_release_whose_function_was_changed_is_told(
    call: Call, engine_python: Path, tmp_path: Path
) -> None:
    """The article's patch is a rule of ours, and named; any other change is refused."""
    (package,) = engine_python.parent.parent.glob("lib/python*/site-packages/vllm")
    copy = tmp_path / "vllm"
    for name in ("_version.py", "v1/core/sched/scheduler.py", "v1/core/sched/utils.py"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((package / name).read_bytes())
    path = copy / "v1/core/sched/scheduler.py"
    published = path.read_text("utf-8")
    line = "next_block_boundary if start % block_size != 0 else 0,"
    assert published.count(line) == 1

    path.write_text(published.replace(line, "next_block_boundary,"), encoding="utf-8")
    _, output, _ = call("predict", "--versions", copy, *PAIR)
    assert "rule v0.27, patched: a stop at every boundary" in output
    assert "shared 3052, vLLM 0.29.0, block 1600: not eligible" in output

    path.write_text(published.replace(line, "next_block_boundary // 2,"), encoding="utf-8")
    code, _, errors = call("predict", "--versions", copy, *PAIR)
    assert code == 2
    assert "does not follow rule v0.27, which vLLM 0.29.0 was read to follow" in errors
