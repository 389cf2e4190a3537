"""Lifetimes of real containers: nothing is left of a server but its log and its inspection."""

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import httpx
import psutil
import pytest

from orchestrator.adapters.process_server import free_port
from orchestrator.adapters.server_container import how_it_ended
from orchestrator.errors import (
    HostError,
    InterruptedRunError,
    ServerDiedError,
    ServerNotReadyError,
    WrongServerError,
)
from orchestrator.model.container import ContainerPlan, PutFile
from orchestrator.model.plan import LaunchPlan
from tests.container_servers import ANSWERING, ContainerServers, times_of
from tests.test_process_server import eventually, listens

FOREVER = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture
def servers(
    docker_client: docker.DockerClient,
    base_image: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[ContainerServers]:
    """Starts servers; after the test none of its containers may be there."""
    made = ContainerServers(
        docker_client, base_image, tmp_path, f"{request.node.name}-{os.getpid()}"
    )
    yield made
    assert made.left() == []


def with_plan(launch: LaunchPlan, **changes: object) -> LaunchPlan:
    """The launch with another container plan."""
    assert launch.container is not None
    values = launch.container.model_dump() | changes
    container = ContainerPlan.from_json(json.dumps(values))
    return LaunchPlan.model_validate(launch.model_dump() | {"container": container.model_dump()})


def test_a_container_answers_and_leaves_its_log_and_its_inspection(
    servers: ContainerServers,
) -> None:
    """Published on 127.0.0.1 alone, unprivileged, never restarted, never removed by itself."""
    port = free_port()
    with servers.start(servers.launch(ANSWERING), port=port) as server:
        assert eventually(lambda: "up" in servers.log)
        assert httpx.get(f"http://127.0.0.1:{port}/", trust_env=False).text == "here"
        server.check_port_is_ours(port)
        server.check_alive()
        assert server.pids()

    told = json.loads(servers.inspections[0])
    host = told["HostConfig"]
    assert host["PortBindings"] == {f"{port}/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(port)}]}
    assert (host["Privileged"], host["CapDrop"], host["Init"]) == (False, ["ALL"], True)
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert (host["AutoRemove"], host["RestartPolicy"]["Name"]) == (False, "no")
    assert told["State"]["Status"] == "exited"
    assert servers.log.startswith("up\n")
    assert "GET / " in servers.log
    assert not listens(port)


def test_a_server_that_ignores_sigterm_and_forked_a_child_with_the_port_is_gone(
    servers: ContainerServers,
) -> None:
    """SIGKILL of the container after the grace takes the child along."""
    code = """
        import os, signal, socket, sys, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        listener = socket.create_server(("0.0.0.0", int(sys.argv[1])))
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
        print("up", flush=True)
        time.sleep(600)
    """
    port = free_port()
    with servers.start(servers.launch(code, grace_s=0.3), port=port) as server:
        assert eventually(lambda: "up" in servers.log)
        pids = server.pids()
        assert len(pids) == 3

    assert server.how_it_ended() == "killed by SIGKILL (exit code 137)"
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not listens(port)


def test_a_server_that_obeys_sigterm_is_not_killed(servers: ContainerServers) -> None:
    """SIGTERM reaches it through the container's init, and what it says then is in the log."""
    code = """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (print("bye", flush=True), sys.exit(0)))
        print("up", flush=True)
        time.sleep(600)
    """
    with servers.start(servers.launch(code, grace_s=20.0)) as server:
        assert eventually(lambda: "up" in servers.log)

    assert server.how_it_ended() == "exit code 0"
    assert servers.log == "up\nbye\n"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; print('no', flush=True); sys.exit(3)", "exit code 3"),
        ("import sys; sys.exit(0)", "exit code 0"),
        ("import os; os.kill(os.getpid(), 11)", "killed by SIGSEGV (exit code 139)"),
    ],
)
def test_a_container_that_ends_by_itself_is_noticed_with_the_way_it_ended(
    servers: ContainerServers, code: str, told: str
) -> None:
    """At once, from another thread, and nothing asks for it."""
    noticed = threading.Event()
    with servers.start(servers.launch(code)) as server:
        server.on_exit(noticed.set)
        assert noticed.wait(10)
        with pytest.raises(ServerDiedError, match=told.replace("(", r"\(").replace(")", r"\)")):
            server.check_alive()


def test_out_of_memory_is_told_apart_from_a_kill(servers: ContainerServers) -> None:
    """The kernel's kill at the container's own limit names the limit."""
    code = "hoard = bytearray(256 * 2**20); hoard[::4096] = b'1' * len(hoard[::4096])"
    with servers.start(servers.launch(code, memory_bytes=64 * 2**20)) as server:
        assert server.wait_for_exit(20)

    assert server.how_it_ended() == (
        "out of memory: the kernel killed it at its limit of 67108864 bytes (exit code 137)"
    )


def test_a_program_that_the_image_lacks_is_named(servers: ContainerServers) -> None:
    """Not a traceback of the engine."""
    launch = servers.launch("")
    missing = LaunchPlan.model_validate(launch.model_dump() | {"argv": ("no-such-program",)})
    with servers.start(missing) as server:
        assert server.wait_for_exit(10)

    assert "no-such-program" in servers.log
    assert server.how_it_ended() == "exit code 127"


def test_a_port_that_is_taken_is_named_and_nothing_is_left(servers: ContainerServers) -> None:
    """The engine refuses at the start; the container that it created is removed."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(ServerNotReadyError, match=f"port {port} on 127.0.0.1 was taken"),
            servers.start(servers.launch(FOREVER), port=port),
        ):
            pytest.fail("it must not start")

    assert json.loads(servers.inspections[0])["State"]["Status"] == "created"


def test_an_image_that_is_not_there_is_named(servers: ContainerServers) -> None:
    """Nothing is pulled for it."""
    absent = with_plan(servers.launch(FOREVER), image=f"sha256:{'0' * 64}")

    with (
        pytest.raises(HostError, match=r"no image sha256:0+ any more"),
        servers.start(absent),
    ):
        pytest.fail("it must not start")


def test_a_machine_without_gpus_is_told_what_to_install(servers: ContainerServers) -> None:
    """A sentence, and not the engine's status 500."""
    with (
        pytest.raises(HostError, match="NVIDIA Container Toolkit is not installed"),
        servers.start(servers.launch(FOREVER, gpus={"count": "all"})),
    ):
        pytest.fail("it must not start")


def test_a_mount_whose_source_is_missing_is_named(servers: ContainerServers) -> None:
    """Docker's `-v` would make an empty folder there."""
    mounts = [{"source": "/no/such/model", "target": "/model"}]

    with (
        pytest.raises(HostError, match="/no/such/model"),
        servers.start(with_plan(servers.launch(FOREVER), mounts=mounts)),
    ):
        pytest.fail("it must not start")


def test_mounts_are_read_only_and_our_files_are_there_from_the_first_instruction(
    servers: ContainerServers, tmp_path: Path
) -> None:
    """A server cannot change its model, whoever it runs as; what was put is its own copy."""
    for name in ("mounted", "put"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    code = """
        print(open("/m/file").read(), open("/opt/ours/file").read(), flush=True)
        open("/opt/ours/file", "w").write("mine")
        open("/m/file", "w")
    """
    launch = with_plan(
        servers.launch(code),
        mounts=[{"source": str(tmp_path / "mounted"), "target": "/m/file"}],
        files=[PutFile(source=str(tmp_path / "put"), target="/opt/ours/file").model_dump()],
    )
    with servers.start(launch) as server:
        assert server.wait_for_exit(10)

    assert servers.log.startswith("mounted put\n")
    assert "Read-only file system" in servers.log
    assert (tmp_path / "put").read_text(encoding="utf-8") == "put"


def test_a_restarted_container_is_not_ours_any_more(servers: ContainerServers) -> None:
    """Somebody who restarts it makes another start of it: readiness refuses."""
    port = free_port()
    with servers.start(servers.launch(ANSWERING, grace_s=0.2), port=port) as server:
        assert eventually(lambda: "up" in servers.log)
        (name,) = servers.left()
        servers.client.containers.get(name).restart(timeout=0)
        assert server.wait_for_exit(10)
        with pytest.raises(ServerDiedError):
            server.check_alive()
        with pytest.raises(WrongServerError, match="not our container's"):
            server.check_port_is_ours(port + 1)


def test_an_error_in_the_block_leaves_nothing_and_is_what_is_raised(
    servers: ContainerServers,
) -> None:
    """A probe that failed, or a signal: the cause is not hidden by the way down."""

    def interrupted() -> None:
        with servers.start(servers.launch(FOREVER, grace_s=0.1)):
            assert eventually(lambda: "up" in servers.log)
            raise InterruptedRunError("interrupted by SIGTERM")

    with pytest.raises(InterruptedRunError, match="interrupted"):
        interrupted()

    assert servers.log == "up\n"
    assert servers.inspections


def test_a_second_signal_shortens_the_grace_and_skips_nothing(servers: ContainerServers) -> None:
    """The log is whole, the inspection is there, the container is gone."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up'); time.sleep(600)"
    hurry = threading.Event()
    with servers.start(servers.launch(code, grace_s=60.0), hurry=hurry):
        assert eventually(lambda: "up" in servers.log)
        hurry.set()
        left_s = time.monotonic()

    assert time.monotonic() - left_s < 15
    assert servers.inspections


def test_an_interrupted_create_leaves_no_container(servers: ContainerServers) -> None:
    """A signal while the engine creates: the call goes on in its thread, and is undone."""

    def interrupt(*_: object) -> None:
        raise InterruptedRunError("interrupted by SIGINT")

    before = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(0.005, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        timer.start()
        with (
            pytest.raises(InterruptedRunError),
            servers.start(servers.launch(FOREVER, grace_s=0.1)),
        ):
            time.sleep(5)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_on_the_way_down_skips_no_step(servers: ContainerServers) -> None:
    """It comes while the inspection is being kept: that is done again, and what follows too."""
    signals = [InterruptedRunError("interrupted by SIGINT")]

    def keep(text: str) -> None:
        if signals:
            raise signals.pop()
        servers.inspections.append(text)

    servers.keep = keep
    with pytest.raises(InterruptedRunError), servers.start(servers.launch(FOREVER, grace_s=0.1)):
        eventually(lambda: "up" in servers.log)

    assert json.loads(servers.inspections[0])["State"]["Status"] == "exited"
    assert servers.log == "up\n"


def test_a_log_that_the_disk_does_not_take_ends_the_server(
    servers: ContainerServers, tmp_path: Path
) -> None:
    """A full disk is the machine's fault; the container is gone all the same."""
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], check=True)
    servers.log_file = small / "server.log"

    def flooded() -> None:
        code = "import time; [print('x' * 1000) for _ in range(200)]; time.sleep(600)"
        with servers.start(servers.launch(code, grace_s=0.2)) as server:
            assert server.wait_for_exit(10)
            server.check_alive()

    try:
        with pytest.raises(HostError, match=r"its log cannot be written: .*No space left"):
            flooded()
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_two_streams_come_in_their_order_with_times(servers: ContainerServers) -> None:
    """`server.log` is what was written; the file beside it says when and on which stream."""
    code = """
        import os, time
        for number in range(20):
            os.write(1 + number % 2, b"%d\\n" % number)
            time.sleep(0.01)
    """
    with servers.start(servers.launch(code)) as server:
        assert server.wait_for_exit(10)

    assert servers.log.split() == [str(number) for number in range(20)]
    times = list(times_of(servers.log_file))
    assert [stream for _, stream, _ in times] == ["stdout", "stderr"] * 10
    assert sum(size for _, _, size in times) == servers.log_file.stat().st_size
    assert [at for at, _, _ in times] == sorted(at for at, _, _ in times)


def test_long_lines_and_bytes_that_are_no_text_arrive_as_they_were_written(
    servers: ContainerServers,
) -> None:
    """The engine cuts lines at 16 KiB; here they are whole, and the last one has no line feed."""
    code = """
        import sys
        for number in range(3):
            sys.stdout.buffer.write(b"%d" % number * 100_000 + b"\\xff\\xfe\\x00 end\\n")
        sys.stdout.buffer.write(b"no line feed")
    """
    with servers.start(servers.launch(code)) as server:
        assert server.wait_for_exit(10)

    lines = servers.log_file.read_bytes().split(b"\n")
    assert lines[:3] == [b"%d" % n * 100_000 + b"\xff\xfe\x00 end" for n in range(3)]
    assert lines[3:] == [b"no line feed"]


def test_a_flood_of_log_is_whole_and_takes_no_memory(servers: ContainerServers) -> None:
    """64 MiB here, a gigabyte by hand (docs/containers.md): nothing lost, nothing hoarded."""
    code = """
        import sys
        block = (b"x" * 199 + b"\\n") * 5243
        for _ in range(64): sys.stdout.buffer.write(block)
    """
    ours = psutil.Process()
    before = ours.memory_info().rss
    with servers.start(servers.launch(code)) as server:
        assert server.wait_for_exit(120)

    assert servers.log_file.stat().st_size == 200 * 5243 * 64
    assert ours.memory_info().rss - before < 16 * 2**20


def test_short_lives_lose_no_line(servers: ContainerServers, tmp_path: Path) -> None:
    """A container that is gone before anybody follows its log has all of it kept."""
    for number in range(4):
        servers.log_file = tmp_path / f"{number}.log"
        code = "for number in range(2000): print(number)"
        with servers.start(servers.launch(code)) as server:
            server.wait_for_exit(10)

        assert servers.log.split() == [str(n) for n in range(2000)]


def test_two_orchestrators_side_by_side_have_a_container_each(
    servers: ContainerServers, tmp_path: Path
) -> None:
    """Neither takes the other's for its own, and the end of one leaves the other alone."""
    other = ContainerServers(servers.client, servers.image, tmp_path / "other", f"{servers.run}-2")
    other.log_file.parent.mkdir()
    with servers.start(servers.launch(ANSWERING)) as first:
        with other.start(other.launch(ANSWERING)):
            assert eventually(lambda: "up" in other.log and "up" in servers.log)
            assert len(servers.left()) == len(other.left()) == 1
        assert other.left() == []
        first.check_alive()


# Docker-py leaves the socket of a call that the engine's death broke to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_engine_that_is_restarted_ends_the_arm_and_leaves_nothing(
    servers: ContainerServers,
) -> None:
    """The daemon is killed and started anew in the middle: the log is whole, the container gone."""
    daemon = engines_process()
    code = "import time\nfor number in range(1000): print(number, flush=True); time.sleep(0.05)"
    with servers.start(servers.launch(code, grace_s=0.2)) as server:
        assert eventually(lambda: "3" in servers.log.split())
        seen = len(servers.log.split())
        command = daemon.cmdline()
        daemon.kill()
        assert server.wait_for_exit(10)
        assert "the Docker Engine went away" in server.how_it_ended()
        daemon.wait(10)
        subprocess.run(
            ["setsid", "--fork", *command],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
        )  # fmt: skip

    numbers = servers.log.split()
    assert len(numbers) >= seen
    assert numbers == [str(number) for number in range(len(numbers))]
    assert servers.inspections


def engines_process() -> psutil.Process:
    """The daemon behind DOCKER_HOST, which must be of this machine."""
    address = os.environ.get("DOCKER_HOST", "")
    for process in psutil.process_iter(["name", "cmdline"]):
        if process.info["name"] == "dockerd" and address in (process.info["cmdline"] or ()):
            return process
    raise HostError(f"no dockerd of this machine listens on {address or 'DOCKER_HOST, not set'}")


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"ExitCode": 0, "Error": "", "OOMKilled": False}, "exit code 0"),
        ({"ExitCode": 255, "Error": "", "OOMKilled": False}, "exit code 255"),
        (
            {"ExitCode": 128, "Error": "cannot start", "OOMKilled": False},
            "exit code 128, cannot start",
        ),
        ({"ExitCode": 134, "Error": "", "OOMKilled": False}, "killed by SIGABRT (exit code 134)"),
    ],
)
def test_an_end_is_told_in_words(state: dict[str, object], told: str) -> None:
    """A code is a signal only where there is one of that number."""
    assert how_it_ended({"State": state, "HostConfig": {"Memory": 0}}) == told
