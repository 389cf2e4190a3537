"""All benchmarks but the peer's, one after another: `python -m tests.bench [--json FILE]`.

Each runs in a process of its own, so that its memory peak is its own. One that cannot run here
(there is no Docker Engine, or no prepared vLLM) is named as failed, in the text and in the JSON,
and the others run all the same; the exit code is then 1.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarking import CONSOLE, arguments, machine
from tests.conftest import PROJECT

PARTS = (
    ("bench_scan",),
    ("bench_capture",),
    ("bench_analysis",),
    ("bench_pages",),
    ("bench_readiness",),
    ("bench_docker",),
    ("bench_requests",),
    ("bench_arms", "--quick", "--profile", "miniature"),
    ("bench_arms", "--quick", "--profile", "docker-miniature"),
    ("bench_arms", "--quick", "--pairs", "2"),
)
"""Cheap ones first; all of them take about eleven minutes on two processors."""


def main() -> int:
    """Run them, and put what they found into one document."""
    asked = arguments(__doc__).parse_args()
    document: dict[str, Any] = {"machine": machine(), "parts": []}
    for number, part in enumerate(PARTS, start=1):
        CONSOLE.print(f"\n{number} of {len(PARTS)}: {' '.join(part)}")
        document["parts"].append(_run(*part))
        if asked.json is not None:  # after each: an interrupted benchmark keeps what it has
            asked.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    failed = [part["command"] for part in document["parts"] if part["exit_code"] != 0]
    CONSOLE.print(f"\n{len(PARTS) - len(failed)} of {len(PARTS)} ran" + "".join(
        f"\nFAILED: {command}" for command in failed
    ))  # fmt: skip
    return 1 if failed else 0


def _run(module: str, *flags: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="vllm-arms-bench-") as folder:
        found = Path(folder) / "figures.json"
        began_s = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", f"tests.{module}", *flags, "--json", str(found)],
            cwd=PROJECT, check=False,
        )  # fmt: skip
        took_s = time.monotonic() - began_s
        CONSOLE.print(f"  took {took_s:.0f} s")
        figures = json.loads(found.read_text(encoding="utf-8")) if found.is_file() else {}
        command = " ".join((module, *flags))
        return {"command": command, "exit_code": done.returncode, "took_s": took_s} | figures


if __name__ == "__main__":
    sys.exit(main())
