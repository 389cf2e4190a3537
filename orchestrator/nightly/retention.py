"""Which old runs a nightly may remove."""

from collections.abc import Collection, Iterable

from orchestrator.listing import histories
from orchestrator.model.run_entry import RunEntry


def superfluous(
    runs: Iterable[RunEntry], *, keep: int, baselines: Collection[str], tonight: str
) -> list[RunEntry]:
    """What nightlies made of each experiment and profile beyond the newest `keep`, oldest first.

    Never a run of this night, one that somebody made by hand, a baseline, or one that may still be
    going on.

    Args:
        runs: All that is in `runs/`.
        keep: At least 1, so that the newest always stays.
        baselines: Names of runs.
        tonight: Name of the nightly whose page has just been told of its runs.
    """
    return [
        run
        for history in histories(runs)
        for run in [run for run in history.runs if run.nightly is not None][:-keep]
        if run.nightly != tonight
        and run.name not in baselines
        and run.state not in ("running", "unknown")
    ]
