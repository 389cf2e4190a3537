"""What every benchmark is given and gives: its arguments, the machine, figures in text and JSON."""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from tests.conftest import PROJECT

CONSOLE = Console(width=120, highlight=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure: what was measured how often, and how far it spread."""

    name: str
    unit: str
    n: int
    median: float
    least: float
    most: float

    def __str__(self) -> str:
        spread = "" if self.n == 1 else f" ({_digits(self.least)} to {_digits(self.most)})"
        return f"{self.name}: {_digits(self.median)} {self.unit}{spread}, n = {self.n}"


class Figures:
    """Printed as they are found, so that an interrupted benchmark has shown what it had."""

    def __init__(self) -> None:
        self.found: list[Figure] = []

    def add(self, name: str, unit: str, values: Sequence[float]) -> None:
        """Median, least and most of at least one value."""
        self.found.append(
            Figure(
                name=name,
                unit=unit,
                n=len(values),
                median=statistics.median(values),
                least=min(values),
                most=max(values),
            )
        )
        CONSOLE.print(f"  {self.found[-1]}", soft_wrap=True)


def arguments(about: str | None) -> argparse.ArgumentParser:
    """The parser of a benchmark, with what all of them take."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    return parser


@contextmanager
def benchmark(asked: argparse.Namespace) -> Iterator[Figures]:
    """Collect the figures of one benchmark; they are written also when it fails on the way."""
    figures = Figures()
    before = machine()
    try:
        yield figures
    finally:
        if asked.json is not None:
            document = {
                "machine": before | {"load_after": os.getloadavg()[0]},
                "figures": [asdict(figure) for figure in figures.found],
                "peak_mib": peak_mib(resource.RUSAGE_SELF),
                "peak_of_a_child_mib": peak_mib(resource.RUSAGE_CHILDREN),
            }
            asked.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def machine() -> dict[str, Any]:
    """What the figures belong to; the load is that of the last minute."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"],
        cwd=PROJECT, capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "python": platform.python_version(),
        "commit": commit or None,
        "load_before": os.getloadavg()[0],
    }


def peak_mib(who: int = resource.RUSAGE_SELF) -> float:
    """Most memory that this process, or the largest of its ended children, had resident."""
    return resource.getrusage(who).ru_maxrss / 1024


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _processor() -> str:
    named = (
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    )
    return next(named, platform.machine())
