"""Log files of any size, in blocks."""

from collections.abc import Iterator
from pathlib import Path

BLOCK_BYTES = 2**20
"""1 MiB: large enough that cutting blocks costs nothing, small enough to be no memory at all."""


def read_blocks(path: Path) -> Iterator[bytes]:
    """The file from its beginning to what is its end when it is reached.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            yield block
