"""The combinations: every fault of the table, at each of its stages, on each of its runtimes."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.faults.stages import REQUEST_OF, STAGES
from tests.faults.table import FAULTS, RUNTIMES, Fault, Runtime


@dataclass(frozen=True, slots=True)
class Combination:
    """One row of the result."""

    fault: Fault
    stage: str
    runtime: Runtime

    @property
    def name(self) -> str:
        """Unique, and fit for a variable's value."""
        return f"{self.fault.name}/{self.stage}/{self.runtime}".replace(" ", "-")

    @property
    def server_faults(self) -> str:
        """What the miniature is told to do to itself."""
        if not self.fault.server:
            return STAGES[self.stage].slowed_by
        at_request = len(self.fault.stages) > 1
        return self.fault.server + (f"@{REQUEST_OF[self.stage]}" if at_request else "")


def combinations() -> Iterator[Combination]:
    """All of them, in the order of the table."""
    for runtime in RUNTIMES:
        for fault in FAULTS:
            if runtime in fault.runtimes:
                for stage in fault.stages_on(runtime):
                    yield Combination(fault, stage, runtime)


def fast_combinations() -> Iterator[Combination]:
    """Those that `make test` tries: with a process, in a second or two each."""
    for combination in combinations():
        if combination.runtime == "process" and combination.stage in combination.fault.fast:
            yield combination
