"""Runs that were begun and never ended: for ever "running", though nobody runs them."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.adapters.leftovers.leftover import Leftover
from orchestrator.adapters.run_store import RunStore
from orchestrator.errors import HostError, InterruptedRunError, RunFolderError
from orchestrator.model.host import RunEnd, RunStart
from orchestrator.model.ownership import Owner


def left_runs(runs: Path) -> Iterator[Leftover]:
    """Every run below `runs` that has a beginning and no end."""
    for folder in sorted(path.parent for path in runs.glob("*/*/plan.json")):
        store = RunStore(folder)
        if not store.has("end.json"):
            yield _leftover(store)


def _leftover(store: RunStore) -> Leftover:
    return Leftover(
        what=f"run {store.root.parent.name}/{store.root.name}",
        owner=_owner(store),
        removal="marked as interrupted; patched copies and half-written files deleted",
        remove=lambda: _close(store),
    )


def _owner(store: RunStore) -> Owner | None:
    try:
        return store.read("run.json", RunStart).owner
    except RunFolderError:
        return None


def _close(store: RunStore) -> None:
    """`end.json` comes last: a reap that is killed is begun again."""
    last_sign_s = max(path.lstat().st_mtime for path in store.root.rglob("*"))
    started = store.read("run.json", RunStart)
    try:
        for overlay in store.root.glob("arms/*/overlay"):
            shutil.rmtree(overlay)
        for partial in store.root.rglob(".*.partial"):
            partial.unlink()
    except OSError as error:
        raise HostError(f"cannot be deleted: {error}") from error
    end = RunEnd(
        ended_at=datetime.fromtimestamp(last_sign_s, UTC),
        how="interrupted",
        exit_code=InterruptedRunError.exit_code,
        reason=f"its orchestrator, process {started.owner.pid}, was killed; closed by reap",
        state=None,
    )
    try:
        store.write("end.json", end)
    except FileExistsError:
        return  # another reap did it just now
