"""Experiment × launch profile → Plan. Pure: the tokenizer and the texts are handed in."""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.errors import DefinitionError
from orchestrator.model.engine import EngineFiles
from orchestrator.model.experiment import Arm, CellKind, Document, Experiment, Task
from orchestrator.model.plan import (
    ArmPlan,
    CellPlan,
    Declared,
    DocumentPin,
    LaunchPlan,
    Place,
    Plan,
    ProbePlan,
    PromptPlan,
    Role,
    Selection,
)
from orchestrator.model.prediction import CellPrediction, SchedulerSettings
from orchestrator.model.profile import LaunchProfile
from orchestrator.prediction.origins import compare_with_reference
from orchestrator.prediction.releases import default_retention, rule_of
from orchestrator.sizing import common_prefix, compose, resolve

Encode = Callable[[str], Sequence[int]]

_READY_TOKENS_OF_A_BLOCK = 2
"""The readiness probe is half a block long: shorter than a block, so that it caches nothing."""

_SAMPLE_CHARACTERS = 400
"""Enough text to tell two tokenizers apart."""


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
    sizes = _resolve_sizes(experiment, profile, where, selection)
    chosen = _chosen_arms(experiment, arms, where)
    panel = experiment.documents[:1] if selection == "quick" else experiment.documents
    prompts = _Prompts(profile, sizes, encode)
    for name in panel:
        prompts.add_panel_document(documents[name], where)
    prompts.add_warm_up(documents[experiment.warm_up_document], where)
    return Plan(
        experiment=experiment.name,
        question=experiment.question,
        profile=profile.name,
        engine=_engine(profile),
        engine_identity=engine.identity,
        purpose=experiment.purpose(profile.name),
        expectations={
            arm: expected
            for arm, expected in experiment.expectations.get(profile.name, {}).items()
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


@dataclass(frozen=True, slots=True)
class _Sizes:
    key: str
    """Where they stand in the experiment's file."""

    shared: int
    b: int
    a: tuple[int, ...]
    prime: int | None


def _resolve_sizes(
    experiment: Experiment, profile: LaunchProfile, where: str, selection: Selection
) -> _Sizes:
    block_tokens = profile.block_size_tokens
    table, asked = experiment.sizes_on(profile.name)

    def size(key: str, expression: str) -> int:
        try:
            return resolve(expression, block_tokens=block_tokens)
        except ValueError as error:
            raise DefinitionError(where, f"{table}.{key}: {error}") from error

    lengths = tuple(size("a", expression) for expression in asked.a)
    if len(set(lengths)) != len(lengths):
        raise DefinitionError(where, f"{table}.a: two entries are equal at block {block_tokens}")
    return _Sizes(
        key=table,
        shared=size("shared", asked.shared),
        b=size("b", asked.b),
        a=lengths if selection == "full" or asked.scan else lengths[:1],
        prime=None if asked.prime is None else size("prime", asked.prime),
    )


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


class _Prompts:
    """The table of prompts, keyed `document/request`, each exact in token ids."""

    def __init__(self, profile: LaunchProfile, sizes: _Sizes, encode: Encode) -> None:
        self.table: dict[str, PromptPlan] = {}
        self.sample = ""
        self.sample_ids: tuple[int, ...] = ()
        self.sizes = sizes
        self._encode = encode
        self._prefix = tuple(encode(profile.prompt_prefix)) if profile.prompt_prefix else ()
        self._suffix = tuple(encode(profile.prompt_suffix)) if profile.prompt_suffix else ()
        self._ready_tokens = profile.block_size_tokens // _READY_TOKENS_OF_A_BLOCK

    def add_panel_document(self, document: Document, where: str) -> None:
        """A at each of its lengths, and B; checked to share exactly the shared part."""
        b = self._compose(document, document.b, self.sizes.b, where, "b")
        self.table[f"{document.name}/b"] = b
        for length in self.sizes.a:
            a = self._compose(document, document.a, length, where, "a")
            common = common_prefix(a.token_ids, b.token_ids)
            if common != self.sizes.shared:
                raise DefinitionError(
                    f"arms/documents/{document.name}.toml",
                    f"a.question, b.question: A and B have {common} tokens in common instead of"
                    f" {self.sizes.shared}; the two questions must begin with different tokens",
                )
            self.table[f"{document.name}/a{length}"] = a
        if self.sizes.prime is not None:
            self._add_prime(document, self.sizes.prime, where)

    def _add_prime(self, document: Document, length: int, where: str) -> None:
        """The document itself, without a question."""
        ids = (*self._prefix, *self._encode(document.text))[:length]
        if len(ids) < length:
            problem = f"{self.sizes.key}.prime: {document.name} has {len(ids)} tokens only"
            raise DefinitionError(where, problem)
        self.table[f"{document.name}/prime"] = PromptPlan(document=document.name, token_ids=ids)

    def add_warm_up(self, document: Document, where: str) -> None:
        """Unrelated prompts of A's and B's exact lengths, and the readiness probe's."""
        for length in {*self.sizes.a, self.sizes.b}:
            key = f"{document.name}/warm-up{length}"
            self.table[key] = self._compose(document, document.a, length, where, "a")
        ids = self._encode(document.text)[: self._ready_tokens]
        self.table["ready"] = PromptPlan(document=document.name, token_ids=tuple(ids))
        self.sample = document.text[:_SAMPLE_CHARACTERS]
        self.sample_ids = tuple(self._encode(self.sample))

    def _compose(
        self, document: Document, task: Task, total: int, where: str, key: str
    ) -> PromptPlan:
        try:
            ids = compose(
                prefix=self._prefix,
                document=self._encode(document.text),
                tail=self._encode(f"{task.question}\n\n{task.response_schema}\n\n"),
                suffix=self._suffix,
                shared_tokens=self.sizes.shared,
                total_tokens=total,
            )
        except ValueError as error:
            raise DefinitionError(
                where, f"{self.sizes.key}.{key}: {document.name}: {error}"
            ) from error
        return PromptPlan(document=document.name, token_ids=ids)


def _arm_plan(
    arm: Arm,
    experiment: Experiment,
    profile: LaunchProfile,
    engine: EngineFiles,
    prompts: _Prompts,
    panel: Sequence[str],
) -> ArmPlan:
    budget = _budget(arm, profile, f"arms/{experiment.name}.toml")
    cells = _cells(arm, experiment, profile, prompts, panel, budget)
    probes = [probe for cell in cells for probe in cell.probes]
    return ArmPlan(
        name=arm.name,
        cell=arm.cell,
        prefix_caching=arm.prefix_caching,
        speculation=arm.speculation,
        patch=arm.patch,
        launch=_launch(arm, profile, engine, budget),
        declared=Declared(
            vllm_version=profile.vllm_version,
            served_model_name=profile.served_model_name,
            block_size_tokens=arm.block_size_tokens or profile.block_size_tokens,
            tokenizer_sample=prompts.sample,
            tokenizer_ids=prompts.sample_ids,
            prompt_tokens=sum(len(prompts.table[probe.prompt].token_ids) for probe in probes),
        ),
        ready_probe=ProbePlan(
            id="000-ready", role="ready", prompt="ready", salt=_salt(experiment, arm, "ready")
        ),
        warm_up=_warm_up(arm, experiment, prompts) if experiment.warm_up else (),
        cells=cells,
    )


def _budget(arm: Arm, profile: LaunchProfile, where: str) -> int:
    if arm.token_budget is None:
        return profile.max_num_batched_tokens
    try:
        return resolve(arm.token_budget, block_tokens=profile.block_size_tokens)
    except ValueError as error:
        raise DefinitionError(where, f"arms.{arm.name}.token_budget: {error}") from error


def _launch(arm: Arm, profile: LaunchProfile, engine: EngineFiles, budget: int) -> LaunchPlan:
    caching = profile.prefix_caching
    args = (
        *profile.args,
        *(profile.speculation if arm.speculation == "on" else ()),
        *(caching.on if arm.prefix_caching == "on" else caching.off),
        *arm.extra_args,
    )
    return LaunchPlan(
        argv=(engine.python, *(_filled_in(arg, engine, budget) for arg in args)),
        environment={**engine.environment, **profile.environment, **arm.environment},
        inherit=profile.inherit,
        ready=profile.ready,
        stop=profile.stop,
        request_timeout_s=profile.request_timeout_s,
        heartbeat_timeout_s=profile.heartbeat_timeout_s,
    )


def _filled_in(argument: str, engine: EngineFiles, budget: int) -> str:
    parts = {
        "{model}": engine.model_dir,
        "{tokenizer}": engine.tokenizer_file,
        "{budget}": str(budget),
    }
    for name, value in parts.items():
        argument = argument.replace(name, value)
    return argument


def _engine(profile: LaunchProfile) -> str:
    """What a reader is told answers; the miniature's version says itself what it is not."""
    version = profile.vllm_version
    return version if "not vLLM" in version else f"vLLM {version}"


def _salt(experiment: Experiment, arm: Arm, cell: str) -> str:
    """Unique for each cell of each arm, and the same whenever the same plan is made."""
    text = f"{experiment.name}\0{experiment.seed}\0{arm.name}\0{cell}"
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _warm_up(arm: Arm, experiment: Experiment, prompts: _Prompts) -> tuple[ProbePlan, ...]:
    keys = sorted(key for key in prompts.table if "/warm-up" in key)
    return tuple(
        ProbePlan(
            id=f"{number:03d}-warm-up",
            role="warm-up",
            prompt=key,
            salt=_salt(experiment, arm, "warm-up"),
        )
        for number, key in enumerate(keys, start=1)
    )


def _cells(
    arm: Arm,
    experiment: Experiment,
    profile: LaunchProfile,
    prompts: _Prompts,
    panel: Sequence[str],
    budget: int,
) -> tuple[CellPlan, ...]:
    """References before, measured cells, references after; each of the three in seeded order."""
    order = random.Random(f"{experiment.seed}/{arm.name}")  # noqa: S311 - an order, not a secret
    lengths = (None,) if arm.cell == "reference" else prompts.sizes.a
    references: list[tuple[str, int | None]] = [(name, None) for name in panel]
    measured: list[tuple[str, int | None]] = [(name, a) for name in panel for a in lengths]
    places: list[tuple[Place, list[tuple[str, int | None]]]] = [("measured", measured)]
    if experiment.reference_cells:
        places = [("before", references), *places, ("after", list(references))]
    builder = _CellBuilder(arm, experiment, profile, prompts, budget)
    cells = []
    for place, members in places:
        order.shuffle(members)
        cells += [builder.cell(place, document, a) for document, a in members]
    return tuple(cells)


class _CellBuilder:
    """Makes the cells of one start; numbers its probes in the order in which they are sent."""

    def __init__(
        self,
        arm: Arm,
        experiment: Experiment,
        profile: LaunchProfile,
        prompts: _Prompts,
        budget: int,
    ) -> None:
        self._arm = arm
        self._experiment = experiment
        self._prompts = prompts
        self._settings = scheduler_settings(
            profile,
            block_tokens=arm.block_size_tokens,
            prefix_caching=arm.prefix_caching == "on",
            speculative=arm.speculation == "on" and profile.speculative_tokens > 0,
            token_budget=budget,
            every_boundary=arm.every_boundary,
        )
        self._sent = len(prompts.sizes.a) + 1  # after the warm-up

    def cell(self, place: Place, document: str, a_tokens: int | None) -> CellPlan:
        length = "" if a_tokens is None else f"/a{a_tokens}"
        name = f"{document}{length}/{place}"
        salt = _salt(self._experiment, self._arm, name)
        experiment = self._experiment
        repeats = experiment.repeats if place == "measured" else experiment.reference_repeats
        kind: CellKind = "reference" if a_tokens is None else self._arm.cell
        probes = self._probes(kind, document, a_tokens, salt, repeats)
        return CellPlan(
            id=name,
            kind=kind,
            place=place,
            document=document,
            a_tokens=a_tokens,
            b_tokens=self._prompts.sizes.b,
            salt=salt,
            probes=tuple(probes),
            prediction=self._predict(probes, document),
        )

    def _probes(
        self, kind: CellKind, document: str, a_tokens: int | None, salt: str, repeats: int
    ) -> list[ProbePlan]:
        """The sequence of a kind of cell. In a reversed one B's first repeat comes before A."""
        before = 1 if kind == "reversed" else 0
        probes = []
        if kind == "primed":
            probes.append(self._probe("prime", f"{document}/prime", salt))
        probes += [self._probe("b", f"{document}/b", salt, n) for n in range(1, before + 1)]
        if a_tokens is not None:
            probes.append(self._probe("a", f"{document}/a{a_tokens}", salt))
        last = before + repeats
        probes += [self._probe("b", f"{document}/b", salt, n) for n in range(before + 1, last + 1)]
        return probes

    def _probe(self, role: Role, prompt: str, salt: str, repeat: int | None = None) -> ProbePlan:
        self._sent += 1
        return ProbePlan(
            id=f"{self._sent:03d}-{role}{'' if repeat is None else repeat}",
            role=role,
            prompt=prompt,
            salt=salt,
            repeat=repeat,
        )

    def _predict(self, probes: Sequence[ProbePlan], document: str) -> CellPrediction | None:
        if self._settings is None:
            return None
        table = self._prompts.table
        return compare_with_reference(
            [table[probe.prompt].token_ids for probe in probes],
            table[f"{document}/b"].token_ids,
            self._settings,
            max_tokens=self._experiment.max_tokens,
        )


def scheduler_settings(
    profile: LaunchProfile,
    *,
    block_tokens: int | None = None,
    prefix_caching: bool = True,
    speculative: bool | None = None,
    token_budget: int | None = None,
    every_boundary: bool = False,
) -> SchedulerSettings | None:
    """What decides a prediction; `None` for a release whose rule nobody has read.

    Args:
        profile: How the server is started.
        block_tokens: The grid, where it is not the profile's.
        prefix_caching: As the arm has it.
        speculative: Whether the server drafts, where it is not as the profile says.
        token_budget: Of one step, where it is not the profile's.
        every_boundary: Whether a patch makes every crossed boundary end a chunk.
    """
    release = profile.scheduler_release or profile.vllm_version
    if speculative is None:
        speculative = profile.speculative_tokens > 0
    rule = rule_of(release, speculative=speculative)
    if rule is None:
        return None
    retention = profile.retention_tokens
    if retention is None:
        retention = default_retention(release, speculative=speculative)
    return SchedulerSettings(
        rule=rule,
        every_boundary=every_boundary,
        block_tokens=block_tokens or profile.block_size_tokens,
        token_budget=token_budget or profile.max_num_batched_tokens,
        prefix_caching=prefix_caching,
        speculative=speculative,
        retention_tokens=retention,
    )
