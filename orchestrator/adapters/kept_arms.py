"""Arms of an earlier run, taken over by hard links: the same bytes, on the disk once."""

import os
import shutil
from datetime import datetime

from orchestrator.adapters.run_store import RunStore
from orchestrator.errors import HostError, RunFolderError

_LAST = "outcome.json"
"""Makes an arm count as finished, so it is linked when everything else is there."""


def keep_arm(source: RunStore, target: RunStore, arm: str) -> None:
    """Let `target` have an arm of `source`, which must be finished: nothing of it changes again.

    Raises:
        HostError: The links cannot be made.
    """
    ours, theirs = source.root / "arms" / arm, target.root / "arms" / arm
    try:
        shutil.copytree(ours, theirs, copy_function=os.link, ignore=shutil.ignore_patterns(_LAST))
        (theirs / _LAST).hardlink_to(ours / _LAST)
    except OSError as error:  # shutil.Error is one
        raise HostError(f"cannot link {ours} into {target.root}: {error}") from error


def made_at(store: RunStore, arm: str) -> datetime:
    """When the arm's server was asked first.

    Raises:
        RunFolderError: Nothing of it is there.
    """
    for exchange, _ in store.exchanges(arm):
        return exchange.times.started_at
    raise RunFolderError(f"{store.root}/arms/{arm}: is finished, and has no exchange")
