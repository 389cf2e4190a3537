"""Rule 7 of `docs/verdicts.md`: when a patched arm shows that a patch removes the effect."""

from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.model.patch import LoadedModule, Overlay, Removal
from orchestrator.model.verdict import ArmVerdict, CellVerdict

NEEDED_DOCUMENTS = 3
"""That diverge, in the control and in the sham arm alike: rule 7."""

Pair = tuple[str, int | None, int | None]
"""Document, tokens of A, tokens of B."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlaidArm:
    """An arm that ran on an overlay."""

    verdict: ArmVerdict
    overlay: Overlay
    loaded: tuple[LoadedModule, ...]
    """`loaded_modules` of its log."""

    marked: frozenset[int]
    """`marked_engine_cores` of its log, for its own patch's marker."""


def judge_removal(
    control: ArmVerdict | None, patched: OverlaidArm, sham: OverlaidArm | None
) -> Removal:
    """Say whether the effect is removed by the patch, and by nothing that comes with it.

    Args:
        control: The unpatched arm with the same cells, of the same run; `None` when none ran.
        patched: The arm with the patch.
        sham: The arm with an overlay that changes no meaning; `None` when none ran.

    Returns:
        What was shown; or the first of these that is missing: the control diverges, the patched
        code is what ran, the same pairs are stable on it with the same hits, the sham diverges.
    """
    if control is None:
        return _not_shown("the unpatched control did not run")
    missing = next(_missing(control, patched, sham), None)
    if missing is not None:
        return _not_shown(missing)
    return Removal(
        removed=True,
        sentence=f"Removed by {patched.overlay.provenance.patch}:"
        f" {len(_diverged(control))} pairs of {len(_documents(control))} documents that diverge in"
        f" {control.arm} equal {patched.verdict.arm}'s own references, with the same hits;"
        f" {len(_documents(sham.verdict)) if sham else 0} documents still diverge under a sham.",
    )


def _not_shown(missing: str) -> Removal:
    return Removal(removed=False, sentence=f"Not shown that the patch removes it: {missing}.")


def _missing(control: ArmVerdict, patched: OverlaidArm, sham: OverlaidArm | None) -> Iterator[str]:
    yield from _too_few(control)
    yield from _not_what_ran(patched)
    yield from _not_stable(control, patched.verdict)
    yield from _other_hits(control, patched.verdict)
    if sham is None:
        yield "no sham-patched arm ran"
        return
    yield from _not_what_ran(sham)
    yield from _too_few(sham.verdict)


def _too_few(arm: ArmVerdict) -> Iterator[str]:
    seen = len(_documents(arm))
    if seen < NEEDED_DOCUMENTS:
        yield f"{seen} documents diverge in {arm.arm}, {NEEDED_DOCUMENTS} are needed"


def _not_what_ran(arm: OverlaidArm) -> Iterator[str]:
    """The marker and, for each patched module, path and hash from the engine core itself."""
    name, provenance = arm.verdict.arm, arm.overlay.provenance
    if not arm.marked:
        yield f"the marker {provenance.marker!r} is not in the log of {name}'s engine core"
    for file in provenance.files:
        reports = [m for m in arm.loaded if m.engine_core and m.module == file.module]
        if file.module is not None and not reports:
            yield f"{name}'s engine core did not report where it loaded {file.module} from"
        for report in reports:
            expected = f"{arm.overlay.folder}/{file.file}"
            if (report.file, report.sha256) != (expected, file.sha256_after):
                yield (
                    f"{name}'s engine core loaded {file.module} from {report.file},"
                    f" sha256 {report.sha256[:12]}, which is not the patched file"
                )
            elif not report.runs_file:
                yield f"{name}'s engine core runs other byte code than {report.file} holds"
            elif report.pid not in arm.marked:
                yield f"process {report.pid} of {name} loaded the patched file and logged no marker"


def _not_stable(control: ArmVerdict, patched: ArmVerdict) -> Iterator[str]:
    cells = _by_pair(patched)
    for pair in _diverged(control):
        if pair not in cells:
            yield f"{patched.arm} has no cell {_name(pair)}, which diverges in {control.arm}"
    for pair, cell in cells.items():
        if cell.verdict != "stable":
            yield f"{_name(pair)} is {cell.verdict} in {patched.arm}: {cell.reason}"


def _other_hits(control: ArmVerdict, patched: ArmVerdict) -> Iterator[str]:
    """Absent counts are not equal counts."""
    cells = _by_pair(patched)
    for pair, cell in _diverged(control).items():
        ours = _hits(cells[pair])
        if None in ours or ours != _hits(cell):
            yield (
                f"{_name(pair)} was served {ours} cached tokens in {patched.arm},"
                f" {_hits(cell)} in {control.arm}"
            )


def _hits(cell: CellVerdict) -> tuple[int | None, ...]:
    return tuple(probe.cached_tokens for probe in cell.probes)


def _by_pair(arm: ArmVerdict) -> dict[Pair, CellVerdict]:
    return {(cell.document, cell.a_tokens, cell.b_tokens): cell for cell in arm.cells}


def _diverged(arm: ArmVerdict) -> dict[Pair, CellVerdict]:
    return {pair: cell for pair, cell in _by_pair(arm).items() if cell.verdict == "diverged"}


def _documents(arm: ArmVerdict) -> set[str]:
    return {document for document, _, _ in _diverged(arm)}


def _name(pair: Pair) -> str:
    document, a_tokens, b_tokens = pair
    return f"{document} (A {a_tokens}, B {b_tokens})"
