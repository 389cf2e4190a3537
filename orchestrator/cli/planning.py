"""Names on the command line → a plan; shared by `run` and `plan`."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
from orchestrator.model.plan import Plan, Selection
from orchestrator.model.profile import (
    AnyProfile,
    DockerProfile,
    FoundInterpreter,
    MiniatureInterpreter,
    OwnInterpreter,
    ProcessProfile,
)
from orchestrator.planning.plans import make_plan

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan, and the engine that it was made for."""

    plan: Plan
    engine: EngineFiles


def resolve_plan(
    project: Path,
    experiment: str,
    profile: str,
    selection: Selection,
    arms: Sequence[str],
    report: Report | None,
) -> Planned:
    """Read the definitions and resolve them.

    Args:
        project: The folder with `arms/` and `launch_profiles/`.
        experiment: Name or path.
        profile: Name or path.
        selection: How much of the panel.
        arms: Only these; all when empty.
        report: Told how the engine's preparation goes on. `None`: prepare the tokenizer only,
            and take the engine's paths as they will be.

    Raises:
        OrchestratorError: A definition is wrong, or the engine cannot be prepared.
    """
    definitions = Definitions(project)
    asked = definitions.experiment(experiment)
    launched = definitions.profile(profile)
    documents = definitions.documents(asked)
    engine = engine_files(definitions, launched, report)
    tokenizer = Tokenizer.from_file(engine.tokenizer_file)

    def encode(text: str) -> Sequence[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    plan = make_plan(
        asked, launched, documents, engine, encode=encode, selection=selection, arms=arms
    )
    return Planned(plan=plan, engine=engine)


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
