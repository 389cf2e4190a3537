"""What must hold whatever happened, and what a run with a fault in it came to."""

import re
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from orchestrator.adapters.run_store import RunStore
from orchestrator.errors import OrchestratorError
from orchestrator.model.plan import Plan
from orchestrator.model.verdict import RunVerdict
from orchestrator.runner import judge_run
from tests.faults.scene import Seen

ARM = "contaminated"
_ANSWERED = re.compile(rb'"POST /v1/completions HTTP/1\.1" 200')
"""The server's own account of the answers that it began to send."""

CLAIMS = {"stable", "diverged"}
LARGEST_PEAK_BYTES = 512 * 2**20
"""Of the orchestrator's resident memory. It needs 100 to 200 MiB, whatever it is sent: an answer is
64 MiB at most, and a log goes to disk and through the judge in blocks."""

GONE = {"folder removed"}
"""Faults that are themselves the loss of what was on disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of `docs/faults.md`."""

    runtime: str
    stage: str
    fault: str
    outcome: str
    exit_code: int
    left: str
    answers: str
    """Whole answers on disk, of those that the server's log says it began."""

    peak_bytes: int | None
    """Of the orchestrator's resident memory; `None`: it had ended before a look at it."""

    bytes_on_disk: int | None
    """Of the run's folder; `None` when there is none."""

    verdict: str
    short: tuple[str, ...]
    """What does not hold. Empty: everything does."""


def row_of(seen: Seen) -> Row:
    """Look at everything that the run left."""
    combination, fault = seen.combination, seen.combination.fault
    store = None if seen.run is None else RunStore(seen.run)
    begun, whole, torn = _answers(store)
    result, unfounded = _judged(store)
    short = []
    if not seen.struck:
        short.append("the stage was not seen: nothing was tried")
    if seen.exit_code not in fault.right(combination.stage):
        short.append(f"exit code {seen.exit_code}, not {_either(fault.right(combination.stage))}")
    if "Traceback" in seen.told:
        short.append("a traceback instead of a message: " + _last_line(seen.told))
    if seen.left_after_reap:
        short.append("left: " + ", ".join(seen.left_after_reap))
    if seen.left and seen.exit_code != -9:  # only who is killed leaves anything to `reap`
        short.append("left behind: " + ", ".join(seen.left))
    under_way = 1
    if whole + under_way < begun and fault.name not in GONE:
        short.append(f"{begun - under_way} answers were received, {whole} are on disk")
    if seen.peak_bytes is not None and seen.peak_bytes > LARGEST_PEAK_BYTES:
        short.append(f"{seen.peak_bytes // 2**20} MiB of memory")
    if torn:
        short.append("half an exchange: " + ", ".join(torn))
    if unfounded:
        short.append("claimed without its answers: " + ", ".join(unfounded))
    return Row(
        runtime=combination.runtime,
        stage=combination.stage,
        fault=fault.name,
        outcome=_outcome(store),
        exit_code=seen.exit_code,
        left=_told_left(seen),
        answers=f"{whole} of {begun}",
        peak_bytes=seen.peak_bytes,
        bytes_on_disk=None if seen.run is None else _size(seen.run),
        verdict=result,
        short=tuple(short),
    )


def _answers(store: RunStore | None) -> tuple[int, int, list[str]]:
    """Answers begun by the server's account; whole ones on disk; torn exchanges."""
    if store is None or not store.root.is_dir():
        return 0, 0, []
    log = store.log(ARM)
    files = store.exchange_files(ARM)
    names = {name.removesuffix(".times.json") for name in files if name.endswith(".times.json")}
    parts = ("request.json", "response.json")
    torn = [n for n in sorted(names) if any(f"{n}.{part}" not in files for part in parts)]
    ok = f'"status": {HTTPStatus.OK.value},'.encode()
    whole = [n for n in names if ok in files[f"{n}.times.json"] and n not in torn]
    return len(_ANSWERED.findall(log)), len(whole), torn


def _judged(store: RunStore | None) -> tuple[str, list[str]]:
    """The run judged from its files: the result, and cells with a claim that lack an answer."""
    if store is None or not store.has("plan.json"):
        return "nothing to judge", []
    try:
        plan = store.read("plan.json", Plan)
        verdict = judge_run(plan, store)
    except OrchestratorError as error:
        return f"refused: {type(error).__name__}", []
    claimed = {cell.cell for arm in verdict.arms for cell in arm.cells if cell.verdict in CLAIMS}
    return _result(verdict), _unfounded(plan, store, claimed)


def _unfounded(plan: Plan, store: RunStore, claimed: set[str]) -> list[str]:
    """Claimed cells whose document lacks an answer; its reference cells' answers count too."""
    answered = {
        exchange.times.probe.id
        for exchange, _ in store.exchanges(ARM)
        if exchange.times.status == HTTPStatus.OK and exchange.times.error is None
    }
    cells = [cell for arm in plan.arms for cell in arm.cells]
    incomplete = {
        cell.document for cell in cells if not {probe.id for probe in cell.probes} <= answered
    }
    return [cell.id for cell in cells if cell.id in claimed and cell.document in incomplete]


def _result(verdict: RunVerdict) -> str:
    counted = [cell.verdict for arm in verdict.arms for cell in arm.cells]
    told = ", ".join(f"{counted.count(kind)} {kind}" for kind in sorted(set(counted)))
    return f"{verdict.result} ({told})" if told else verdict.result


def _outcome(store: RunStore | None) -> str:
    outcome = None if store is None else store.outcome(ARM)
    if outcome is None:
        end = None if store is None else store.end()
        return "none" if end is None else f"none; the run {end.how}"
    if outcome.kind == "failed":
        return f"failed in {outcome.stage}: {outcome.error.partition(':')[0]}"
    return outcome.kind


def _told_left(seen: Seen) -> str:
    if seen.exit_code == -9 and seen.left:
        return f"{len(seen.left)} before reap, {len(seen.left_after_reap)} after"
    return ", ".join(seen.left) or "nothing"


def _size(run: Path) -> int:
    return sum(path.stat().st_size for path in run.rglob("*") if path.is_file())


def _either(codes: frozenset[int]) -> str:
    return " or ".join(map(str, sorted(codes)))


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1][:120]
