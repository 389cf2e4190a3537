"""An arm's server: started, ready, asked, stopped. What the runner knows of a runtime."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import structlog

from orchestrator.adapters.heartbeat import Heartbeat
from orchestrator.adapters.host_sampling import sampled_memory
from orchestrator.adapters.http_probe import ServerClient
from orchestrator.adapters.log_tail import LogTail
from orchestrator.adapters.memory_watchdog import killed_when_memory_is_low
from orchestrator.adapters.process_server import free_port, running_process
from orchestrator.adapters.readiness import OnWait, Waiting, wait_until_ready
from orchestrator.adapters.remote_memory import ReadMemory
from orchestrator.adapters.running_server import RunningServer, Runtime
from orchestrator.errors import ProbeError, ServerDiedError
from orchestrator.metrics import counter_lines, read_metrics
from orchestrator.model.engine import EngineFacts
from orchestrator.model.exchange import Exchange
from orchestrator.model.host import Beat
from orchestrator.model.plan import ArmPlan, LaunchPlan, ProbePlan

log = structlog.get_logger()

Keep = Callable[[Exchange], None]
KeepBeats = Callable[[str, Sequence[Beat]], None]
"""Called after a request that took long enough to be looked at, with its id."""

_SETTLE_LIMIT_S = 2.0
"""The counters of a request are written by the engine's next report, usually before its answer
arrives; a page that still lacks it after this is taken as it is, and a gate will say so."""

_LAST_LINES_S = 0.5
"""After a failed request: for the traceback to reach the log."""


class ArmServer:
    """A ready server."""

    def __init__(
        self,
        process: RunningServer,
        client: ServerClient,
        tail: LogTail,
        keep: Keep,
        heartbeat: Heartbeat | None,
        keep_beats: KeepBeats,
    ) -> None:
        self._heartbeat = heartbeat
        self._keep_beats = keep_beats
        self._process = process
        self._client = client
        self._tail = tail
        self._keep = keep

    def ask(self, probe: ProbePlan, body: bytes) -> Exchange:
        """Put one request, once; its bytes are kept before this returns or raises.

        Raises:
            ProbeError: No whole answer, or not status 200; with the root cause from the log.
            ServerDiedError: The server ended; likewise.
        """
        (exchange,) = self.ask_at_once([(probe, body)])
        return exchange

    def ask_at_once(self, volley: Sequence[tuple[ProbePlan, bytes]]) -> tuple[Exchange, ...]:
        """Put several requests at once, each once; otherwise like `ask`."""
        self._process.check_alive()
        try:
            return self._client.send(volley, self._keep)
        except (ProbeError, ServerDiedError) as error:
            died = self._process.wait_for_exit(_LAST_LINES_S)
            cause = self._tail.root_cause() or "its log names no cause"
            if died:
                ended = self._process.how_it_ended()
                raise ServerDiedError(f"{error}; the server ended: {ended}; {cause}") from error
            raise ProbeError(f"{error}; {cause}") from error
        finally:
            if self._heartbeat is not None and self._heartbeat.beats:
                self._keep_beats(volley[0][0].id, self._heartbeat.beats)

    def page(self, path: str) -> str | None:
        """A page as text; `None` when the server does not give it."""
        try:
            return self._client.page(path)
        except httpx.HTTPError:
            return None

    def counters(self, *, finished: int | None) -> str:
        """The lines of the metrics page that count, once the request before is counted.

        Args:
            finished: How many requests the server must have finished in all; `None` to take the
                page as it is.

        Returns:
            An empty text when the page cannot be had: unknown, not zero.
        """
        deadline = time.monotonic() + _SETTLE_LIMIT_S
        while True:
            lines = counter_lines(self.page("/metrics") or "")
            seen = read_metrics(lines).requests_finished
            if finished is None or seen is None or seen >= finished:
                return lines
            if time.monotonic() > deadline or self._process.wait_for_exit(0.005):
                return lines

    def rest(self, *, until_s: float) -> None:
        """Send nothing until then, on the monotonic clock, or until the server ends."""
        self._process.wait_for_exit(max(0.0, until_s - time.monotonic()))


def _heartbeat(port: int, launch: LaunchPlan) -> Heartbeat | None:
    limit_s = launch.heartbeat_timeout_s
    return None if limit_s is None else Heartbeat(port, timeout_s=limit_s)


@contextmanager
def running_arm_server(
    arm: ArmPlan,
    *,
    ready_body: bytes,
    log_file: Path,
    memory_file: Path,
    keep: Keep,
    keep_beats: KeepBeats,
    on_wait: OnWait,
    hurry: threading.Event,
    runtime: Runtime = running_process,
    read_there: ReadMemory | None = None,
) -> Iterator[tuple[ArmServer, EngineFacts]]:
    """Start an arm's server, wait until it really answers, and stop it when the block is left.

    The server's machine is this one, unless `read_there` reads another's memory.

    The order of the end: our connections, SIGTERM, grace, SIGKILL. The log is on disk at every
    moment; it is complete when the block is left.

    Raises:
        ArmError: It died, did not become ready, or is not what was declared.
        HostError: It could not be started or killed.
    """
    port = free_port()
    with ExitStack() as cleanup:
        process = cleanup.enter_context(
            runtime(arm.launch, port=port, log_file=log_file, hurry=hurry)
        )
        cleanup.enter_context(sampled_memory(process.pids, memory_file, read_there=read_there))
        floor_bytes = arm.launch.host.memory_floor_bytes
        cleanup.enter_context(
            killed_when_memory_is_low(process.kill, floor_bytes)
            if read_there is None
            else killed_when_memory_is_low(
                process.kill,
                floor_bytes,
                available=lambda: read_there().memory_available_bytes,
            )
        )
        heartbeat = _heartbeat(port, arm.launch)
        client = ServerClient(port, timeout_s=arm.launch.request_timeout_s, watch=heartbeat)
        cleanup.callback(client.close)
        if heartbeat is not None:
            cleanup.callback(heartbeat.close)
        process.on_exit(client.server_ended)
        tail = LogTail(log_file)
        cleanup.callback(tail.close)
        waiting = Waiting(
            process=process, client=client, tail=tail, port=port, limits=arm.launch.ready
        )
        server = ArmServer(process, client, tail, keep, heartbeat, keep_beats)
        facts = wait_until_ready(
            waiting, arm.declared, lambda: server.ask(arm.ready_probe, ready_body), on_wait
        )
        log.info("server.ready", waited_s=round(facts.ready_after_s, 1), port=port)
        yield server, facts
