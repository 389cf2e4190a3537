"""Names on the command line → a plan; shared by `run` and `plan`."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from tokenizers import Tokenizer

from orchestrator.adapters.definition_files import Definitions
from orchestrator.adapters.engine_preparation import (
    PreparedEngine,
    default_cache,
    found,
    located,
    prepare,
    prepare_model,
    tokenizer_for,
)
from orchestrator.cli.containers import container_files
from orchestrator.errors import DefinitionError
from orchestrator.model.engine import EngineFiles
from orchestrator.model.experiment import Experiment
from orchestrator.model.plan import ArmPlan, Plan, Selection
from orchestrator.model.profile import (
    AnyProfile,
    DockerProfile,
    FoundInterpreter,
    MiniatureInterpreter,
    OwnInterpreter,
    ProcessProfile,
)
from orchestrator.model.suite import SuiteExperiment
from orchestrator.planning.launching import Stack
from orchestrator.planning.plans import make_plan
from orchestrator.planning.suites import make_suite_plan

Report = Callable[[str], None]
Asked = Experiment | SuiteExperiment

DEFAULT_PROFILE = "vllm-cpu-tiny-hybrid"
"""Where neither the command line nor the experiment names one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which run is wanted."""

    experiment: str
    profile: str | None
    """`None`: the default, or what the experiment's arms name."""

    selection: Selection
    arms: tuple[str, ...]
    """Only these; all when empty."""

    def command(self) -> tuple[str, ...]:
        """The command line that makes such a run."""
        return (
            *("vllm-arms", "run", self.experiment),
            *(() if self.profile is None else ("--profile", self.profile)),
            *(() if self.selection == "plain" else (f"--{self.selection}",)),
            *(word for arm in self.arms for word in ("--arm", arm)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan, and the engines that it was made for."""

    plan: Plan
    stacks: tuple[Stack, ...]

    def engine_of(self, arm: ArmPlan) -> EngineFiles:
        """The engine that an arm's server is started from."""
        by_profile = {stack.profile.name: stack.engine for stack in self.stacks}
        return by_profile[arm.profile or self.plan.profile]


def resolve_plan(
    project: Path,
    experiment: str,
    profile: str | None,
    selection: Selection,
    arms: Sequence[str],
    report: Report | None,
) -> Planned:
    """Read the definitions and resolve them.

    Args:
        project: The folder with `arms/` and `launch_profiles/`.
        experiment: Name or path.
        profile: Name or path; `None`: the default, or what the experiment's arms name.
        selection: How much of the panel.
        arms: Only these; all when empty.
        report: Told how the engine's preparation goes on. `None`: prepare the tokenizer only,
            and take the engine's paths as they will be.

    Raises:
        OrchestratorError: A definition is wrong, or the engine cannot be prepared.
    """
    definitions = Definitions(project)
    suite = definitions.suite(experiment)
    asked = definitions.experiment(experiment) if suite is None else suite
    make = _plan_maker(definitions, asked)
    stacks = [
        Stack(profile=launched, engine=engine_files(definitions, launched, report))
        for launched in _profiles(definitions, asked, profile, arms)
    ]
    _check_tokenizers(stacks, f"arms/{asked.name}.toml")
    first = stacks[0]
    tokenizer = Tokenizer.from_file(first.engine.tokenizer_file)

    def encode(text: str) -> Sequence[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    plan = make(
        profile=first.profile,
        engine=first.engine,
        encode=encode,
        selection=selection,
        arms=arms,
        stacks=stacks if asked.stacks else (),
    )
    return Planned(plan=plan, stacks=tuple(stacks))


def _profiles(
    definitions: Definitions,
    asked: Asked,
    profile: str | None,
    arms: Sequence[str],
) -> list[AnyProfile]:
    """The one on the command line, or those of the arms that are run; the first one's grid counts.

    Raises:
        DefinitionError: Both say it, or a profile cannot be read.
    """
    if not asked.stacks:
        return [definitions.profile(profile or DEFAULT_PROFILE)]
    if profile is not None:
        named = ", ".join(f"{arm.name} on {arm.profile}" for arm in asked.arms)
        raise DefinitionError(
            f"--profile {profile}",
            f"arms/{asked.name}.toml says itself which profile each arm runs on ({named}); leave"
            " --profile out, choose some of them with --arm, or edit that file",
        )
    used = [arm.profile for arm in asked.arms if not arms or arm.name in arms]
    names = dict.fromkeys(name for name in used if name is not None)
    return [definitions.profile(name) for name in names or asked.stacks[:1]]


def _check_tokenizers(stacks: Sequence[Stack], where: str) -> None:
    """Stacks are sent the same token ids, so these must mean the same to each."""
    first = stacks[0]
    for stack in stacks[1:]:
        files = [Path(s.engine.tokenizer_file) for s in (first, stack)]
        if files[0].read_bytes() != files[1].read_bytes():
            problem = f"{first.profile.name} and {stack.profile.name} have different tokenizers"
            raise DefinitionError(where, f"arms.profile: {problem}")


def _plan_maker(definitions: Definitions, asked: Asked) -> Callable[..., Plan]:
    """What is left to be told of is the server; all that is asked of it is read and valid."""
    if isinstance(asked, Experiment):
        return partial(make_plan, asked, documents=definitions.documents(asked))
    items = definitions.suite_items(asked)
    documents = definitions.suite_documents(asked, items)
    return partial(make_suite_plan, asked, items, documents=documents)


def engine_files(
    definitions: Definitions, profile: AnyProfile, report: Report | None
) -> EngineFiles:
    """Where the profile's engine is; prepared first when `report` is given.

    Raises:
        DefinitionError: A path of the profile's own interpreter does not exist.
        HostError: The engine cannot be prepared; for a container, its image is not to be had.
    """
    if isinstance(profile, DockerProfile):
        return container_files(definitions, profile, report)
    interpreter = profile.interpreter
    if isinstance(interpreter, OwnInterpreter):
        return _own_files(profile, interpreter)
    if isinstance(interpreter, MiniatureInterpreter):
        return _miniature_files(definitions, interpreter)
    recipe = definitions.engines_dir / interpreter.recipe
    model = interpreter.model
    arguments = (recipe, definitions.documents_dir, default_cache())
    if isinstance(interpreter, FoundInterpreter):
        engine = found(*arguments, python=interpreter.python, model=model)
        if report is not None:
            prepare_model(recipe, engine, model, report)
    elif report is None:
        engine = located(*arguments, model=model)
    else:
        engine = prepare(*arguments, model=model, report=report)
    return _files(engine)


def _files(engine: PreparedEngine) -> EngineFiles:
    return EngineFiles(
        python=str(engine.python),
        model_dir=str(engine.model_dir),
        tokenizer_file=str(engine.tokenizer_file),
        environment=dict(engine.environment),
        identity=engine.identity,
    )


def _miniature_files(definitions: Definitions, interpreter: MiniatureInterpreter) -> EngineFiles:
    recipe = definitions.engines_dir / interpreter.tokenizer_of
    tokenizer_file = tokenizer_for(recipe, definitions.documents_dir, default_cache())
    return EngineFiles(
        python=sys.executable,
        model_dir="miniature",
        tokenizer_file=str(tokenizer_file),
        identity=f"miniature of vllm-arms {version('vllm-arms')}, {tokenizer_file.parent.name}",
    )


def _own_files(profile: ProcessProfile, interpreter: OwnInterpreter) -> EngineFiles:
    for key in ("python", "model_dir", "tokenizer_file"):
        path = getattr(interpreter, key)
        if not Path(path).exists():
            raise DefinitionError(
                f"launch_profiles/{profile.name}.toml",
                f"interpreter.{key}: {path} does not exist",
            )
    return EngineFiles(
        python=interpreter.python,
        model_dir=interpreter.model_dir,
        tokenizer_file=interpreter.tokenizer_file,
        identity=f"{profile.vllm_version} at {interpreter.python}, {interpreter.model_dir}",
    )
