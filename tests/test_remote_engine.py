"""An engine on another machine: reached by SSH, nothing of this machine's file system mounted."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from getpass import getuser
from pathlib import Path
from urllib.request import urlopen

import docker
import pytest

from orchestrator.adapters.definition_files import Definitions
from orchestrator.adapters.docker_engine import docker_engine
from orchestrator.adapters.engine_place import engine_place
from orchestrator.adapters.process_server import free_port
from orchestrator.cli.containers import container_files
from orchestrator.errors import DefinitionError, HostError, ServerDiedError
from orchestrator.model.profile import DockerProfile
from orchestrator.model.verdict import RunVerdict
from tests.conftest import COMMAND, IN_CI, PROJECT, newest_run
from tests.container_servers import ANSWERING, ContainerServers
from tests.ssh_box import SSHD, SshBox, ssh_box
from tests.test_docker_runs import built, left, run
from tests.test_process_server import eventually
from tests.tls_door import make_certificates, tls_door


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshBox]:
    """An SSH server of this test's, in front of the engine; DOCKER_HOST leads through it."""
    if SSHD is None:
        if IN_CI:
            raise HostError("sshd is not installed: apt-get install openssh-server")
        pytest.skip("no sshd here: apt-get install openssh-server")
    socket = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
    with ssh_box(tmp_path / "box", free_port()) as started:
        monkeypatch.setenv("PATH", f"{started.bin}:{os.environ['PATH']}")
        monkeypatch.setenv("DOCKER_HOST", f"ssh://{getuser()}@127.0.0.1:{started.port}{socket}")
        yield started


@pytest.fixture
def far_servers(
    docker_client: docker.DockerClient, base_image: str, box: SshBox, tmp_path: Path
) -> Iterator[ContainerServers]:
    """Trivial servers on the engine behind the box."""
    assert docker_client.ping()
    with docker_engine() as client:
        yield ContainerServers(
            client, base_image, tmp_path, f"remote/{box.port}", place=engine_place()
        )


_COMMAND_LIMIT_S = 120


def _connect() -> None:
    with docker_engine():
        pass


def _called(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments, "--project", str(project)],
        capture_output=True, text=True, timeout=_COMMAND_LIMIT_S, check=False,
    )  # fmt: skip


def test_three_arms_run_on_an_engine_behind_ssh(
    docker_client: docker.DockerClient, base_image: str, box: SshBox, project: Path
) -> None:
    """Nothing of this machine is mounted, no port of the box is ours, and no tunnel is left."""
    built(docker_client, "miniature", base_image)

    done = run(project, "three-arm", "--quick", "--profile", "docker-miniature")

    assert done.returncode in {0, 1}, done.stderr  # one document shows the effect or does not
    store = newest_run(project, "three-arm")
    verdict = store.read("verdicts.json", RunVerdict)
    assert {cell.verdict for arm in verdict.arms for cell in arm.cells} <= {"stable", "diverged"}
    for arm in verdict.arms:
        told = json.loads((store.arm_dir(arm.arm) / "inspection.json").read_text())
        assert told["HostConfig"]["Binds"] is None
        assert not told["HostConfig"].get("Mounts")
        assert told["Mounts"] == []
        assert b"MINIATURE: not vLLM" in store.log(arm.arm)
        assert store.memory(arm.arm)
    assert left(docker_client, project) == []
    assert eventually(lambda: box.clients() == [])


def test_a_port_of_this_machine_leads_to_one_that_the_engine_chose(
    far_servers: ContainerServers,
) -> None:
    """The two ports differ, and the server knows that the tunnel's is its own."""
    port = free_port()
    with far_servers.start(far_servers.launch(ANSWERING), port=port) as server:
        assert eventually(lambda: "up" in far_servers.log)
        with urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
            assert answer.read() == b"here"
        server.check_port_is_ours(port)
    published = json.loads(far_servers.inspections[0])["HostConfig"]["PortBindings"]
    assert published == {f"{port}/tcp": [{"HostIp": "127.0.0.1", "HostPort": "0"}]}
    assert far_servers.left() == []


def test_a_tunnel_that_ends_in_the_middle_ends_the_arm_and_leaves_nothing(
    far_servers: ContainerServers, box: SshBox
) -> None:
    """Every ssh is killed: a sentence says so, and the reopened tunnel takes the container down."""
    with far_servers.start(far_servers.launch(ANSWERING)) as server:
        assert eventually(lambda: "up" in far_servers.log)
        for pid in box.clients():
            os.kill(pid, signal.SIGKILL)
        assert server.wait_for_exit(10)
        with pytest.raises(
            ServerDiedError, match=r"SSH tunnel to .* ended|Docker Engine went away"
        ):
            server.check_alive()
    assert far_servers.left() == []
    assert far_servers.inspections


def test_a_box_that_stays_away_is_named_and_reaped_when_it_is_back(
    docker_client: docker.DockerClient, base_image: str, box: SshBox, project: Path
) -> None:
    """The orchestrator is killed while the box is away; `reap` removes the container later."""
    built(docker_client, "miniature", base_image)
    command = ["run", "three-arm", "--quick", "--profile", "docker-miniature"]
    process = subprocess.Popen(
        [*COMMAND, *command, "--project", str(project)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert eventually(lambda: left(docker_client, project) != [], limit_s=60)
    box.stop()
    process.kill()
    process.wait()
    assert left(docker_client, project) != []
    assert eventually(lambda: box.clients() == []), "a tunnel outlives the orchestrator"
    away = _called(project, "reap")
    assert "Connection refused" in away.stdout

    box.start()
    back = _called(project, "reap")

    assert back.returncode == 0, back.stdout + back.stderr
    assert left(docker_client, project) == []


def test_a_box_that_is_not_there_is_told_in_a_sentence(
    box: SshBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what ssh says, and with what must work first."""
    monkeypatch.setenv("DOCKER_HOST", f"ssh://nobody@127.0.0.1:{free_port()}")

    with pytest.raises(HostError, match=r"nobody@127\.0\.0\.1 ended: .*Connection refused.*must"):
        _connect()

    assert box.clients() == []


def test_a_key_that_the_box_does_not_know_is_told_in_a_sentence(box: SshBox) -> None:
    """Nothing is asked for on the terminal."""
    settings = box.folder / "ssh_config"
    settings.write_text(settings.read_text().replace("/key\n", "/strange_key\n"))

    with pytest.raises(HostError, match=r"Permission denied \(publickey\).*without a question"):
        _connect()


def test_a_host_key_that_is_not_the_known_one_is_refused(box: SshBox) -> None:
    """Whoever answers in the box's place gets nothing."""
    strange = " ".join((box.folder / "strange_key.pub").read_text().split()[:2])
    (box.folder / "known_hosts").write_text(f"[127.0.0.1]:{box.port} {strange}\n")

    with pytest.raises(HostError, match="Host key verification failed"):
        _connect()


def test_a_box_without_an_engine_is_told_in_a_sentence(
    box: SshBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The box is reached, its engine is not."""
    monkeypatch.setenv("DOCKER_HOST", f"ssh://{getuser()}@127.0.0.1:{box.port}/nowhere.sock")

    with pytest.raises(HostError, match=r"Docker Engine on .*127\.0\.0\.1 does not answer"):
        _connect()


def test_a_model_that_was_prepared_here_is_refused_for_an_engine_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its folder would be mounted on the box, where it is not."""
    monkeypatch.setenv("DOCKER_HOST", "ssh://user@127.0.0.1:1")
    definitions = Definitions(PROJECT)
    profile = definitions.profile("docker-vllm-cpu-tiny-hybrid")
    assert isinstance(profile, DockerProfile)

    with pytest.raises(DefinitionError, match=r'the engine is on another.*model\.kind = "own"'):
        container_files(definitions, profile, None)


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"DOCKER_HOST": "tcp://box:2375"}, "without TLS whoever reaches this port is root"),
        (
            {"DOCKER_HOST": "tcp://box:2376", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/no"},
            "ca.pem, cert.pem, key.pem is not there",
        ),
        ({"DOCKER_HOST": "ssh://user:secret@box"}, "without a password"),
        ({"DOCKER_HOST": "ssh://box:port"}, "DOCKER_HOST"),
        ({"DOCKER_HOST": "ssh://"}, "it must be"),
    ],
)
def test_an_address_that_is_not_safe_or_not_enough_is_refused(
    variables: dict[str, str], told: str
) -> None:
    """Each with the variable to change; a password is not repeated."""
    with pytest.raises(HostError, match=told) as refused:
        engine_place(variables)

    assert "secret" not in str(refused.value)


def test_the_places_of_an_address_are_told_apart() -> None:
    """User, port and socket are optional."""
    full = engine_place({"DOCKER_HOST": "ssh://me@box:2222/run/other.sock"})
    short = engine_place({"DOCKER_HOST": "ssh://box"})

    assert full is not None
    assert (full.destination, full.port, full.socket) == ("me@box", 2222, "/run/other.sock")
    assert short is not None
    assert (short.destination, short.port, short.socket) == ("box", None, "/var/run/docker.sock")
    assert engine_place({"DOCKER_HOST": "unix:///var/run/docker.sock"}) is None
    assert engine_place({}) is None


@pytest.mark.usefixtures("box")
def test_an_engine_behind_tls_is_used_with_its_port_by_ssh(
    docker_client: docker.DockerClient,
    base_image: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The engine by tcp with certificates, the server's port by VLLM_ARMS_SSH; nothing is left."""
    assert docker_client.ping()
    address = os.environ["DOCKER_HOST"].removeprefix("ssh://")
    make_certificates(tmp_path / "certificates")
    door = free_port()
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{door}")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)  # would take the place of our CA
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path / "certificates"))
    monkeypatch.setenv("VLLM_ARMS_SSH", f"ssh://{address.partition('/')[0]}")
    port = free_port()

    with (
        tls_door(tmp_path / "certificates", door, f"/{address.partition('/')[2]}"),
        docker_engine() as client,
    ):
        servers = ContainerServers(
            client, base_image, tmp_path, f"tls/{door}", place=engine_place()
        )
        with servers.start(servers.launch(ANSWERING), port=port) as server:
            assert eventually(lambda: "up" in servers.log)
            with urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
                assert answer.read() == b"here"
            server.check_port_is_ours(port)
        assert servers.left() == []


def test_an_engine_whose_certificate_is_another_ones_is_refused(
    docker_client: docker.DockerClient,
    box: SshBox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that our CA did not sign for gets no request."""
    assert docker_client.ping()
    socket = f"/{os.environ['DOCKER_HOST'].removeprefix('ssh://').partition('/')[2]}"
    for whose in ("ours", "theirs"):
        make_certificates(tmp_path / whose)
    door = free_port()
    monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{door}")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.delenv("REQUESTS_CA_BUNDLE", raising=False)  # would take the place of our CA
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path / "ours"))
    monkeypatch.setenv("VLLM_ARMS_SSH", f"ssh://127.0.0.1:{box.port}")

    with (
        tls_door(tmp_path / "theirs", door, socket),
        pytest.raises(HostError, match=r"127\.0\.0\.1 does not answer: .*certificate"),
    ):
        _connect()
