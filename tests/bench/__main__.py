"""`make bench`: every part in turn, as text and, with `--json FILE`, as JSON.

`python -m tests.bench [--json FILE] [PART …]`. What needs a real vLLM prepares it on first use;
what needs a Docker Engine ends with an error where there is none.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog

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


def main() -> None:
    """Each figure is printed when it is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures there")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    asked = parser.parse_args()
    unknown = [part for part in asked.parts if part not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # figures only
    found: dict[str, object] = {"machine": machine(), "parts": {}}
    told: dict[str, list[dict[str, object]]] = {}
    for part in asked.parts or PARTS:
        sys.stdout.write(f"{part}\n")
        told[part] = []
        for each in PARTS[part]():
            told[part].append(as_record(each))
            sys.stdout.write(f"  {each}\n")
            sys.stdout.flush()
    found |= {"parts": told, "machine_afterwards": machine()}
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
