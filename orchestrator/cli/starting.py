"""Which runtime an arm's server is started by: a process of this machine, or a container."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event

import docker

from orchestrator.adapters.docker_engine import docker_engine
from orchestrator.adapters.docker_server import running_container
from orchestrator.adapters.engine_place import engine_place
from orchestrator.adapters.host_account import accounted_host
from orchestrator.adapters.ownership import this_process
from orchestrator.adapters.process_server import running_process
from orchestrator.adapters.provenance import arm_provenance
from orchestrator.adapters.remote_memory import ReadMemory, memory_there
from orchestrator.adapters.run_store import RunStore
from orchestrator.adapters.running_server import Runtime
from orchestrator.errors import HostError
from orchestrator.model.engine import EngineFiles
from orchestrator.model.labels import ContainerLabels
from orchestrator.model.plan import ArmPlan, LaunchPlan
from orchestrator.planning.containers import model_on_host


@contextmanager
def runtime_of(arm: ArmPlan, store: RunStore) -> Iterator[Runtime]:
    """The runtime that the arm's launch plan asks for.

    Raises:
        HostError: The Docker Engine does not answer.
    """
    if arm.launch.container is None:
        yield running_process
        return
    with docker_engine() as client:
        yield _in_container(client, arm.name, store)


@contextmanager
def host_of(arm: ArmPlan, store: RunStore, hurry: Event) -> Iterator[ReadMemory | None]:
    """The server's machine around its life; gives what reads its memory if it is not this one.

    This machine is compared before and after; another one is not, since what else runs there is
    not known from here.

    Raises:
        HostError: The machine is not ready for a server, or is not reached.
    """
    limits = arm.launch.host
    place = None if arm.launch.container is None else engine_place()
    if place is None:
        with accounted_host(limits, lambda it: store.save_host(arm.name, it), hurry=hurry):
            yield None
        return
    if limits.drop_page_cache:
        raise HostError(
            "host.drop_page_cache: the server's machine is another one; leave it out of the"
            " profile, and drop its page cache there before"
        )
    with memory_there(place) as read:
        yield read


def is_elsewhere(launch: LaunchPlan) -> bool:
    """Whether the server runs on another machine, of which this one's readings say nothing.

    Raises:
        HostError: DOCKER_HOST is not usable.
    """
    return launch.container is not None and engine_place() is not None


def write_launch(store: RunStore, arm: ArmPlan, engine: EngineFiles) -> None:
    """Put on disk how an arm's server is started, and what it is made of, without secrets.

    Raises:
        HostError: The disk, or the Docker Engine, does not do its part.
    """
    store.write(f"arms/{arm.name}/launch.json", arm.launch)
    model_dir = model_on_host(engine)
    overlay = store.overlay(arm.name)
    changed = () if overlay is None else overlay.provenance.files
    provenance = arm_provenance(
        arm.launch,
        None if model_dir is None or is_elsewhere(arm.launch) else Path(model_dir),
        {file.file: file.sha256_after for file in changed},
    )
    store.write(f"arms/{arm.name}/provenance.json", provenance)


def _in_container(client: docker.DockerClient, arm: str, store: RunStore) -> Runtime:
    return partial(
        running_container,
        client=client,
        place=engine_place(),
        labels=ContainerLabels(
            role="server",
            owner=this_process(),
            run=f"{store.root.parent.name}/{store.root.name}",
            arm=arm,
            folder=str(store.arm_dir(arm).absolute()),
        ),
        keep_inspection=lambda text: store.write_text(f"arms/{arm}/inspection.json", text),
    )
