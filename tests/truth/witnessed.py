"""Runs on the miniature, with its oracle asked about every request.

Everything is the product's own way, from the plan to the verdict; only a witness stands between
the runner and the server, and asks `/oracle/ID` once a request is answered.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

from orchestrator.adapters.arm_server import ArmServer, running_arm_server
from orchestrator.adapters.definition_files import Definitions
from orchestrator.adapters.run_store import RunStore
from orchestrator.cli.overlaying import Patches, overlaid, read_patches
from orchestrator.cli.planning import resolve_plan
from orchestrator.model.engine import EngineFacts
from orchestrator.model.exchange import Exchange
from orchestrator.model.outcome import Completed, Outcome
from orchestrator.model.plan import ArmPlan, Plan, ProbePlan, Selection
from orchestrator.runner import execute

Testimony = dict[str, Any]
"""What the oracle says of one request: `orchestrator.miniature.oracle.Truth` as JSON."""


@dataclass(frozen=True)
class WitnessedRun:
    """A run, and the truth about each of its probes by arm and probe id."""

    plan: Plan
    store: RunStore
    truths: dict[tuple[str, str], Testimony]
    answers: dict[tuple[str, str], bytes]


def witnessed_run(
    project: Path,
    experiment: str,
    *,
    folder: Path,
    selection: Selection = "plain",
    arms: Sequence[str] = (),
) -> WitnessedRun:
    """Run an experiment on the miniature."""
    plan = resolve_plan(project, experiment, "miniature", selection, arms, print).plan
    store = RunStore.create(folder, plan.experiment, "witnessed", datetime.now(UTC))
    patches = read_patches(Definitions(project).patches_dir, plan)
    servers = _Servers(store, patches)
    execute(plan, start_server=servers.start, store=store, progress=_Nobody())
    return WitnessedRun(plan, store, servers.truths, servers.answers)


@dataclass
class _Servers:
    store: RunStore
    patches: Patches
    truths: dict[tuple[str, str], Testimony] = field(default_factory=dict)
    answers: dict[tuple[str, str], bytes] = field(default_factory=dict)

    @contextmanager
    def start(
        self, arm: ArmPlan, ready_body: bytes, on_wait: Callable[[float, str], None]
    ) -> Iterator[tuple["_Witness", EngineFacts]]:
        folder = self.store.arm_dir(arm.name)
        with (
            overlaid(arm, self.patches, self.store) as launched,
            running_arm_server(
                launched,
                ready_body=ready_body,
                log_file=folder / "server.log",
                memory_file=folder / "memory.jsonl",
                keep=lambda exchange: self.store.keep(arm.name, exchange),
                keep_beats=lambda probe, beats: self.store.keep_beats(arm.name, probe, beats),
                on_wait=on_wait,
                hurry=Event(),
            ) as (server, facts),
        ):
            yield _Witness(arm.name, server, self), facts


@dataclass(frozen=True)
class _Witness:
    """The server as the runner knows it."""

    arm: str
    server: ArmServer
    record: _Servers

    def ask(self, probe: ProbePlan, body: bytes) -> Exchange:
        exchange = self.server.ask(probe, body)
        request = json.loads(exchange.response)["id"]
        told = self.server.page(f"/oracle/{request}")
        assert told is not None, request
        self.record.truths[self.arm, probe.id] = json.loads(told)
        self.record.answers[self.arm, probe.id] = exchange.response
        return exchange

    def ask_at_once(self, volley: Sequence[tuple[ProbePlan, bytes]]) -> tuple[Exchange, ...]:
        return self.server.ask_at_once(volley)

    def rest(self, *, until_s: float) -> None:
        self.server.rest(until_s=until_s)

    def page(self, path: str) -> str | None:
        return self.server.page(path)

    def counters(self, *, finished: int | None) -> str:
        return self.server.counters(finished=finished)


class _Nobody:
    """Watches no progress."""

    def arm_started(self, arm: str, number: int, total: int) -> None:
        pass

    def waiting(self, waited_s: float, last_line: str) -> None:
        pass

    def asked(self, cell: str, done: int, total: int) -> None:
        pass

    def arm_ended(self, arm: str, outcome: Outcome) -> None:
        assert isinstance(outcome, Completed), f"{arm}: {outcome}"
