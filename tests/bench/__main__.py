"""`make bench`: every part in turn, as text and, with `--json FILE`, as JSON.

`python -m tests.bench [--json FILE] [PART …]`. What needs a real vLLM prepares it on first use.
A part that cannot be measured here (it needs a Docker Engine, and there is none) is named with the
reason, the others are measured all the same, and the exit code is 1.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog

from orchestrator.errors import OrchestratorError
from tests.bench import analysis, arms, asking, capture, containers, pages, readiness, scanning
from tests.bench.figures import Figure, as_record, machine

PARTS: dict[str, Callable[[], Iterator[Figure]]] = {
    "scanning": scanning.measure,
    "analysis": analysis.measure,
    "pages": pages.measure,
    "capture": capture.measure,
    "containers": containers.measure,
    "readiness": readiness.measure,
    "asking": asking.measure,
    "arms": arms.measure,
}
"""In the order in which they are run: what takes longest comes last."""


def main() -> int:
    """Each figure is printed when it is there; the file is written anew after each part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    asked = parser.parse_args()
    unknown = [part for part in asked.parts if part not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # figures only
    before = machine()
    told: dict[str, list[dict[str, object]]] = {}
    failed: dict[str, str] = {}
    for part in asked.parts or PARTS:
        told[part] = []
        try:
            _measure(part, told[part])
        except (OrchestratorError, AssertionError) as error:
            failed[part] = str(error)
            sys.stdout.write(f"  NOT MEASURED: {error}\n")
        if asked.json is not None:
            found = {
                "machine": before, "parts": told, "failed": failed, "machine_afterwards": machine()
            }  # fmt: skip
            asked.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return 1 if failed else 0


def _measure(part: str, told: list[dict[str, object]]) -> None:
    sys.stdout.write(f"{part}\n")
    sys.stdout.flush()
    began_s = time.monotonic()
    for each in PARTS[part]():
        told.append(as_record(each))
        sys.stdout.write(f"  {each}\n")
        sys.stdout.flush()
    sys.stdout.write(f"  measured in {time.monotonic() - began_s:.0f} s\n")


if __name__ == "__main__":
    sys.exit(main())
