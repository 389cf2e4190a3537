"""Lifetimes of real processes: nothing of a server survives its block."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest

from orchestrator.adapters import server_init
from orchestrator.adapters.process_server import (
    ServerProcess,
    environment,
    free_port,
    running_process,
)
from orchestrator.errors import ServerDiedError, WrongServerError
from orchestrator.model.plan import LaunchPlan
from orchestrator.model.profile import ReadyLimits, StopLimits

Start = Callable[..., AbstractContextManager[ServerProcess]]

STUBBORN = """
    import os, signal, socket, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    if os.fork() == 0:
        os.setsid()                      # leaves the group, keeps the port
        time.sleep(600)
    print("up", flush=True)
    time.sleep(600)
"""


def launch(code: str, *, grace_s: float = 0.3, inherit: tuple[str, ...] = ()) -> LaunchPlan:
    """A server that is a few lines of Python; its first argument is the port."""
    return LaunchPlan(
        argv=(sys.executable, "-c", textwrap.dedent(code), "{port}"),
        environment={"PYTHONUNBUFFERED": "1"},
        inherit=inherit,
        ready=ReadyLimits(total_timeout_s=10.0, no_progress_timeout_s=10.0),
        stop=StopLimits(grace_s=grace_s),
        request_timeout_s=5.0,
    )


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    """Where the server's output goes."""
    return tmp_path / "server.log"


@pytest.fixture
def start(log_file: Path) -> Start:
    """Starts a few lines of Python as a server."""

    def started(code: str, **options: object) -> AbstractContextManager[ServerProcess]:
        hurry = options.pop("hurry", threading.Event())
        port = options.pop("port", free_port())
        plan = launch(code, **options)  # type: ignore[arg-type]
        return running_process(plan, port=port, log_file=log_file, hurry=hurry)  # type: ignore[arg-type]

    return started


def eventually(condition: Callable[[], bool], limit_s: float = 10.0) -> bool:
    """Whether it becomes true in time."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def listens(port: int) -> bool:
    """Whether anybody accepts connections there."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_server_that_ignores_sigterm_and_forked_a_child_with_the_port_is_gone(
    start: Start, log_file: Path
) -> None:
    """The whole tree is killed after the grace, the child in a session of its own included."""
    port = free_port()
    with start(STUBBORN, port=port) as server:
        assert eventually(lambda: "up" in log_file.read_text())
        assert listens(port)
        pids = server.pids()

    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not listens(port)
    assert server.how_it_ended() == "killed by SIGKILL"
    assert len(server.survivors) == 2


def test_a_server_that_obeys_sigterm_is_not_killed(start: Start, log_file: Path) -> None:
    """SIGTERM first: a server gets the chance to end in order."""
    code = """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (print("bye", flush=True), sys.exit(0)))
        print("up", flush=True)
        time.sleep(600)
    """
    with start(code, grace_s=10.0) as server:
        assert eventually(lambda: "up" in log_file.read_text())

    assert server.how_it_ended() == "exit code 0"
    assert server.survivors == ()


def test_a_child_that_outlives_its_server_is_found_and_killed(start: Start) -> None:
    """The server ends by itself; what it left behind does not stay."""
    code = """
        import os, time
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
        time.sleep(0.3)
    """
    with start(code) as server:
        assert eventually(lambda: server.has_exited)
        pids = server.pids()

    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert len(server.survivors) == 1


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("raise SystemExit(0)", "exit code 0"),
        ("raise SystemExit(3)", "exit code 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
    ],
)
def test_an_end_by_itself_is_an_error_whatever_its_exit_code(
    start: Start, code: str, told: str
) -> None:
    """Exit code 0 is no proof of a good end."""
    with start(code) as server:
        assert server.wait_for_exit(10)
        with pytest.raises(ServerDiedError, match=told):
            server.check_alive()


def test_a_command_that_cannot_be_started_says_so_in_its_log(log_file: Path) -> None:
    """The reason stands where the reader of the arm looks for it."""
    missing = launch("").model_copy(update={"argv": ("/no/such/python", "x")})
    with running_process(missing, port=1, log_file=log_file, hurry=threading.Event()) as server:
        assert server.wait_for_exit(10)

    assert "cannot start /no/such/python" in log_file.read_text()
    assert server.how_it_ended() == "exit code 127"


def test_the_log_has_both_streams_from_the_first_byte(start: Start, log_file: Path) -> None:
    """And bytes that are no UTF-8, as they are."""
    code = r"""
        import os
        os.write(1, b"first\n"); os.write(2, b"second \xff\n")
    """
    with start(code) as server:
        assert server.wait_for_exit(10)

    assert log_file.read_bytes() == b"first\nsecond \xff\n"


def test_an_exception_in_the_block_leaves_nothing_behind(start: Start) -> None:
    """However the block is left."""
    pids: set[int] = set()

    def fail() -> None:
        with start("import time; time.sleep(600)") as server:
            assert eventually(lambda: len(server.pids()) >= 2)
            pids.update(server.pids())
            raise RuntimeError("in the block")

    with pytest.raises(RuntimeError, match="in the block"):
        fail()

    assert pids
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_a_second_signal_shortens_the_grace(start: Start, log_file: Path) -> None:
    """The long grace is not waited out once `hurry` is set."""
    hurry = threading.Event()
    with start(STUBBORN, grace_s=300.0, hurry=hurry) as server:
        assert eventually(lambda: "up" in log_file.read_text())
        hurry.set()

    assert server.how_it_ended() == "killed by SIGKILL"


def test_a_strangers_listener_on_the_port_is_detected(start: Start) -> None:
    """Also one that shares the port with ours through SO_REUSEPORT."""
    port = free_port()
    code = """
        import socket, sys, time
        s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(); time.sleep(600)
    """
    with start(code, port=port) as server, socket.socket() as stranger:
        assert eventually(lambda: listens(port))
        server.check_port_is_ours(port)
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        stranger.bind(("127.0.0.1", port))
        stranger.listen()
        with pytest.raises(
            WrongServerError, match=f"port {port} is served by process {os.getpid()}"
        ):
            server.check_port_is_ours(port)


def test_only_named_variables_are_inherited(start: Start, log_file: Path) -> None:
    """What is in our environment by chance, secrets included, does not reach the server."""
    kept = environment(launch("", inherit=("KEPT", "ABSENT")), {"KEPT": "1", "SECRET": "2"})

    assert kept == {"KEPT": "1", "PYTHONUNBUFFERED": "1"}
    with start("import os; print(sorted(os.environ))") as server:
        assert server.wait_for_exit(10)
    assert "PYTHONUNBUFFERED" in log_file.read_text()
    assert "PATH" not in log_file.read_text()


ORCHESTRATOR = """
    import sys, threading, time
    from pathlib import Path
    import structlog
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    from orchestrator.adapters.process_server import running_process
    from tests.test_process_server import STUBBORN, launch
    with running_process(
        launch(STUBBORN), port=int(sys.argv[1]), log_file=Path(sys.argv[2]), hurry=threading.Event()
    ) as server:
        while "up" not in Path(sys.argv[2]).read_text(): time.sleep(0.01)
        print(*server.pids(), flush=True)
        time.sleep(600)
"""


@pytest.fixture
def orchestrator(log_file: Path) -> Iterator[tuple[subprocess.Popen[str], set[int]]]:
    """Another process that runs a stubborn server, and the server's processes."""
    code = [sys.executable, "-c", textwrap.dedent(ORCHESTRATOR), str(free_port()), str(log_file)]
    with subprocess.Popen(code, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, {int(pid) for pid in process.stdout.readline().split()}
        process.kill()


def test_nothing_survives_when_the_orchestrator_is_killed(
    orchestrator: tuple[subprocess.Popen[str], set[int]],
) -> None:
    """SIGKILL leaves no `finally` to run; the server goes all the same."""
    process, pids = orchestrator
    assert len(pids) >= 3

    process.send_signal(signal.SIGKILL)

    assert eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids))


SESSION_ONLY = """
    import sys
    sys.path.insert(0, sys.argv.pop(1))
    import server_init
    server_init._isolation = lambda: "session"   # as where the kernel grants no namespace
    raise SystemExit(server_init.main())
"""


def test_without_namespaces_orphans_and_shared_memory_go_too() -> None:
    """The fallback: a child subreaper that remembers which shared memory was mapped."""
    name = f"/dev/shm/vllm-arms-test-{os.getpid()}"  # noqa: S108 - the place under test
    server = f"""
        import mmap, os, time
        with open({name!r}, "w+b") as file:
            file.truncate(4096); mapped = mmap.mmap(file.fileno(), 4096)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(600)      # an orphan, two sessions away
            os._exit(0)
        time.sleep(600)
    """
    order_out, order_in = os.pipe()
    report_out, report_in = os.pipe()
    folder = str(Path(server_init.__file__).parent)
    process = subprocess.Popen(
        [
            sys.executable, "-c", textwrap.dedent(SESSION_ONLY), folder,
            str(order_out), str(report_in), "0.2",
            sys.executable, "-c", textwrap.dedent(server),
        ],
        pass_fds=(order_out, report_in),
    )  # fmt: skip
    os.close(order_out)
    os.close(report_in)
    own = psutil.Process(process.pid)
    assert eventually(lambda: len(own.children(recursive=True)) >= 2 and Path(name).exists())
    pids = [child.pid for child in own.children(recursive=True)]
    time.sleep(2 * server_init._POLL_S)

    os.write(order_in, b"K")

    assert process.wait(10) == 0
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not Path(name).exists()
    os.close(order_in)
    with os.fdopen(report_out) as report:
        assert name in report.read()
