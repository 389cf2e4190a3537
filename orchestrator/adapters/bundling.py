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
        RunFolderError: The run is not complete.
    """
    if store.has(TRIMMED):
        return pack(_files(store.root, store.root.resolve().name))
    with tempfile.TemporaryDirectory(prefix="vllm-arms-bundle-") as folder:
        copy = Path(folder) / "run"
        trim(store, copy, replaced, judged=judged)
        return pack(_files(copy, store.root.resolve().name))


def _files(root: Path, name: str) -> dict[str, bytes]:
    return {
        f"{name}/{path.relative_to(root).as_posix()}": path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def sha256(content: bytes) -> str:
    """As `sha256sum` prints it."""
    return hashlib.sha256(content).hexdigest()
