"""A docker profile's engine: its image on the Docker Engine, its model and tokenizer on disk."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from orchestrator.adapters.definition_files import Definitions
from orchestrator.adapters.docker_engine import docker_engine, find_image
from orchestrator.adapters.engine_place import engine_place
from orchestrator.adapters.engine_preparation import (
    default_cache,
    located,
    prepare,
    tokenizer_for,
)
from orchestrator.errors import DefinitionError, HostError
from orchestrator.model.container import stated
from orchestrator.model.engine import EngineFiles
from orchestrator.model.profile import DockerProfile, OwnModel, TokenizerOnly
from orchestrator.planning.containers import in_container

Report = Callable[[str], None]


def container_files(
    definitions: Definitions, profile: DockerProfile, report: Report | None
) -> EngineFiles:
    """The profile's engine, ready to be started in a container.

    Args:
        definitions: Of the project.
        profile: The profile.
        report: Told how the model's preparation goes on. `None`: prepare the tokenizer only, and
            take the image as declared where the engine cannot be asked.

    Raises:
        DefinitionError: A path of the profile does not exist.
        HostError: The image is not to be had, or the model cannot be prepared.
    """
    image = _image(profile, required=report is not None)
    model_dir, tokenizer_file, model = _model(definitions, profile, report)
    return in_container(
        profile,
        image=image,
        model_dir=model_dir,
        tokenizer_file=tokenizer_file,
        identity=f"image {image}, {model}",
        elsewhere=engine_place() is not None,
    )


def _image(profile: DockerProfile, *, required: bool) -> str:
    """The id on the engine; where the engine need not be asked and cannot, the pin as declared."""
    try:
        with docker_engine() as client:
            return find_image(client, profile.image, profile.platform).id
    except HostError:
        if required:
            raise
        return stated(profile.image)


def _model(
    definitions: Definitions, profile: DockerProfile, report: Report | None
) -> tuple[str | None, str, str]:
    """The model's folder and tokenizer on this machine, and what names the two."""
    model = profile.model
    if isinstance(model, OwnModel):
        return _own(profile, model)
    recipe = definitions.engines_dir / (
        model.tokenizer_of if isinstance(model, TokenizerOnly) else model.recipe
    )
    if isinstance(model, TokenizerOnly):
        tokenizer_file = tokenizer_for(recipe, definitions.documents_dir, default_cache())
        return None, str(tokenizer_file), tokenizer_file.parent.name
    if engine_place() is not None:
        raise DefinitionError(
            f"launch_profiles/{profile.name}.toml",
            "model.kind: a prepared model lies on this machine, and the engine is on another; copy"
            f" it there, and name its folder in a profile of your own with extends ="
            f' "{profile.name}" and model.kind = "own"',
        )
    arguments = (recipe, definitions.documents_dir, default_cache())
    if report is None:
        engine = located(*arguments, model=model.model)
    else:
        engine = prepare(*arguments, model=model.model, report=report)
    return str(engine.model_dir), str(engine.tokenizer_file), engine.model_dir.name


def _own(profile: DockerProfile, model: OwnModel) -> tuple[str, str, str]:
    here = ("tokenizer_file",) if engine_place() is not None else ("model_dir", "tokenizer_file")
    for key in here:
        path = Path(getattr(model, key))
        if not path.exists():
            raise DefinitionError(
                f"launch_profiles/{profile.name}.toml",
                f"model.{key}: {path} does not exist; name the place where the model lies on this"
                f' machine, in a profile of your own with extends = "{profile.name}"',
            )
    tokenizer = hashlib.sha256(Path(model.tokenizer_file).read_bytes()).hexdigest()
    return (
        model.model_dir,
        model.tokenizer_file,
        f"{model.model_dir}, tokenizer sha256 {tokenizer[:12]}",
    )
