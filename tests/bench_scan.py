"""How fast the scanner is: `python -m tests.bench_scan`. Prints, and judges nothing."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from orchestrator.adapters.log_files import scan_file
from orchestrator.serverlog.scan import TABLES
from tests.serverlog.corpus import LOGS

COPIES = 40
RUNS = 5


def main() -> None:
    """Scan all recorded logs, many times over, and let a search tool look for the same words."""
    words = "\n".join(rule.starts for rule in (*TABLES.facts, *TABLES.findings))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "all.log"
        path.write_bytes(b"".join(log.content for log in LOGS) * COPIES)
        patterns = Path(folder) / "words"
        patterns.write_text(words, "utf-8")
        lines = scan_file(path).lines
        _print("scanner", lines, lambda: scan_file(path))
        for tool in filter(shutil.which, ("rg", "grep")):
            command = [tool, "--fixed-strings", f"--file={patterns}", "--count", str(path)]
            _print(
                tool,
                lines,
                lambda command=command: subprocess.run(command, check=True, capture_output=True),
            )


def _print(name: str, lines: int, action: Callable[[], object]) -> None:
    """The best of several runs: what disturbs a run only makes it slower."""
    best_s = min(_seconds(action) for _ in range(RUNS))
    sys.stdout.write(f"{name:8} {lines:,} lines in {best_s:.2f} s: {lines / best_s:,.0f} lines/s\n")


def _seconds(action: Callable[[], object]) -> float:
    """Processor time, that of child processes included: other work on the machine is not."""
    started = sum(os.times()[:4])
    action()
    return sum(os.times()[:4]) - started


if __name__ == "__main__":
    main()
