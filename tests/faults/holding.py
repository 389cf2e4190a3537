"""What must hold whatever happened, and what a run with a fault in it came to."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import get_args

from orchestrator.adapters.run_store import RunStore
from orchestrator.errors import OrchestratorError
from orchestrator.model.plan import Plan
from orchestrator.model.verdict import RunVerdict, Word
from orchestrator.runner import judge_run
from tests.faults.scene import Seen
from tests.faults.table import Fault

ARM = "contaminated"
_ANSWERED = re.compile(rb'"POST /v1/completions HTTP/1\.1" 200')
"""The server's own account of the answers that it began to send."""

_PARTS = ("request.json", "response.json", "times.json")
"""Of an exchange, in the order in which they are written."""

CLAIMS = set(get_args(Word)) - {"inconclusive"}
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
    store = None if seen.run is None else RunStore(seen.run)
    begun, whole, torn, unfinished = _answers(store)
    result, claimed_too_much = _judged(store)
    short = [*_of_the_end(seen), *_of_the_answers(seen.combination.fault, begun, whole, unfinished)]
    entry = seen.combination.fault.server
    if entry and not _put(store, entry):
        short.append(f"the server's log knows nothing of {entry}: nothing was tried")
    if torn:
        short.append("half an exchange: " + ", ".join(torn))
    if claimed_too_much:
        short.append("claimed without its answers: " + ", ".join(claimed_too_much))
    return Row(
        runtime=seen.combination.runtime,
        stage=seen.combination.stage,
        fault=seen.combination.fault.name,
        outcome=_outcome(store),
        exit_code=seen.exit_code,
        left=_told_left(seen),
        answers=f"{whole} of {begun}",
        peak_bytes=seen.peak_bytes,
        bytes_on_disk=None if seen.run is None else _size(seen.run),
        verdict=result,
        short=tuple(short),
    )


def _of_the_end(seen: Seen) -> Iterator[str]:
    """What does not hold of how the program ended, and of what it left running."""
    right = seen.combination.fault.right(seen.combination.stage)
    if not seen.struck:
        yield "the stage was not seen: nothing was tried"
    if seen.exit_code not in right:
        yield f"exit code {seen.exit_code}, not {_either(right)}"
    if "Traceback" in seen.told:
        yield "a traceback instead of a message: " + _last_line(seen.told)
    if seen.left_after_reap:
        yield "left: " + ", ".join(seen.left_after_reap)
    if seen.left and seen.exit_code != -9:  # only who is killed leaves anything to `reap`
        yield "left behind: " + ", ".join(seen.left)
    if seen.peak_bytes is not None and seen.peak_bytes > LARGEST_PEAK_BYTES:
        yield f"{seen.peak_bytes // 2**20} MiB of memory"


def _of_the_answers(fault: Fault, begun: int, whole: int, unfinished: list[str]) -> Iterator[str]:
    """What does not hold of the answers on disk."""
    if fault.name in GONE:
        return
    under_way = 0 if fault.act is None else 1  # what comes from outside may hit one half-way
    if whole + under_way < begun:
        yield f"{begun - under_way} answers were received, {whole} are on disk"
    if len(unfinished) > under_way:
        yield "half an exchange, without its times: " + ", ".join(unfinished)


def _answers(store: RunStore | None) -> tuple[int, int, list[str], list[str]]:
    """Answers begun by the server's account; whole ones on disk; exchanges that are torn.

    The times are written last: with them and without another part, an exchange is torn, whatever
    happened; without them, it is one that was being written.
    """
    if store is None or not store.root.is_dir():
        return 0, 0, [], []
    log = store.log(ARM)
    files = store.exchange_files(ARM)
    kept = {name.partition(".")[0] for name in files if name.endswith(_PARTS)}
    ended = {name for name in kept if f"{name}.times.json" in files}
    torn = [n for n in ended if any(f"{n}.{part}" not in files for part in _PARTS)]
    ok = f'"status": {HTTPStatus.OK.value},'.encode()
    whole = [n for n in ended.difference(torn) if ok in files[f"{n}.times.json"]]
    return len(_ANSWERED.findall(log)), len(whole), sorted(torn), sorted(kept - ended)


def _put(store: RunStore | None, entry: str) -> bool:
    """Whether the server says that it did to itself what it was told to."""
    name = entry.partition("=")[0].encode()
    return store is not None and b"MINIATURE: fault " + name in store.log(ARM)


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
    return _result(verdict), unfounded(plan, store, claimed)


def unfounded(plan: Plan, store: RunStore, claimed: set[str]) -> list[str]:
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
