"""`vllm-arms predict`: what the scheduler will do, without a GPU and without a server."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError
from rich.text import Text

from orchestrator.adapters.definition_files import Definitions
from orchestrator.adapters.docker_engine import docker_engine
from orchestrator.adapters.scheduler_source import ask_split, under_image, under_interpreter
from orchestrator.cli.planning import engine_files, resolve_plan
from orchestrator.cli.progress import terminal
from orchestrator.cli.releases import PANEL_CASES, Release, compared, release_of
from orchestrator.errors import DefinitionError, HostError
from orchestrator.model.engine import EngineFiles
from orchestrator.model.plan import CellPlan, Plan
from orchestrator.model.prediction import (
    CellPrediction,
    SchedulerSettings,
    SplitCase,
    SplitSource,
)
from orchestrator.model.profile import AnyProfile
from orchestrator.model.record import Record
from orchestrator.planning.cells import scheduler_settings
from orchestrator.prediction.cells import predict_cell
from orchestrator.prediction.origins import mixed_origins
from orchestrator.prediction.pairs import Pair, pair_eligibility, predict_pair
from orchestrator.prediction.panel import rules_giving, split_panel
from orchestrator.reporting.prediction import describe, moduli

_REPEATS = 3
"""Of B: cold or not, the first one that may hit, and one more to see that it stays so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the command line asks for."""

    experiment: str | None
    pairs: Sequence[str]
    ranges: Sequence[str]
    trace: Path | None
    profile: str
    versions: Sequence[str]
    block: int | None
    speculative: bool | None
    budget: int | None
    as_json: bool


class TraceLine(Record):
    """One request of a trace: JSON lines, in the order in which they were sent."""

    prompt: tuple[int, ...] = Field(min_length=1)
    """Token ids."""

    cache_salt: str | None = None


def print_predictions(project: Path, question: Question) -> None:
    """Print every prediction that is asked for.

    Raises:
        DefinitionError: A flag or a trace line cannot be used.
    """
    definitions = Definitions(project)
    profile = definitions.profile(question.profile)
    console = terminal()

    def say(line: str) -> None:
        console.print(Text(line), soft_wrap=True)

    answers = list(_answers(project, profile, question))
    if not answers and question.experiment is not None:
        raise DefinitionError(
            f"predict {question.experiment}", "nothing is predicted of it: no cell of it is serial"
        )
    if not answers:
        raise DefinitionError("predict", "give an experiment, --pair, --range or --trace")
    if question.as_json:
        console.out(json.dumps([answer.as_json for answer in answers], indent=2), highlight=False)
        return
    for answer in answers:
        for line in answer.lines:
            say(line)
        say("")
    say(_engines_own_word(definitions, profile))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    lines: list[str]
    as_json: dict[str, object]


def _answers(project: Path, profile: AnyProfile, question: Question) -> Iterator[_Answer]:
    pairs = [_pair(text) for text in question.pairs]
    pairs += [pair for text in question.ranges for pair in _range(text)]
    releases = _releases(profile, question)
    for release in releases:
        engine = f"vLLM {release.version}"
        if _is_miniature(profile) and not question.versions:
            engine = f"{profile.vllm_version}, with the split of {engine}"
        for pair in pairs:
            yield _predict_pair(pair, release, engine, brief=bool(question.ranges))
        if question.trace is not None:
            yield _predict_trace(question.trace, release)
    if question.versions:
        yield _Answer(
            lines=list(compared(releases)),
            as_json={"releases": [release.as_json for release in releases]},
        )
    if question.experiment is not None:
        _refuse_settings(question)
        plan = resolve_plan(project, question.experiment, question.profile, "plain", [], None).plan
        if plan.suite is not None:
            raise DefinitionError(
                f"predict {question.experiment}",
                "is a suite: the server renders its prompts, so nothing is predicted of them",
            )
        yield from _predict_plan(plan)


def _refuse_settings(question: Question) -> None:
    """An experiment's are its profile's; what would be ignored is refused."""
    given = {
        "--block": question.block,
        "--budget": question.budget,
        "--speculative": question.speculative,
    }
    for flag, value in given.items():
        if value is not None:
            raise DefinitionError(flag, "goes with --pair, --range and --trace, not an experiment")


def _is_miniature(profile: AnyProfile) -> bool:
    return "not vLLM" in profile.vllm_version


def _releases(profile: AnyProfile, question: Question) -> list[Release]:
    drafts = (
        profile.speculative_tokens > 0 if question.speculative is None else question.speculative
    )
    basis = SchedulerSettings(
        rule="v0.15",  # a release brings its own, and its own retention
        block_tokens=question.block or profile.block_size_tokens,
        token_budget=question.budget or profile.max_num_batched_tokens,
        prefix_caching=True,
        speculative=drafts,
        retention_tokens=None,
    )
    own = profile.scheduler_release or profile.vllm_version
    where = f"launch_profiles/{profile.name}.toml"
    if not question.versions:
        return [release_of(own, basis, where=where)]
    return [release_of(given, basis, where=f"--versions {given}") for given in question.versions]


def _pair(text: str) -> Pair:
    match = re.fullmatch(r"(\d+):(\d+)(?::(\d+))?", text)
    if match is None:
        raise DefinitionError(f"--pair {text}", "must be A:B or A:B:SHARED, in tokens")
    a, b, shared = match.groups()
    if not int(a) or not int(b):
        raise DefinitionError(f"--pair {text}", "A and B have at least one token")
    return Pair(a=int(a), b=int(b), shared=None if shared is None else int(shared))


def _range(text: str) -> list[Pair]:
    match = re.fullmatch(r"(\d+)-(\d+):(\d+):(\d+)", text)
    if match is None:
        raise DefinitionError(f"--range {text}", "must be A1-A2:B:SHARED, in tokens")
    first, last, b, shared = map(int, match.groups())
    if not first or not b:
        raise DefinitionError(f"--range {text}", "A and B have at least one token")
    if first > last:
        raise DefinitionError(f"--range {text}", "A1 is above A2")
    return [Pair(a=a, b=b, shared=shared) for a in range(first, last + 1)]


def _predict_pair(pair: Pair, release: Release, engine: str, *, brief: bool) -> _Answer:
    settings = release.settings
    ranges = predict_pair(pair, settings, repeats=_REPEATS, max_tokens=1)
    names = ["A", *(f"B#{number}" for number in range(1, _REPEATS + 1))]
    lengths = [pair.a, *[pair.b] * _REPEATS]
    said = pair_eligibility(ranges)
    title = f"A {pair.a}, B {pair.b}, shared {'unknown' if pair.shared is None else pair.shared}"
    lines = [f"{title}, {engine}, block {settings.block_tokens}: {said}"]
    for entry in ranges:
        if brief:
            cached = ", ".join(str(request.cached_tokens) for request in entry.cell.requests[1:])
            lines.append(f"  cached tokens of B: {cached}")
            continue
        if len(ranges) > 1:
            lines.append(f"with {entry.first} to {entry.last} shared tokens:")
        described = describe(entry.cell, lengths, names, block_tokens=settings.block_tokens)
        lines += [f"  {line}" for line in described]
    return _Answer(
        lines=lines,
        as_json={
            "release": release.version,
            "settings": settings.model_dump(),
            "a_tokens": pair.a,
            "b_tokens": pair.b,
            "shared_tokens": pair.shared,
            "eligible": said,
            "by_shared_tokens": [
                {
                    "first": entry.first,
                    "last": entry.last,
                    "cell": entry.cell.model_dump(),
                    "chunks": moduli(entry.cell, names),
                }
                for entry in ranges
            ],
        },
    )


def _predict_plan(plan: Plan) -> Iterator[_Answer]:
    for arm in plan.arms:
        for cell in arm.cells:
            if cell.place == "measured" and cell.prediction is not None:
                yield _planned(plan, arm.name, cell, cell.prediction)


def _planned(plan: Plan, arm: str, cell: CellPlan, prediction: CellPrediction) -> _Answer:
    names = ["A" if probe.role == "a" else f"B#{probe.repeat}" for probe in cell.probes]
    lengths = [len(plan.prompts[probe.prompt].token_ids) for probe in cell.probes]
    return _Answer(
        lines=[
            f"{arm}, {cell.id}",
            *describe(prediction, lengths, names, block_tokens=plan.block_size_tokens),
        ],
        as_json={"arm": arm, "cell": cell.id, "prediction": prediction.model_dump()},
    )


def _predict_trace(path: Path, release: Release) -> _Answer:
    """How many requests of a trace restore something that they would have computed otherwise."""
    settings = release.settings
    by_salt: dict[str | None, list[tuple[int, ...]]] = {}
    for entry in _trace_lines(path):
        by_salt.setdefault(entry.cache_salt, []).append(entry.prompt)
    requests = sum(map(len, by_salt.values()))
    restoring, mixed = 0, []
    for salt, prompts in by_salt.items():
        cell = predict_cell(prompts, settings, max_tokens=1)
        for index, prompt in enumerate(prompts):
            restoring += bool(cell[index].cached_tokens)
            alone = predict_cell([prompt, prompt], settings, max_tokens=1)
            found = mixed_origins(cell, alone, repeats=[index], block_tokens=settings.block_tokens)
            if found:
                mixed.append({"salt": salt, "request": index, "tokens": len(prompt)})
    line = (
        f"{path}, vLLM {release.version}: {requests} requests, {restoring} restore cached tokens, "
        f"{len(mixed)} restore blocks or a state of mixed origin"
    )
    return _Answer(
        lines=[line, *(f"  {entry}" for entry in mixed)],
        as_json={
            "release": release.version,
            "requests": requests,
            "restoring": restoring,
            "mixed": mixed,
        },
    )


def _trace_lines(path: Path) -> Iterator[TraceLine]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"--trace {path}", f"cannot be read: {error}") from error
    for number, line in enumerate(lines, start=1):
        try:
            yield TraceLine.from_json(line)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            key = ".".join(map(str, problem["loc"]))
            raise DefinitionError(
                f"{path}, line {number}", f"{key or 'the line'}: {problem['msg']}"
            ) from error


def _engines_own_word(definitions: Definitions, profile: AnyProfile) -> str:
    """Hold our rule against the function in the engine's own source, where the engine is there."""
    if _is_miniature(profile):
        return f"{profile.name}: {profile.vllm_version}; it follows our rule, so it was not asked"
    try:
        engine = engine_files(definitions, profile, None)
    except DefinitionError as error:
        return f"{profile.name}: its own scheduler was not asked: {error}"
    wanted = scheduler_settings(profile)
    if wanted is None:
        return f"{profile.name}: no rule of ours is known for {profile.vllm_version}"
    if engine.container is None and not Path(engine.python).exists():
        return f"{profile.name}: its engine is not here, so its own scheduler was not asked"
    cases = split_panel(PANEL_CASES, seed=0)
    try:
        source, scheduled = _asked(engine, cases)
    except HostError as error:
        return f"{profile.name}: its scheduler could not be asked: {error}"
    agreeing = {found.rule for found in rules_giving(cases, scheduled) if not found.every_boundary}
    word = "agrees with" if wanted.rule in agreeing else "DISAGREES with"
    return (
        f"{profile.name}: the align-split function of vLLM {source.version} "
        f"(sha256 {source.function_sha256[:16]}) {word} our rule {wanted.rule} "
        f"in {PANEL_CASES} cases"
    )


def _asked(engine: EngineFiles, cases: Sequence[SplitCase]) -> tuple[SplitSource, tuple[int, ...]]:
    container = engine.container
    if container is None:
        return ask_split(under_interpreter(Path(engine.python)), cases)
    with docker_engine() as client:
        return ask_split(under_image(client, container.image, container.python), cases)
