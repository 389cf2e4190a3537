"""What a profile's container is made of: which folders it sees where, and its variables."""

from pathlib import PurePosixPath

from orchestrator.model.container import ContainerPlan, Mount, PutFile, stated
from orchestrator.model.engine import EngineFiles
from orchestrator.model.profile import DockerProfile

MODEL, TOKENIZER = "/model", "/tokenizer.json"
"""Where the two stand in the container."""

_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def in_container(
    profile: DockerProfile,
    *,
    image: str,
    model_dir: str | None,
    tokenizer_file: str,
    identity: str,
    elsewhere: bool = False,
) -> EngineFiles:
    """The profile's engine as a container has it.

    Args:
        profile: The profile.
        image: Its id on the engine, or the pin as declared where the engine was not asked.
        model_dir: On the engine's machine; `None`: the server wants none.
        tokenizer_file: On this machine.
        identity: Changes when image, model or tokenizer do.
        elsewhere: Whether the engine is on another machine: our files are then copied, and every
            mount is of a folder there.
    """
    seen, mounts = _model(model_dir)
    return EngineFiles(
        python=profile.program,
        model_dir=seen,
        tokenizer_file=tokenizer_file,
        served_tokenizer_file=TOKENIZER,
        environment=_OFFLINE if profile.offline else {},
        identity=identity,
        container=ContainerPlan(
            image=image,
            declared=stated(profile.image),
            platform=profile.platform,
            python=profile.python,
            resources=profile.resources,
            mounts=(
                *mounts,
                *(() if elsewhere else (Mount(source=tokenizer_file, target=TOKENIZER),)),
                *profile.resources.mounts,
            ),
            files=(PutFile(source=tokenizer_file, target=TOKENIZER),) if elsewhere else (),
        ),
    )


def snapshot_revision(model_dir: str) -> str | None:
    """The revision that a Hugging Face cache names a snapshot's folder by; `None`: it is none."""
    path = PurePosixPath(model_dir)
    in_cache = path.parent.name == "snapshots" and path.parent.parent.name.startswith("models--")
    return path.name if in_cache else None


def model_on_host(engine: EngineFiles) -> str | None:
    """The model's folder on this machine; `None` where the server has none."""
    if engine.container is None:
        return engine.model_dir if PurePosixPath(engine.model_dir).is_absolute() else None
    for mount in engine.container.mounts:
        if mount.target == MODEL:
            return mount.source + engine.model_dir.removeprefix(MODEL)
    return None


def _model(model_dir: str | None) -> tuple[str, tuple[Mount, ...]]:
    if model_dir is None:
        return "", ()
    revision = snapshot_revision(model_dir)
    if revision is None:
        return MODEL, (Mount(source=model_dir, target=MODEL),)
    # A snapshot's files are links into the repository's `blobs`, two folders up.
    repository = str(PurePosixPath(model_dir).parent.parent)
    return f"{MODEL}/snapshots/{revision}", (Mount(source=repository, target=MODEL),)
