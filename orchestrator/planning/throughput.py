"""Cold requests: exact lengths, fresh salts, fresh content, and the same on every start. Pure.

    corpus  |………document………|………document………|   as a ring
    prompts   |<- 1 ->|  |<- 2 ->|   …           each from a place of its own, evenly spread

The content of two prompts may overlap, since six lengths up to a model's limit need more text than
a few documents have. A prefix cache does not see that: it looks from the first token on, and no two
prompts begin with the same block. Each has a salt of its own besides.
"""

from collections.abc import Mapping, Sequence

from orchestrator.errors import DefinitionError
from orchestrator.model.experiment import Arm, Document, Experiment, Throughput
from orchestrator.model.plan import ColdRun, ProbePlan, Selection, Span, ThroughputPlan
from orchestrator.model.profile import LaunchProfile
from orchestrator.planning.cells import salt_of
from orchestrator.planning.prompts import Encode
from orchestrator.sizing import resolve

_QUICK_LENGTHS = 2
"""Of a quick run; the shortest."""


def plan_throughput(
    experiment: Experiment,
    profile: LaunchProfile,
    documents: Mapping[str, Document],
    encode: Encode,
    selection: Selection,
) -> ThroughputPlan | None:
    """What the cold requests of all starts have in common; `None` when nothing is asked of speed.

    Raises:
        DefinitionError: Names the key that cannot be resolved, or the documents that are too short.
    """
    asked = experiment.throughput
    if asked is None:
        return None
    where = f"arms/{experiment.name}.toml"
    lengths = _lengths(asked, profile, where)
    if selection == "quick":
        lengths = lengths[:_QUICK_LENGTHS]
    corpus = tuple(token for name in asked.documents for token in encode(documents[name].text))
    if len(corpus) < lengths[-1]:
        problem = f"the documents have {len(corpus)} tokens, and {lengths[-1]} are needed"
        raise DefinitionError(where, f"throughput.documents: {problem}")
    keys = [
        (_key(length, repeat), length) for length in lengths for repeat in range(asked.repeats + 1)
    ]
    step = len(corpus) // len(keys)
    spans = {
        key: Span(start=number * step, tokens=length) for number, (key, length) in enumerate(keys)
    }
    _check_first_blocks(spans, corpus, profile.block_size_tokens, where)
    return ThroughputPlan(
        corpus=corpus,
        spans=spans,
        repeats=asked.repeats,
        max_tokens=asked.max_tokens,
        hold_s=asked.hold_s,
    )


def cold_runs(
    arm: Arm, experiment: Experiment, throughput: ThroughputPlan, first_number: int
) -> tuple[ColdRun, ...]:
    """The cold requests of one start, the shortest first; its warm-up opens each length.

    Args:
        arm: Whose start it is; its salts are the arm's own.
        experiment: What is asked.
        throughput: The prompts.
        first_number: Of the first request among all of the start.
    """
    runs: dict[int, list[ProbePlan]] = {}
    for number, (key, span) in enumerate(throughput.spans.items(), start=first_number):
        probes = runs.setdefault(span.tokens, [])
        repeat = len(probes)
        probes.append(
            ProbePlan(
                id=f"{number:03d}-cold{span.tokens}-{repeat}",
                role="cold",
                prompt=key,
                salt=salt_of(experiment, arm, key),
                repeat=repeat,
            )
        )
    return tuple(
        ColdRun(prompt_tokens=length, probes=tuple(probes)) for length, probes in runs.items()
    )


def _key(length: int, repeat: int) -> str:
    return f"cold{length}/{repeat}"


def _lengths(asked: Throughput, profile: LaunchProfile, where: str) -> list[int]:
    context = profile.context_tokens
    limit = None if context is None else context - asked.max_tokens
    lengths = []
    for number, expression in enumerate(asked.lengths):
        key = f"throughput.lengths.{number}"
        if limit is None and "limit" in expression:
            problem = (
                f"launch_profiles/{profile.name}.toml has no context_tokens, which limit needs"
            )
            raise DefinitionError(where, f"{key}: {problem}")
        try:
            length = resolve(expression, block_tokens=profile.block_size_tokens, limit_tokens=limit)
        except ValueError as error:
            raise DefinitionError(where, f"{key}: {error}") from error
        if limit is not None and length > limit:
            problem = f"{length} tokens and an answer of {asked.max_tokens} exceed {context}"
            raise DefinitionError(where, f"{key}: {problem}")
        lengths.append(length)
    if lengths != sorted(set(lengths)):
        raise DefinitionError(
            where, f"throughput.lengths: {lengths} must grow from each to the next"
        )
    return lengths


def _check_first_blocks(
    spans: Mapping[str, Span], corpus: Sequence[int], block_tokens: int, where: str
) -> None:
    seen: dict[tuple[int, ...], str] = {}
    ring = [*corpus, *corpus[:block_tokens]]
    for key, span in spans.items():
        first = tuple(ring[span.start : span.start + block_tokens])
        if first in seen:
            problem = f"{key} and {seen[first]} begin with the same block"
            raise DefinitionError(where, f"throughput.documents: {problem}; more text is needed")
        seen[first] = key
