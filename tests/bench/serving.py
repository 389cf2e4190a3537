"""One server as an arm of a run has it."""

import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.adapters.arm_server import ArmServer, running_arm_server
from orchestrator.adapters.run_store import RunStore
from orchestrator.cli.planning import resolve_plan
from orchestrator.cli.starting import runtime_of
from orchestrator.model.engine import EngineFacts
from orchestrator.model.exchange import Exchange
from orchestrator.model.plan import ArmPlan, Plan
from orchestrator.requesting import request_body
from tests.conftest import PROJECT


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A ready server, and what is kept of it."""

    plan: Plan
    arm: ArmPlan
    server: ArmServer
    facts: EngineFacts
    store: RunStore


def resolved(experiment: str, profile: str, arm: str) -> tuple[Plan, ArmPlan]:
    """The quick selection of one arm."""
    plan = resolve_plan(PROJECT, experiment, profile, "quick", [arm], _silent).plan
    return plan, plan.arms[0]


@contextmanager
def serving(
    plan: Plan,
    arm: ArmPlan,
    *,
    also: Callable[[Exchange], None] = lambda _: None,
    on_wait: Callable[[float, str], None] = lambda *_: None,
) -> Iterator[Served]:
    """Start it in the runtime that its profile names; `also` gets each exchange that is kept."""
    with tempfile.TemporaryDirectory() as folder:
        store = RunStore(Path(folder))

        def keep(exchange: Exchange) -> None:
            store.keep(arm.name, exchange)
            also(exchange)

        with (
            runtime_of(arm, store) as runtime,
            running_arm_server(
                arm,
                ready_body=request_body(plan, arm, arm.ready_probe),
                log_file=store.arm_dir(arm.name) / "server.log",
                memory_file=store.arm_dir(arm.name) / "memory.jsonl",
                keep=keep,
                keep_beats=lambda probe, beats: store.keep_beats(arm.name, probe, beats),
                on_wait=on_wait,
                hurry=threading.Event(),
                runtime=runtime,
            ) as (server, facts),
        ):
            yield Served(plan=plan, arm=arm, server=server, facts=facts, store=store)


def _silent(line: str) -> None:
    """Preparing says nothing here."""
