"""What a run may keep of an earlier one. Pure; why so: `docs/decisions/0010-resume.md`."""

from collections.abc import Iterator

from orchestrator.model.host import RunStart
from orchestrator.model.patch import PatchProvenance
from orchestrator.model.plan import Plan
from orchestrator.model.resumption import KeptArm, Resumption

_OF_NO_CONSEQUENCE = {"commit", "uncommitted_changes"}
"""Of `HostFacts`: what of the project's folder matters is in the plan."""


def plan_differences(earlier: Plan, now: Plan) -> list[str]:
    """Names of the fields that differ, with both values where they are short."""
    return list(_differences("", earlier.model_dump(), now.model_dump()))


def host_differences(earlier: RunStart, now: RunStart) -> list[str]:
    """What makes it another machine, or another state of it, in the same words.

    Verdicts of two arms are set beside each other, and so are their times: a new kernel or
    another version of ours between them would pass for what the arms differ in.
    """
    before, today = (start.host.model_dump(exclude=_OF_NO_CONSEQUENCE) for start in (earlier, now))
    differences = list(_differences("host", before, today))
    ours, theirs = earlier.owner.machine, now.owner.machine
    if ours != theirs:
        differences.insert(0, "machine: another one" if ours else "machine: not recorded")
    return differences


def patch_differences(earlier: PatchProvenance, now: PatchProvenance) -> list[str]:
    """What the patch would do otherwise today, by file."""
    return list(_differences("patch", earlier.model_dump(), now.model_dump()))


def _differences(where: str, earlier: object, now: object) -> Iterator[str]:
    if isinstance(earlier, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*earlier, *now)):
            inner = f"{where}.{key}" if where else str(key)
            yield from _differences(inner, earlier.get(key), now.get(key))
    elif isinstance(earlier, tuple) and isinstance(now, tuple):
        if len(earlier) != len(now):
            yield f"{where}: {len(earlier)} → {len(now)} entries"
            return
        for number, (left, right) in enumerate(zip(earlier, now, strict=True)):
            yield from _differences(f"{where}.{number}", left, right)
    elif earlier != now:
        yield f"{where}: {_short(earlier)} → {_short(now)}"


_SHORT = 60
"""Characters of a value that still help in an error message."""


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"


def resumption(of: str, finished: dict[str, KeptArm], earlier: Resumption | None) -> Resumption:
    """Whose arms are kept: those that the run made, or had itself kept of an older one."""
    before = {arm.arm: arm for arm in earlier.kept} if earlier is not None else {}
    return Resumption(of=of, kept=tuple(before.get(name, arm) for name, arm in finished.items()))
