"""The raw data as one archive, the same bytes whenever it is the same run."""

import hashlib
import os
import shutil
import tarfile
from pathlib import Path

import pytest

from orchestrator.adapters.run_store import RunStore
from tests.conftest import PROJECT, Call
from tests.test_cli import add_start
from tests.test_run_store import store, stored  # noqa: F401 - fixtures

FOUR_ARM = PROJECT / "docs" / "evidence" / "cpu-four-arm"


def bundled(call: Call, run: Path, target: Path, project: Path) -> str:
    """SHA-256 of the bundle, which the comment states too."""
    code, output, _ = call(
        "report", run, "--format", "comment", "--bundle", target, "--project", project
    )
    assert code == 0
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    assert f"SHA-256 of `{target.name}`: `{digest}`" in output
    return digest


@pytest.mark.parametrize("kind", ["whole", "trimmed"])
def test_a_bundle_is_the_same_bytes_from_a_copy_elsewhere(
    call: Call,
    stored: RunStore,  # noqa: F811 - a fixture
    tmp_path: Path,
    kind: str,
) -> None:
    """Made twice, and from a copy with other times, modes and order of files."""
    if kind == "whole":
        add_start(stored)
    run = stored.root if kind == "whole" else FOUR_ARM
    copy = tmp_path / "elsewhere" / run.name
    for path in sorted(run.rglob("*"), reverse=True):
        if path.is_file():
            target = copy / path.relative_to(run)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            os.utime(target, (1_000_000, 1_000_000))
            target.chmod(0o600)

    first, second, third = (
        bundled(call, folder, tmp_path / f"{name}.tar.xz", tmp_path)
        for name, folder in (("one", run), ("two", run), ("three", copy))
    )

    assert first == second == third


def test_an_unpacked_bundle_is_judged_as_the_run_was(
    call: Call,
    stored: RunStore,  # noqa: F811 - a fixture
    tmp_path: Path,
) -> None:
    """It is the raw data, and names no path."""
    add_start(stored)
    bundled(call, stored.root, tmp_path / "b.tar.xz", tmp_path)
    with tarfile.open(tmp_path / "b.tar.xz") as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (run,) = (tmp_path / "unpacked").iterdir()

    assert run.name == stored.root.name
    assert call("analyze", run)[1].split() == call("analyze", stored.root)[1].split()
    assert b"somebody" not in (run / "arms" / "clean" / "server.log").read_bytes()
