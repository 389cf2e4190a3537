"""What a resumed run took over from another one (`resumed.json`)."""

from datetime import datetime

from orchestrator.model.record import Record


class KeptArm(Record):
    """An arm that was finished before."""

    arm: str
    run: str
    """`EXPERIMENT/TIME-HASH`: the run that made it, which may itself not be the resumed one."""

    made_at: datetime
    """When its server was asked first."""


class Resumption(Record):
    """Which run was gone on with, and which of its arms were kept."""

    of: str
    """`EXPERIMENT/TIME-HASH`."""

    kept: tuple[KeptArm, ...]
