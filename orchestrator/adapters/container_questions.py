"""Questions to an image, answered by a program of it in a container without network."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import docker
from docker.errors import NotFound

from orchestrator.adapters.docker_engine import UNREACHABLE, said
from orchestrator.adapters.ownership import this_process
from orchestrator.errors import HostError
from orchestrator.flags import known_flags
from orchestrator.model.labels import ContainerLabels, as_labels

_LIMIT_S = 180
"""For a program to import what it needs and print; vLLM's help takes 8 s on an idle machine."""


def flags_known_in(
    client: docker.DockerClient,
    image: str,
    program: Sequence[str],
    environment: Mapping[str, str],
) -> frozenset[str]:
    """The flags that a program of an image names in its help (`engine_questions` says how).

    Raises:
        HostError: It names none, or the container cannot be run.
    """
    for question in ("--help=all", "--help"):
        flags = known_flags(_printed(client, image, [*program, question], environment))
        if flags:
            return flags
    raise HostError(f"the help of `{' '.join(program)}` names no flags in a container")


def _printed(
    client: docker.DockerClient,
    image: str,
    argv: Sequence[str],
    environment: Mapping[str, str],
) -> str:
    """Standard output of a program that ends by itself; nothing of its container stays."""
    try:
        container = client.containers.create(
            image,
            entrypoint=[argv[0]],
            command=list(argv[1:]),
            environment=dict(environment),
            network_mode="none",
            cap_drop=["ALL"],
            init=True,
            labels=as_labels(ContainerLabels(role="look", owner=this_process())),
        )
    except UNREACHABLE as error:
        raise HostError(f"the engine makes no container of the image: {said(error)}") from error
    try:
        container.start()
        container.wait(timeout=_LIMIT_S)
        return container.logs(stdout=True, stderr=False).decode("utf-8", "replace")
    except UNREACHABLE as error:
        raise HostError(f"a container of the image gave no answer: {said(error)}") from error
    finally:
        with suppress(NotFound):
            container.remove(force=True, v=True)
