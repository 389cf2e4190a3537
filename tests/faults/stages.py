"""The stages of a run, each seen from outside by what lies in the run's folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

REQUEST_OF: Mapping[str, int] = MappingProxyType({"wait": 1, "warm-up": 2, "probe": 6})
"""The generating request that a stage is hit by, counted from 1: the readiness probe; the first
warm-up; the third repeat of the reference cell before, whose loss leaves nothing to compare with.
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stretch of a run."""

    name: str

    sign: str
    """The first file that this pattern finds in the run's folder says that it has begun."""

    within: bytes = b""
    """What that file must contain."""

    slowed_by: str = ""
    """Faults of the miniature that make it last long enough to be hit."""

    def reached(self, run: Path) -> bool:
        """Whether the run is here, or was."""
        return any(self.within in path.read_bytes() for path in run.glob(self.sign))


STAGES = {
    stage.name: stage
    for stage in (
        Stage("create", "arms/*/launch.json"),
        Stage("start", "arms/*/server.log"),
        Stage("wait", "arms/*/server.log", b"still starting", slowed_by="slow-start=4"),
        Stage("warm-up", "arms/*/exchanges/000-ready.times.json", slowed_by="drip=0.3@2"),
        Stage("probe", "arms/*/exchanges/004-*.times.json", slowed_by="drip=0.3@6"),
        Stage("stop", "arms/*/metrics-end.txt", slowed_by="ignore-sigterm"),
        Stage("remove", "arms/*/inspection.json"),
        Stage("report", "arms/*/outcome.json"),
    )
}
