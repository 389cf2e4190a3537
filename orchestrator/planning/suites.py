"""Suite × launch profile → Plan. Pure: items, texts and the tokenizer are handed in."""

import json
import unicodedata
from collections.abc import Mapping, Sequence

from orchestrator.errors import DefinitionError
from orchestrator.model.engine import EngineFiles
from orchestrator.model.experiment import Document
from orchestrator.model.plan import (
    ArmPlan,
    CellPlan,
    ChatPlan,
    Declared,
    Plan,
    ProbePlan,
    Selection,
)
from orchestrator.model.profile import LaunchProfile
from orchestrator.model.suite import SuiteArm, SuiteExperiment, SuiteItem, SuiteLimits, SuitePlan
from orchestrator.planning.cells import salt_of
from orchestrator.planning.launching import Stack, engine_name, launch_plan, step_budget
from orchestrator.planning.plans import chosen_arms, pinned
from orchestrator.planning.prompts import SAMPLE_CHARACTERS, Encode, ready_prompt
from orchestrator.planning.suite_order import CHAT_ENDPOINT, suite_cells
from orchestrator.scoring.reading import canonical

_WARM_UP = "warm-up"


def make_suite_plan(
    suite: SuiteExperiment,
    items: Sequence[SuiteItem],
    profile: LaunchProfile,
    documents: Mapping[str, Document],
    engine: EngineFiles,
    *,
    encode: Encode,
    selection: Selection,
    arms: Sequence[str] = (),
    stacks: Sequence[Stack] = (),
) -> Plan:
    """Resolve everything about a suite; `quick` takes the items of the first document.

    Args:
        suite: What is asked.
        items: Of the suite's file, in its order.
        profile: How the servers are started; with `stacks`, the one whose limits hold for all.
        documents: By name; every one that an item names, and the warm-up's.
        engine: Where the profile's engine is.
        encode: The tokenizer of the profile's model.
        selection: How many items.
        arms: Only these; all when empty.
        stacks: The profiles that the suite's arms name, with their engines. A schema is enforced
            where all of them can, and answers are scored where all their models are trained.

    Raises:
        DefinitionError: Names the file and the key, or the item, that cannot be used.
    """
    limits = suite.limits_on(profile.name)
    # Of one document, so that sharing it is still tested.
    asked = [i for i in items if selection != "quick" or i.document == items[0].document]
    for item in asked:
        _check_item(item, documents[item.document], limits, f"arms/suites/{suite.items}.jsonl")
    chosen = chosen_arms(suite.arms, arms, f"arms/{suite.name}.toml")
    names = {arm.name for arm in chosen}
    expected = suite.expectations.get(profile.name, {})
    warm_up = documents[suite.warm_up_document]
    used = list(stacks) or [Stack(profile=profile, engine=engine)]
    by_profile = {stack.profile.name: stack for stack in used}
    enforced = all(stack.profile.structured_output for stack in used)
    chats = {_WARM_UP: _warm_up_chat(warm_up, limits)} | {
        item.id: _chat(item, documents[item.document], limits, enforced=enforced) for item in asked
    }
    panel = dict.fromkeys([*(item.document for item in asked), warm_up.name])
    return Plan(
        experiment=suite.name,
        question=suite.question,
        profile=", ".join(by_profile),
        engine=", ".join(dict.fromkeys(engine_name(stack.profile) for stack in used)),
        engine_identity=", ".join(stack.engine.identity for stack in used),
        purpose=suite.purpose(profile.name),
        expectations={name: word for name, word in expected.items() if name in names},
        selection=selection,
        seed=suite.seed,
        block_size_tokens=profile.block_size_tokens,
        speculative_tokens=profile.speculative_tokens,
        shared_tokens=None,
        b_tokens=None,
        a_tokens=(),
        repeats=suite.runs,
        reference_repeats=1,
        max_tokens=limits.max_tokens,
        top_logprobs=suite.top_logprobs,
        documents=tuple(pinned(documents[name]) for name in panel),
        prompts={"ready": ready_prompt(warm_up, profile, encode)},
        chats=chats,
        suite=SuitePlan(
            items=tuple(asked),
            runs=suite.runs,
            arms=tuple(chosen),
            structured_output=enforced,
            model_trained=all(stack.profile.model_trained for stack in used),
        ),
        arms=tuple(
            _arm_plan(
                arm, suite, asked, by_profile[arm.profile or profile.name], chats,
                warm_up.text, encode,
            )
            for arm in chosen
        ),
        control=None,
        expected_start_s=max(stack.profile.expected_start_s for stack in used),
    )  # fmt: skip


def _check_item(item: SuiteItem, document: Document, limits: SuiteLimits, where: str) -> None:
    """Every expected value stands in what is sent, and reads as the file says."""
    excerpt = _excerpt(document, limits)
    for name, expected in item.fields.items():
        if unicodedata.normalize("NFC", expected.written) not in excerpt:
            problem = f"{expected.written!r} does not stand in what is sent of the document"
            raise DefinitionError(where, f"{item.id}: fields.{name}.written: {problem}")
        read = canonical(expected.written, expected.kind, document.language)
        if read != expected.value:
            problem = f"{expected.value!r}, but {expected.written!r} reads as {read!r}"
            raise DefinitionError(where, f"{item.id}: fields.{name}.value: {problem}")


def _excerpt(document: Document, limits: SuiteLimits) -> str:
    return document.text[: limits.document_characters]


def _warm_up_chat(document: Document, limits: SuiteLimits) -> ChatPlan:
    return ChatPlan(
        document=document.name,
        content=f"{_excerpt(document, limits)}\n\n{document.a.question}",
        response_format=None,
    )


def _chat(item: SuiteItem, document: Document, limits: SuiteLimits, *, enforced: bool) -> ChatPlan:
    """The document comes first, so that items about it share their beginning."""
    schema = json.dumps(item.response_schema, ensure_ascii=False)
    return ChatPlan(
        document=item.document,
        content=f"{_excerpt(document, limits)}\n\n{item.question}\n\n{schema}",
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": item.response_schema, "strict": True},
        }
        if enforced
        else None,
    )


def _arm_plan(
    arm: SuiteArm,
    suite: SuiteExperiment,
    items: Sequence[SuiteItem],
    stack: Stack,
    chats: Mapping[str, ChatPlan],
    sample: str,
    encode: Encode,
) -> ArmPlan:
    profile, engine = stack.profile, stack.engine
    where = f"arms/{suite.name}.toml"
    cells = suite_cells(arm, suite, items)
    return ArmPlan(
        name=arm.name,
        cell="suite",
        prefix_caching=arm.prefix_caching,
        speculation=arm.speculation,
        patch=arm.patch,
        launch=launch_plan(arm, profile, engine, step_budget(arm, profile, where), where),
        declared=Declared(
            vllm_version=profile.vllm_version,
            served_model_name=profile.served_model_name,
            block_size_tokens=arm.block_size_tokens or profile.block_size_tokens,
            tokenizer_sample=sample[:SAMPLE_CHARACTERS],
            tokenizer_ids=tuple(encode(sample[:SAMPLE_CHARACTERS])),
            prompt_tokens=_tokens_to_keep(cells, chats, profile, encode),
        ),
        ready_probe=ProbePlan(
            id="000-ready", role="ready", prompt="ready", salt=salt_of(suite, arm, "ready")
        ),
        warm_up=(
            ProbePlan(
                id="001-warm-up",
                role="warm-up",
                prompt=_WARM_UP,
                salt=salt_of(suite, arm, "warm-up"),
                endpoint=CHAT_ENDPOINT,
            ),
        ),
        cells=cells,
        profile=arm.profile,
    )


def _tokens_to_keep(
    cells: Sequence[CellPlan],
    chats: Mapping[str, ChatPlan],
    profile: LaunchProfile,
    encode: Encode,
) -> int:
    """Of all prompts together, each once under each salt: the runs of an item need no more room."""
    kept = {(probe.salt, probe.prompt) for cell in cells for probe in cell.probes}
    template = len(encode(profile.prompt_prefix)) + len(encode(profile.prompt_suffix))
    tokens = {key: len(encode(chat.content)) + template for key, chat in chats.items()}
    return sum(tokens[prompt] for _, prompt in kept)
