"""The fields that must match before two runs are set side by side.

Readings that change from one start to the next (ports, free memory, the capacity of the KV cache,
how long a start took) are not among them: a key made of an unstable reading never matches.
"""

import shlex
from collections.abc import Iterator, Mapping

from orchestrator.model.comparison import FieldDifference, JudgedRun
from orchestrator.model.plan import ArmPlan, Plan


def differences(
    run: JudgedRun, baseline: JudgedRun
) -> tuple[tuple[FieldDifference, ...], tuple[FieldDifference, ...]]:
    """The fields that differ, and those that at least one side does not know."""
    ours, theirs = dict(_fields(run)), dict(_fields(baseline))
    pairs = [
        FieldDifference(field=name, run=ours.get(name), baseline=theirs.get(name))
        for name in dict.fromkeys([*ours, *theirs])
        if ours.get(name) is None or ours.get(name) != theirs.get(name)
    ]
    unknown = tuple(pair for pair in pairs if pair.run is None or pair.baseline is None)
    return tuple(pair for pair in pairs if pair not in unknown), unknown


def _fields(run: JudgedRun) -> Iterator[tuple[str, str | None]]:
    plan = run.plan
    yield from _experiment(plan)
    yield "engine", plan.engine
    yield "engine identity", plan.engine_identity
    yield "arms", ", ".join(arm.name for arm in plan.arms)
    for arm in plan.arms:
        yield f"{arm.name}: flags", shlex.join(map(without_folders, _flags(arm)))
        yield f"{arm.name}: environment", _environment(arm.launch.environment)
        yield f"{arm.name}: patch", _patch(run, arm)
    yield from run.pins.items()


def _experiment(plan: Plan) -> Iterator[tuple[str, str]]:
    yield "experiment", plan.experiment
    yield "profile", plan.profile
    yield "documents", ", ".join(f"{d.name} {d.sha256[:12]}" for d in plan.documents)
    lengths = ", ".join(map(str, plan.a_tokens))
    yield (
        "sizes in tokens",
        (
            f"block {plan.block_size_tokens}, shared {plan.shared_tokens}, B {plan.b_tokens},"
            f" A {lengths}, generated {plan.max_tokens}"
        ),
    )
    yield "repeats", f"{plan.repeats} measured, {plan.reference_repeats} in a reference cell"
    yield "top_logprobs", str(plan.top_logprobs)
    yield "speculative tokens", str(plan.speculative_tokens)
    yield "seed", str(plan.seed)


def _flags(arm: ArmPlan) -> tuple[str, ...]:
    """Without the interpreter: which one it is, `engine identity` says."""
    return arm.launch.argv[1:]


def _environment(environment: Mapping[str, str]) -> str:
    return " ".join(
        f"{name}={':'.join(map(without_folders, value.split(':')))}"
        for name, value in sorted(environment.items())
    )


def without_folders(argument: str) -> str:
    """A path's last part: the same engine lies in another folder on another machine.

    A trimmed run's paths begin with a stand-in such as `<cache>` instead of a slash.
    """
    if argument.startswith(("/", "<")) and "/" in argument:
        return argument.rstrip("/").rpartition("/")[2]
    return argument


def _patch(run: JudgedRun, arm: ArmPlan) -> str | None:
    if arm.patch is None:
        return "none"
    if arm.name not in run.patches:
        return None  # the arm failed before its copy was made
    files = run.patches[arm.name].files
    return f"{arm.patch}: " + ", ".join(f"{f.file} {f.sha256_after[:12]}" for f in files)
