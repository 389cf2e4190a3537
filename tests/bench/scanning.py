"""How fast the scanner is, beside search tools that look for the same words."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from orchestrator.adapters.log_files import scan_file
from orchestrator.serverlog.scan import TABLES
from tests.bench.figures import Figure, figure
from tests.serverlog.corpus import LOGS

COPIES = 40
RUNS = 5


def measure() -> Iterator[Figure]:
    """Scan all recorded logs, many times over, and let a search tool look for the same words."""
    words = "\n".join(rule.starts for rule in (*TABLES.facts, *TABLES.findings))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "all.log"
        path.write_bytes(b"".join(log.content for log in LOGS) * COPIES)
        patterns = Path(folder) / "words"
        patterns.write_text(words, "utf-8")
        lines = scan_file(path).lines
        yield _rate("our scanner", lines, lambda: scan_file(path))
        for tool in filter(shutil.which, ("rg", "grep")):
            command = [tool, "--fixed-strings", f"--file={patterns}", "--count", str(path)]
            yield _rate(
                tool,
                lines,
                lambda command=command: subprocess.run(command, check=True, capture_output=True),
            )


def _rate(name: str, lines: int, action: Callable[[], object]) -> Figure:
    rates = [lines / _seconds(action) for _ in range(RUNS)]
    return figure(f"{name}, {lines:,} lines", rates, "lines/s", "processor time of one core")


def _seconds(action: Callable[[], object]) -> float:
    """Processor time, that of child processes included: other work on the machine is not."""
    started = sum(os.times()[:4])
    action()
    return sum(os.times()[:4]) - started
