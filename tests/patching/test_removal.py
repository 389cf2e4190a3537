"""Rule 7: each condition missing once, and none."""

import re
from collections.abc import Callable, Sequence

import pytest

from orchestrator.model.patch import LoadedModule, Removal
from orchestrator.model.verdict import ArmVerdict, CellVerdict, Digests, ProbeResult, Word
from orchestrator.patching.removal import OverlaidArm, judge_removal
from orchestrator.patching.reported import loaded_modules, marked_engine_cores
from tests.patching.shipped import log_of, recorded_overlay, shipped

DOCUMENTS = ("one", "two", "three", "four")
HITS = (0, 32, 64, 64)
PATCHES = {"patched": "stop-at-every-boundary", "sham": "sham"}


def probe(number: int, cached: int | None) -> ProbeResult:
    """One answer of a cell; only its cached tokens matter here."""
    return ProbeResult(
        probe=f"{number:03d}-b",
        role="b" if number else "a",
        repeat=number or None,
        digests=Digests(scheme="x", server_order="x", id_order="x", values="x", article="x"),
        text="",
        prompt_tokens=112,
        cached_tokens=cached,
        predicted_cached_tokens=cached,
        hit_tokens_delta=cached,
        preemptions_delta=0,
        draft_tokens_delta=0,
        accepted_tokens_delta=0,
        not_argmax=(),
        latency_s=0.1,
        prefill_s=None,
        first_token_s=None,
        gap_s=None,
    )


def cell(arm: str, document: str, verdict: Word, hits: Sequence[int | None] = HITS) -> CellVerdict:
    """A measured cell."""
    return CellVerdict(
        arm=arm,
        cell=f"{document}/a94/measured",
        kind="contaminated",
        place="measured",
        document=document,
        a_tokens=94,
        b_tokens=112,
        verdict=verdict,
        reason="for the test",
        attribution=None,
        eligible=None,
        pattern=None,
        probes=tuple(probe(number, cached) for number, cached in enumerate(hits)),
    )


def arm(name: str, cells: Sequence[CellVerdict]) -> ArmVerdict:
    """A start with these cells; nothing else of it is looked at."""
    return ArmVerdict(
        arm=name,
        cell="contaminated",
        prefix_caching="on",
        verdict="stable",
        reason="",
        stable=0,
        diverged=0,
        inconclusive=0,
        cells=tuple(cells),
        findings=(),
        intent=(),
        memory=(),
        speculation="on",
        patch=None,
        expected=None,
        as_expected=None,
    )


def uniform(name: str, verdict: Word) -> ArmVerdict:
    """The same verdict for each document."""
    return arm(name, [cell(name, document, verdict) for document in DOCUMENTS])


def overlaid(verdict: ArmVerdict, change: Callable[[LoadedModule], LoadedModule] | None = None,
             *, log: bytes | None = None) -> OverlaidArm:  # fmt: skip
    """An arm whose log is a real one, of a real overlay of 0.29.0."""
    name = PATCHES[verdict.arm]
    text = log_of(verdict.arm) if log is None else log
    return OverlaidArm(
        verdict=verdict,
        overlay=recorded_overlay(verdict.arm, name),
        loaded=tuple(change(m) if change else m for m in loaded_modules(text)),
        marked=marked_engine_cores(text, shipped(name).marker),
    )


CONTROL = uniform("control", "diverged")
STABLE = uniform("patched", "stable")
SHAM = uniform("sham", "diverged")


def judged(
    control: ArmVerdict = CONTROL,
    patched: OverlaidArm | None = None,
    sham: OverlaidArm | None = None,
) -> Removal:
    """With everything in order where the test says nothing."""
    return judge_removal(control, patched or overlaid(STABLE), sham or overlaid(SHAM))


def with_values(**values: object) -> Callable[[LoadedModule], LoadedModule]:
    """A report that says something else."""
    return lambda report: LoadedModule.model_validate(report.model_dump() | values)


def test_removed_is_said_when_nothing_is_missing() -> None:
    """And what was shown is counted."""
    assert judged() == Removal(
        removed=True,
        sentence="Removed by stop-at-every-boundary: 4 pairs of 4 documents that diverge in control"
        " equal patched's own references, with the same hits; 4 documents still diverge under a"
        " sham.",
    )


def test_a_patched_arm_alone_shows_no_removal() -> None:
    """`--arm patched` leaves out what it must be set beside."""
    removal = judge_removal(None, overlaid(STABLE), overlaid(SHAM))

    assert not removal.removed
    assert "the unpatched control did not run" in removal.sentence


def test_a_document_that_never_diverged_may_be_among_them() -> None:
    """Three that diverge are enough."""
    cells = [*CONTROL.cells[:3], cell("control", "four", "stable")]

    assert judged(control=arm("control", cells)).removed


@pytest.mark.parametrize(
    ("patched", "sentence"),
    [
        (arm("patched", STABLE.cells[1:]), r"patched has no cell one \(A 94, B 112\)"),
        (arm("patched", [*STABLE.cells[1:], cell("patched", "one", "diverged")]),
         r"one \(A 94, B 112\) is diverged in patched"),
        (arm("patched", [*STABLE.cells[1:], cell("patched", "one", "inconclusive")]),
         "is inconclusive in patched: for the test"),
        (arm("patched", [*STABLE.cells[1:], cell("patched", "one", "stable", (0, 0, 64, 64))]),
         r"was served \(0, 0, 64, 64\) cached tokens in patched, \(0, 32, 64, 64\) in control"),
        (arm("patched", [*STABLE.cells[1:], cell("patched", "one", "stable", (0, None, 64, 64))]),
         r"was served \(0, None, 64, 64\) cached tokens"),
    ],
    ids=["cell missing", "still diverges", "inconclusive", "other hits", "unknown hits"],
)  # fmt: skip
def test_each_pair_must_be_stable_with_the_same_hits(patched: ArmVerdict, sentence: str) -> None:
    """On the patched arm's own references; absent is neither stable nor equal."""
    removal = judged(patched=overlaid(patched))

    assert not removal.removed
    assert re.search(sentence, removal.sentence)


def test_hits_that_nobody_knows_are_not_equal() -> None:
    """A server that does not say how much was cached, in both arms."""
    unknown = (None, None, None, None)
    control = arm("control", [cell("control", d, "diverged", unknown) for d in DOCUMENTS])
    patched = arm("patched", [cell("patched", d, "stable", unknown) for d in DOCUMENTS])

    assert not judged(control=control, patched=overlaid(patched)).removed


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (with_values(file="/opt/engine/scheduler.py"), "is not the patched file"),
        (with_values(sha256="0" * 64), "sha256 000000000000, which is not the patched file"),
        (with_values(runs_file=False), "runs other byte code than"),
        (with_values(engine_core=False), "did not report where it loaded"),
        (with_values(pid=7), "process 7 of patched loaded the patched file and logged no marker"),
    ],
    ids=["another file", "another text", "stale byte code", "another process", "unmarked process"],
)  # fmt: skip
def test_the_patched_code_must_be_what_ran(
    change: Callable[[LoadedModule], LoadedModule], sentence: str
) -> None:
    """By the engine core's own word; stable cells alone prove no patch."""
    removal = judged(patched=overlaid(STABLE, change))

    assert not removal.removed
    assert sentence in removal.sentence


def test_a_log_without_the_marker_shows_nothing() -> None:
    """Even with the right file loaded."""
    log = b"\n".join(line for line in log_of("patched").splitlines() if b"PATCH" not in line)

    removal = judged(patched=overlaid(STABLE, log=log))

    assert "the marker 'PATCH stop-at-every-boundary active' is not in the log" in removal.sentence


def test_too_few_diverging_documents_in_the_control() -> None:
    """Two: what does not misbehave cannot be cured."""
    cells = [*CONTROL.cells[:2], *(cell("control", d, "stable") for d in DOCUMENTS[2:])]

    removal = judged(control=arm("control", cells))

    assert removal.sentence.endswith(": 2 documents diverge in control, 3 are needed.")


def test_without_a_sham_the_overlay_itself_may_be_the_cure() -> None:
    """No arm, or one that no longer diverges, or one whose sham never ran."""
    missing = judge_removal(CONTROL, overlaid(STABLE), None)
    cured = judged(sham=overlaid(uniform("sham", "stable")))
    not_run = judged(sham=overlaid(SHAM, with_values(file="/elsewhere.py")))

    assert "no sham-patched arm ran" in missing.sentence
    assert "0 documents diverge in sham, 3 are needed" in cured.sentence
    assert "sham's engine core loaded" in not_run.sentence
    assert not any(removal.removed for removal in (missing, cured, not_run))
