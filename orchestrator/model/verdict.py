"""What is concluded: digests, patterns, verdicts. The rules are in `docs/verdicts.md`."""

from typing import Literal

from orchestrator.model.experiment import CellKind, Expectation, Purpose, Switch
from orchestrator.model.host import Plateau
from orchestrator.model.intent import IntentRow
from orchestrator.model.patch import Removal
from orchestrator.model.plan import Place
from orchestrator.model.record import Record
from orchestrator.model.score import ItemResult, SuiteComparison
from orchestrator.model.serverlog import Finding
from orchestrator.model.stacks import StackComparison

Word = Literal["stable", "diverged", "inconclusive", "batch-equal", "batch-dependent"]
"""The last two are of cells whose requests were sent at once, and of nothing else."""

Repeats = Literal["equal", "first-differs", "split"]
AgainstReference = Literal["equal", "differs", "unknown"]
Attribution = Literal["contamination", "nondeterministic", "first-request", "unattributed"]
DifferenceKind = Literal["identical", "order-only", "tie-only", "numeric"]
Timing = Literal["first-token", "later", "later, speculation-confounded"]
Result = Literal[
    "as expected", "not as expected", "not seen", "affected", "batch-dependent", "inconclusive",
    "failed",
]  # fmt: skip


class Digests(Record):
    """SHA-256 over one answer's top-k lists, three ways, and by the article's own scheme."""

    scheme: str
    server_order: str
    id_order: str
    values: str
    article: str


class ProbeResult(Record):
    """What one probe of a cell came to; derived from its raw bytes."""

    probe: str
    role: Literal["prime", "a", "b"]
    repeat: int | None
    digests: Digests
    text: str
    prompt_tokens: int
    cached_tokens: int | None
    """As the answer says; `None` when it does not say."""

    predicted_cached_tokens: int | None
    hit_tokens_delta: int | None
    """Of the server's hit counter, across this request."""

    preemptions_delta: int | None
    draft_tokens_delta: int | None
    accepted_tokens_delta: int | None
    """Draft tokens accepted in this request; `None` without speculation."""

    not_argmax: tuple[int, ...]
    """Generated tokens, from 0, that were not the most probable candidate."""

    prefill_s: float | None
    """Of the server's own histogram, across this request."""

    first_token_s: float | None
    """Time to first token; likewise."""

    latency_s: float
    gap_s: float | None
    """From the end of the request before it in the cell to its own start; `None` where the two
    were under way together."""


class HitGroup(Record):
    """Repeats of a cell that were served the same number of cached tokens."""

    cached_tokens: int | None
    repeats: tuple[int, ...]
    variants: str


class Movement(Record):
    """How the candidates of one generated token differ between two answers."""

    token: int
    """Counted from 0."""

    shared: int
    """Candidates listed in both answers, and not forbidden by a schema in either."""

    moved: int
    """Shared candidates whose distance to the argmax differs."""

    max_delta: float
    """Largest absolute difference of a shared candidate's log probability."""

    max_relative_delta: float
    """The same, of the distance to the argmax."""

    common_shift: float | None
    """Set when all shared candidates moved by this one amount: only the normaliser moved."""

    argmax_moved: bool


class Difference(Record):
    """Two answers of one cell that should have been equal."""

    left: str
    """Probe ids."""

    right: str
    kind: DifferenceKind
    first_token: int
    """The first generated token, from 0, whose candidates differ."""

    timing: Timing
    text_equal: bool
    """Reported, never evidence."""

    movements: tuple[Movement, ...]
    """Up to and including the first token that was chosen differently."""


class Pattern(Record):
    """How a cell's variants lie. Equal letters are numerically equal answers of one start."""

    variants: str
    """One letter a repeat, in order."""

    reference_before: str | None
    reference_after: str | None
    hit_groups: tuple[HitGroup, ...]
    repeats: Repeats
    against_reference: AgainstReference
    kinds: tuple[DifferenceKind, ...]
    """What kinds of difference occur among the repeats and against the reference."""

    difference: Difference | None
    """Against the reference where it differs, else between the first two variants."""


class Volley(Record):
    """Requests that were sent at once."""

    requests: int
    steps: int | None
    """That the engine took for all of them together."""

    lone_steps: int | None
    """That as many requests take one after the other, by the references of the same start."""

    @property
    def shared(self) -> bool | None:
        """Whether the engine computed them in steps that they share; `None`: it does not say."""
        if self.steps is None or self.lone_steps is None:
            return None
        return self.steps < self.lone_steps


class GateFinding(Record):
    """Why something is not evidence, or a remark on it; with its numbers."""

    rule: int
    """Of `docs/verdicts.md`."""

    scope: Literal["start", "later", "cell", "remark"]
    """What it voids: every cell of the start, this and all later ones, this cell, nothing."""

    cell: str | None
    summary: str


class CellVerdict(Record):
    """One measured cell."""

    arm: str
    cell: str
    kind: CellKind
    place: Place
    document: str
    a_tokens: int | None
    b_tokens: int | None
    concurrency: int = 1
    verdict: Word
    reason: str
    attribution: Attribution | None
    eligible: Literal["eligible", "not eligible", "undetermined"] | None
    """As predicted; `None` without a prediction."""

    pattern: Pattern | None
    """`None` when the cell was not measured in full."""

    probes: tuple[ProbeResult, ...]
    volleys: tuple[Volley, ...] = ()
    """Of a cell with `concurrency`."""


class ArmVerdict(Record):
    """One start."""

    arm: str
    cell: CellKind
    prefix_caching: Switch
    speculation: Switch
    patch: str | None
    verdict: Word
    reason: str
    stable: int
    diverged: int
    inconclusive: int
    batch_equal: int = 0
    batch_dependent: int = 0
    """Numbers of measured cells."""

    cells: tuple[CellVerdict, ...]
    items: tuple[ItemResult, ...] = ()
    """Of a suite; each stands beside the cell of its name."""

    findings: tuple[GateFinding, ...]
    intent: tuple[IntentRow, ...]
    """What was asked of the server, beside what it said of itself."""

    memory: tuple[Plateau, ...]
    log_findings: tuple[Finding, ...] = ()
    """What the server's log says against it."""

    expected: Expectation | None
    as_expected: bool | None
    """`None` when nothing was expected, or when it cannot be said."""


class RunVerdict(Record):
    """The whole run."""

    format: Literal[1] = 1
    experiment: str
    profile: str
    engine: str
    """What answered; nothing that `MINIATURE: not vLLM` says is evidence about vLLM."""

    purpose: Purpose
    result: Result
    exit_code: int
    sentence: str
    arms: tuple[ArmVerdict, ...]
    removal: Removal | None
    """Whether a patched arm shows that its patch removes the effect; `None` without one."""

    suite: tuple[SuiteComparison, ...] = ()
    """Of a suite: its arms in pairs."""

    not_covered: tuple[str, ...]

    stacks: StackComparison | None = None
    """Speed, side by side; `None` where the experiment asks nothing of it."""
