"""`make fuzz`: what a server sends, fuzzed by atheris, which looks for inputs that reach new code.

It begins with real answers, pages and logs. A finding ends the run with a traceback, and its input
lies in the working folder as `crash-…`.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["orchestrator"]):
    from orchestrator.decoding import decode
    from orchestrator.errors import ProbeError
    from orchestrator.metrics import counter_lines, read_cache_config, read_metrics
    from orchestrator.model.exchange import Arrival
    from orchestrator.serverlog.scan import scan
    from orchestrator.streaming import decode_stream

from tests.conftest import PROJECT

FIXTURES = PROJECT / "tests" / "fixtures"


@dataclass(frozen=True, slots=True)
class Target:
    """One kind of bytes."""

    put: Callable[[bytes], None]
    seeds: tuple[bytes, ...]


def answer(raw: bytes) -> None:
    """An observation, or a named error."""
    with suppress(ProbeError):
        decode(raw, top_logprobs=20)


def streamed_answer(raw: bytes) -> None:
    """The same of one that is streamed."""
    with suppress(ProbeError):
        decode_stream(raw, [Arrival(bytes=len(raw), at_s=1.0)])


def metrics_page(raw: bytes) -> None:
    """What cannot be read is missing."""
    text = raw.decode("utf-8", "replace")
    read_metrics(counter_lines(text))
    read_cache_config(text)


def log(raw: bytes) -> None:
    """The same in one block and in many."""
    if scan([raw]) != scan(raw[at : at + 7] for at in range(0, len(raw), 7)):
        raise AssertionError("what a log says depends on how it is cut")


def _files(pattern: str, largest_bytes: int = 65536) -> tuple[bytes, ...]:
    return tuple(path.read_bytes()[:largest_bytes] for path in sorted(FIXTURES.glob(pattern)))


TARGETS = {
    "answers": Target(answer, _files("responses/completion-*.json")),
    "streams": Target(streamed_answer, _files("streams/*.sse")),
    "metrics": Target(metrics_page, _files("metrics/*.metrics")),
    "logs": Target(log, _files("serverlog/logs/*.log")),
}


def main() -> None:
    """Fuzz one target in this process, which ends with it; or each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--target", choices=sorted(TARGETS))
    asked = parser.parse_args()
    if asked.target is None:
        again = [sys.executable, "-m", "tests.fuzz", "--seconds", str(asked.seconds)]
        codes = [subprocess.run([*again, "--target", name], check=False) for name in TARGETS]
        sys.exit(max(done.returncode for done in codes))
    target = TARGETS[asked.target]
    with tempfile.TemporaryDirectory(prefix="vllm-arms-fuzz-") as corpus:
        for number, seed in enumerate(target.seeds):
            (Path(corpus) / str(number)).write_bytes(seed)
        limits = [f"-max_total_time={asked.seconds}", "-timeout=20", "-max_len=65536"]
        atheris.Setup([sys.argv[0], *limits, corpus], target.put)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
