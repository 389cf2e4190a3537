"""A container's output, from its first byte to its last, into files.

`server.log`         what the server wrote, byte for byte, both streams in the order in which they
                     came: what a process writes itself, so that every reader of logs reads both
                     kinds alike
`server.log.times`   one line a piece of it: when it came, on which stream, how many bytes
`server.log.engine`  only where the connection broke: the engine's own copy of all of it, as text

The output is taken from a connection that is made before the start. The copy that the engine keeps
is no source for it: its drivers cut lines at 16 KiB, and either replace bytes that are no UTF-8
(`json-file`) or lose the line feed after a cut line (`local`; both seen in 20.10). The times stand
apart, since a piece may begin in the middle of a line.
"""

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import docker
import requests
import structlog
from docker.errors import APIError, DockerException
from docker.models.containers import Container
from urllib3.exceptions import HTTPError as UrllibError

log = structlog.get_logger()

_STREAMS = {1: b"stdout", 2: b"stderr"}
_HEADER_BYTES = 8
"""Of a piece: its stream, three zeros, its length (Docker Engine API, ContainerAttach)."""

_STALLED_S = 60.0
"""Without a new piece while the rest of an ended container's output is read."""

_COMPARED_BYTES = 2**16
"""Of the log's end; the engine's last message has at most 2**14."""


class ContainerLog:
    """The output of one container, written by a thread of its own.

    Args:
        container: Created, and not started yet.
        log_file: Must not exist; the other files lie beside it.

    Raises:
        docker.errors.DockerException: The engine does not give the connection.
        OSError: The files cannot be made.
    """

    def __init__(self, client: docker.DockerClient, container: Container, log_file: Path) -> None:
        self._container = container
        self._file = log_file
        self._pieces = 0
        self._failure: OSError | None = None
        self._on_failure: Callable[[str], None] | None = None
        with ExitStack() as opened:
            self._log: BinaryIO = opened.enter_context(log_file.open("xb", buffering=0))
            self._times: BinaryIO = opened.enter_context(_beside(log_file, "times").open("xb"))
            output = _attach(client, container)
            self._files = opened.pop_all()
        self._thread = threading.Thread(
            target=self._follow, args=(output,), name="container-log", daemon=True
        )
        self._thread.start()

    def on_failure(self, callback: Callable[[str], None]) -> None:
        """Call `callback`, from another thread, when the files cannot be written."""
        self._on_failure = callback
        if self._failure is not None:
            callback(_told(self._failure))

    def finish(self) -> None:
        """Write the rest of the output of a container that has ended, or was never started.

        Raises:
            docker.errors.DockerException: The engine does not answer.
            OSError: The files cannot be written.
        """
        self._join()
        if self._failure is None and not self._has_the_last_line():
            log.warning("server.log_interrupted", pieces=self._pieces)
            keep_engines_copy(self._container, self._file)

    def close(self) -> None:
        """Close the files; what may still come has no place in them."""
        self._files.close()

    def _join(self) -> None:
        self._container.reload()
        if self._container.status == "created":
            return  # never started: its output ends with its removal
        seen, since_s = self._pieces, time.monotonic()
        while self._thread.is_alive():
            self._thread.join(0.5)
            if self._pieces != seen:
                seen, since_s = self._pieces, time.monotonic()
            elif time.monotonic() - since_s > _STALLED_S:
                raise DockerException(f"its output gave nothing for {_STALLED_S:g} s, and no end")

    def _follow(self, output: requests.Response) -> None:
        with closing(output):
            try:
                while header := output.raw.read(_HEADER_BYTES):
                    content = output.raw.read(int.from_bytes(header[4:], "big"))
                    self._write(_STREAMS[header[0]], content)
            except OSError as error:
                self._failure = error
                if self._on_failure is not None:
                    self._on_failure(_told(error))
            except (UrllibError, ValueError) as error:  # the connection; the files are closed
                log.warning("server.log_disconnected", error=str(error))

    def _write(self, stream: bytes, content: bytes) -> None:
        view = memoryview(content)
        while view:  # an unbuffered file may take a part only; the next attempt then says why
            view = view[self._log.write(view) :]
        at = datetime.now(UTC).isoformat(timespec="microseconds").encode()
        self._times.write(b"%s %s %d\n" % (at, stream, len(content)))
        self._pieces += 1

    def _has_the_last_line(self) -> bool:
        """Whether the engine's last message, bytes that are no ASCII left out, ends our log."""
        last = _ascii(self._container.logs(tail=1))
        with self._file.open("rb") as file:
            file.seek(max(0, self._file.stat().st_size - _COMPARED_BYTES))
            return last in _ascii(file.read())


def keep_engines_copy(container: Container, log_file: Path) -> None:
    """Write what the engine kept of a container's output beside its log, whole or not at all.

    Raises:
        docker.errors.DockerException: The engine does not answer.
        OSError: The file cannot be written.
    """
    partial = log_file.with_name(f".{log_file.name}.engine.partial")
    with (
        partial.open("wb") as copy,
        closing(container.logs(stream=True, timestamps=True)) as messages,
    ):
        copy.writelines(messages)
    partial.replace(_beside(log_file, "engine"))


def _attach(client: docker.DockerClient, container: Container) -> requests.Response:
    """Docker-py's own `attach` leaves its socket open, and does not tell the streams apart."""
    api = client.api
    response = api.post(
        f"{api.base_url}/v{api.api_version}/containers/{container.id}/attach",
        params={"stream": 1, "stdout": 1, "stderr": 1},
        stream=True,
        timeout=None,  # a server may be silent for long
    )
    if not response.ok:
        with closing(response):
            raise APIError(f"no output: {response.text.strip()}", response=response)
    return response


def _beside(log_file: Path, ending: str) -> Path:
    return log_file.with_name(f"{log_file.name}.{ending}")


def _ascii(content: bytes) -> bytes:
    return bytes(byte for byte in content if byte < 128)  # noqa: PLR2004 - what ASCII is


def _told(error: OSError) -> str:
    return f"its log cannot be written: {error}"
