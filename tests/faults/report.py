"""`make faults`: every combination, and `docs/faults.md` written anew from what came of it."""

import argparse
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from tests.conftest import PROJECT
from tests.documents import rendered
from tests.faults.campaign import Combination, combinations
from tests.faults.holding import LARGEST_PEAK_BYTES, Row, row_of
from tests.faults.scene import played
from tests.faults.table import CANNOT_EXIST

HERE = Path(__file__).parent
DOCUMENT = PROJECT / "docs" / "faults.md"
ALONE = {"engine restart"}
"""Faults that also hit every other run of the machine."""


def main() -> None:
    """Print each row as it comes, and end with 1 where something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name contains this; no document")
    parser.add_argument("--side-by-side", type=int, default=2, help="runs at a time")
    asked = parser.parse_args()
    chosen = [each for each in combinations() if asked.only in each.name]
    rows = list(_rows(chosen, asked.side_by_side))
    if not asked.only:
        DOCUMENT.write_text(document(rows), encoding="utf-8")
    sys.exit(any(row.short for row in rows))


def _rows(chosen: Sequence[Combination], side_by_side: int) -> Iterator[Row]:
    together = [each for each in chosen if each.fault.name not in ALONE]
    alone = [each for each in chosen if each.fault.name in ALONE]
    with ThreadPoolExecutor(side_by_side) as pool:
        for row in pool.map(tried, together):
            yield _told(row)
    for combination in alone:
        yield _told(tried(combination))


def tried(combination: Combination) -> Row:
    """One row."""
    with played(combination) as seen:
        return row_of(seen)


def _told(row: Row) -> Row:
    held = "; ".join(row.short) or "holds"
    sys.stdout.write(
        f"{row.runtime}, {row.stage}, {row.fault}: {row.outcome}, exit {row.exit_code}, "
        f"{row.answers} answers, {row.verdict}: {held}\n"
    )
    sys.stdout.flush()
    return row


def document(rows: Sequence[Row]) -> str:
    """`docs/faults.md`."""
    return rendered(
        HERE / "faults.md.j2",
        rows=rows,
        cannot_exist=CANNOT_EXIST,
        largest_peak_bytes=LARGEST_PEAK_BYTES,
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        machine=f"{platform.system()} {platform.release()}, {os.cpu_count()} processors",
    )


if __name__ == "__main__":
    main()
