"""Eligible or not, against what diverged on real servers; and what must never be eligible."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.model.prediction import CellPrediction, Eligibility, SchedulerSettings
from orchestrator.prediction.origins import compare_with_reference
from tests.prediction.scheduling import (
    CPU_MTP,
    CPU_PLAIN,
    GB10,
    UNHURRIED,
    changed,
    contaminated,
)

PUBLISHED = json.loads((Path(__file__).parent / "published-pairs.json").read_text("utf-8"))

H200_MTP = changed(CPU_MTP, rule="v0.26", block_tokens=288, token_budget=8192)
H200_PLAIN = changed(H200_MTP, block_tokens=272, speculative=False)


def eligible(settings: SchedulerSettings, a: int, b: int, shared: int) -> Eligibility:
    """Of the cell A, then B three times."""
    return contaminated(settings, a=a, b=b, shared=shared).eligible


@pytest.mark.parametrize("a", [50, 62, 96, 97, 100])
def test_what_diverged_on_vllm_for_cpu_with_drafts_is_eligible(a: int) -> None:
    """B = 80, shared 40, block 32. Between two and three blocks A saves its state at 32 again."""
    assert eligible(CPU_MTP, a, 80, 40) == "eligible"


@pytest.mark.parametrize("a", [66, 94, 95])
def test_what_was_stable_there_is_not(a: int) -> None:
    """A checkpoints at the shared boundary, in the same chunk as B."""
    assert eligible(CPU_MTP, a, 80, 40) == "not eligible"


@pytest.mark.parametrize("a", [50, 62, 70])
def test_what_diverged_there_without_drafts_is_eligible(a: int) -> None:
    """B = 100, shared 40: repeats equal to each other and unlike the reference."""
    assert eligible(CPU_PLAIN, a, 100, 40) == "eligible"


@pytest.mark.parametrize(("a", "expected"), [(572, "eligible"), (576, "not eligible")])
def test_four_tokens_of_a_decide_on_the_h200(a: int, expected: Eligibility) -> None:
    """Two blocks less four diverged, two blocks did not."""
    assert eligible(H200_MTP, a, 676, 432) == expected


def test_the_falsified_pattern_is_eligible() -> None:
    """A of three blocks saves its state at two only: it diverged on the H200, with CUDA graphs."""
    assert eligible(H200_MTP, 869, 676, 432) == "eligible"


@pytest.mark.parametrize("a", [540, 543, 544, 549])
def test_without_drafts_every_measured_length_on_the_h200_is_eligible(a: int) -> None:
    """All four differed: among the repeats, or from the cell without A."""
    assert eligible(H200_PLAIN, a, 644, 408) == "eligible"


@pytest.mark.parametrize("cell", PUBLISHED["cells_with_cached_tokens"], ids=lambda c: c["name"])
def test_nine_tokens_decide_in_the_published_cells(cell: dict[str, int]) -> None:
    """Measured: 3,196 diverges, 3,205 is stable."""
    said = eligible(GB10, cell["a_tokens"], cell["b_tokens"], cell["shared_tokens"])

    assert said == ("eligible" if cell["measured"] == "diverges" else "not eligible")


def test_the_reason_names_both_origins() -> None:
    """Keys and values come from A's one chunk; the reference computed them in a shorter one."""
    cell = contaminated(CPU_MTP, a=62, b=80, shared=40, repeats=2)

    (mixed,) = cell.mixed
    assert (mixed.request, mixed.part, mixed.position) == (2, "keys and values", 32)
    assert [(w.request, w.start, w.end) for w in mixed.here] == [(0, 0, 62)]
    assert [(w.request, w.start, w.end) for w in mixed.reference] == [(0, 0, 32)]


def test_a_state_that_the_reference_never_has_is_named_without_a_counterpart() -> None:
    """B's first run resumes at A's state at 32; B alone runs through to 96."""
    cell = contaminated(CPU_PLAIN, a=50, b=100, shared=40, repeats=1)

    state = next(mixed for mixed in cell.mixed if mixed.part == "state")
    assert (state.position, state.reference) == (32, ())


def test_equal_bounds_after_another_history_are_another_origin() -> None:
    """The last chunk before 24 is [16, 24) here and there, but it started from other states.

    The second request was stopped at a junction at 8, so that its state at 16 went through two
    chunks; B alone computes the first 16 tokens in one.
    """
    settings = changed(CPU_MTP, rule="v0.32", block_tokens=8, token_budget=20)
    b = range(32)
    earlier = [[*range(19), *range(900, 908)], range(24)]
    cell = compare_with_reference([*earlier, b, b], b, settings, max_tokens=1)

    bounds = {
        part.part: [[(w.start, w.end) for w in side] for side in (part.here, part.reference)]
        for part in cell.mixed
    }
    assert bounds == {"keys and values": [[(16, 24)]] * 2, "state": [[(16, 24)]] * 2}
    assert cell.eligible == "eligible"


def test_a_repeat_that_depends_on_generated_tokens_is_undetermined() -> None:
    """A generates on where B's text goes on: nobody knows beforehand what B finds."""
    b = range(100)
    cell = compare_with_reference([range(60), b, b], b, CPU_PLAIN, max_tokens=8)

    assert cell.eligible == "undetermined"


def test_the_reference_cell_itself_is_never_eligible() -> None:
    """B alone restores what B alone computed."""
    cell = compare_with_reference([range(100)] * 4, range(100), CPU_PLAIN, max_tokens=1)

    assert cell.eligible == "not eligible"


LENGTHS = st.tuples(st.integers(1, 200), st.integers(1, 200), st.integers(0, 200))
RULES = st.sampled_from(["v0.26", "v0.27", "v0.30", "v0.32", "v0.33"])


def cell_of(lengths: tuple[int, int, int], settings: SchedulerSettings) -> CellPrediction:
    """A, then B twice; the two differ at least in their last token."""
    a, b, shared = lengths
    common = min(a - 1, b - 1, shared)
    return contaminated(settings, a=a, b=b, shared=common, repeats=2)


@UNHURRIED
@given(lengths=LENGTHS, rule=RULES, speculative=st.booleans())
def test_nothing_is_eligible_under_the_patch(
    lengths: tuple[int, int, int],
    rule: str,
    speculative: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Chunk bounds then depend on the position alone, whoever computes."""
    patched = changed(CPU_MTP, rule=rule, speculative=speculative, every_boundary=True)

    assert cell_of(lengths, patched).eligible == "not eligible"


@UNHURRIED
@given(lengths=LENGTHS, rule=RULES, speculative=st.booleans())
def test_nothing_is_eligible_where_the_budget_is_one_block(
    lengths: tuple[int, int, int],
    rule: str,
    speculative: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """The workaround that needs no patch: 0 of 28 cells diverged on a real server."""
    narrow = changed(CPU_MTP, rule=rule, speculative=speculative, token_budget=32)

    assert cell_of(lengths, narrow).eligible == "not eligible"


@UNHURRIED
@given(lengths=LENGTHS, rule=RULES, speculative=st.booleans())
def test_a_document_shorter_than_a_block_is_never_eligible(
    lengths: tuple[int, int, int],
    rule: str,
    speculative: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """No block of A is ever found by B."""
    a, b, shared = lengths
    settings = changed(CPU_MTP, rule=rule, speculative=speculative)

    assert cell_of((a, b, min(shared, 31)), settings).eligible == "not eligible"
