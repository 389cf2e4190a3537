"""A judged run → the one cell that is worth repeating elsewhere."""

from orchestrator.errors import RunFolderError
from orchestrator.model.plan import ArmPlan, CellPlan, Plan
from orchestrator.model.sharing import Found, RepeatableCell
from orchestrator.model.verdict import CellVerdict, Pattern, RunVerdict
from orchestrator.reporting.figures import launch_command


def repeatable_cell(plan: Plan, verdict: RunVerdict, *, run: str) -> RepeatableCell:
    """The diverging cell that says most, whole.

    Of the control rather than of another arm, attributed to another request's cache rather than
    not, predicted to be eligible rather than not; then the first one measured.

    Args:
        plan: The run's plan.
        verdict: Its judgement.
        run: Its name.

    Raises:
        RunFolderError: No cell of the run diverged: there is nothing to repeat. Or the program
            could not repeat it: a suite's prompts are not known as token ids, and requests that
            were sent at once need their company.
    """
    if plan.suite is not None:
        raise RunFolderError(
            f"{run}: it is a suite, whose prompts the server renders: --repro writes token ids"
            " and cannot repeat it; leave it out"
        )
    diverged = [
        (cell, cell.pattern)
        for arm in verdict.arms
        for cell in arm.cells
        if cell.verdict == "diverged" and cell.pattern is not None
    ]
    if not diverged and any(arm.batch_dependent for arm in verdict.arms):
        raise RunFolderError(
            f"{run}: its answers depend on the requests that were sent with them; the program of"
            " --repro sends one request at a time, so it cannot repeat that; leave it out"
        )
    if not diverged:
        raise RunFolderError(
            f"{run}: no cell diverged, so --repro has nothing to repeat; leave it out,"
            " or name a run with a diverging cell"
        )
    cell, seen = min(diverged, key=lambda entry: _rank(entry[0], plan.control))
    arm = next(entry for entry in plan.arms if entry.name == cell.arm)
    planned = next(entry for entry in arm.cells if entry.id == cell.cell)
    return _whole(plan, arm, planned, cell, seen, run)


def _rank(cell: CellVerdict, control: str | None) -> tuple[bool, bool, bool]:
    return (
        cell.arm != control,
        cell.attribution != "contamination",
        cell.eligible != "eligible",
    )


def _whole(
    plan: Plan, arm: ArmPlan, planned: CellPlan, cell: CellVerdict, seen: Pattern, run: str
) -> RepeatableCell:
    answers = [probe for probe in cell.probes if probe.role == "b"]
    reference = [seen.reference_before or "none", seen.reference_after or "none"]
    return RepeatableCell(
        run=run,
        engine=plan.engine,
        arm=arm.name,
        cell=cell.cell,
        launch=launch_command(arm.launch.environment, arm.launch.argv),
        block_size_tokens=arm.declared.block_size_tokens,
        max_tokens=plan.max_tokens,
        top_logprobs=plan.top_logprobs,
        request_timeout_s=arm.launch.request_timeout_s,
        reference_repeats=plan.reference_repeats,
        sequence=tuple(probe.role for probe in planned.probes),
        prompts={p.role: plan.prompts[p.prompt].token_ids for p in planned.probes},
        found=Found(
            letters=f"{reference[0]} | {seen.variants} | {reference[1]}",
            cached_tokens=tuple(probe.cached_tokens for probe in answers),
            digests=tuple(probe.digests.id_order for probe in answers),
        ),
    )
