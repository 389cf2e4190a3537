"""Arms with a command line of their own, and the rows that real or made sources give for them."""

import json
from pathlib import Path
from typing import Any

from orchestrator.intending.rows import intent_rows
from orchestrator.metrics import read_cache_config
from orchestrator.model.intent import IntentRow
from orchestrator.model.metrics import CacheConfig
from orchestrator.model.plan import ArmPlan
from orchestrator.serverlog.scan import scan
from tests.definitions import plan

FIXTURES = Path(__file__).parent / "fixtures"
RECORDED = FIXTURES / "intent"
NO_LOG = scan([])


def planned(
    *argv: str, caching: str = "on", block: int = 32, environment: dict[str, str] | None = None
) -> ArmPlan:
    """An arm with this command line."""
    values: dict[str, Any] = plan().arms[0].model_dump(mode="json")
    values["prefix_caching"] = caching
    values["launch"] |= {"argv": argv, "environment": environment or {}}
    values["declared"]["block_size_tokens"] = block
    return ArmPlan.from_json(json.dumps(values))


def recorded(
    name: str,
    *,
    caching: str,
    info: str = "server-info.json",
    **changes: Any,  # noqa: ANN401 - any source
) -> dict[str, IntentRow]:
    """The rows of a real start, by setting; a source can be replaced."""
    folder = RECORDED / name
    launch = json.loads((folder / "launch.json").read_text())
    sources: dict[str, Any] = {
        "log": scan([(folder / "start.log").read_bytes()]),
        "cache": read_cache_config((folder / "cache-config.txt").read_text()),
        "server_info": (folder / info).read_text(),
    }
    arm = planned(*launch["argv"], caching=caching, environment=launch["environment"])
    return by_setting(intent_rows(arm, **(sources | changes)))


def by_setting(rows: tuple[IntentRow, ...]) -> dict[str, IntentRow]:
    """Rows by their setting."""
    return {row.setting: row for row in rows}


def told(row: IntentRow) -> dict[str, int | str]:
    """What each source says."""
    return {sighting.source: sighting.value for sighting in row.seen}


def rows_of(
    arm: ArmPlan, *, log: bytes = b"", cache: CacheConfig | None = None, info: str | None = None
) -> dict[str, IntentRow]:
    """Rows from sources made for a test."""
    return by_setting(intent_rows(arm, log=scan([log]), cache=cache, server_info=info))
