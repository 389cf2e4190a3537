"""Folders of a cache: each is whole, or it is made again.

A folder's name says what it was made from, by hash. It becomes valid with its marker, which is
written last; whatever was interrupted has no marker and is thrown away.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from orchestrator.errors import PreparationError

MARKER = "complete"

LOCK_REPORT_INTERVAL_S = 10.0


def is_complete(folder: Path) -> bool:
    """Whether the folder was built to the end, under the name that it has now."""
    marker = folder / MARKER
    return marker.is_file() and marker.read_text(encoding="utf-8") == folder.name


def build_unless_complete(
    folder: Path, build: Callable[[Path], None], *, report: Callable[[str], None]
) -> None:
    """Let `build` fill the folder from nothing, unless that was done before.

    Of two processes that want the same folder, one builds it and the other waits. When `build`
    raises, nothing of the folder stays: the disk that it took is free again.

    Raises:
        PreparationError: The folder cannot be written.
    """
    if is_complete(folder):
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder, report):
            if not is_complete(folder):  # unless it was built while we waited
                _build(folder, build)
    except OSError as error:
        raise PreparationError(
            f"{folder} cannot be written ({error}): make room, or name a folder that can, with "
            "the variable VLLM_ARMS_CACHE"
        ) from error


def _build(folder: Path, build: Callable[[Path], None]) -> None:
    if folder.exists():  # left by a preparation that was killed
        shutil.rmtree(folder)
    folder.mkdir()
    try:
        build(folder)
    except BaseException:  # an interrupt leaves as little behind as an error
        shutil.rmtree(folder, ignore_errors=True)  # a second error would hide the cause
        raise
    (folder / MARKER).write_text(folder.name, encoding="utf-8")


@contextmanager
def _locked(folder: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Hold the folder's lock; while another process has it, say so now and then."""
    lock = FileLock(folder.with_name(f"{folder.name}.lock"))
    waited_s = 0.0
    while not lock.is_locked:
        try:
            lock.acquire(timeout=LOCK_REPORT_INTERVAL_S if waited_s else 0)
        except Timeout:
            report(f"another process prepares {folder.name}; waited {waited_s:.0f} s for it")
            waited_s += LOCK_REPORT_INTERVAL_S
    try:
        yield
    finally:
        lock.release()
