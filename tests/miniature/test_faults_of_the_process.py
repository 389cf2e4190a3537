"""Faults that end, stop or delay a server, as whoever started it meets them."""

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from .servers import ARGUMENTS, started

PROMPT = list(range(100, 170))


def wait_for(condition: Callable[[], object], limit_s: float = 10.0) -> None:
    """Wait until something has happened."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_fault_can_wait_for_its_request(tmp_path: Path) -> None:
    """Counted from the server's start."""
    with started(tmp_path, *ARGUMENTS, faults="cached-absent@2") as server:
        server.wait_until_ready()

        answers = [server.complete(PROMPT).json() for _ in range(3)]

        details = [answer["usage"]["prompt_tokens_details"] for answer in answers]
        assert [detail is None for detail in details] == [False, True, False]


def test_an_unknown_fault_ends_the_start(tmp_path: Path) -> None:
    """Before a test relies on it."""
    with started(tmp_path, *ARGUMENTS, faults="no-such-fault") as server:
        assert server.process.wait(10) == 1
        assert "is no fault; there are: " in server.log


def test_a_crash_at_start_names_its_cause_first(tmp_path: Path) -> None:
    """The engine's traceback, then the server's general one, and exit code 1."""
    with started(tmp_path, *ARGUMENTS, faults="crash-at-start") as server:
        assert server.process.wait(10) == 1

        cause, general = (
            server.log.index(text)
            for text in (
                "ModuleNotFoundError: No module named 'miniature_kernels'",
                "RuntimeError: Engine core initialization failed. See root cause above.",
            )
        )
        assert server.log.index("EngineCore failed to start.") < cause < general
        lines = server.log[: server.log.index("RuntimeError")].splitlines()
        trace = [line for line in lines if "File " in line and "ERROR" in line]
        assert all(line.startswith("(EngineCore pid=") for line in trace)


def test_a_slow_start_shows_progress(tmp_path: Path) -> None:
    """A line a second, and then it serves."""
    with started(tmp_path, *ARGUMENTS, faults="slow-start=1") as server:
        server.wait_until_ready()

        assert server.log.count("MINIATURE: still starting") == 1


def test_no_progress_stops_the_log(tmp_path: Path) -> None:
    """The process lives, its port refuses, and nothing more is written."""
    with started(tmp_path, *ARGUMENTS, faults="no-progress") as server:
        wait_for(lambda: "Mamba cache mode is set to" in server.log)
        length = len(server.log)

        time.sleep(0.5)

        assert len(server.log) == length
        assert server.process.poll() is None
        with pytest.raises(httpx.ConnectError):
            server.http.get("/health")


def test_the_log_can_flood_and_be_no_text(tmp_path: Path) -> None:
    """Many lines, and one that is no UTF-8; the server serves all the same."""
    with started(tmp_path, *ARGUMENTS, faults="log-flood=2000,invalid-utf8") as server:
        server.wait_until_ready()

        raw = server.log_file.read_bytes()
        assert raw.count(b" of a flood") == 2000
        with pytest.raises(UnicodeDecodeError):
            raw.decode("utf-8")


def test_the_first_request_kills_the_engine(tmp_path: Path) -> None:
    """Ready by every sign; then 500, 503 or nothing from /health, and exit code 0."""
    with started(tmp_path, *ARGUMENTS, faults="engine-dies") as server:
        server.wait_until_ready()

        answer = server.complete(PROMPT)

        assert answer.status_code == 500
        error = answer.json()["error"]
        assert error["message"].startswith("EngineCore encountered an issue.")
        assert error["type"] == "InternalServerError"
        assert server.process.wait(10) == 0
        assert "EngineCore encountered a fatal error." in server.log


def test_a_hanging_engine_looks_healthy(tmp_path: Path) -> None:
    """The request has no answer, /health has one, and SIGTERM waits for the client."""
    with started(tmp_path, *ARGUMENTS, faults="hang") as server:
        server.wait_until_ready()
        server.http.timeout = httpx.Timeout(0.5)

        with pytest.raises(httpx.ReadTimeout):
            server.complete(PROMPT)

        assert server.http.get("/health").status_code == 200
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(_raw_request())
            wait_for(lambda: server.http.get("/health").status_code == 200)
            server.http.close()
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            assert server.process.poll() is None
        assert server.process.wait(10) == 0


def _raw_request() -> bytes:
    """A completion, written by hand so that its connection stays open without an answer."""
    body = json.dumps({"prompt": PROMPT}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def test_a_frozen_process_answers_nothing(tmp_path: Path) -> None:
    """Not even /health; SIGCONT brings it back."""
    with started(tmp_path, *ARGUMENTS, faults="freeze@1") as server:
        server.wait_until_ready()
        server.http.timeout = httpx.Timeout(0.5)
        with pytest.raises(httpx.ReadTimeout):
            server.complete(PROMPT)
        with pytest.raises(httpx.ReadTimeout):
            server.http.get("/health")

        server.process.send_signal(signal.SIGCONT)

        server.http.timeout = httpx.Timeout(10)
        assert server.http.get("/health").status_code == 200


def test_exit_0_in_the_middle_of_a_request(tmp_path: Path) -> None:
    """The connection breaks, the exit code looks well."""
    with started(tmp_path, *ARGUMENTS, faults="exit-0@2") as server:
        server.wait_until_ready()
        assert server.complete(PROMPT).status_code == 200

        with pytest.raises(httpx.RemoteProtocolError):
            server.complete(PROMPT)

        assert server.process.wait(10) == 0


def test_sigterm_can_be_ignored(tmp_path: Path) -> None:
    """Only SIGKILL helps."""
    with started(tmp_path, *ARGUMENTS, faults="ignore-sigterm") as server:
        server.wait_until_ready()

        server.process.send_signal(signal.SIGTERM)

        time.sleep(0.5)
        assert server.http.get("/health").status_code == 200


def test_an_orphan_keeps_the_port(tmp_path: Path) -> None:
    """The server is gone, its port is taken still."""
    with started(tmp_path, *ARGUMENTS, faults="orphan") as server:
        server.wait_until_ready()
        child = child_of(server.process.pid)
        try:
            server.process.kill()
            server.process.wait()
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind(("127.0.0.1", server.port))
        finally:
            os.kill(child, signal.SIGKILL)


def child_of(pid: int) -> int:
    """The one child of a process."""
    (task,) = Path(f"/proc/{pid}/task").glob(str(pid))
    return int((task / "children").read_text())
