"""Which runtime an arm's server is started by: a process of this machine, or a container."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import docker

from orchestrator.adapters.docker_engine import docker_engine
from orchestrator.adapters.docker_server import running_container
from orchestrator.adapters.ownership import this_process
from orchestrator.adapters.process_server import running_process
from orchestrator.adapters.run_store import RunStore
from orchestrator.adapters.running_server import Runtime
from orchestrator.model.labels import ContainerLabels
from orchestrator.model.plan import ArmPlan


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
