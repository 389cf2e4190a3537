"""Containers of killed orchestrators, on a real Docker Engine with the miniature's image."""

import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container

from orchestrator.adapters.ownership import this_process
from orchestrator.model.labels import FOLDER, OWNER, ContainerLabels, as_labels
from orchestrator.model.ownership import Owner
from tests.killing import (
    STAGES,
    about,
    arms,
    has,
    how_it_ended,
    kill_at,
    orchestrating,
    project_with,
    reap,
)

PROFILE = "docker-miniature"


def containers_of(client: docker.DockerClient, project: Path) -> list[Container]:
    """Every container of a project's runs, whatever its state."""
    found = client.containers.list(all=True, filters={"label": OWNER}, ignore_removed=True)
    return [one for one in found if one.labels.get(FOLDER, "").startswith(f"{project}/runs/")]


@pytest.fixture
def container_project(
    own_project: Path, docker_client: docker.DockerClient, miniature_image: str
) -> Iterator[Path]:
    """A project of its own for runs in containers; none of them outlives the test."""
    assert miniature_image
    yield own_project
    for container in containers_of(docker_client, own_project):
        container.remove(force=True, v=True)


@pytest.mark.parametrize("stage", STAGES)
def test_the_container_of_a_run_that_is_killed_at_any_stage_is_saved_and_removed(
    stage: str, container_project: Path, docker_client: docker.DockerClient
) -> None:
    """It outlives its orchestrator; afterwards none is there, its log and inspection are."""
    faults, sign = STAGES[stage]
    project_with(container_project, PROFILE, faults)

    arm = kill_at(container_project, PROFILE, sign)
    (container,) = containers_of(docker_client, container_project)
    code, lines = reap(container_project)

    assert code == 0
    assert containers_of(docker_client, container_project) == []
    (line,) = [line for line in lines if container.short_id in line]
    assert line.startswith("removed: container ")
    assert "arm clean" in line
    assert b"MINIATURE" in (arm / "server.log.engine").read_bytes()
    assert (arm / "server.log").read_bytes().startswith(b"MINIATURE")
    inspection = json.loads((arm / "inspection.json").read_bytes())
    assert inspection["Id"] == container.id
    assert how_it_ended(arm)["how"] == "interrupted"


@pytest.mark.parametrize("action", ["create", "die"])
def test_a_run_that_is_killed_while_a_container_comes_or_goes_leaves_none(
    action: str, container_project: Path, docker_client: docker.DockerClient
) -> None:
    """At the engine's own word: created and perhaps not started, ended and its log being saved."""
    orchestrator: list[int] = []
    seen = threading.Event()

    def kill_at_event() -> None:
        wanted = {"event": action, "label": OWNER}
        with closing(docker_client.events(decode=True, filters=wanted)) as events:
            for event in events:
                folder = event["Actor"]["Attributes"].get(FOLDER, "")
                if folder.startswith(f"{container_project}/runs/"):
                    os.kill(orchestrator[0], signal.SIGKILL)
                    break
        seen.set()

    with orchestrating(container_project, PROFILE) as process:
        orchestrator.append(process.pid)
        threading.Thread(target=kill_at_event, daemon=True).start()
        assert seen.wait(60)
        process.wait()

    code, _ = reap(container_project)

    assert code == 0
    assert containers_of(docker_client, container_project) == []
    (arm,) = arms(container_project)
    assert how_it_ended(arm)["how"] == "interrupted"
    if action == "die":
        assert (arm / "server.log").read_bytes().startswith(b"MINIATURE")


def test_of_two_orchestrators_side_by_side_only_the_dead_ones_container_goes(
    container_project: Path, tmp_path: Path, docker_client: docker.DockerClient
) -> None:
    """The other one is in the middle of its arm, and completes it."""
    other = tmp_path / "other"
    for name in ("arms", "launch_profiles"):
        shutil.copytree(container_project / name, other / name)
    project_with(container_project, PROFILE, "hang@2")
    with orchestrating(other, PROFILE) as living:
        kill_at(container_project, PROFILE, has("exchanges/000-ready.metrics.txt"))
        assert living.poll() is None, (other / "output").read_text()

        code, lines = reap(container_project)

        assert code == 0
        assert containers_of(docker_client, container_project) == []
        assert living.wait(120) == 0, (other / "output").read_text()
    assert not [line for line in about(arms(other)[0], lines) if line.startswith("removed")]
    assert containers_of(docker_client, other) == []


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({OWNER: "{}"}, "does not say whose it is"),
        ({OWNER: '{"pid": 1}'}, "its record says too little"),
        (as_labels(ContainerLabels(role="look", owner=this_process())), "is alive"),
    ],
)
def test_a_container_whose_owner_is_not_certainly_dead_is_left_alone(
    labels: dict[str, str],
    told: str,
    docker_client: docker.DockerClient,
    base_image: str,
    own_project: Path,
) -> None:
    """A label that cannot be understood is no licence."""
    container = docker_client.containers.create(base_image, ["true"], labels=labels)
    try:
        code, lines = reap(own_project)

        assert code == 0
        (line,) = [line for line in lines if container.short_id in line]
        assert line.startswith("left: ")
        assert told in line
    finally:
        container.remove()


def test_a_container_without_our_label_is_a_stranger(
    docker_client: docker.DockerClient, base_image: str, own_project: Path
) -> None:
    """It is neither removed nor mentioned."""
    container = docker_client.containers.create(base_image, ["true"])
    try:
        _, lines = reap(own_project)

        container.reload()
        assert not any(container.short_id in line for line in lines)
    finally:
        container.remove()


def test_a_container_whose_log_cannot_be_saved_is_not_removed(
    docker_client: docker.DockerClient, base_image: str, own_project: Path
) -> None:
    """What it said is worth more than the room that it takes; exit code 4 says that it is there."""
    (own_project / ".server.log.engine.partial").mkdir()
    owner = Owner.model_validate(this_process().model_dump() | {"pid_started_ticks": 1})
    labels = as_labels(ContainerLabels(role="server", owner=owner, folder=str(own_project)))
    container = docker_client.containers.create(base_image, ["true"], labels=labels)
    try:
        code, lines = reap(own_project)

        container.reload()
        assert code == 4
        (line,) = [line for line in lines if container.short_id in line]
        assert "not removed" in line
    finally:
        container.remove()
