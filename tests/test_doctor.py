"""Is this machine able to run it? Asked of real engines, real files and a real Docker Engine."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import docker
import pytest

from orchestrator.adapters.engine_preparation import PreparedEngine
from orchestrator.adapters.process_marks import marks
from orchestrator.cli.doctor.examining import checks
from orchestrator.model.check import Check
from orchestrator.model.labels import ROLE
from tests.conftest import Call
from tests.killing import STAGES, kill_at, project_with

Examine = Callable[..., dict[str, Check]]


@pytest.fixture
def examine(own_project: Path) -> Examine:
    """Every check of `four-arm` on a profile, by name; the profile's text is changed before."""

    def examined(profile: str, changes: dict[str, str] | None = None) -> dict[str, Check]:
        path = own_project / "launch_profiles" / f"{profile}.toml"
        text = path.read_text(encoding="utf-8")
        for old, new in (changes or {}).items():
            assert old in text
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
        return {check.name: check for check in checks(own_project, "four-arm", profile)}

    return examined


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program of that name on the path; what it prints is given."""

    def printing(output: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        program = folder / "nvidia-smi"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{output}\nEND\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    return printing


def own_interpreter(python: str, model_dir: Path, tokenizer_file: Path) -> dict[str, str]:
    """The miniature's profile, made one of an interpreter that is there already."""
    return {
        'kind = "miniature"\ntokenizer_of = "vllm-cpu"': f'kind = "own"\npython = "{python}"\n'
        f'model_dir = "{model_dir}"\ntokenizer_file = "{tokenizer_file}"'
    }


def test_a_machine_that_can_run_it_is_exit_code_0(call: Call, own_project: Path) -> None:
    """One row a check, and a last line that counts them."""
    code, out, _ = call("doctor", "--profile", "miniature", "--project", own_project)

    assert code == 0, out
    assert "miniature, four-arm: 12 checks, 0 failed, 0 cannot say" in out
    for name in ("engine", "GPU", "flags", "patches", "model", "memory", "disk", "rivals"):
        assert f"│ {name} " in out


def test_a_flag_that_the_engine_does_not_know_fails_with_the_nearest_one(
    examine: Examine,
) -> None:
    """Asked of the engine's own program: old flags on a new release fail late and silently."""
    found = examine("miniature", {'"--block-size"': '"--block-sizes"'})["flags"]

    assert found.result == "failed"
    assert "--block-sizes (nearest: --block-size)" in found.sentence
    assert "args in the profile" in found.advice


def test_the_flags_of_every_arm_are_asked_about(examine: Examine, own_project: Path) -> None:
    """One that a single arm brings is not missed."""
    path = own_project / "arms" / "four-arm.toml"
    text = path.read_text(encoding="utf-8")
    head, mark, last = text.rpartition("[[arms]]\n")
    path.write_text(f'{head}{mark}extra_args = ["--only-here"]\n{last}', encoding="utf-8")

    found = examine("miniature")["flags"]

    assert found.result == "failed"
    assert "--only-here (nearest: none)" in found.sentence


def test_an_interpreter_without_the_declared_release_fails(
    examine: Examine, tmp_path: Path, tokenizer_file: Path
) -> None:
    """This one has no vLLM at all; what hangs on it cannot be said."""
    found = examine("miniature", own_interpreter(sys.executable, tmp_path, tokenizer_file))

    assert found["engine"].result == "failed"
    assert "has vLLM (none), the profile declares MINIATURE" in found["engine"].sentence
    assert found["GPU"].result == "cannot say"


def test_a_model_that_is_not_complete_fails_with_what_is_missing(
    examine: Examine, tmp_path: Path, tokenizer_file: Path
) -> None:
    """Before anything is started, and not eight minutes into it."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "model-00001-of-00002.safetensors").write_bytes(b"")

    found = examine("miniature", own_interpreter(sys.executable, model, tokenizer_file))["model"]

    assert found.result == "failed"
    assert "config.json is missing" in found.sentence
    assert "model-00002-of-00002.safetensors is missing" in found.sentence


def test_a_patch_whose_anchor_is_not_there_fails(examine: Examine, own_project: Path) -> None:
    """Against the engine's own files, as `run` does it later."""
    path = own_project / "arms" / "patches" / "sham.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("next_block_boundary", "no_such_name"), encoding="utf-8")

    found = examine("miniature")["patches"]

    assert found.result == "failed"
    assert "sham.toml" in found.sentence


def test_too_little_memory_fails_with_the_figures(examine: Examine) -> None:
    """What a start takes, and the floor on top of it."""
    needed = {"memory_needed_bytes = 268_435_456": f"memory_needed_bytes = {2**50}"}

    found = examine("miniature", needed)["memory"]

    assert found.result == "failed"
    assert "available, 1048576.0 GiB needed" in found.sentence


def test_memory_that_nobody_declared_cannot_be_judged(
    call: Call, examine: Examine, own_project: Path
) -> None:
    """Neither enough nor too little: it is shown, and fails nothing."""
    found = examine("miniature", {"memory_needed_bytes = 268_435_456": ""})["memory"]
    code, out, _ = call("doctor", "--profile", "miniature", "--project", own_project)

    assert found.result == "cannot say"
    assert "0 failed, 1 cannot say" in out
    assert code == 0


def test_a_run_that_was_killed_fails_until_it_is_reaped(
    call: Call, examine: Examine, own_project: Path
) -> None:
    """And the advice is the command that does it."""
    faults, sign = STAGES["wait"]
    project_with(own_project, "miniature", faults)
    kill_at(own_project, "miniature", sign)

    found = examine("miniature")["leftovers"]
    assert (found.result, found.advice) == ("failed", "vllm-arms reap")
    assert found.sentence.endswith("of killed runs")

    call("reap", "--project", own_project)
    assert "run three-arm" not in examine("miniature")["leftovers"].sentence


def test_whoever_holds_a_gpu_is_named(
    examine: Examine, nvidia_smi: Callable[[str], None], tmp_path: Path
) -> None:
    """A stranger, and a server of ours that another orchestrator started."""
    environment = marks(tmp_path)
    with (
        subprocess.Popen(["/bin/sleep", "600"], env={}) as stranger,
        subprocess.Popen(["/bin/sleep", "600"], env=environment) as ours,
    ):
        nvidia_smi(f"{stranger.pid}, python, with, commas, 20480\n{ours.pid}, VLLM, [N/A]")
        try:
            found = examine("miniature")["rivals"]
        finally:
            stranger.kill()
            ours.kill()

    assert found.result == "failed"
    assert f"process {stranger.pid} (python, with, commas) with 20480 MiB" in found.sentence
    assert f"process {ours.pid} (VLLM) with an unknown amount of GPU memory" in found.sentence
    assert found.sentence.count("a server of ours") == 1


def test_a_gpu_that_nobody_holds_is_free(
    examine: Examine, nvidia_smi: Callable[[str], None]
) -> None:
    """nvidia-smi prints nothing then."""
    nvidia_smi("")

    assert examine("miniature")["rivals"].sentence == "nobody holds a GPU"


def test_a_profile_of_a_model_that_is_not_here_fails_as_a_plan(
    examine: Examine, tmp_path: Path, tokenizer_file: Path
) -> None:
    """It names the key; what needs no plan is checked all the same."""
    absent = tmp_path / "absent"

    found = examine("miniature", own_interpreter(sys.executable, absent, tokenizer_file))

    assert found["disk"].result == "ok"
    assert "flags" not in found
    assert f"interpreter.model_dir: {absent} does not exist" in found["plan"].sentence


def test_without_a_docker_engine_nothing_about_containers_can_be_said(
    examine: Examine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The engine's check fails, and what hangs on it is not called ok."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")

    found = examine("docker-miniature")

    assert found["engine"].result == "failed"
    for name in ("image", "flags", "leftovers"):
        assert found[name].result == "cannot say", name


def test_this_machines_readings_say_nothing_of_an_engine_elsewhere(
    call: Call, own_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its memory and its GPUs are not those that a server would have."""
    monkeypatch.setenv("DOCKER_HOST", "ssh://nosuch.invalid")
    _, output, _ = call("doctor", "--profile", "docker-miniature", "--project", own_project)

    told = [line for line in output.splitlines() if "machine is another one" in line]
    assert ["memory" in told[0], "rivals" in told[1]] == [True, True]
    assert all("cannot say" in line for line in told)


def test_an_image_that_is_not_there_fails_with_the_command_that_makes_it(
    examine: Examine, docker_client: docker.DockerClient
) -> None:
    """And its flags cannot be asked about."""
    assert docker_client.ping()
    reference = 'reference = "vllm-arms-miniature:local"'

    found = examine("docker-miniature", {reference: 'reference = "vllm-arms-absent:local"'})

    assert found["engine"].result == "ok"
    assert found["image"].result == "failed"
    assert "make image-miniature" in found["image"].sentence
    assert found["flags"].result == "cannot say"


def test_the_flags_of_an_image_are_asked_in_a_container_that_does_not_stay(
    examine: Examine, docker_client: docker.DockerClient, miniature_image: str
) -> None:
    """Without network, by the image's own program."""
    assert miniature_image

    found = examine("docker-miniature", {'"--block-size"': '"--block-sizes"'})

    assert found["image"].result == "ok"
    assert found["flags"].result == "failed"
    assert "unknown to `python3 -m orchestrator.miniature`" in found["flags"].sentence
    assert not docker_client.containers.list(
        all=True, filters={"label": f"{ROLE}=look"}, ignore_removed=True
    )


def test_gpus_that_the_engine_cannot_give_fail_with_what_to_install(
    examine: Examine, docker_client: docker.DockerClient
) -> None:
    """An engine without the NVIDIA runtime, as this one is, and a profile that wants it."""
    runtimes = docker_client.info()["Runtimes"]
    wanted = {"[resources]\n": "[resources]\ngpus = { count = 1 }\n"}

    found = examine("docker-miniature", wanted)["GPU"]

    if "nvidia" in runtimes:
        assert found.result in ("ok", "cannot say")
    else:
        assert found.result == "failed"
        assert "nvidia-ctk runtime configure" in found.advice


@pytest.mark.vllm
def test_the_real_engine_passes_every_check(examine: Examine, engine: PreparedEngine) -> None:
    """Its release, its model, its patches, and each flag by its own help."""
    found = examine("vllm-cpu-tiny-hybrid")

    assert found["engine"].sentence.startswith("vLLM 0.29.0")
    for name in ("machine", "engine", "GPU", "flags", "patches", "model"):
        assert found[name].result == "ok", found[name]
    assert str(engine.model_dir) in found["model"].sentence
