"""A folder of the cache is whole, or it is made again."""

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.adapters.prepared_folder import MARKER, build_unless_complete, is_complete
from orchestrator.errors import PreparationError


class Builder:
    """Builds a folder with one file, and counts how often it was asked to."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, folder: Path) -> None:
        """Fill the folder, which must be there and empty."""
        assert list(folder.iterdir()) == []
        self.calls += 1
        (folder / "content").write_text(f"build {self.calls}")


def build(folder: Path, builder: Builder) -> None:
    """Build without listening to reports."""
    build_unless_complete(folder, builder, report=lambda _: None)


def test_a_complete_folder_is_not_built_again(tmp_path: Path) -> None:
    """The second preparation finds the first one's work."""
    builder, folder = Builder(), tmp_path / "engine-1"

    build(folder, builder)
    build(folder, builder)

    assert builder.calls == 1
    assert is_complete(folder)


def test_a_folder_without_its_marker_is_thrown_away_and_built_again(tmp_path: Path) -> None:
    """A killed download left files: none of them is used."""
    builder, folder = Builder(), tmp_path / "engine-1"
    folder.mkdir()
    (folder / "half").write_text("a download")

    build(folder, builder)

    assert sorted(path.name for path in folder.iterdir()) == [MARKER, "content"]


def test_a_folder_that_was_renamed_is_not_complete(tmp_path: Path) -> None:
    """The marker vouches for what the folder's name says, not for any other name."""
    build(tmp_path / "engine-1", Builder())

    renamed = (tmp_path / "engine-1").rename(tmp_path / "engine-2")

    assert not is_complete(renamed)


@pytest.mark.parametrize("cause", [PreparationError("no network"), KeyboardInterrupt()])
def test_a_failed_build_leaves_nothing_and_says_its_own_cause(
    tmp_path: Path, cause: BaseException
) -> None:
    """The disk is free again, also after Ctrl-C, and the cause is not hidden."""
    folder = tmp_path / "engine-1"

    def fail(folder: Path) -> None:
        (folder / "half").write_text("a download")
        raise cause

    with pytest.raises(type(cause)) as caught:
        build_unless_complete(folder, fail, report=lambda _: None)

    assert caught.value is cause
    assert not folder.exists()


def test_a_cache_that_cannot_be_written_is_an_error_with_advice(tmp_path: Path) -> None:
    """Here a file stands where the cache should be; a read-only disk ends the same way."""
    (tmp_path / "cache").write_text("no folder")

    with pytest.raises(PreparationError, match="VLLM_ARMS_CACHE") as caught:
        build(tmp_path / "cache" / "engine-1", Builder())

    assert caught.value.exit_code == 4


HOLD_THE_LOCK = """\
import sys
from pathlib import Path
from orchestrator.adapters.prepared_folder import build_unless_complete

def build(folder):
    (folder / "content").write_text("by the other one")
    print("building", flush=True)
    sys.stdin.readline()

build_unless_complete(Path(sys.argv[1]), build, report=lambda line: None)
"""


def test_two_preparations_do_not_collide(tmp_path: Path) -> None:
    """The second waits, says so, and then uses what the first one built."""
    builder, folder = Builder(), tmp_path / "engine-1"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_THE_LOCK, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "building\n"
        reports: list[str] = []

        def report(line: str) -> None:
            reports.append(line)
            other.communicate("finish\n")

        build_unless_complete(folder, builder, report=report)

    assert reports == ["another process prepares engine-1; waited 0 s for it"]
    assert builder.calls == 0
    assert (folder / "content").read_text() == "by the other one"
