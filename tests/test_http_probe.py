"""One request over a real connection → its raw bytes, whatever comes."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from orchestrator.adapters.http_probe import ServerClient
from orchestrator.errors import ProbeError, ServerDiedError
from orchestrator.model.exchange import Exchange
from orchestrator.model.plan import ProbePlan

PROBE = ProbePlan(id="001-b1", role="b", prompt="p", salt="s", repeat=1)
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

Talk = Callable[[socket.socket], None]


@contextmanager
def served(talk: Talk) -> Iterator[int]:
    """A server that answers its first connection with `talk`, on a real socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            connection, _ = listener.accept()
            with connection:
                received = b""
                while not received.endswith(b"}"):  # every request of these tests does
                    received += connection.recv(65536)
                talk(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(5)


@contextmanager
def served_many(connections: int, talk: Callable[[socket.socket, bytes], None]) -> Iterator[int]:
    """A server that answers each of so many connections, in a thread of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer(connection: socket.socket) -> None:
            with connection:
                received = b""
                while not received.endswith(b"}"):
                    received += connection.recv(65536)
                talk(connection, received.rpartition(b"\r\n\r\n")[2])

        def accept() -> None:
            for _ in range(connections):
                threading.Thread(target=answer, args=listener.accept()[:1], daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(5)


def ask(
    port: int, *, timeout_s: float = 5.0, largest: int = 10_000
) -> tuple[list[Exchange], Exception | None]:
    """Send one request: what was kept, and what was raised."""
    kept: list[Exchange] = []
    client = ServerClient(port, timeout_s=timeout_s, largest_answer_bytes=largest)
    try:
        client.send([(PROBE, b'{"a": 1}')], kept.append)
    except (ProbeError, ServerDiedError) as error:
        return kept, error
    finally:
        client.close()
    return kept, None


def reply(status: bytes, body: bytes) -> Talk:
    """A whole answer."""
    head = b"HTTP/1.1 " + status + b"\r\nContent-Length: %d\r\n\r\n" % len(body)
    return lambda connection: connection.sendall(head + body)


def test_an_answer_is_kept_byte_for_byte() -> None:
    """Nothing is parsed: bytes that are no JSON and no UTF-8 are kept like any other."""
    with served(reply(b"200 OK", b"\xff{not json")) as port:
        kept, error = ask(port)

    assert error is None
    assert (kept[0].request, kept[0].response) == (b'{"a": 1}', b"\xff{not json")
    assert (kept[0].times.status, kept[0].times.error) == (200, None)
    assert kept[0].times.latency_s > 0


@pytest.mark.parametrize(
    "status", [b"500 Internal Server Error", b"429 Too Many Requests", b"302 Found"]
)
def test_another_status_is_an_error_and_is_kept(status: bytes) -> None:
    """Never retried, and a redirect is never followed to another server."""
    with served(reply(status, b"EngineCore encountered an issue")) as port:
        kept, error = ask(port)

    assert isinstance(error, ProbeError)
    assert status[:3].decode() in str(error)
    assert "EngineCore encountered an issue" in str(error)
    assert [exchange.times.status for exchange in kept] == [int(status[:3])]


def test_a_streamed_answer_says_when_each_block_came() -> None:
    """As it comes, not when it is read: the second event is held back for 0.2 s."""

    def slowly(connection: socket.socket) -> None:
        connection.sendall(STREAM_HEAD)
        for wait_s, event in ((0.0, b"data: 1\n\n"), (0.2, b"data: [DONE]\n\n")):
            time.sleep(wait_s)
            connection.sendall(b"%x\r\n%s\r\n" % (len(event), event))
        connection.sendall(b"0\r\n\r\n")

    with served(slowly) as port:
        kept, error = ask(port)
    first, second = kept[0].times.arrivals

    assert error is None
    assert kept[0].response == b"data: 1\n\ndata: [DONE]\n\n"
    assert (first.bytes, second.bytes) == (9, 23)
    assert second.at_s - first.at_s > 0.15
    assert second.at_s <= kept[0].times.latency_s


def test_an_answer_in_one_piece_has_no_arrivals() -> None:
    """Its latency says it all."""
    with served(reply(b"200 OK", b"{}")) as port:
        kept, _ = ask(port)

    assert kept[0].times.arrivals == ()


def truncated(connection: socket.socket) -> None:
    """Closes in the middle of the body."""
    connection.sendall(HEAD + b"Content-Length: 100\r\n\r\nhalf of")


def reset(connection: socket.socket) -> None:
    """Resets the connection before anything was said."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")


def silent(connection: socket.socket) -> None:
    """Half of a body, and then nothing more until the other side leaves."""
    connection.sendall(HEAD + b"Content-Length: 100\r\n\r\nhalf of")
    connection.recv(1)


@pytest.mark.parametrize(
    ("talk", "received", "told"),
    [
        (truncated, b"half of", "RemoteProtocolError"),
        (reset, b"", "ReadError|RemoteProtocolError"),
        (silent, b"half of", "ReadTimeout|not whole"),
        (lambda c: c.sendall(b"nonsense\r\n\r\n"), b"", "RemoteProtocolError"),
    ],
)
def test_the_part_that_came_is_kept_with_the_reason(talk: Talk, received: bytes, told: str) -> None:
    """Every byte received before the fault is on disk."""
    with served(talk) as port:
        kept, error = ask(port, timeout_s=0.3)

    assert isinstance(error, ProbeError)
    assert kept[0].response == received
    assert kept[0].times.error is not None
    assert any(name in kept[0].times.error for name in told.split("|"))


def test_an_answer_without_end_is_cut_off() -> None:
    """What a server sends is bounded; what came until then is kept."""

    def endless(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"Content-Length: 5000\r\n\r\n" + b"x" * 5000)

    with served(endless) as port:
        kept, error = ask(port, largest=1000)

    assert isinstance(error, ProbeError)
    assert "exceeds 1000 bytes" in str(error)
    assert len(kept[0].response) > 1000


def test_nobody_there_is_an_error() -> None:
    """Connection refused, kept as an exchange without a status."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    kept, error = ask(port)

    assert isinstance(error, ProbeError)
    assert (kept[0].times.status, kept[0].response) == (None, b"")


def test_the_servers_exit_ends_the_wait_though_the_connection_stays_open() -> None:
    """A child may hold the connection; the exit of the server is what counts."""
    answered = threading.Event()

    def never(connection: socket.socket) -> None:
        answered.set()
        connection.recv(1)

    with served(never) as port:
        kept: list[Exchange] = []
        client = ServerClient(port, timeout_s=60.0)
        threading.Thread(target=lambda: answered.wait(5) and client.server_ended()).start()
        with pytest.raises(ServerDiedError):
            client.send([(PROBE, b"{}")], kept.append)
        client.close()

    assert len(kept) == 1
    assert kept[0].times.error is not None


def test_an_answer_that_came_with_the_servers_last_breath_counts() -> None:
    """The exit is noticed a moment before the bytes that were already on their way."""
    with served(reply(b"200 OK", b"{}")) as port:
        kept: list[Exchange] = []
        client = ServerClient(port, timeout_s=5.0)
        client.server_ended()
        (exchange,) = client.send([(PROBE, b"{}")], kept.append)
        client.close()

    assert exchange.response == b"{}"


def test_a_volley_is_under_way_all_at_once_and_each_answer_is_filed_by_its_probe() -> None:
    """The server answers nothing before it has every request, and then the last one first."""
    probes = [PROBE.model_copy(update={"id": f"00{n}-b{n}"}) for n in range(1, 5)]
    everybody = threading.Barrier(len(probes), timeout=5.0)

    def talk(connection: socket.socket, body: bytes) -> None:
        everybody.wait()
        reply(b"200 OK", body)(connection)

    with served_many(len(probes), talk) as port:
        kept: list[Exchange] = []
        client = ServerClient(port, timeout_s=5.0)
        volley = [(probe, f'{{"id":"{probe.id}"}}'.encode()) for probe in probes]
        exchanges = client.send(volley, kept.append)
        client.close()

    assert [exchange.times.probe for exchange in exchanges] == probes
    assert [exchange.response for exchange in exchanges] == [body for _, body in volley]
    assert len(kept) == len(probes)


def test_one_refused_request_of_a_volley_is_named_and_all_are_kept() -> None:
    """The others' answers are on disk before anybody is told."""
    probes = [PROBE.model_copy(update={"id": f"00{n}-b{n}"}) for n in range(1, 4)]

    def talk(connection: socket.socket, body: bytes) -> None:
        status = b"503 Service Unavailable" if b"002" in body else b"200 OK"
        reply(status, b"{}")(connection)

    with served_many(len(probes), talk) as port:
        kept: list[Exchange] = []
        client = ServerClient(port, timeout_s=5.0)
        with pytest.raises(ProbeError, match="002-b2: HTTP 503"):
            client.send([(p, f'{{"id":"{p.id}"}}'.encode()) for p in probes], kept.append)
        client.close()

    assert sorted(exchange.times.probe.id for exchange in kept) == [p.id for p in probes]
