"""`runs/nightly/`: one nightly at a time, and what each leaves there."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import ValidationError

from orchestrator.adapters.ownership import alive, this_process
from orchestrator.adapters.run_store import RunStore
from orchestrator.adapters.runs_folder import NIGHTLIES
from orchestrator.errors import HostError
from orchestrator.model.nightly import Nightly
from orchestrator.model.ownership import Owner

SUMMARY = "summary.html"
_HOLDER = ".holder.json"


@contextmanager
def only_nightly(runs: Path) -> Iterator[None]:
    """Keep every other nightly of this `runs/` out; the kernel lets go of the lock of a dead one.

    Raises:
        HostError: Another one is going on; says which process.
    """
    folder = runs / NIGHTLIES
    lock = FileLock(folder / ".lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout as error:
        raise HostError(f"another nightly is going on in {runs}: {_holder(folder)}") from error
    except OSError as error:
        raise HostError(f"{folder} cannot be locked: {error}") from error
    try:
        (folder / _HOLDER).write_text(this_process().model_dump_json(), encoding="utf-8")
        yield
    finally:
        lock.release()


def _holder(folder: Path) -> str:
    """Who has the lock, in its own words; a word of somebody dead is an older one's."""
    try:
        owner = Owner.from_json((folder / _HOLDER).read_bytes())
    except (OSError, ValidationError):
        return "it has not said yet which process it is"
    if alive(owner) == "dead":
        return "it has not said yet which process it is"
    return f"process {owner.pid}"


def save_nightly(runs: Path, nightly: Nightly, page: str) -> Path:
    """Put a nightly's record and its page on disk; where the page is.

    Raises:
        HostError: The disk does not take it.
    """
    store = RunStore(runs / NIGHTLIES / nightly.name)
    store.write("nightly.json", nightly)
    store.write_text(SUMMARY, page)
    return store.root / SUMMARY


def nightly_names(runs: Path) -> list[str]:
    """The nightlies that have left a page, newest first."""
    pages = (runs / NIGHTLIES).glob(f"*/{SUMMARY}")
    return sorted((page.parent.name for page in pages), reverse=True)
