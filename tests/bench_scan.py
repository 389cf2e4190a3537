"""How fast the scanner is: `python -m tests.bench_scan [--json FILE]`."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from orchestrator.adapters.log_files import scan_file
from orchestrator.serverlog.scan import TABLES
from tests.benchmarking import arguments, benchmark, peak_mib
from tests.serverlog.corpus import LOGS

COPIES = (4, 40)
RUNS = 5


def main() -> None:
    """Recorded logs, many times over, and ten times that; then search tools with the same words.

    Processor time: other work on the machine is not in it.
    """
    words = "\n".join(rule.starts for rule in (*TABLES.facts, *TABLES.findings))
    with (
        tempfile.TemporaryDirectory() as folder,
        benchmark(arguments(__doc__).parse_args()) as figures,
    ):
        patterns = Path(folder) / "words"
        patterns.write_text(words, "utf-8")
        path = Path(folder) / "all.log"
        for copies in COPIES:
            with path.open("wb") as log_file:
                for _ in range(copies):
                    log_file.writelines(log.content for log in LOGS)
            lines = scan_file(path).lines
            rates = [lines / _seconds(lambda: scan_file(path)) for _ in range(RUNS)]
            figures.add(f"scanned, {lines:,} lines", "lines/s", rates)
            megabytes = path.stat().st_size / 1e6
            figures.add("the same", "MB/s", [megabytes * rate / lines for rate in rates])
            figures.add("memory peak after it", "MiB", [peak_mib()])
        for tool in filter(shutil.which, ("rg", "grep")):
            command = [tool, "--fixed-strings", f"--file={patterns}", "--count", str(path)]
            took_s = [_seconds(lambda command=command: _run(command)) for _ in range(RUNS)]
            figures.add(f"searched by {tool}", "lines/s", [lines / each_s for each_s in took_s])


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _seconds(action: Callable[[], object]) -> float:
    """Processor time, that of child processes included: other work on the machine is not."""
    started = sum(os.times()[:4])
    action()
    return sum(os.times()[:4]) - started


if __name__ == "__main__":
    main()
