"""Which runtime an arm's server is started by: a process of this machine, or a container."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import docker

from orchestrator.adapters.docker_engine import docker_engine
from orchestrator.adapters.docker_server import running_container
from orchestrator.adapters.ownership import this_process
from orchestrator.adapters.process_server import running_process
from orchestrator.adapters.provenance import arm_provenance
from orchestrator.adapters.run_store import RunStore
from orchestrator.adapters.running_server import Runtime
from orchestrator.model.engine import EngineFiles
from orchestrator.model.labels import ContainerLabels
from orchestrator.model.plan import ArmPlan
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
        None if model_dir is None else Path(model_dir),
        {file.file: file.sha256_after for file in changed},
    )
    store.write(f"arms/{arm.name}/provenance.json", provenance)


def _in_container(client: docker.DockerClient, arm: str, store: RunStore) -> Runtime:
    return partial(
        running_container,
        client=client,
        labels=ContainerLabels(
            role="server",
            owner=this_process(),
            run=f"{store.root.parent.name}/{store.root.name}",
            arm=arm,
            folder=str(store.arm_dir(arm).absolute()),
        ),
        keep_inspection=lambda text: store.write_text(f"arms/{arm}/inspection.json", text),
    )
