"""What a whole report shows beside the verdict; taken from the stored evidence, never judged."""

from dataclasses import dataclass

from orchestrator.model.engine import EngineFacts
from orchestrator.model.host import MemorySample, RunEnd, RunStart
from orchestrator.model.observation import Candidate
from orchestrator.model.outcome import Outcome
from orchestrator.model.patch import Overlay
from orchestrator.model.plan import LaunchPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A candidate's place in one top-k list."""

    rank: int
    """In the server's order, from 1."""

    logprob: float
    """Natural logarithm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One token id in the two lists of a contrast."""

    token_id: int
    left: Standing | None
    """`None`: not listed there."""

    right: Standing | None

    delta: float | None
    """Right minus left; `None` unless both lists have it."""

    relative_delta: float | None
    """The same, of the distance to the most probable candidate."""

    moved: bool | None
    """The relative delta is more than rounding can make; as `Movement.moved` counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """The candidates of the first generated token in which two answers differ."""

    cell: str
    left: str
    """Probe ids: the answer that is held against, and the one that differs from it."""

    right: str
    token: int
    """The generated token, from 0."""

    left_chosen: Candidate
    right_chosen: Candidate
    rows: tuple[Compared, ...]
    """In the left list's order, then what only the right one has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmExhibit:
    """What one start left behind. `None`: the run did not get that far."""

    arm: str
    outcome: Outcome | None
    launch: LaunchPlan | None
    """As really used, a patched copy's paths included."""

    facts: EngineFacts | None
    overlay: Overlay | None
    """`None` also for an arm without a patch."""

    log_file: str | None
    """Name of the saved server log in the arm's folder; `None`: there is none."""

    memory: tuple[MemorySample, ...]
    contrasts: tuple[Contrast, ...]
    """One for each cell with a difference, in the order of the cells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibits:
    """Everything beside the verdict."""

    start: RunStart
    end: RunEnd | None
    """`None`: the run is still going on, or was killed."""

    arms: tuple[ArmExhibit, ...]
    """In the plan's order."""
