"""What an arm's server is made of, found out without starting it."""

import sys
from pathlib import Path

import docker
import pytest

from orchestrator.adapters.image_package import image_package
from orchestrator.adapters.ownership import this_process
from orchestrator.adapters.provenance import arm_provenance, model_facts
from orchestrator.errors import HostError
from orchestrator.model.labels import ROLE, read_labels
from orchestrator.model.plan import LaunchPlan
from orchestrator.model.secrets import REMOVED
from tests.container_servers import ContainerServers
from tests.test_process_server import launch

VARIABLE = "HF_TOKEN"


def with_environment(plan: LaunchPlan, **variables: str) -> LaunchPlan:
    """The plan with these variables too."""
    values = plan.model_dump()
    values["environment"] |= variables
    return LaunchPlan.model_validate(values)


def test_an_installation_is_read_from_its_files(tmp_path: Path) -> None:
    """Versions, commit and CUDA of a vLLM that nobody could import."""
    for name, text in {
        "vllm/__init__.py": "raise SystemExit('imported')",
        "vllm/_version.py": "__version__ = '0.29.0'\n__commit_id__ = commit_id = 'gabc'\n",
        "torch/__init__.py": "raise SystemExit('imported')",
        "torch/version.py": "from typing import Optional\ncuda: Optional[str] = '13.0'\n",
        "vllm-0.29.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: vllm\nVersion: 0.29.0\n",
        "cache/vllm/graph": "12345",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    plan = with_environment(
        launch("pass"),
        PYTHONPATH=str(tmp_path),
        VLLM_CACHE_ROOT=str(tmp_path / "cache" / "vllm"),
        TRITON_CACHE_DIR=str(tmp_path / "absent"),
        **{VARIABLE: "hf_secret"},
    )

    found = arm_provenance(plan, None, {"vllm/x.py": "0" * 64})

    assert found.installation is not None
    assert found.installation.packages["vllm"] == "0.29.0"
    assert found.installation.vllm_folder == str(tmp_path / "vllm")
    assert (found.installation.vllm_commit, found.installation.torch_cuda) == ("gabc", "13.0")
    compiled = found.installation.compiled
    assert compiled["vllm"] is not None
    assert (compiled["vllm"].files, compiled["vllm"].size_bytes) == (1, 5)
    assert compiled["triton"] is None
    assert found.environment[VARIABLE] == REMOVED
    assert (found.image, found.model) == (None, None)


def test_an_interpreter_that_cannot_tell_keeps_no_arm_from_running() -> None:
    """Unknown is recorded as unknown."""
    plan = launch("pass").model_dump() | {"argv": ("/no/such/python",)}

    assert arm_provenance(LaunchPlan.model_validate(plan), None, {}).installation is None


def test_a_model_is_known_by_the_list_of_its_files(tmp_path: Path) -> None:
    """Another size, or another name, is another model; the order of the folder is not."""
    snapshot = tmp_path / "models--a--b" / "snapshots" / "0a1b"
    snapshot.mkdir(parents=True)
    (snapshot / "b.safetensors").write_bytes(b"12345")
    (snapshot / "a.json").write_bytes(b"1")
    before = model_facts(snapshot)

    (snapshot / "a.json").write_bytes(b"12")

    assert (before.revision, before.files, before.size_bytes) == ("0a1b", 2, 6)
    assert model_facts(snapshot).list_sha256 != before.list_sha256


def test_a_container_s_image_engine_and_interpreter_are_recorded(
    docker_client: docker.DockerClient, base_image: str, tmp_path: Path
) -> None:
    """Asked in a container without network, which is gone afterwards."""
    plan = ContainerServers(docker_client, base_image, tmp_path, "provenance").launch("pass")

    found = arm_provenance(plan, None, {})

    assert found.image is not None
    assert found.image.id == docker_client.images.get(base_image).id
    assert found.engine_host is not None
    assert found.installation is not None
    assert found.installation.python.startswith(f"3.{sys.version_info.minor}.")
    looks = docker_client.containers.list(
        all=True, ignore_removed=True, filters={"label": f"{ROLE}=look"}
    )
    owners = [told.owner for look in looks if (told := read_labels(look.labels)) is not None]
    assert this_process() not in owners


def test_a_package_is_found_in_an_image_with_the_files_that_it_has(
    docker_client: docker.DockerClient, base_image: str
) -> None:
    """Under the image's own interpreter; what it has not is not there, and is no error."""
    found = image_package(
        docker_client, base_image, "python3", {},
        package="json", files=["json/decoder.py", "json/absent.py", "other/file.py"],
    )  # fmt: skip

    assert found.folder.name == "json"
    assert set(found.sources) == {"json/decoder.py"}
    assert b"class JSONDecoder" in found.sources["json/decoder.py"]
    with pytest.raises(HostError, match="has no_such_package in 0 folders"):
        image_package(docker_client, base_image, "python3", {}, package="no_such_package", files=[])
