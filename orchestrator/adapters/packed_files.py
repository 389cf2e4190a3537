"""What a trimmed run has instead of plain files: compressed ones, and one archive an arm.

A stranger's are read like our own, so that nothing in them may cost more than it should.
"""

import io
import lzma
import tarfile
from collections.abc import Iterator
from typing import IO

COMPRESSED = ".xz"
"""Ends the name of a file that `trim` compressed."""

PACKED = "exchanges.tar.xz"
"""What `trim` makes of an arm's `exchanges/` folder."""

LARGEST_UNPACKED_BYTES = 4 * 2**30
"""A file of a run that is larger, or unpacks to more, is not read: `xz` makes 1 MB of 7 GB."""

BLOCK_BYTES = 2**20

UNREADABLE = (tarfile.TarError, lzma.LZMAError, OSError, EOFError, ValueError)
"""What reading a file, and unpacking what is in it, can raise."""


def pack(files: dict[str, bytes]) -> bytes:
    """The files as an archive, the same bytes whenever they are the same files.

    Files of one kind stand together, which makes it a twentieth smaller.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files, key=lambda name: (name.partition(".")[2], name)):
            info = tarfile.TarInfo(name)
            info.size = len(files[name])
            archive.addfile(info, io.BytesIO(files[name]))
    return compressed(buffer.getvalue())


def unpacked_files(archive: bytes) -> dict[str, bytes]:
    """The files of an archive that `pack` made.

    Raises:
        ValueError: It holds anything but regular files without a folder in their names, or unpacks
            to too much.
        tarfile.TarError: It is no archive.
        lzma.LZMAError: It is not of this format.
        EOFError: It is cut off.
    """
    files = {}
    with tarfile.open(fileobj=io.BytesIO(unpacked(archive)), mode="r:") as tar:
        for member in tar:
            stream = tar.extractfile(member) if member.isreg() else None
            if stream is None or "/" in member.name:
                raise ValueError(f"{member.name!r} is no plain file of an exchange")
            files[member.name] = stream.read()
    return files


def unpacked(content: bytes, largest_bytes: int = LARGEST_UNPACKED_BYTES) -> bytes:
    """What `compressed` was given.

    Raises:
        ValueError: It would be more than `largest_bytes`; no more than that is ever unpacked.
        lzma.LZMAError: It is not of this format.
        EOFError: It is cut off.
    """
    return b"".join(unpacked_blocks(io.BytesIO(content), largest_bytes))


def unpacked_blocks(
    file: IO[bytes], largest_bytes: int = LARGEST_UNPACKED_BYTES
) -> Iterator[bytes]:
    """The same of a file, a block at a time; raises what `unpacked` raises."""
    left_bytes = largest_bytes
    with lzma.open(file) as stream:
        for block in blocks(stream):
            left_bytes -= len(block)
            if left_bytes < 0:
                raise ValueError(f"unpacks to more than {largest_bytes} bytes")
            yield block


def read_whole(file: IO[bytes], largest_bytes: int = LARGEST_UNPACKED_BYTES) -> bytes:
    """A file's content.

    Raises:
        ValueError: It is more than `largest_bytes`; no more than that is ever read.
    """
    whole = file.read(largest_bytes + 1)
    if len(whole) > largest_bytes:
        raise ValueError(f"is larger than {largest_bytes} bytes")
    return whole


def blocks(file: IO[bytes]) -> Iterator[bytes]:
    """A file's content in order."""
    while block := file.read(BLOCK_BYTES):
        yield block


def compressed(content: bytes) -> bytes:
    """As small as `xz` makes it: a recorded run is written once and kept for good."""
    return lzma.compress(content, preset=9 | lzma.PRESET_EXTREME)
