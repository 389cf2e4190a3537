"""What an image's own interpreter finds: a package's folder and its files, without a server.

A container that reads is not one that serves: it has no network, no port and no GPU.
"""

import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO

import docker
import structlog
from docker.errors import NotFound
from docker.models.containers import Container

from orchestrator.adapters.container_creation import ALWAYS, Creation, bind_mounts
from orchestrator.adapters.docker_engine import UNREACHABLE, said
from orchestrator.adapters.ownership import this_process
from orchestrator.errors import HostError
from orchestrator.model.container import Mount
from orchestrator.model.labels import ContainerLabels, as_labels

log = structlog.get_logger()

_LOOK_LIMIT_S = 120.0
"""For an interpreter to start in a container and run a few lines: 0.4 s when idle."""

_FIND = """
import importlib.util, json, sys
spec = importlib.util.find_spec(sys.argv[1])
print(json.dumps(list(spec.submodule_search_locations or ()) if spec else []))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePackage:
    """A package as it stands in an image."""

    folder: PurePosixPath
    """Of the package itself: `…/site-packages/vllm`."""

    sources: Mapping[str, bytes]
    """Those of the files that were asked for and are there, named from the package on."""


def image_package(
    client: docker.DockerClient,
    image: str,
    python: str,
    environment: Mapping[str, str],
    *,
    package: str,
    files: Iterable[str],
) -> ImagePackage:
    """Find a package, and read those of the files that it has.

    Args:
        client: The engine.
        image: Its id or name.
        python: The image's interpreter.
        environment: Of the server: PYTHONPATH decides what is found.
        package: Its top-level name, such as `vllm`.
        files: Named from the package on: `vllm/v1/core/sched/scheduler.py`. Other packages' are
            not looked for.

    Raises:
        HostError: It has not exactly one such folder, or the engine refuses.
    """
    wanted = sorted(file for file in files if file.startswith(f"{package}/"))
    with _found(client, image, python, environment, package) as (look, folder):
        found = {file: _read(look, folder.parent / file) for file in wanted}
    sources = {file: content for file, content in found.items() if content is not None}
    return ImagePackage(folder=folder, sources=sources)


def whole_package(
    client: docker.DockerClient,
    image: str,
    python: str,
    environment: Mapping[str, str],
    *,
    package: str,
) -> ImagePackage:
    """Find a package, and read every file of it but byte code.

    Raises:
        HostError: It has not exactly one such folder, or the engine refuses.
    """
    with _found(client, image, python, environment, package) as (look, folder):
        blocks, _ = look.get_archive(str(folder))
        with tempfile.TemporaryFile() as spooled:  # compiled code may be larger than memory
            spooled.writelines(blocks)
            spooled.seek(0)
            return ImagePackage(folder=folder, sources=dict(_regular_files(spooled)))


@contextmanager
def _found(
    client: docker.DockerClient,
    image: str,
    python: str,
    environment: Mapping[str, str],
    package: str,
) -> Iterator[tuple[Container, PurePosixPath]]:
    with looked_into(client, image, [python, "-B", "-c", _FIND, package], environment) as look:
        folders = json.loads(output_of(look))
        if len(folders) != 1:
            raise HostError(
                f"{python} of image {image[:19]} has {package} in {len(folders)} folders"
                " instead of one"
            )
        yield look, PurePosixPath(folders[0])


def _regular_files(spooled: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=spooled) as archive:
        for member in archive:
            stream = archive.extractfile(member) if member.isfile() else None
            if stream is not None and "__pycache__" not in PurePosixPath(member.name).parts:
                yield member.name, _content(member, stream)


def _content(member: tarfile.TarInfo, stream: IO[bytes]) -> bytes:
    """A file as it is; of compiled code its hash, behind a byte that no text begins with."""
    if not member.name.endswith(".so"):
        return stream.read()
    digest = hashlib.sha256()
    for block in iter(lambda: stream.read(2**20), b""):
        digest.update(block)
    return b"\xff" + digest.digest()


@contextmanager
def looked_into(
    client: docker.DockerClient,
    image: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    mounts: Iterable[Mount] = (),
) -> Iterator[Container]:
    """Run a program of an image to its end, without network; the container goes with the block.

    Args:
        client: The engine.
        image: Its id or name.
        command: In place of the image's own.
        environment: Over what the image sets.
        mounts: What the program looks at beside the image; all of it read-only.

    Raises:
        HostError: The engine refuses, or the program does not end in time.
    """
    creation = Creation(
        client,
        lambda name: client.containers.create(
            image,
            name=name,
            entrypoint=list(command),
            environment=dict(environment),
            labels=as_labels(ContainerLabels(role="look", owner=this_process())),
            network_disabled=True,
            mounts=bind_mounts(mounts, read_only=True),
            **ALWAYS,
        ),
    )
    try:
        container = creation.container()
        container.start()
        container.wait(timeout=_LOOK_LIMIT_S)
        yield container
    except UNREACHABLE as error:
        raise HostError(f"the engine cannot look into image {image}: {said(error)}") from error
    finally:
        try:
            creation.undo()
        except UNREACHABLE as error:  # `reap` finds it by its labels
            log.warning("look.left", image=image, error=said(error))


def output_of(look: Container) -> bytes:
    """What the program printed.

    Raises:
        HostError: It failed; with the end of what it said.
    """
    look.reload()
    if look.attrs["State"]["ExitCode"] != 0:
        told = look.logs(stdout=False).decode("utf-8", "replace").strip()
        raise HostError(f"a look into the image failed: {told[-600:]}")
    return bytes(look.logs(stderr=False))


def _read(look: Container, file: PurePosixPath) -> bytes | None:
    try:
        blocks, _ = look.get_archive(str(file))
    except NotFound:
        return None
    with tarfile.open(fileobj=io.BytesIO(b"".join(blocks))) as archive:
        stream = archive.extractfile(archive.getmembers()[0])
        return None if stream is None else stream.read()
