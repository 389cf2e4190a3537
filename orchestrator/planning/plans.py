"""Experiment × launch profile → Plan. Pure: the tokenizer and the texts are handed in."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import TypeVar

from orchestrator.errors import DefinitionError
from orchestrator.model.engine import EngineFiles
from orchestrator.model.experiment import AGAIN, Arm, Document, Experiment, ServerSettings
from orchestrator.model.plan import (
    ArmPlan,
    CellPlan,
    Declared,
    DocumentPin,
    Plan,
    ProbePlan,
    Selection,
    ThroughputPlan,
)
from orchestrator.model.profile import LaunchProfile
from orchestrator.planning.cells import plan_cells, salt_of, warm_up_probes
from orchestrator.planning.launching import (
    Stack,
    check_alike,
    engine_name,
    launch_plan,
    step_budget,
)
from orchestrator.planning.prompts import Encode, Prompts, resolve_sizes
from orchestrator.planning.throughput import cold_runs, plan_throughput


def plan_hash(plan: Plan) -> str:
    """The first 12 hexadecimal digits of the SHA-256 over the plan as it is stored."""
    return hashlib.sha256(plan.model_dump_json().encode()).hexdigest()[:12]


def make_plan(
    experiment: Experiment,
    profile: LaunchProfile,
    documents: Mapping[str, Document],
    engine: EngineFiles,
    *,
    encode: Encode,
    selection: Selection,
    arms: Sequence[str] = (),
    stacks: Sequence[Stack] = (),
) -> Plan:
    """Resolve everything: sizes, token ids, salts, order, command lines, predictions.

    Args:
        experiment: What is asked.
        profile: How the servers are started; with `stacks`, the one that sizes are resolved on.
        documents: By name; every document that the experiment names.
        engine: Where the profile's engine is.
        encode: The tokenizer of the profile's model, without special tokens of its own.
        selection: `quick` one document and length, `plain` one length, `full` everything.
        arms: Only these; all when empty.
        stacks: The profiles that the experiment's arms name, with their engines.

    Raises:
        DefinitionError: Names the file and the key that cannot be resolved.
    """
    where = f"arms/{experiment.name}.toml"
    sizes = resolve_sizes(experiment, profile, where, selection)
    chosen = chosen_arms(experiment.arms, arms, where)
    panel = experiment.documents[:1] if selection == "quick" else experiment.documents
    prompts = Prompts(profile, sizes, encode)
    for name in panel:
        prompts.add_panel_document(documents[name], where)
    prompts.add_warm_up(documents[experiment.warm_up_document], where)
    used = _used_stacks(chosen, stacks) or [Stack(profile=profile, engine=engine)]
    check_alike(used, where)
    by_profile = {stack.profile.name: stack for stack in used}
    throughput = plan_throughput(experiment, profile, documents, encode, selection)
    starts = _starts(chosen, there_and_back=experiment.there_and_back)
    expected = experiment.expectations.get(profile.listed_as, {})
    return Plan(
        experiment=experiment.name,
        question=experiment.question,
        profile=", ".join(by_profile),
        engine=", ".join(dict.fromkeys(engine_name(stack.profile) for stack in used)),
        engine_identity=", ".join(stack.engine.identity for stack in used),
        purpose=experiment.purpose(profile.listed_as),
        expectations={
            name: expected[arm.name] for name, arm in starts if arm.name in expected
        },
        selection=selection,
        seed=experiment.seed,
        block_size_tokens=profile.block_size_tokens,
        speculative_tokens=profile.speculative_tokens,
        shared_tokens=sizes.shared,
        b_tokens=sizes.b,
        a_tokens=sizes.a,
        repeats=experiment.repeats,
        reference_repeats=experiment.reference_repeats,
        max_tokens=experiment.max_tokens,
        top_logprobs=experiment.top_logprobs,
        documents=tuple(
            pinned(documents[name]) for name in (*panel, experiment.warm_up_document)
        ),
        prompts=prompts.table,
        arms=tuple(
            _arm_plan(
                name, arm, experiment, by_profile[arm.profile or profile.name], prompts, panel,
                throughput,
            )
            for name, arm in starts
        ),
        control=experiment.control if experiment.control in {a.name for a in chosen} else None,
        expected_start_s=max(stack.profile.expected_start_s for stack in used),
        throughput=throughput,
    )  # fmt: skip


A = TypeVar("A", bound=ServerSettings)


def chosen_arms(arms: Sequence[A], names: Sequence[str], where: str) -> list[A]:
    """The arms that are named, in the experiment's order; all when none is.

    Raises:
        DefinitionError: There is no arm of a name.
    """
    known = [arm.name for arm in arms]
    for name in names:
        if name not in known:
            raise DefinitionError(
                f"--arm {name}", f"{where} has no such arm; it has {', '.join(known)}"
            )
    return [arm for arm in arms if not names or arm.name in names]


def _used_stacks(arms: Sequence[Arm], stacks: Sequence[Stack]) -> list[Stack]:
    named = {arm.profile for arm in arms}
    return [stack for stack in stacks if stack.profile.name in named]


def _starts(arms: Sequence[Arm], *, there_and_back: bool) -> list[tuple[str, Arm]]:
    """Every start's name and arm, in order."""
    there = [(arm.name, arm) for arm in arms]
    back = [(f"{arm.name}{AGAIN}", arm) for arm in reversed(arms)]
    return there + back if there_and_back else there


def pinned(document: Document) -> DocumentPin:
    """Which text the document's name stands for."""
    return DocumentPin(
        name=document.name,
        language=document.language,
        kind=document.kind,
        sha256=hashlib.sha256(document.text.encode()).hexdigest(),
    )


def _arm_plan(
    name: str,
    arm: Arm,
    experiment: Experiment,
    stack: Stack,
    prompts: Prompts,
    panel: Sequence[str],
    throughput: ThroughputPlan | None,
) -> ArmPlan:
    profile, engine = stack.profile, stack.engine
    where = f"arms/{experiment.name}.toml"
    budget = step_budget(arm, profile, where)
    cells = plan_cells(arm, experiment, profile, prompts, panel, budget)
    probes = [probe for cell in cells for probe in cell.probes]
    warm_up = warm_up_probes(arm, experiment, prompts) if experiment.warm_up else ()
    first_cold = len(prompts.sizes.a) + len(probes) + 2  # after the warm-up and the cells
    return ArmPlan(
        name=name,
        cell=arm.cell,
        prefix_caching=arm.prefix_caching,
        speculation=arm.speculation,
        patch=arm.patch,
        launch=launch_plan(arm, profile, engine, budget, where),
        declared=Declared(
            vllm_version=profile.vllm_version,
            served_model_name=profile.served_model_name,
            block_size_tokens=arm.block_size_tokens or profile.block_size_tokens,
            tokenizer_sample=prompts.sample,
            tokenizer_ids=prompts.sample_ids,
            prompt_tokens=_tokens_to_keep(arm, cells, prompts),
        ),
        ready_probe=ProbePlan(
            id="000-ready", role="ready", prompt="ready", salt=salt_of(experiment, arm, "ready")
        ),
        warm_up=warm_up,
        cells=cells,
        cold=() if throughput is None else cold_runs(arm, experiment, throughput, first_cold),
        profile=arm.profile,
        of_arm=None if name == arm.name else arm.name,
    )


def _tokens_to_keep(arm: Arm, cells: Sequence[CellPlan], prompts: Prompts) -> int:
    """Of all requests together; of an arm with company, of one request that is sent alone.

    Nothing of a volley is ever restored. So a cache that is too small for a volley can falsify
    nothing but a reference cell, which repeats one request, and what that lost shows in its own
    cached tokens.
    """
    alone = [
        len(prompts.table[probe.prompt].token_ids)
        for cell in cells
        if cell.concurrency == 1
        for probe in cell.probes
    ]
    return sum(alone) if arm.concurrency == 1 else max(alone, default=0)
