"""Starts miniatures as processes, as the orchestrator does."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

START_LIMIT_S = 20.0
"""A start takes half a second; the rest is for a busy machine."""

ARGUMENTS = (
    *("--served-model-name", "tiny", "--model", "/a/model", "--max-model-len", "8192"),
    *("--block-size", "32", "--enable-prefix-caching", "--enable-prompt-tokens-details"),
    *("--max-logprobs", "50"),
)
DRAFTS = ("--speculative-config", '{"method":"mtp","num_speculative_tokens":2}')


@dataclass(frozen=True)
class RunningServer:
    """A miniature that runs, or did."""

    process: subprocess.Popen[bytes]
    http: httpx.Client
    log_file: Path
    port: int

    @property
    def log(self) -> str:
        """What it wrote so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")

    def wait_until_ready(self) -> None:
        """Wait for the first 200 from /health."""
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            try:
                self.http.get("/health").raise_for_status()
            except httpx.HTTPError:
                assert self.process.poll() is None, self.log
                assert time.monotonic() < deadline, self.log
                time.sleep(0.02)
            else:
                return

    def complete(self, text: list[int] | str, **changes: object) -> httpx.Response:
        """Have a prompt continued by two tokens, greedily."""
        body = {"model": "tiny", "prompt": text, "max_tokens": 2, "temperature": 0} | changes
        return self.http.post("/v1/completions", json=body)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def started(
    folder: Path, *arguments: str, faults: str = "", **environment: str
) -> Iterator[RunningServer]:
    """Start a miniature; it is gone, with everything it left, when the block is left."""
    port, log_file = free_port(), folder / "server.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "orchestrator.miniature", "--port", str(port), *arguments],
            stdout=log,
            stderr=subprocess.STDOUT,
            env={"PATH": os.environ["PATH"], "MINIATURE_FAULTS": faults, **environment},
            start_new_session=True,
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as http:
            yield RunningServer(process, http, log_file, port)
    finally:
        process.kill()
        process.wait()
