"""The fields that must match before two runs are set side by side.

Readings that change from one start to the next (ports, free memory, the capacity of the KV cache,
how long a start took) are not among them: a key made of an unstable reading never matches.
"""

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256

from orchestrator.model.comparison import FieldDifference, JudgedRun
from orchestrator.model.plan import ArmPlan, Plan

_ABSENT = "absent"


def differences(
    run: JudgedRun, baseline: JudgedRun
) -> tuple[tuple[FieldDifference, ...], tuple[FieldDifference, ...]]:
    """The fields that differ, and those that at least one side did not record."""
    shared = {arm.name for arm in run.plan.arms} & {arm.name for arm in baseline.plan.arms}
    ours, theirs = dict(_fields(run, shared)), dict(_fields(baseline, shared))
    pairs = [
        FieldDifference(field=name, run=ours.get(name, _ABSENT), baseline=theirs.get(name, _ABSENT))
        for name in dict.fromkeys([*ours, *theirs])
    ]
    unknown = tuple(pair for pair in pairs if pair.run is None or pair.baseline is None)
    return tuple(p for p in pairs if p not in unknown and p.run != p.baseline), unknown


def same_question(run: JudgedRun, baseline: JudgedRun) -> bool:
    """Whether both asked the same of the same documents with the same patches.

    Then verdicts, which compare answers within one start, may be set side by side across releases
    where digests, hits and times may not.
    """
    return dict(_question(run)) == dict(_question(baseline))


def _question(run: JudgedRun) -> Iterator[tuple[str, str | None]]:
    yield from _experiment(run.plan)
    for arm in run.plan.arms:
        yield from _asked(arm)
        yield f"{arm.name}: patch", arm.patch


def _fields(run: JudgedRun, arms: set[str]) -> Iterator[tuple[str, str | None]]:
    plan = run.plan
    yield from _experiment(plan)
    yield "profile", plan.profile
    yield "engine", plan.engine
    yield "engine identity", plan.engine_identity
    yield "arms", ", ".join(arm.name for arm in plan.arms)
    for arm in plan.arms:
        if arm.name in arms:
            yield from _asked(arm)
            # Without the interpreter: which one it is, `engine identity` says.
            for flag, value in _flags(arm.launch.argv[1:]).items():
                yield f"{arm.name}: {flag}", value
            for name, value in arm.launch.environment.items():
                yield f"{arm.name}: {name}", ":".join(map(without_folders, value.split(":")))
            yield f"{arm.name}: patch", _patch(run, arm)
    yield from run.pins.items()


def _experiment(plan: Plan) -> Iterator[tuple[str, str]]:
    yield "experiment", plan.experiment
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
    yield "prompts", _hash(plan.model_dump(mode="json", include={"prompts", "chats"}))
    yield "suite", _suite(plan)
    yield "cold requests", _cold(plan)


def _suite(plan: Plan) -> str:
    if plan.suite is None:
        return "none"
    items = plan.suite.model_dump(mode="json")["items"]
    return (
        f"{len(items)} items {_hash(items)}, {plan.suite.runs} runs,"
        f" structured output {'on' if plan.suite.structured_output else 'off'},"
        f" model {'trained' if plan.suite.model_trained else 'random'}"
    )


def _cold(plan: Plan) -> str:
    told = plan.throughput
    if told is None:
        return "none"
    lengths = ", ".join(str(run.prompt_tokens) for run in plan.arms[0].cold)
    text = _hash(told.model_dump(mode="json", include={"corpus", "spans"}))
    return (
        f"{lengths} tokens {text}, {told.repeats} of each, {told.max_tokens} generated,"
        f" each length for {told.hold_s} s at least"
    )


def _asked(arm: ArmPlan) -> Iterator[tuple[str, str]]:
    """What is sent to a start, in which order and how many at once.

    Salts are left out: only which cells share one matters.
    """
    sent = [
        [cell, probe.role, probe.prompt, probe.endpoint, probe.repeat]
        for cell, volley in arm.volleys
        for probe in volley
    ]
    warm_up = [[probe.role, probe.prompt, probe.endpoint] for probe in arm.warm_up]
    shape = [[cell.id, cell.place, cell.concurrency, cell.shares_salt] for cell in arm.cells]
    at_once = max((cell.concurrency for cell in arm.cells), default=1)
    yield (
        f"{arm.name}: requests",
        f"{arm.cell}, {len(arm.cells)} cells, {at_once} at once, {_hash([warm_up, shape, sent])}",
    )


def _hash(value: object) -> str:
    """The first 12 digits of a SHA-256 over its JSON."""
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def _flags(arguments: Sequence[str]) -> dict[str, str]:
    """Each `--flag` with what follows it; what comes before the first one as `command`."""
    flags: dict[str, list[str]] = {}
    flag = "command"
    for argument in arguments:
        if argument.startswith("--"):
            flag, equals, value = argument.partition("=")
            flags.setdefault(flag, []).extend([without_folders(value)] if equals else [])
        else:
            flags.setdefault(flag, []).append(without_folders(argument))
    return {flag: " ".join(values) or "given" for flag, values in flags.items()}


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
