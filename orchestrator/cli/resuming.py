"""`run --resume`: an earlier run, and what of it may be kept."""

from dataclasses import dataclass
from pathlib import Path

from orchestrator.adapters.kept_arms import keep_arm, made_at
from orchestrator.adapters.ownership import alive
from orchestrator.adapters.run_store import RunStore
from orchestrator.cli.listing import find_run, run_name
from orchestrator.cli.overlaying import Patches, patched_now
from orchestrator.cli.planning import Wanted
from orchestrator.errors import DefinitionError
from orchestrator.model.host import RunStart
from orchestrator.model.outcome import Completed
from orchestrator.model.plan import ArmPlan, Plan, Selection
from orchestrator.model.resumption import KeptArm, Resumption
from orchestrator.resuming import (
    host_differences,
    patch_differences,
    plan_differences,
    resumption,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """A run that is to be gone on with."""

    name: str
    store: RunStore
    plan: Plan
    start: RunStart


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """What a new run takes over."""

    earlier: Earlier
    resumption: Resumption


def earlier_run(project: Path, text: str) -> Earlier:
    """The run that `--resume` names.

    Raises:
        DefinitionError: There is no such run, or it is still going on.
        RunFolderError: It cannot be read.
    """
    store = RunStore.open(find_run(project, text))
    start = store.start()
    name = run_name(project, store.root)
    if not store.has("end.json") and alive(start.owner) == "alive":
        raise DefinitionError(
            f"--resume {name}", f"it is still going on, in process {start.owner.pid}"
        )
    return Earlier(name=name, store=store, plan=store.read("plan.json", Plan), start=start)


def wanted_again(
    earlier: Earlier,
    experiment: str | None,
    profile: str | None,
    selection: Selection | None,
    arms: tuple[str, ...],
) -> Wanted:
    """What the earlier run was of; what is given beside it stays, and must turn out to agree."""
    plan = earlier.plan
    return Wanted(
        experiment=experiment or plan.experiment,
        profile=profile or _profile_of(plan),
        selection=selection or plan.selection,
        arms=arms or tuple(arm.name for arm in plan.arms),
    )


def _profile_of(plan: Plan) -> str | None:
    """The profile that was on the command line; none where the arms name their own."""
    return None if any(arm.profile for arm in plan.arms) else plan.profile


def what_to_keep(earlier: Earlier, plan: Plan, patches: Patches, start: RunStart) -> Takeover:
    """Which arms of the earlier run are kept: its completed ones, all under the same conditions.

    Raises:
        DefinitionError: Plan, machine or a patch is not what it was (each difference is named),
            or every arm is finished.
    """
    differences = plan_differences(earlier.plan, plan) or host_differences(earlier.start, start)
    finished = [arm for arm in plan.arms if isinstance(earlier.store.outcome(arm.name), Completed)]
    for arm in finished:
        differences += _patch_differences(earlier, arm, patches)
    if differences:
        raise DefinitionError(
            f"--resume {earlier.name}",
            f"it was made under other conditions, start a new run: {_some(differences)}",
        )
    if len(finished) == len(plan.arms):
        raise DefinitionError(
            f"--resume {earlier.name}",
            "all its arms are finished; `vllm-arms analyze` judges them again",
        )
    kept = resumption(
        earlier.name,
        {
            arm.name: KeptArm(
                arm=arm.name, run=earlier.name, made_at=made_at(earlier.store, arm.name)
            )
            for arm in finished
        },
        earlier.store.resumption(),
    )
    return Takeover(earlier=earlier, resumption=kept)


_TOLD = 5
"""Differences in an error message; one cause often shows in many places of a plan."""


def _some(differences: list[str]) -> str:
    more = len(differences) - _TOLD
    return "; ".join(differences[:_TOLD]) + (f"; and {more} more" if more > 0 else "")


def _patch_differences(earlier: Earlier, arm: ArmPlan, patches: Patches) -> list[str]:
    overlay = earlier.store.overlay(arm.name)
    now = patched_now(arm, patches)
    if now is None:
        return []
    if overlay is None:
        return [f"arms.{arm.name}: it has a patch, and no overlay.json"]
    return patch_differences(overlay.provenance, now)


def arms_made(plan: Plan, store: RunStore) -> list[KeptArm]:
    """When and by which run each finished arm of a resumed run was made; else nothing."""
    resumed = store.resumption()
    if resumed is None:
        return []
    kept = {arm.arm: arm for arm in resumed.kept}
    return [
        kept.get(arm.name)
        or KeptArm(arm=arm.name, run="this run", made_at=made_at(store, arm.name))
        for arm in plan.arms
        if isinstance(store.outcome(arm.name), Completed)
    ]


def take_over(takeover: Takeover, store: RunStore) -> list[str]:
    """Put the kept arms into the new run's folder, after the word that they are kept; their names.

    Raises:
        HostError: The disk does not take it.
    """
    store.write("resumed.json", takeover.resumption)
    names = [arm.arm for arm in takeover.resumption.kept]
    for name in names:
        keep_arm(takeover.earlier.store, store, name)
    return names
