"""A measured figure, and the machine that it belongs to."""

import os
import platform
import re
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from orchestrator.adapters.host_facts import host_facts
from tests.conftest import PROJECT


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number."""

    name: str
    value: float
    unit: str
    n: int = 1
    """How many times it was measured; `value` is then the median."""

    low: float | None = None
    """The smallest of them, and the largest."""

    high: float | None = None
    remark: str = ""

    def __str__(self) -> str:
        """One line."""
        spread = ""
        if self.low is not None:
            spread = f" ({_number(self.low)} to {_number(self.high)}, n {self.n})"
        remark = f"; {self.remark}" if self.remark else ""
        return f"{self.name}: {_number(self.value)} {self.unit}{spread}{remark}"


def figure(name: str, values: Sequence[float], unit: str, remark: str = "") -> Figure:
    """The median of several measurements, with the smallest and the largest."""
    if len(values) == 1:
        return Figure(name=name, value=values[0], unit=unit, remark=remark)
    return Figure(
        name=name,
        value=statistics.median(values),
        unit=unit,
        n=len(values),
        low=min(values),
        high=max(values),
        remark=remark,
    )


def machine() -> dict[str, object]:
    """Whose figures they are; the load is of the minute before."""
    facts = host_facts(PROJECT)
    return {
        "processor": facts.cpu or platform.machine(),
        "processors": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": facts.kernel,
        "python": facts.python,
        "commit": facts.commit,
        "uncommitted_changes": facts.uncommitted_changes,
        "load": round(os.getloadavg()[0], 2),
    }


def peak_bytes() -> int:
    """The most memory that this process was resident in."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    if found is None:
        raise AssertionError("the kernel tells no VmHWM")
    return int(found[1]) * 1024


def as_record(each: Figure) -> dict[str, object]:
    """For JSON."""
    return asdict(each)


def _number(value: float | None) -> str:
    """Three digits, or all of a large one."""
    if value is None:
        return "?"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
