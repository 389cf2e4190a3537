"""Whole runs in containers: the miniature in seconds, and one arm of a real vLLM."""

import signal
import subprocess
from pathlib import Path

import docker
import pytest

from orchestrator.cli.imaging import IMAGES, print_built_image
from orchestrator.errors import HostError
from orchestrator.model.labels import FOLDER, OWNER
from orchestrator.model.plan import LaunchPlan
from orchestrator.model.provenance import ArmProvenance
from orchestrator.model.verdict import RunVerdict
from orchestrator.serverlog.scan import scan
from tests.conftest import COMMAND, IN_CI, PROJECT, Call, newest_run
from tests.test_process_server import eventually


def run(project: Path, *arguments: str, limit_s: int = 300) -> subprocess.CompletedProcess[str]:
    """`vllm-arms run` as a user calls it."""
    return subprocess.run(
        [*COMMAND, "run", *arguments, "--project", str(project)],
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


def built(client: docker.DockerClient, name: str, base: str) -> str:
    """An image of ours, built where it is not there yet."""
    if not client.images.list(IMAGES[name]):
        try:
            print_built_image(PROJECT, name, base)
        except HostError as error:
            if IN_CI:
                raise
            pytest.skip(f"{IMAGES[name]} cannot be built here: {error}")
    return IMAGES[name]


def profile_with(project: Path, faults: str, name: str) -> str:
    """A profile as `docker-miniature` with faults; its name."""
    (project / "launch_profiles" / f"{name}.toml").write_text(
        f'extends = "docker-miniature"\nname = "{name}"\n'
        f'[environment]\nMINIATURE_FAULTS = "{faults}"\n',
        encoding="utf-8",
    )
    return name


def left(client: docker.DockerClient, project: Path) -> list[str]:
    """Containers of this project's runs that are still there."""
    ours = client.containers.list(all=True, ignore_removed=True, filters={"label": OWNER})
    return [str(c.name) for c in ours if c.labels.get(FOLDER, "").startswith(str(project))]


def test_four_arms_of_the_miniature_run_in_containers(
    docker_client: docker.DockerClient, base_image: str, project: Path
) -> None:
    """Five fresh containers, two of them patched: logs, inspections, provenance; none left."""
    built(docker_client, "miniature", base_image)

    done = run(project, "four-arm", "--quick", "--profile", "docker-miniature")

    assert done.returncode in {0, 1}, done.stderr  # one document shows the effect or does not
    assert "MINIATURE: not vLLM" in done.stdout
    store = newest_run(project, "four-arm")
    verdict = store.read("verdicts.json", RunVerdict)
    assert {cell.verdict for arm in verdict.arms for cell in arm.cells} <= {"stable", "diverged"}
    images = set()
    for arm in verdict.arms:
        assert b"MINIATURE: not vLLM" in store.log(arm.arm)
        assert store.has(f"arms/{arm.arm}/inspection.json")
        provenance = store.read(f"arms/{arm.arm}/provenance.json", ArmProvenance)
        assert provenance.image is not None
        assert bool(provenance.patched_files) == (arm.arm in {"patched", "sham-patch"})
        images.add(provenance.image.id)
    assert len(images) == 1
    assert left(docker_client, project) == []


def test_an_engine_that_dies_in_a_request_fails_its_arm_alone_and_leaves_nothing(
    docker_client: docker.DockerClient, base_image: str, project: Path
) -> None:
    """Before, during and after readiness alike: the arm's outcome says how, the log is there."""
    built(docker_client, "miniature", base_image)
    profile = profile_with(project, "engine-dies@3", "docker-miniature-dying")

    done = run(project, "three-arm", "--quick", "--arm", "clean", "--profile", profile)

    assert done.returncode == 4, done.stdout
    store = newest_run(project)
    outcome = store.outcome("clean")
    assert outcome is not None
    assert outcome.kind == "failed"
    assert store.log("clean")
    assert store.has("arms/clean/inspection.json")
    assert left(docker_client, project) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_while_it_waits_leaves_no_container(
    docker_client: docker.DockerClient, base_image: str, project: Path, number: signal.Signals
) -> None:
    """Exit 130; the log of the server that was not ready yet is there, and so is its inspection."""
    built(docker_client, "miniature", base_image)
    profile = profile_with(project, "slow-start=60", f"docker-miniature-slow-{number.name.lower()}")
    with subprocess.Popen(
        [*COMMAND, "run", "three-arm", "--quick", "--profile", profile, "--project", str(project)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert eventually(lambda: len(left(docker_client, project)) == 1, limit_s=60)
        waiting = newest_run(project)  # its folder is older than its container
        assert eventually(lambda: waiting.log("clean") != b"", limit_s=60)
        process.send_signal(number)
        _, told = process.communicate(timeout=60)

    assert process.returncode == 130, told
    assert left(docker_client, project) == []
    store = newest_run(project)
    assert store.has("arms/clean/inspection.json")
    assert store.log("clean") or store.has("arms/clean/server.log")


@pytest.mark.vllm
def test_one_arm_of_a_real_vllm_runs_in_a_container(
    docker_client: docker.DockerClient, base_image: str, real_project: Path
) -> None:
    """`docker-vllm-cpu-tiny-hybrid`: the image is built from the prepared engine, no registry."""
    built(docker_client, "vllm-cpu", base_image)

    done = run(
        real_project,
        *("three-arm", "--quick", "--arm", "contaminated"),
        *("--profile", "docker-vllm-cpu-tiny-hybrid"),
        limit_s=600,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    store = newest_run(real_project)
    assert scan([store.log("contaminated")]).value("vllm_version") == "0.29.0"
    provenance = store.read("arms/contaminated/provenance.json", ArmProvenance)
    assert provenance.installation is not None
    assert provenance.installation.packages["vllm"] == "0.29.0+cpu"
    assert provenance.model is not None
    launch = store.read("arms/contaminated/launch.json", LaunchPlan)
    assert launch.container is not None
    assert launch.container.image.startswith("sha256:")
    assert left(docker_client, real_project) == []


@pytest.mark.vllm
def test_an_image_s_own_scheduler_is_asked_without_a_server(
    docker_client: docker.DockerClient, base_image: str, call: Call
) -> None:
    """`predict` holds our rule against the function in the image."""
    built(docker_client, "vllm-cpu", base_image)

    code, told, _ = call(
        "predict", "--profile", "docker-vllm-cpu-tiny-hybrid", "--pair", "94:112:72",
        "--project", PROJECT,
    )  # fmt: skip

    assert code == 0
    assert "agrees with our rule" in told
