"""Log files of any size."""

from collections.abc import Iterator
from pathlib import Path

from orchestrator.model.serverlog import LogScan
from orchestrator.serverlog.scan import scan

BLOCK_BYTES = 2**20
"""1 MiB: large enough that cutting blocks costs nothing, small enough to be no memory at all."""


def scan_file(path: Path) -> LogScan:
    """Everything that the log says, from its beginning to what is its end when it is reached.

    Raises:
        OSError: The file cannot be read.
    """
    return scan(_blocks(path))


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            yield block
