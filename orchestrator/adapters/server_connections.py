"""The connections to one server, and pages read on them: bounded in size and in time as a whole."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx

LARGEST_PAGE_BYTES = 16 * 2**20
"""`/metrics` of a vLLM is about 100 kB and `/server_info` about 20 kB."""


class ServerConnections:
    """Connections that can be shut from any thread, which ends whatever waits on them.

    Args:
        port: Of the server, on 127.0.0.1.
        timeout_s: For a page from its first byte sent to its last received; and between two bytes
            of anything.
    """

    def __init__(self, port: int, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._sockets: list[Any] = []
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            timeout=timeout_s,
            trust_env=False,  # a proxy between us and our own server would be a second suspect
            event_hooks={"request": [self._trace]},
        )

    @contextmanager
    def limited(self, limit_s: float) -> Iterator[threading.Event]:
        """Shut the connections when the block lasts longer; the event tells that this was done.

        httpx limits the time between two bytes only: an answer that drips would never end, nor
        would headers that do.
        """
        over = threading.Event()

        def end() -> None:
            over.set()
            self.disconnect()

        timer = threading.Timer(limit_s, end)
        timer.daemon = True
        timer.start()
        try:
            yield over
        finally:
            timer.cancel()

    def page(self, path: str) -> str:
        """A page of the server as text, for everything that is not a probe.

        Raises:
            httpx.HTTPError: It could not be had, its status is not 200, it is compressed, larger
                than `LARGEST_PAGE_BYTES`, or slower than the time limit.
        """
        return self._page("GET", path, None)

    def page_for(self, path: str, body: object) -> str:
        """What a page answers to a JSON body; raises as `page` does."""
        return self._page("POST", path, body)

    def disconnect(self) -> None:
        """Shut the sockets, which also ends a request that waits on one of them."""
        for connection in self._sockets:
            with suppress(OSError):
                connection.shutdown(2)  # SHUT_RDWR

    def close(self) -> None:
        """Close every connection: a server with an open one may refuse to end."""
        self.disconnect()
        self.http.close()

    def _page(self, method: str, path: str, body: object) -> str:
        too_slow = httpx.ReadTimeout(f"{path} was not whole after {self._timeout_s:g} s")
        with self.limited(self._timeout_s) as over:
            try:
                page = self._received(method, path, body)
            except httpx.HTTPError as error:
                if over.is_set():
                    raise too_slow from error
                raise
        if over.is_set():  # an answer without a length ends where its connection does
            raise too_slow
        return page

    def _received(self, method: str, path: str, body: object) -> str:
        """Asks for no compression and takes none: a small answer must not unpack to a large one."""
        received = bytearray()
        plain = {"Accept-Encoding": "identity"}
        with self.http.stream(method, path, json=body, headers=plain) as response:
            response.raise_for_status()
            if response.headers.get("Content-Encoding", "identity") != "identity":
                raise httpx.DecodingError(f"{path} is compressed, which was not asked for")
            for block in response.iter_raw():
                received += block
                if len(received) > LARGEST_PAGE_BYTES:
                    raise httpx.DecodingError(f"{path} exceeds {LARGEST_PAGE_BYTES} bytes")
        return received.decode("utf-8", "replace")

    def _trace(self, request: httpx.Request) -> None:
        """Of every request: a probe may reuse the connection that a page was read on."""
        request.extensions = {**request.extensions, "trace": self._note_socket}

    def _note_socket(self, event: str, info: dict[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            self._sockets.append(info["return_value"].get_extra_info("socket"))
