"""Experiment × launch profile → Plan. Pure: the tokenizer and the texts are handed in."""

import hashlib
from collections.abc import Mapping, Sequence

from orchestrator.errors import DefinitionError
from orchestrator.model.engine import EngineFiles
from orchestrator.model.experiment import Arm, Document, Experiment
from orchestrator.model.plan import (
    ArmPlan,
    Declared,
    DocumentPin,
    Plan,
    ProbePlan,
    Selection,
)
from orchestrator.model.profile import LaunchProfile
from orchestrator.planning.cells import plan_cells, salt_of, warm_up_probes
from orchestrator.planning.launching import engine_name, launch_plan, step_budget
from orchestrator.planning.prompts import Encode, Prompts, resolve_sizes


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
) -> Plan:
    """Resolve everything: sizes, token ids, salts, order, command lines, predictions.

    Args:
        experiment: What is asked.
        profile: How the servers are started.
        documents: By name; every document that the experiment names.
        engine: Where the profile's engine is.
        encode: The tokenizer of the profile's model, without special tokens of its own.
        selection: `quick` one document and length, `plain` one length, `full` everything.
        arms: Only these; all when empty.

    Raises:
        DefinitionError: Names the file and the key that cannot be resolved.
    """
    where = f"arms/{experiment.name}.toml"
    sizes = resolve_sizes(experiment, profile, where, selection)
    chosen = _chosen_arms(experiment, arms, where)
    panel = experiment.documents[:1] if selection == "quick" else experiment.documents
    prompts = Prompts(profile, sizes, encode)
    for name in panel:
        prompts.add_panel_document(documents[name], where)
    prompts.add_warm_up(documents[experiment.warm_up_document], where)
    return Plan(
        experiment=experiment.name,
        question=experiment.question,
        profile=profile.name,
        engine=engine_name(profile),
        engine_identity=engine.identity,
        purpose=experiment.purpose(profile.listed_as),
        expectations={
            arm: expected
            for arm, expected in experiment.expectations.get(profile.listed_as, {}).items()
            if arm in {entry.name for entry in chosen}
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
            _pin(documents[name]) for name in (*panel, experiment.warm_up_document)
        ),
        prompts=prompts.table,
        arms=tuple(
            _arm_plan(arm, experiment, profile, engine, prompts, panel) for arm in chosen
        ),
        control=experiment.control,
        expected_start_s=profile.expected_start_s,
    )  # fmt: skip


def _chosen_arms(experiment: Experiment, names: Sequence[str], where: str) -> list[Arm]:
    known = [arm.name for arm in experiment.arms]
    for name in names:
        if name not in known:
            raise DefinitionError(
                f"--arm {name}", f"{where} has no such arm; it has {', '.join(known)}"
            )
    return [arm for arm in experiment.arms if not names or arm.name in names]


def _pin(document: Document) -> DocumentPin:
    return DocumentPin(
        name=document.name,
        language=document.language,
        kind=document.kind,
        sha256=hashlib.sha256(document.text.encode()).hexdigest(),
    )


def _arm_plan(
    arm: Arm,
    experiment: Experiment,
    profile: LaunchProfile,
    engine: EngineFiles,
    prompts: Prompts,
    panel: Sequence[str],
) -> ArmPlan:
    budget = step_budget(arm, profile, f"arms/{experiment.name}.toml")
    cells = plan_cells(arm, experiment, profile, prompts, panel, budget)
    probes = [probe for cell in cells for probe in cell.probes]
    return ArmPlan(
        name=arm.name,
        cell=arm.cell,
        prefix_caching=arm.prefix_caching,
        speculation=arm.speculation,
        patch=arm.patch,
        launch=launch_plan(arm, profile, engine, budget),
        declared=Declared(
            vllm_version=profile.vllm_version,
            served_model_name=profile.served_model_name,
            block_size_tokens=arm.block_size_tokens or profile.block_size_tokens,
            tokenizer_sample=prompts.sample,
            tokenizer_ids=prompts.sample_ids,
            prompt_tokens=sum(len(prompts.table[probe.prompt].token_ids) for probe in probes),
        ),
        ready_probe=ProbePlan(
            id="000-ready", role="ready", prompt="ready", salt=salt_of(experiment, arm, "ready")
        ),
        warm_up=warm_up_probes(arm, experiment, prompts) if experiment.warm_up else (),
        cells=cells,
    )
