"""A container's log, from its first byte to its last, into two files.

`server.log`          what the server wrote, byte for byte, both streams in the order in which the
                      engine received them: what a process writes itself, so that every reader of
                      logs reads both kinds alike
`server.log.times`    one line a message: when, on which stream, how many bytes of `server.log`

The times stand apart since the engine cuts a line into messages of at most 16 KiB, and a time
before each would stand in the middle of the line. What the engine keeps is complete from the first
byte on, so following may begin after the start, break, and be taken up again: messages are counted.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import BinaryIO

import docker
import structlog
from docker.errors import APIError, DockerException

from orchestrator.adapters.docker_engine import UNREACHABLE

log = structlog.get_logger()

_STREAMS = {1: b"stdout", 2: b"stderr"}
_HEADER_BYTES = 8
"""Stream, three zeros, length: https://docs.docker.com/reference/api/engine (ContainerAttach)."""

_STALLED_S = 60.0
"""Without a new message while the rest of an ended container's log is read."""


def frames(blocks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Stream and payload of each frame, however the blocks cut them.

    An unfinished frame at the end is left out: whoever takes up the log again gets it whole.
    """
    buffer = bytearray()
    for block in blocks:
        buffer += block
        start = 0
        while (payload := start + _HEADER_BYTES) <= len(buffer):
            end = payload + int.from_bytes(buffer[start + 4 : payload], "big")
            if end > len(buffer):
                break
            yield buffer[start], bytes(buffer[payload:end])
            start = end
        del buffer[:start]


class ContainerLog:
    """Follows the log of one started container, in a thread of its own.

    Args:
        container: Its id.
        log_file: Must not exist; the times go beside it.
    """

    def __init__(self, client: docker.DockerClient, container: str, log_file: Path) -> None:
        self._client = client
        self._container = container
        self._thread: threading.Thread | None = None
        self._messages = 0
        self._complete = False
        self._failed = False
        with ExitStack() as opened:
            self._log = opened.enter_context(log_file.open("xb", buffering=0))
            times_file = log_file.with_name(f"{log_file.name}.times")
            self._times: BinaryIO = opened.enter_context(times_file.open("xb", buffering=0))
            self._files = opened.pop_all()

    def follow(self, on_failure: Callable[[str], None]) -> None:
        """Begin to follow; of a container that was not started the engine has nothing to follow.

        Args:
            on_failure: Called, from another thread, with a sentence when the files cannot be
                written.
        """
        self._thread = threading.Thread(
            target=self._follow, args=(on_failure,), name="container-log", daemon=True
        )
        self._thread.start()

    def finish(self) -> None:
        """Read to the end of the log of a container that has ended, and close the files.

        Raises:
            docker.errors.DockerException: The engine does not give the rest.
            OSError: The files cannot be written.
        """
        try:
            self._join()
            if not self._complete and not self._failed:
                self._read(follow=False)
        finally:
            self._files.close()

    def _join(self) -> None:
        if self._thread is None:
            return
        seen, since_s = self._messages, time.monotonic()
        while self._thread.is_alive():
            self._thread.join(0.5)
            if self._messages != seen:
                seen, since_s = self._messages, time.monotonic()
            elif time.monotonic() - since_s > _STALLED_S:
                raise DockerException(f"its log gave nothing for {_STALLED_S:g} s, and no end")

    def _follow(self, on_failure: Callable[[str], None]) -> None:
        try:
            self._read(follow=True)
        except OSError as error:
            if isinstance(error, UNREACHABLE):  # also an OSError; `finish` reads the rest
                log.warning("server.log_interrupted", error=str(error), messages=self._messages)
                return
            self._failed = True
            on_failure(f"its log cannot be written: {error}")

    def _read(self, *, follow: bool) -> None:
        """Write the messages that were not written yet; to the end of the log."""
        api = self._client.api
        response = api.get(
            f"{api.base_url}/v{api.api_version}/containers/{self._container}/logs",
            params={"stdout": 1, "stderr": 1, "timestamps": 1, "follow": int(follow)},
            stream=True,
            timeout=None,  # a server may be silent for long
        )
        with closing(response):
            if not response.ok:
                raise APIError(f"no log: {response.text.strip()}", response=response)
            written = self._messages
            for number, (stream, message) in enumerate(frames(response.iter_content(None))):
                if number >= written:
                    self._write(stream, message)
        self._complete = True

    def _write(self, stream: int, message: bytes) -> None:
        at, _, content = message.partition(b" ")
        _write_whole(self._log, content)
        _write_whole(self._times, b"%s %s %d\n" % (at, _STREAMS.get(stream, b"?"), len(content)))
        self._messages += 1


def _write_whole(file: BinaryIO, content: bytes) -> None:
    """An unbuffered file may take a part only; the next attempt then says why."""
    view = memoryview(content)
    while view:
        view = view[file.write(view) :]
