"""A run as a comment on an upstream issue or pull request: Markdown, scrubbed, not too long."""

import re
import shlex
from collections.abc import Mapping, Sequence

from orchestrator.errors import RunFolderError
from orchestrator.model.engine import EngineFacts
from orchestrator.model.host import RunStart
from orchestrator.model.patch import PatchProvenance
from orchestrator.model.plan import Plan
from orchestrator.model.provenance import ArmProvenance
from orchestrator.model.sharing import Attachments
from orchestrator.model.verdict import ArmVerdict, RunVerdict
from orchestrator.pricing import Price, prices
from orchestrator.reporting.claims import claims, limits, setup
from orchestrator.reporting.figures import PRICES, launch_command
from orchestrator.reporting.markdown import TEMPLATES
from orchestrator.reporting.method import method, words
from orchestrator.reporting.rows import differences, rows
from orchestrator.reporting.stacks import stacks_section
from orchestrator.scrubbing import PLACES, SECRETS, Scrubber

LIMIT_CHARACTERS = 65_536
"""GitHub refuses a longer comment: "Body is too long (maximum is 65536 characters)"."""

_PORT = "8000"
"""In launch commands, where the run took a free one: vLLM's default, and `--repro`'s example."""

_PATTERNS = 4
"""Of cached tokens, that one line of the arms' table names."""

LEFT_OUT = (
    "the stable cells",
    "every cell",
    "what moved in each cell",
    "the figures of the stacks",
    "the text of the patch",
)
"""What a comment that would be too long does without, in this order."""


def comment(
    plan: Plan,
    verdict: RunVerdict,
    *,
    start: RunStart,
    facts: Mapping[str, EngineFacts],
    provenance: Mapping[str, ArmProvenance],
    patches: Mapping[str, PatchProvenance],
    attachments: Attachments,
    known: Mapping[str, str],
) -> str:
    """The comment, ready to paste.

    Args:
        plan: The run's plan.
        verdict: Its judgement.
        start: When and on what machine it was made.
        facts: By arm, what its server said of itself.
        provenance: By arm, what its server was made of; runs of before do not say.
        patches: By arm, what a patch changed.
        attachments: What goes along with the comment.
        known: Texts of this machine, and what stands for them.

    Raises:
        RunFolderError: It is too long even without everything in `LEFT_OUT`.
    """
    scrubber = Scrubber(known, (*SECRETS, *PLACES))
    values = {
        "plan": plan,
        "verdict": verdict,
        "start": start,
        "facts": facts,
        "made_of": {arm: _made_of(made) for arm, made in provenance.items()},
        "patches": patches,
        "attached": attachments,
        "claims": list(claims(verdict)),
        "limits": list(limits(plan, verdict)),
        "method": list(method(plan)),
        "words": list(words(verdict)),
        "companies": any(cell.concurrency > 1 for arm in verdict.arms for cell in arm.cells),
        "arms": [(arm, setup(arm), _cached(arm, verdict)) for arm in verdict.arms],
        "rows": rows(verdict),
        "moved": differences(verdict),
        "depth": 3,
        "stacks": None if verdict.stacks is None else stacks_section(verdict.stacks),
        "prices": _prices(plan, verdict),
        "price_words": PRICES,
        "launches": _launches(plan, scrubber),
        "command": shlex.join(start.command),
        "clean": scrubber.clean,
        "fenced": _fenced,
    }
    length = 0
    for number in range(len(LEFT_OUT) + 1):
        text = scrubber.clean(_rendered(values, LEFT_OUT[:number]))
        text += _scrubbed(text, scrubber)
        length = len(text)
        if length <= LIMIT_CHARACTERS:
            return text
    raise RunFolderError(
        f"{plan.experiment}: the comment has {length:,} characters although {', '.join(LEFT_OUT)}"
        f" are left out; GitHub takes {LIMIT_CHARACTERS:,}: run fewer arms (--arm), or post"
        " the bundle's report.md"
    )


def _prices(plan: Plan, verdict: RunVerdict) -> tuple[Price, ...]:
    """None beside stacks: one kind of ratio in a comment."""
    return () if plan.control is None or verdict.stacks else prices(verdict, plan.control)


def _made_of(made: ArmProvenance) -> str:
    """One line about what an arm's numbers depend on; what was not found out is said to be so."""
    packages = {} if made.installation is None else made.installation.packages
    build = None if made.installation is None else made.installation.vllm_commit
    cuda = None if made.installation is None else made.installation.torch_cuda
    said = [
        f"torch {packages.get('torch', 'not found')}",
        f"CUDA {cuda or 'not found'}",
        f"vLLM's build {build or 'not found'}",
        "model's files not found"
        if made.model is None
        else f"model of {made.model.files} files, their list sha256 {made.model.list_sha256[:12]}"
        f", revision {made.model.revision or 'not found'}",
    ]
    if made.image is not None:
        said.append(f"image {(made.image.digests or (made.image.id,))[0]}")
    return "; ".join(said)


def _rendered(values: Mapping[str, object], left_out: Sequence[str]) -> str:
    return TEMPLATES.get_template("comment.md.j2").render(**values, left_out=left_out)


def _scrubbed(text: str, scrubber: Scrubber) -> str:
    """What was replaced, counted in the text itself: a trimmed run has its stand-ins already."""
    plain = text.replace("\\", "")  # in a table `<` is escaped
    counts = {stand_in: plain.count(stand_in) for stand_in in scrubber.counts}
    told = ", ".join(f"`{stand_in}` {count} ×" for stand_in, count in counts.items() if count)
    return (
        "\nScrubbed: folders of the machine, host and user names, network and mail addresses and"
        f" secrets give way to stand-ins; in this comment: {told or 'none was needed'}.\n"
    )


def _fenced(text: str, language: str = "") -> str:
    """A code block that nothing in the text can end."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _cached(arm: ArmVerdict, verdict: RunVerdict) -> str:
    """The cached tokens of B that occur in an arm's cells; of too many to read, the range."""
    patterns = list(dict.fromkeys(row.cached for row in rows(verdict) if row.arm == arm.arm))
    counts = [probe.cached_tokens for cell in arm.cells for probe in cell.probes]
    known = [count for count in counts if count is not None]
    if len(patterns) <= _PATTERNS or len(known) < len(counts):
        return "; ".join(patterns)
    return f"{min(known)} to {max(known)}, in {len(patterns)} patterns"


def _launches(plan: Plan, scrubber: Scrubber) -> list[tuple[str, str]]:
    """By command the arms that were started with it: most arms share one."""
    arms: dict[str, list[str]] = {}
    for arm in plan.arms:
        argv = [argument.replace("{port}", _PORT) for argument in arm.launch.argv]
        command = scrubber.clean(launch_command(arm.launch.environment, argv))
        arms.setdefault(command, []).append(arm.name)
    return [(", ".join(names), command) for command, names in arms.items()]
