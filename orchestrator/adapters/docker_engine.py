"""The Docker Engine: reached as the Docker command line reaches it, and asked about images.

DOCKER_HOST names the engine, on this machine or on another (`engine_place`). Nothing is ever
pulled: which image a run uses must not depend on what a registry holds today.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound

from orchestrator.adapters.engine_place import SshPlace, engine_place
from orchestrator.adapters.ssh_tunnel import engine_tunnel
from orchestrator.errors import HostError
from orchestrator.model.container import DigestPin, LocalPin, Platform, TagPin, stated
from orchestrator.model.provenance import ImageFacts

CALL_LIMIT_S = 60.0
"""For one call to the engine but those that wait for a container. A create takes 0.05 s."""

UNREACHABLE = (requests.RequestException, DockerException)
"""What docker-py raises when the engine does not answer; `APIError`, its answer, is one too."""


@contextmanager
def docker_engine() -> Iterator[docker.DockerClient]:
    """A connection to the engine, closed with the block.

    Raises:
        HostError: It does not answer, or its machine is not reached.
    """
    with ExitStack() as opened:
        place = engine_place()
        try:
            client = _connected(place, opened)
        except UNREACHABLE as error:
            where = "" if place is None else f" on {place.destination}"
            raise HostError(
                f"the Docker Engine{where} does not answer: {error}; is it running, and does"
                " DOCKER_HOST name it?"
            ) from error
        opened.callback(client.close)
        yield client


def _connected(place: SshPlace | None, opened: ExitStack) -> docker.DockerClient:
    """A client, which has asked for the engine's version."""
    if place is None or place.socket is None:
        return docker.from_env(timeout=int(CALL_LIMIT_S))
    address = opened.enter_context(engine_tunnel(place))
    return docker.DockerClient(base_url=address, timeout=int(CALL_LIMIT_S))


def find_image(
    client: docker.DockerClient, pin: DigestPin | LocalPin | TagPin, platform: Platform
) -> ImageFacts:
    """The image that a pin stands for on this engine.

    Raises:
        HostError: It is not there, its digest is another one, or it would have to be emulated.
    """
    name = stated(pin)
    try:
        image = image_facts(client, name, declared=name)
        machine = str(client.version()["Arch"])
    except ImageNotFound as error:
        obtain = pin.obtain or (
            "build it again, or pin the id that `docker images --no-trunc` lists"
            if isinstance(pin, LocalPin)
            else f"docker pull --platform {platform} {name}"
        )
        raise HostError(f"the engine has no image {name}; to get it: {obtain}") from error
    except UNREACHABLE as error:
        raise HostError(f"the engine does not tell about image {name}: {error}") from error
    _check_digest(pin, image)
    _check_platform(name, platform, image.platform, f"linux/{machine}")
    return image


def image_facts(client: docker.DockerClient, name: str, *, declared: str) -> ImageFacts:
    """What the engine says about an image.

    Raises:
        docker.errors.DockerException: It is not there, or the engine does not answer.
    """
    told = client.images.get(name).attrs
    return ImageFacts(
        declared=declared,
        id=str(told["Id"]),
        digests=tuple(told.get("RepoDigests") or ()),
        tags=tuple(told.get("RepoTags") or ()),
        platform=f"{told['Os']}/{told['Architecture']}",
        created=told.get("Created"),
    )


def _check_digest(pin: DigestPin | LocalPin | TagPin, image: ImageFacts) -> None:
    if not isinstance(pin, TagPin) or pin.digest_begins is None:
        return
    begins = f"@{pin.digest_begins}"
    if not any(begins in digest for digest in image.digests):
        have = ", ".join(image.digests) or "none, as of an image that was built here"
        raise HostError(
            f"image {pin.reference} has the digest {have}; the profile's begins {pin.digest_begins}"
        )


def _check_platform(name: str, wanted: str, image: str, machine: str) -> None:
    if image != wanted:
        raise HostError(f"image {name} is {image}, the profile's platform is {wanted}")
    if machine != wanted:
        raise HostError(
            f"the engine's machine is {machine}, the profile's platform is {wanted}: it would be"
            " emulated, and an emulated processor's numbers are not evidence"
        )


def said(error: Exception) -> str:
    """What the engine answered, without the address of the call."""
    return (error.explanation if isinstance(error, APIError) else None) or str(error)
