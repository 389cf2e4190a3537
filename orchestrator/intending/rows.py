"""Asked and seen, side by side; and the gate for an arm whose defining property did not hold."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from orchestrator.intending.launch import Launch
from orchestrator.intending.self_description import SelfDescription
from orchestrator.intending.settings import COMPARISONS
from orchestrator.model.intent import Agreement, IntentRow, Sighting, Source, Value
from orchestrator.model.metrics import CacheConfig
from orchestrator.model.plan import ArmPlan
from orchestrator.model.serverlog import LogScan
from orchestrator.model.verdict import GateFinding


def intent_rows(
    arm: ArmPlan, *, log: LogScan, cache: CacheConfig | None, server_info: str | None
) -> tuple[IntentRow, ...]:
    """One row a setting, always all of them.

    Args:
        arm: As planned: its command line, its variables, what it declares.
        log: What its server's log says.
        cache: `vllm:cache_config_info` when the server was ready; `None` without that line.
        server_info: `/server_info` as it came, whatever it is; `None` without it.
    """
    launch = Launch(arm.launch.argv, arm.launch.environment)
    page = SelfDescription(server_info)
    rows = []
    for each in COMPARISONS:
        asked = each.asked(arm, launch)
        on_page = each.page(page)
        told: dict[Source, Value | None] = {
            "log": each.log(log),
            "metrics": None if cache is None else each.metrics(cache),
            "server_info": each.log(page.as_log) if on_page is None else on_page,
        }
        seen = tuple(_sightings(told))
        agreement = _agreement(asked, seen, each.same)
        rows.append(IntentRow(setting=each.setting, asked=asked, seen=seen, agreement=agreement))
    return tuple(rows)


def defining_property_findings(rows: Sequence[IntentRow]) -> tuple[GateFinding, ...]:
    """What voids the start: caching or the grid is not what the arm is defined by (rule 6).

    Caching must be stated by the engine; a grid that nobody states is a remark only (rule 12), as
    cached tokens that are no multiple of it would show.
    """
    found = []
    by_setting = {row.setting: row for row in rows}
    caching, block = by_setting["prefix caching"], by_setting["block size"]
    if caching.agreement == "not said":
        found.append(_finding(6, "start", "no source says whether prefix caching is on"))
    if block.agreement == "not said":
        text = f"no source says the block size: {block.asked} tokens are as declared"
        found.append(_finding(12, "remark", text))
    for row in (caching, block):
        if row.agreement == "contradicts":
            told = ", ".join(f"{sighting.source}: {sighting.value}" for sighting in row.seen)
            found.append(_finding(6, "start", f"{row.setting} should be {row.asked}; {told}"))
    return tuple(found)


def _finding(rule: int, scope: str, summary: str) -> GateFinding:
    return GateFinding.model_validate(
        {"rule": rule, "scope": scope, "cell": None, "summary": summary}
    )


def _sightings(told: Mapping[Source, Value | None]) -> Iterable[Sighting]:
    for source, value in told.items():
        if value is not None:
            yield Sighting(source=source, value=value)


def _agreement(
    asked: Value | None, seen: Sequence[Sighting], same: Callable[[Value], Value]
) -> Agreement:
    if asked in (None, "auto"):
        return "left to the engine"
    if not seen:
        return "not said"
    return "agrees" if {same(s.value) for s in seen} == {same(asked)} else "contradicts"
