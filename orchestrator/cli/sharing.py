"""`vllm-arms report RUN --format comment`: the comment, its bundle and its program."""

import shlex
import sys
from pathlib import Path

from orchestrator.adapters.bundling import bundle as bundled
from orchestrator.adapters.bundling import sha256
from orchestrator.adapters.engine_preparation import default_cache
from orchestrator.adapters.repro_file import repro_file
from orchestrator.adapters.run_store import RunStore
from orchestrator.adapters.trimming import replacements
from orchestrator.cli.progress import terminal
from orchestrator.errors import RunFolderError
from orchestrator.model.plan import Plan
from orchestrator.model.sharing import Attachments, RepeatableCell
from orchestrator.model.verdict import RunVerdict
from orchestrator.reporting.comment import comment
from orchestrator.reporting.markdown import markdown
from orchestrator.reporting.repeating import repeatable_cell
from orchestrator.runner import judge_run
from orchestrator.scrubbing import PLACES, SECRETS, Scrubber


def print_comment(
    project: Path, run: Path, *, bundle: Path | None, repro: Path | None, raw_data: str | None
) -> None:
    """Print the comment; write what goes along with it. Nothing is written when anything fails.

    Raises:
        RunFolderError: It is no run's folder, no cell can be repeated for `repro`, the comment is
            too long, or a file to be written is there already, or its folder is not.
    """
    for target in filter(None, (bundle, repro)):
        if not target.parent.is_dir():  # a mistyped path is not made into a tree
            raise RunFolderError(f"{target}: there is no folder {target.parent}; make it first")
        if target.exists():
            raise RunFolderError(f"{target}: exists already; name another file, or remove it")
    store = RunStore.open(run)
    plan = store.read("plan.json", Plan)
    verdict = judge_run(plan, store)
    known = replacements(project, default_cache())
    files: dict[Path, bytes] = {}
    if repro is not None:
        files[repro] = _repro(plan, verdict, known, run.resolve().name)
    if bundle is not None:
        report = markdown(plan, verdict, command=shlex.join(store.start().command))
        judged = {"verdicts.json": verdict.model_dump_json() + "\n", "report.md": report}
        files[bundle] = bundled(store, known, judged=judged)
    attachments = Attachments(
        raw_data=raw_data,
        bundle=None if bundle is None else bundle.name,
        bundle_sha256=None if bundle is None else sha256(files[bundle]),
        repro=None if repro is None else repro.name,
    )
    text = _comment(plan, verdict, store, attachments, known)
    for target, content in files.items():
        RunStore(target.parent).write_bytes(target.name, content)
        print(f"written: {target}, {len(content):,} bytes", file=sys.stderr)  # noqa: T201 - beside the comment on standard output
    terminal().out(text, end="", highlight=False)


def _repro(plan: Plan, verdict: RunVerdict, known: dict[str, str], run: str) -> bytes:
    cell = repeatable_cell(plan, verdict, run=run)
    scrubber = Scrubber(known, (*SECRETS, *PLACES))
    return repro_file(RepeatableCell.from_json(scrubber.clean(cell.model_dump_json()))).encode()


def _comment(
    plan: Plan,
    verdict: RunVerdict,
    store: RunStore,
    attachments: Attachments,
    known: dict[str, str],
) -> str:
    facts = {arm.name: store.facts(arm.name) for arm in plan.arms}
    provenance = {arm.name: store.provenance(arm.name) for arm in plan.arms}
    overlays = {arm.name: store.overlay(arm.name) for arm in plan.arms}
    return comment(
        plan,
        verdict,
        start=store.start(),
        facts={name: said for name, said in facts.items() if said is not None},
        provenance={name: made for name, made in provenance.items() if made is not None},
        patches={name: found.provenance for name, found in overlays.items() if found is not None},
        attachments=attachments,
        known=known,
    )
