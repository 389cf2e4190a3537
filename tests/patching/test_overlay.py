"""Overlays of a small package, imported by a real interpreter in the way a server is started."""

import compileall
import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.adapters.overlay import (
    apply_to,
    build_overlay,
    package_folder,
    with_overlay,
    with_reporter,
)
from orchestrator.errors import HostError
from orchestrator.model.patch import Edit, Overlay, Patch, Variant
from orchestrator.patching.reported import loaded_modules

PATCH = Patch(
    name="own",
    description="x",
    upstream="x",
    marker="own on",
    variants=(
        Variant(
            releases=("1",),
            edits=(Edit(file="pkg/core/rule.py", anchor="'old'", replacement="'own on'"),),
        ),
    ),
)
SHOW = "import pkg.main, pkg.core.rule as r; print(pkg.main.SAID, r.__file__)"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """`pkg` in a folder of its own, with byte code, as an installed engine has it."""
    texts = {
        "pkg/__init__.py": "",
        "pkg/main.py": "import pkg.late\nfrom pkg.core.rule import RULE\nSAID = f'rule {RULE}'\n",
        "pkg/core/__init__.py": "",
        "pkg/core/rule.py": "RULE = 'old'\n",
        "pkg/core/other.py": "",
        "pkg/data/table.txt": "x",
    }
    for name, text in texts.items():
        path = tmp_path / "engine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    compileall.compile_dir(tmp_path / "engine", quiet=1)
    late = tmp_path / "engine" / "pkg" / "late" / "__init__.py"  # without byte code
    late.parent.mkdir()
    late.write_text("", encoding="utf-8")
    return tmp_path / "engine" / "pkg"


def overlay_of(package: Path, folder: Path) -> Overlay:
    """The patched overlay of the package."""
    return build_overlay(folder, package, apply_to(package, PATCH, "1"))


def run(environment: dict[str, str], code: str, cwd: Path) -> subprocess.CompletedProcess[bytes]:
    """Run code as a server's process would run it."""
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=cwd, capture_output=True, check=True
    )


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file of a folder with its size and time of change."""
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_patched_module_is_what_everybody_imports(package: Path, tmp_path: Path) -> None:
    """Its neighbours, which are links, import the patched one; the engine is not touched."""
    before = snapshot(package)
    overlay = overlay_of(package, tmp_path / "overlay")
    environment = with_overlay({"PYTHONPATH": str(package.parent)}, overlay)

    done = run(environment, SHOW, tmp_path)

    assert done.stdout.decode().split() == [
        "rule", "own", "on", str(tmp_path / "overlay" / "pkg" / "core" / "rule.py"),
    ]  # fmt: skip
    assert snapshot(package) == before
    assert overlay.environment["VLLM_CACHE_ROOT"].startswith(overlay.folder)


def test_the_working_directory_does_not_hide_the_overlay(package: Path, tmp_path: Path) -> None:
    """`python -m` and `-c` look there first; a checkout of the engine may be there."""
    environment = with_overlay({}, overlay_of(package, tmp_path / "overlay"))

    assert b"rule own on" in run(environment, SHOW, package.parent).stdout


def test_only_folders_on_the_way_are_real(package: Path, tmp_path: Path) -> None:
    """Everything beside is a link; the byte code of neighbours is there, of the patched is not."""
    root = Path(overlay_of(package, tmp_path / "overlay").folder) / "pkg"

    assert not (root / "core").is_symlink()
    assert (root / "data").is_symlink()
    assert (root / "main.py").is_symlink()
    assert not (root / "core" / "rule.py").is_symlink()
    kept = {path.name.partition(".")[0] for path in (root / "core" / "__pycache__").iterdir()}
    assert kept == {"__init__", "other"}


def test_an_overlay_is_never_built_over_what_is_there(package: Path, tmp_path: Path) -> None:
    """Byte code and caches of before could hide a patch."""
    (tmp_path / "overlay" / "caches").mkdir(parents=True)

    with pytest.raises(HostError, match="cannot be built"):
        overlay_of(package, tmp_path / "overlay")


def test_a_package_is_found_without_importing_it(package: Path, tmp_path: Path) -> None:
    """As the server's own variables have it; one that is missing or doubled is an error."""
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n", encoding="utf-8")
    environment = {"PYTHONPATH": str(package.parent)}

    assert package_folder(sys.executable, "pkg", environment) == package
    with pytest.raises(HostError, match="has pkg in 0 folders"):
        package_folder(sys.executable, "pkg", {})
    with pytest.raises(HostError, match="cannot say where pkg is"):
        package_folder(str(tmp_path / "python"), "pkg", environment)


def test_a_package_in_the_working_directory_is_not_the_engines(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the orchestrator happens to stand says nothing about the server."""
    monkeypatch.chdir(package.parent)

    with pytest.raises(HostError, match="has pkg in 0 folders"):
        package_folder(sys.executable, "pkg", {})


def test_the_order_on_pythonpath_is_overlay_reporter_rest(package: Path, tmp_path: Path) -> None:
    """The engine's own additions stay, behind."""
    overlay = overlay_of(package, tmp_path / "overlay")
    environment = with_overlay(
        with_reporter({"PYTHONPATH": "plugin", "A": "1"}, ["pkg.main", "pkg.core.rule"]), overlay
    )

    first, reporter, rest = environment["PYTHONPATH"].split(os.pathsep)
    assert (first, rest) == (overlay.folder, "plugin")
    assert (Path(reporter) / "vllm_arms_reporter.py").is_file()
    assert environment["ARMS_WATCHED_MODULES"] == "pkg.core.rule,pkg.main"
    assert environment["A"] == "1"


REPORT = "import vllm_arms_reporter; vllm_arms_reporter.register(); import pkg.main"


def reports(environment: dict[str, str], code: str, cwd: Path) -> list[tuple[str, str, bool]]:
    """Module, hash and `runs_file` of each report."""
    watching = with_reporter(environment, ["pkg.core.rule"])
    log = run(watching, code, cwd).stderr
    return [(m.module, m.sha256, m.runs_file) for m in loaded_modules(log)]


def test_the_reporter_says_what_was_loaded(package: Path, tmp_path: Path) -> None:
    """Patched: the hash of the record; unpatched: that of before."""
    overlay = overlay_of(package, tmp_path / "overlay")
    (file,) = overlay.provenance.files
    plain = {"PYTHONPATH": str(package.parent)}

    assert reports(plain, REPORT, tmp_path) == [("pkg.core.rule", file.sha256_before, True)]
    assert reports(with_overlay(plain, overlay), REPORT, tmp_path) == [
        ("pkg.core.rule", file.sha256_after, True)
    ]


def test_a_module_that_is_there_already_is_reported_too(package: Path, tmp_path: Path) -> None:
    """A process may load its plugins late."""
    late = "import pkg.main, vllm_arms_reporter; vllm_arms_reporter.register()"

    assert len(reports({"PYTHONPATH": str(package.parent)}, late, tmp_path)) == 1


def test_a_forked_process_reports_for_itself(package: Path, tmp_path: Path) -> None:
    """It has the module without importing it: vLLM forks its engine core on a GPU."""
    fork = f"{REPORT}, os\nif os.fork() == 0: os._exit(0)\nos.wait()"
    watching = with_reporter({"PYTHONPATH": str(package.parent)}, ["pkg.core.rule"])

    pids = [m.pid for m in loaded_modules(run(watching, fork, tmp_path).stderr)]

    assert len(pids) == len(set(pids)) == 2


def test_stale_byte_code_is_given_away(package: Path, tmp_path: Path) -> None:
    """A file that is newer than what runs, with the time of change put back."""
    rule = package / "core" / "rule.py"
    stamp = rule.stat()
    rule.write_text("RULE = 'new'\n", encoding="utf-8")
    os.utime(rule, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    environment = {"PYTHONPATH": str(package.parent)}

    assert b"rule old" in run(environment, SHOW, tmp_path).stdout
    ((_, _, runs_file),) = reports(environment, REPORT, tmp_path)
    assert not runs_file


def test_the_reporter_leaves_the_import_system_as_it_was(package: Path, tmp_path: Path) -> None:
    """A module has the loader that it would have had, and its source can be read."""
    code = (
        f"{REPORT}, pkg.core.rule as rule, inspect\n"
        "print(type(rule.__loader__).__name__, inspect.getsource(rule), end='')"
    )
    watching = with_reporter({"PYTHONPATH": str(package.parent)}, ["pkg.core.rule"])

    assert run(watching, code, tmp_path).stdout == b"SourceFileLoader RULE = 'old'\n"
