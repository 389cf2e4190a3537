"""An arm's server from start to stop, on the miniature: a real process behind vLLM's API."""

import http.server
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psutil
import pytest
from tokenizers import Tokenizer

from orchestrator.adapters.arm_server import ArmServer, running_arm_server
from orchestrator.adapters.definition_files import Definitions
from orchestrator.adapters.host_sampling import read_samples
from orchestrator.adapters.http_probe import ServerClient
from orchestrator.adapters.log_tail import LogTail
from orchestrator.adapters.process_server import free_port, running_process
from orchestrator.adapters.readiness import Waiting, wait_until_healthy
from orchestrator.errors import (
    ArmError,
    LowMemoryError,
    ProbeError,
    ServerDiedError,
    ServerNotReadyError,
    WrongServerError,
)
from orchestrator.model.engine import EngineFacts, EngineFiles
from orchestrator.model.exchange import Exchange
from orchestrator.model.host import Beat
from orchestrator.model.plan import ArmPlan, Plan
from orchestrator.model.profile import ReadyLimits
from orchestrator.planning.plans import make_plan
from orchestrator.requesting import request_body
from tests.conftest import PROJECT
from tests.test_process_server import launch

LOGS = PROJECT / "tests" / "fixtures" / "serverlog" / "logs"

Changed = Callable[..., ArmPlan]
Run = Callable[[ArmPlan], AbstractContextManager[tuple[ArmServer, EngineFacts]]]


@pytest.fixture(scope="module")
def plan(tokenizer_file: Path) -> Plan:
    """`three-arm --quick` on the miniature."""
    definitions = Definitions(PROJECT)
    experiment = definitions.experiment("three-arm")
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    engine = EngineFiles(
        python=sys.executable,
        model_dir="miniature",
        tokenizer_file=str(tokenizer_file),
        identity="test",
    )
    return make_plan(
        experiment,
        definitions.profile("miniature"),
        definitions.documents(experiment),
        engine,
        encode=lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        selection="quick",
    )


@pytest.fixture
def changed(plan: Plan) -> Changed:
    """The clean arm with faults, other declarations or other limits."""

    def make(faults: str = "", **changes: Any) -> ArmPlan:  # noqa: ANN401 - any field
        values = plan.arms[0].model_dump()
        values["launch"]["environment"]["MINIATURE_FAULTS"] = faults
        values["launch"]["stop"]["grace_s"] = 1.0
        for key, value in changes.items():
            part = "declared" if key in values["declared"] else "launch"
            if key in ReadyLimits.model_fields:
                values["launch"]["ready"][key] = value
            else:
                values[part][key] = value
        return ArmPlan.model_validate(values)

    return make


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    """Where the server's output goes."""
    return tmp_path / "server.log"


@pytest.fixture
def kept() -> list[Exchange]:
    """What was put on disk."""
    return []


@pytest.fixture
def beats() -> dict[str, list[Beat]]:
    """What was read of the counters during requests, by probe."""
    return {}


@pytest.fixture
def run(plan: Plan, log_file: Path, kept: list[Exchange], beats: dict[str, list[Beat]]) -> Run:
    """Starts an arm's server."""

    def start(arm: ArmPlan) -> AbstractContextManager[tuple[ArmServer, EngineFacts]]:
        return running_arm_server(
            arm,
            ready_body=request_body(plan, arm, arm.ready_probe),
            log_file=log_file,
            memory_file=log_file.with_name("memory.jsonl"),
            keep=kept.append,
            keep_beats=lambda probe, seen: beats.update({probe: list(seen)}),
            on_wait=lambda waited_s, line: None,
            hurry=threading.Event(),
        )

    return start


def fails(run: Run, arm: ArmPlan) -> ArmError:
    """What starting this arm raises."""
    with pytest.raises(ArmError) as caught, run(arm):
        raise AssertionError("it became ready")
    return caught.value


def is_gone(facts: EngineFacts) -> bool:
    """Whether nothing listens on the server's port any more, an orphan included."""
    return all(
        getattr(connection.laddr, "port", None) != facts.port
        for connection in psutil.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    )


def test_a_ready_server_has_answered_and_says_what_it_is(
    run: Run, changed: Changed, kept: list[Exchange]
) -> None:
    """The facts come after a real one-token completion, which is kept like any exchange."""
    with run(changed()) as (server, facts):
        lines = server.counters(finished=1)

    assert [exchange.times.probe.role for exchange in kept] == ["ready"]
    assert (facts.block_size_tokens, facts.prefix_caching) == (32, True)
    assert facts.mamba_cache_mode == "align"
    assert (facts.kv_cache_tokens or 0) > 10_000
    assert "vllm:request_success_total" in lines
    assert is_gone(facts)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"vllm_version": "0.29.0"}, "its version is MINIATURE.* declared is 0.29.0"),
        ({"block_size_tokens": 64}, "its block size is 32, declared is 64"),
        ({"served_model_name": "other"}, "it serves tiny-hybrid, not other"),
        ({"tokenizer_ids": (1, 2, 3)}, "tokenizer's ids of a sample"),
        ({"prompt_tokens": 10**6}, "KV cache holds .* 1000000 are planned"),
    ],
)
def test_a_server_that_is_not_the_declared_one_ends_the_arm(
    run: Run, changed: Changed, changes: dict[str, object], told: str
) -> None:
    """Both values are named."""
    error = fails(run, changed(**changes))

    assert isinstance(error, WrongServerError)
    with pytest.raises(WrongServerError, match=told):
        raise error


def test_a_crash_while_starting_is_told_with_its_root_cause(run: Run, changed: Changed) -> None:
    """The first error of the log, not the last generic line."""
    error = fails(run, changed("crash-at-start"))

    assert isinstance(error, ServerDiedError | ServerNotReadyError)
    assert "Error" in str(error)
    assert "See root cause above" not in str(error)


def test_a_start_without_progress_is_given_up(run: Run, changed: Changed) -> None:
    """The deadline is on silence, not only on the whole time."""
    error = fails(run, changed("no-progress", no_progress_timeout_s=1.0))

    assert isinstance(error, ServerNotReadyError)
    assert "did not grow for 1 s" in str(error)


def test_a_start_that_takes_too_long_is_given_up(run: Run, changed: Changed) -> None:
    """Though its log grows every second."""
    error = fails(run, changed("slow-start=60", total_timeout_s=2.5))

    assert isinstance(error, ServerNotReadyError)
    assert "not ready within 2.5 s" in str(error)


def test_ready_by_health_but_dead_at_the_first_request_is_not_ready(
    run: Run, changed: Changed, kept: list[Exchange]
) -> None:
    """As the recorded server whose kernel library was missing: /health alone misses it."""
    error = fails(run, changed("engine-dies@1"))

    assert isinstance(error, ProbeError | ServerDiedError)
    assert "000-ready" in str(error) or "ended" in str(error)
    assert [exchange.times.probe.role for exchange in kept] == ["ready"]


def test_an_exit_with_code_0_in_the_middle_of_a_request_is_a_death(
    run: Run, changed: Changed, plan: Plan, kept: list[Exchange]
) -> None:
    """A vLLM whose engine dies exits with 0."""
    arm = changed("exit-0@2")
    probe = arm.cells[0].probes[0]
    with (
        run(arm) as (server, _),
        pytest.raises(ServerDiedError, match=r"the server ended: exit code 0"),
    ):
        server.ask(probe, request_body(plan, arm, probe))

    assert [exchange.times.probe.role for exchange in kept] == ["ready", "b"]


def test_a_server_that_ignores_sigterm_and_left_an_orphan_is_gone(
    run: Run, changed: Changed
) -> None:
    """The orphan keeps the port; it goes too."""
    with run(changed("ignore-sigterm orphan")) as (server, facts):
        assert server.page("/health") is not None
        assert not is_gone(facts)

    assert is_gone(facts)


def test_a_request_that_hangs_is_given_up_after_the_profiles_limit(
    run: Run, changed: Changed, plan: Plan, kept: list[Exchange]
) -> None:
    """And is kept as what it was: no answer."""
    arm = changed("hang@2", request_timeout_s=1.0)
    probe = arm.cells[0].probes[0]
    with run(arm) as (server, facts), pytest.raises(ProbeError, match=r"ReadTimeout|not whole"):
        server.ask(probe, request_body(plan, arm, probe))

    assert kept[-1].times.status is None
    assert is_gone(facts)


def test_an_engine_that_hangs_is_noticed_by_its_counters_long_before_that(
    run: Run, changed: Changed, plan: Plan, beats: dict[str, list[Beat]], kept: list[Exchange]
) -> None:
    """`/health` stays 200; what was read meanwhile and the broken exchange are kept."""
    arm = changed("hang@2", request_timeout_s=60.0, heartbeat_timeout_s=0.4)
    probe = arm.cells[0].probes[0]
    with run(arm) as (server, facts):
        with pytest.raises(ProbeError, match="no sign of life from the engine for"):
            server.ask(probe, request_body(plan, arm, probe))
        assert server.page("/health") is not None

    assert len(beats[probe.id]) >= 5
    assert kept[-1].times.error is not None
    assert is_gone(facts)


def test_the_memory_is_sampled_for_as_long_as_the_server_lives(
    run: Run, changed: Changed, log_file: Path
) -> None:
    """Its own, and the machine's."""
    with run(changed()):
        pass

    samples = read_samples(log_file.with_name("memory.jsonl").read_bytes())
    assert len(samples) >= 2
    assert samples[-1].server_resident_bytes is not None


@pytest.fixture
def stranger() -> Iterator[int]:
    """Somebody else's server, which answers /health with 200; its port."""

    class Healthy(http.server.BaseHTTPRequestHandler):
        """Answers everything."""

        def do_GET(self) -> None:
            """As a healthy server would."""
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def wait(code: str, port: int, log_file: Path, **limits: float) -> None:
    """Wait for a server that is a few lines of Python."""
    plan = launch(code)
    with running_process(plan, port=port, log_file=log_file, hurry=threading.Event()) as process:
        client = ServerClient(port, timeout_s=2.0)
        tail = LogTail(log_file)
        ready = ReadyLimits(**({"total_timeout_s": 20.0, "no_progress_timeout_s": 20.0} | limits))
        waiting = Waiting(process=process, client=client, tail=tail, port=port, limits=ready)
        try:
            wait_until_healthy(waiting, lambda waited_s, line: None)
        finally:
            client.close()
            tail.close()


def test_a_stranger_on_the_port_that_answers_health_is_not_taken_for_ours(
    stranger: int, log_file: Path
) -> None:
    """`vllm bench sweep serve` would measure it."""
    with pytest.raises(WrongServerError, match=f"port {stranger} is served by process"):
        wait("import time; time.sleep(600)", stranger, log_file)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("0.26.0-h200-startup-crash-missing-module.log", "ModuleNotFoundError"),
        ("0.29.0-cpu-crash-kv-too-small.log", "max seq len"),
    ],
)
def test_a_fatal_line_ends_the_wait_though_the_process_lives_on(
    name: str, told: str, log_file: Path
) -> None:
    """A recorded log of a real failed start, from a process that then hangs."""
    code = f"""
        import sys, time
        sys.stdout.write(open({str(LOGS / name)!r}, errors="replace").read())
        sys.stdout.flush()
        time.sleep(600)
    """
    with pytest.raises(ServerNotReadyError, match=told):
        wait(code, free_port(), log_file)


def test_a_healthy_log_ends_no_wait(log_file: Path) -> None:
    """The negative control: only the deadline does."""
    healthy = LOGS / "0.29.0-cpu-caching-on-mtp.log"
    code = f"""
        import sys, time
        sys.stdout.write(open({str(healthy)!r}, errors="replace").read())
        sys.stdout.flush()
        time.sleep(600)
    """
    with pytest.raises(ServerNotReadyError, match="not ready within 3 s"):
        wait(code, free_port(), log_file, total_timeout_s=3.0)


def test_a_server_is_killed_before_the_machine_runs_out_of_memory(
    run: Run, changed: Changed
) -> None:
    """A floor above all memory that there is: it ends at once, and the error says why."""
    floor = 2 * psutil.virtual_memory().total

    error = fails(run, changed(host={"memory_floor_bytes": floor}))

    assert isinstance(error, LowMemoryError)
    assert f"memory_floor_bytes is {floor >> 20} MiB" in str(error)
    assert "MiB were available" in str(error)


def test_a_server_that_leaves_memory_enough_is_left_alone(run: Run, changed: Changed) -> None:
    """A floor of one byte."""
    with run(changed(host={"memory_floor_bytes": 1})) as (server, _):
        assert server.page("/health") is not None
