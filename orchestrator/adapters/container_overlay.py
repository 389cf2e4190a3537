"""A patched start in a container: the patched files take the place of the image's own.

The container is made for one start, so nothing has to stand beside the engine: the files are copied
over its own before it starts, and the reporter into the folder that its packages are found in. What
an image has is read from the image, under its own interpreter.
"""

from collections.abc import Iterable
from pathlib import Path

import docker

from orchestrator.adapters.image_package import ImagePackage, image_package
from orchestrator.adapters.overlay import REPORTER, WATCHED_VARIABLE
from orchestrator.errors import HostError
from orchestrator.model.container import PutFile
from orchestrator.model.patch import Overlay, PatchProvenance
from orchestrator.model.plan import LaunchPlan
from orchestrator.patching.applying import Patched

_CACHES = "/tmp/vllm-arms-caches"  # noqa: S108 - in a container that is ours alone


def package_in_image(
    client: docker.DockerClient, launch: LaunchPlan, package: str, files: Iterable[str]
) -> ImagePackage:
    """The package that a start would import, with those of `files` that it has.

    Raises:
        HostError: The engine cannot look into the image, or the package is not there.
    """
    if launch.container is None:
        raise AssertionError("this launch plan is a process's")
    image, python = launch.container.image, launch.container.python
    return image_package(client, image, python, launch.environment, package=package, files=files)


def put_reporter(launch: LaunchPlan, package: ImagePackage, modules: Iterable[str]) -> LaunchPlan:
    """The start with the reporter watching `modules`; for every arm, patched or not."""
    files = [
        PutFile(
            source=str(file.resolve()),
            target=str(package.folder.parent / file.relative_to(REPORTER)),
        )
        for file in sorted(REPORTER.rglob("*"))
        if file.is_file() and file.suffix != ".pyc"
    ]
    return _with(launch, files, {WATCHED_VARIABLE: ",".join(sorted(modules))})


def put_patched(
    launch: LaunchPlan, package: ImagePackage, patched: Patched, folder: Path
) -> tuple[LaunchPlan, Overlay]:
    """The start with the patched files in place of the image's own.

    Args:
        launch: The start.
        package: Of the image.
        patched: What became of its files.
        folder: Where they are written on this machine; must stay until the container is created.

    Raises:
        HostError: The folder exists, or cannot be written.
    """
    files = []
    try:
        folder.mkdir(parents=True)
        for file, content in patched.contents.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
            target = str(package.folder.parent / file)
            files.append(PutFile(source=str((folder / file).absolute()), target=target))
    except OSError as error:
        raise HostError(f"the patched files cannot be written to {folder}: {error}") from error
    overlay = _overlay(package, patched.provenance)
    return _with(launch, files, overlay.environment), overlay


def on_image(
    launch: LaunchPlan,
    image: str,
    declared: str,
    package: ImagePackage,
    provenance: PatchProvenance,
) -> tuple[LaunchPlan, Overlay]:
    """The start on another image, in which the files of `provenance` are patched already.

    Args:
        launch: The start.
        image: The patched image's id.
        declared: Its pin, as the patch states it.
        package: Of that image.
        provenance: What it changes.
    """
    overlay = _overlay(package, provenance)
    values = launch.model_dump()
    values["container"] |= {"image": image, "declared": declared}
    return _with(LaunchPlan.model_validate(values), [], overlay.environment), overlay


def _overlay(package: ImagePackage, provenance: PatchProvenance) -> Overlay:
    return Overlay(
        folder=str(package.folder.parent),
        environment={
            # As for a process: what the image or a mount brings is of other code. Triton's own
            # cache stays, whose keys hash the source.
            "VLLM_CACHE_ROOT": f"{_CACHES}/vllm",
            "TORCHINDUCTOR_CACHE_DIR": f"{_CACHES}/inductor",
        },
        provenance=provenance,
    )


def _with(launch: LaunchPlan, files: list[PutFile], variables: dict[str, str]) -> LaunchPlan:
    values = launch.model_dump()
    values["container"]["files"] += tuple(file.model_dump() for file in files)
    values["environment"] |= variables
    return LaunchPlan.model_validate(values)
