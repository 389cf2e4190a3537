"""The cells of a start: what is sent, in which order, under which salt, and what is expected."""

import hashlib
import random
from collections.abc import Sequence

from orchestrator.model.experiment import Arm, CellKind, Experiment, ServerSettings
from orchestrator.model.plan import CellPlan, Place, ProbePlan, Role
from orchestrator.model.prediction import CellPrediction, SchedulerSettings
from orchestrator.model.profile import LaunchProfile
from orchestrator.model.suite import SuiteExperiment
from orchestrator.planning.prompts import Prompts
from orchestrator.prediction.origins import compare_with_reference
from orchestrator.prediction.releases import default_retention, rule_of


def salt_of(experiment: Experiment | SuiteExperiment, arm: ServerSettings, cell: str) -> str:
    """Unique for each cell of each arm, and the same whenever the same plan is made."""
    text = f"{experiment.name}\0{experiment.seed}\0{arm.name}\0{cell}"
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def warm_up_probes(arm: Arm, experiment: Experiment, prompts: Prompts) -> tuple[ProbePlan, ...]:
    """Unrelated requests of A's and B's exact lengths, under a salt of their own."""
    keys = sorted(key for key in prompts.table if "/warm-up" in key)
    return tuple(
        ProbePlan(
            id=f"{number:03d}-warm-up",
            role="warm-up",
            prompt=key,
            salt=salt_of(experiment, arm, "warm-up"),
        )
        for number, key in enumerate(keys, start=1)
    )


def plan_cells(
    arm: Arm,
    experiment: Experiment,
    profile: LaunchProfile,
    prompts: Prompts,
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
        prompts: Prompts,
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
        salt = salt_of(self._experiment, self._arm, name)
        experiment = self._experiment
        repeats = experiment.repeats if place == "measured" else experiment.reference_repeats
        kind: CellKind = "reference" if a_tokens is None else self._arm.cell
        concurrency = self._arm.concurrency if place == "measured" else 1
        probes = (
            self._probes(kind, document, a_tokens, salt, repeats)
            if concurrency == 1
            else self._volleys(document, name, repeats * concurrency)
        )
        return CellPlan(
            id=name,
            kind=kind,
            place=place,
            document=document,
            a_tokens=a_tokens,
            b_tokens=self._prompts.sizes.b,
            salt=salt,
            concurrency=concurrency,
            probes=tuple(probes),
            prediction=self._predict(probes, document) if concurrency == 1 else None,
        )

    def _volleys(self, document: str, cell: str, count: int) -> list[ProbePlan]:
        """B again and again, each time under a salt of its own: only the company differs."""
        salts = [salt_of(self._experiment, self._arm, f"{cell}/{n}") for n in range(1, count + 1)]
        return [self._probe("b", f"{document}/b", salt, n) for n, salt in enumerate(salts, start=1)]

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
