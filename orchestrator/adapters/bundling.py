"""A run's raw data → one archive, the same bytes whenever it is the same run."""

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

from orchestrator.adapters.packed_files import pack
from orchestrator.adapters.run_store import RunStore
from orchestrator.adapters.trimming import trim

TRIMMED = "trimmed.json"
"""A folder that has it can be passed on as it is."""


def bundle(store: RunStore, replaced: Mapping[str, str], *, judged: Mapping[str, str]) -> bytes:
    """The run, trimmed unless it is already, as `.tar.xz` with one folder in it.

    Neither the time nor the place of the files goes into it, nor their owner or mode: a copy of
    the run, under its own name, gives the same bytes.

    Args:
        store: The run.
        replaced: As for `trim`.
        judged: As for `trim`.

    Raises:
        RunFolderError: The run is not complete, or a link in its folder leads out of it.
    """
    if store.has(TRIMMED):
        return pack(_files(store, store.root.resolve().name))
    with tempfile.TemporaryDirectory(prefix="vllm-arms-bundle-") as folder:
        copy = Path(folder) / "run"
        trim(store, copy, replaced, judged=judged)
        return pack(_files(RunStore(copy), store.root.resolve().name))


def _files(store: RunStore, name: str) -> dict[str, bytes]:
    """Read as the store reads: a stranger's link must not bring a private file into a bundle."""
    names = (path.relative_to(store.root).as_posix() for path in store.root.rglob("*"))
    found = ((each, store.read_bytes(each)) for each in names)
    return {f"{name}/{each}": content for each, content in found if content is not None}


def sha256(content: bytes) -> str:
    """As `sha256sum` prints it."""
    return hashlib.sha256(content).hexdigest()
