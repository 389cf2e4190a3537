"""What a judgement is made of: the evidence of one start."""

from dataclasses import dataclass

from orchestrator.comparing import Repeat
from orchestrator.model.host import Plateau
from orchestrator.model.intent import IntentRow
from orchestrator.model.outcome import Outcome
from orchestrator.model.plan import ArmPlan, CellPlan
from orchestrator.model.serverlog import Finding
from orchestrator.model.stacks import ColdResult
from orchestrator.model.verdict import GateFinding, ProbeResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CellEvidence:
    """What was measured of one cell."""

    plan: CellPlan
    repeats: tuple[Repeat, ...]
    probes: tuple[ProbeResult, ...]
    findings: tuple[GateFinding, ...]
    steps: tuple[int | None, ...]
    """That gave out a token, by the engine's count: across each request, or each volley."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmEvidence:
    """What was measured on one start; its cells in the order in which they were run."""

    plan: ArmPlan
    outcome: Outcome
    cells: tuple[CellEvidence, ...]
    findings: tuple[GateFinding, ...]
    intent: tuple[IntentRow, ...]
    memory: tuple[Plateau, ...]
    log_findings: tuple[Finding, ...]
    log_lines: int
    preemptions: int | None
    """The server's counter after the last request; `None`: not read."""

    cold: tuple[ColdResult, ...]
