"""A stranger's run folder, with markup wherever its files take any text."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from orchestrator.adapters.packed_files import COMPRESSED
from orchestrator.adapters.run_store import RunStore
from orchestrator.model.engine import EngineFacts
from orchestrator.model.host import RunEnd, RunStart
from orchestrator.model.outcome import Failed
from orchestrator.model.patch import Overlay
from orchestrator.model.plan import LaunchPlan, Plan
from orchestrator.model.record import Record

KINDS: dict[str, type[Record]] = {
    "plan.json": Plan,
    "run.json": RunStart,
    "end.json": RunEnd,
    "arms/*/engine.json": EngineFacts,
    "arms/*/launch.json": LaunchPlan,
    "arms/*/overlay.json": Overlay,
}

HOLDS_TOGETHER = {"name", "id", "salt", "prompt", "cell", "control", "reference"}
"""Keys whose texts lead from one part of a run to another: changed, they leave nothing to show."""


def taint(run: Path, hostile: str) -> set[str]:
    """Put the text behind every text that its record then still takes; the keys of those."""
    store, taken = RunStore(run), set()
    document = next(iter(store.read("plan.json", Plan).documents)).name
    for pattern, kind in KINDS.items():
        for path in _files(run, pattern):
            name = str(path.relative_to(run)).removesuffix(COMPRESSED)
            raw = store.read_bytes(name) or b""
            raw = raw.replace(json.dumps(document).encode(), json.dumps(hostile).encode())
            record = json.loads(raw)
            for key in sorted(_keys(record) - HOLDS_TOGETHER):
                changed = _with(record, key, hostile)
                if _valid(kind, changed):
                    record, taken = changed, taken | {key}
            path.unlink()
            (run / name).write_text(json.dumps(record), encoding="utf-8")
    return taken


def fail(run: Path, arm: str, log: bytes, error: str) -> None:
    """Let an arm have failed, with this log and these words."""
    for old in (run / "arms" / arm).glob("outcome.json*"):
        old.unlink()
    for old in (run / "arms" / arm).glob("server.log*"):
        old.unlink()
    store = RunStore(run)
    store.save_outcome(arm, Failed(stage="start", error=error))
    store.write_bytes(f"arms/{arm}/server.log", log)


def _files(run: Path, pattern: str) -> list[Path]:
    return sorted([*run.glob(pattern), *run.glob(pattern + COMPRESSED)])


def _valid(kind: type[Record], values: object) -> bool:
    try:
        TypeAdapter(kind).validate_json(json.dumps(values))
    except ValidationError:
        return False
    return True


def _keys(values: object, key: str = "") -> set[str]:
    """Every key that leads to a text."""
    return set(_texts(values, key))


def _texts(values: object, key: str) -> Iterator[str]:
    match values:
        case dict():
            for name, value in values.items():
                yield from _texts(value, name)
        case list():
            for value in values:
                yield from _texts(value, key)
        case str():
            yield key


def _with(values: object, wanted: str, added: str, key: str = "") -> object:
    """The same with `added` behind every text that the key leads to."""
    match values:
        case dict():
            return {name: _with(value, wanted, added, name) for name, value in values.items()}
        case list():
            return [*map(partial(_with, wanted=wanted, added=added, key=key), values)]
        case str() if key == wanted:
            return values + added
        case _:
            return values
