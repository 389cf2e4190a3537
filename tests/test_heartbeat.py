"""An engine that hangs during a request, seen through its metrics page on a real socket."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from orchestrator.adapters.heartbeat import Heartbeat
from orchestrator.errors import ProbeError
from orchestrator.metrics import read_metrics
from orchestrator.model.host import Beat

RECORDED = Path(__file__).parent / "fixtures" / "heartbeat"


def recorded_pages(name: str) -> list[str]:
    """The metrics lines of a real server, one page after the other."""
    lines = (RECORDED / name).read_bytes().splitlines()
    return [Beat.from_json(line).counters for line in lines]


@contextmanager
def serving(pages: Iterator[str | None]) -> Iterator[int]:
    """A server whose `/metrics` is the next page each time; `None`: status 500."""

    class Handler(BaseHTTPRequestHandler):
        """Any path is the metrics page."""

        def do_GET(self) -> None:
            """The next page."""
            page = next(pages)
            body = (page or "").encode()
            self.send_response(500 if page is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join(5)


class Clock:
    """Moves by hand, so that no test waits."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now_s


def watch(pages: Iterator[str | None], *, checks: int, timeout_s: float = 60.0) -> list[Beat]:
    """Ask every 5 s, as often as `checks` says, while one request is awaited; what was read."""
    clock = Clock()
    with serving(pages) as port:
        heartbeat = Heartbeat(port, timeout_s=timeout_s, clock=clock)
        try:
            heartbeat.begin()
            for _ in range(checks):
                clock.now_s += heartbeat.interval_s
                heartbeat.check()
        finally:
            heartbeat.close()
    return heartbeat.beats


def forever(page: str) -> Iterator[str]:
    """One page, whatever happens."""
    while True:
        yield page


def test_a_counter_that_stands_still_for_too_long_is_told_with_its_figures() -> None:
    """The worker of a real server was stopped: 12 looks after the first one nothing had moved."""
    page = recorded_pages("worker-stopped.jsonl")[0]

    assert len(watch(forever(page), checks=13)) == 13
    with pytest.raises(ProbeError) as caught:
        watch(forever(page), checks=14)

    assert str(caught.value) == (
        "no sign of life from the engine for 65.0 s, 60 s are allowed: its counters stand still at"
        " steps 446, generated tokens 446, KV cache usage 0.03039921865462092, running 1, waiting 0"
    )


def test_an_engine_that_hangs_in_the_first_step_is_noticed_though_nothing_runs() -> None:
    """The gauge of running requests is the engine's own, and a hung one never raises it."""
    page = recorded_pages("worker-stopped.jsonl")[0]
    page = "\n".join(line for line in page.splitlines() if "num_requests_running" not in line)
    page += '\nvllm:num_requests_running{engine="0"} 0.0\n'

    with pytest.raises(ProbeError, match="running 0"):
        watch(forever(page), checks=14)


def test_a_long_prefill_lives_though_no_step_is_counted() -> None:
    """63 chunks of a real request: the step count stands still, the cache fills."""
    pages = recorded_pages("long-prefill.jsonl")
    assert len({read_metrics(page).iteration_tokens_count for page in pages}) == 1

    beats = watch(iter(pages), checks=len(pages), timeout_s=9.0)

    assert [beat.counters for beat in beats] == pages
    assert [beat.at_s for beat in beats[:3]] == [102.25, 104.5, 106.75]


def test_a_counter_that_moves_slowly_is_a_sign_of_life_each_time() -> None:
    """One step in 60 s, and a limit of 65 s."""
    pages = (f"vllm:iteration_tokens_total_count {n // 12}\n" for n in range(40))

    assert len(watch(pages, checks=40, timeout_s=65.0)) == 40


def test_a_page_that_fails_is_no_sign_of_life() -> None:
    """The API server answers with an error, and the last counters before it do not count anew."""
    pages = ("vllm:iteration_tokens_total_count 7\n" if n == 0 else None for n in range(20))

    with pytest.raises(ProbeError, match=r"for 65.0 s.*its metrics page does not answer.*500"):
        watch(pages, checks=20)


def test_a_page_that_comes_back_unchanged_is_no_sign_of_life() -> None:
    """Between two failures the page says what it said before."""
    pages = ("vllm:iteration_tokens_total_count 7\n" if n % 2 == 0 else None for n in range(20))

    with pytest.raises(ProbeError, match=r"for 65.0 s"):
        watch(pages, checks=20)


def test_a_page_without_counters_is_no_objection() -> None:
    """Statistics are switched off: unknown is not hung."""
    assert len(watch(forever("# nothing\n"), checks=50)) == 50


def test_a_server_that_accepts_and_never_answers_is_noticed() -> None:
    """The API server itself hangs: its page times out on a connection that stands."""
    clock = Clock()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        heartbeat = Heartbeat(listener.getsockname()[1], timeout_s=0.05, clock=clock)
        heartbeat.begin()
        clock.now_s += 1
        started_s = time.monotonic()
        with pytest.raises(ProbeError, match=r"for 1.0 s.*ReadTimeout"):
            heartbeat.check()
        assert time.monotonic() - started_s < 2  # the page may not take longer than the limit
        heartbeat.close()


def test_each_request_has_a_limit_of_its_own() -> None:
    """What the counters said during the request before does not count against the next one."""
    clock = Clock()
    with serving(forever("vllm:iteration_tokens_total_count 7\n")) as port:
        heartbeat = Heartbeat(port, timeout_s=60.0, clock=clock)
        for _ in range(2):
            heartbeat.begin()
            for _ in range(13):
                clock.now_s += 5
                heartbeat.check()
        heartbeat.close()

    assert len(heartbeat.beats) == 13
