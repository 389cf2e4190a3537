"""Our rule against the schedulers of real vLLM releases, on random questions.

`VLLM_ARMS_SPLIT_CASES` and `VLLM_ARMS_CELLS` make the panels larger. Other releases than the
prepared engine's are asked when `VLLM_ARMS_PACKAGES` names folders of their vllm packages.
"""

import os
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.adapters.engine_side.replay_scheduler import FIRST_SAMPLED
from orchestrator.adapters.scheduler_source import (
    CellQuestion,
    RunScript,
    ask_split,
    replay,
    under_interpreter,
)
from orchestrator.model.prediction import RequestPrediction, Rule
from orchestrator.prediction.cells import predict_cell
from orchestrator.prediction.panel import rules_giving, split_panel
from orchestrator.prediction.releases import rule_of
from tests.prediction.sequences import OWN, random_cells

SPLIT_CASES = int(os.environ.get("VLLM_ARMS_SPLIT_CASES", "20000"))
CELLS = int(os.environ.get("VLLM_ARMS_CELLS", "150"))

SPLIT_OF_0_29_0 = "191c81559dd0"
"""First digits of the SHA-256 over the align-split function as vLLM 0.29.0 publishes it."""

OURS = under_interpreter(Path(sys.executable))


@pytest.mark.vllm
def test_the_split_of_0_29_0_is_the_published_one_and_follows_our_rule(
    engine_python: Path,
) -> None:
    """The hash pins the text that was read; every answer of the panel is ours."""
    cases = split_panel(SPLIT_CASES, seed=29)

    source, scheduled = ask_split(under_interpreter(engine_python), cases)

    assert (source.version, source.function_sha256[:12]) == ("0.29.0", SPLIT_OF_0_29_0)
    assert [(r.rule, r.every_boundary) for r in rules_giving(cases, scheduled)] == [
        ("v0.27", False),
        ("v0.30", False),
    ]


@pytest.mark.vllm
def test_the_one_line_patch_turns_it_into_the_rule_of_every_boundary(
    engine_python: Path, tmp_path: Path
) -> None:
    """The article's line, in a copy: any boundary is a stop, not only one met inside a block."""
    source, _ = ask_split(under_interpreter(engine_python), [])
    text = Path(source.path).read_text("utf-8")
    anchor = "next_block_boundary if start % block_size != 0 else 0,"
    assert text.count(anchor) == 1
    copy = tmp_path / "vllm/v1/core/sched/scheduler.py"
    copy.parent.mkdir(parents=True)
    copy.write_text(text.replace(anchor, "next_block_boundary,"), encoding="utf-8")
    cases = split_panel(SPLIT_CASES, seed=37)

    _, scheduled = ask_split(OURS, cases, package=tmp_path / "vllm")

    assert [(r.rule, r.every_boundary) for r in rules_giving(cases, scheduled)] == [
        ("v0.27", True),
        ("v0.30", True),
        ("v0.32", True),
        ("v0.33", True),
    ]


@pytest.mark.vllm
def test_the_whole_scheduler_of_0_29_0_does_what_is_predicted(engine_python: Path) -> None:
    """Cached tokens, chunks, checkpoints, junctions and every writer, of random cells."""
    differing, requests, _ = replayed_against_prediction(engine_python, None, "0.29.0")

    assert differing == []
    assert requests > 3 * CELLS


@pytest.mark.vllm
def test_a_prediction_is_left_open_where_generated_tokens_may_decide(engine_python: Path) -> None:
    """The second prompt repeats the first and what was generated after it, as a chat does.

    Whatever is predicted holds; and of what is left open, some is found in the cache indeed.
    """
    differing, found_more = chats_against_prediction(engine_python, None, "0.29.0")

    assert differing == []
    assert found_more > CELLS / 10


@pytest.mark.vllm
def test_the_split_of_a_bare_package_follows_its_rule(released: tuple[str, Path]) -> None:
    """A folder of the package is enough: nothing of it is imported."""
    release, package = released
    cases = split_panel(SPLIT_CASES, seed=31)

    source, scheduled = ask_split(OURS, cases, package=package)

    assert source.version == release
    assert rule_of(release) in {r.rule for r in rules_giving(cases, scheduled)}


@pytest.mark.vllm
def test_the_whole_scheduler_of_a_bare_package_does_what_is_predicted(
    released: tuple[str, Path], engine_python: Path
) -> None:
    """Its Python files run on what is installed beside 0.29.0."""
    release, package = released
    differing, _, version = replayed_against_prediction(engine_python, package, release)
    in_chats, _ = chats_against_prediction(engine_python, package, release)

    assert (differing, in_chats, version) == ([], [], release)


def replayed_against_prediction(
    engine_python: Path, package: Path | None, version: str
) -> tuple[list[tuple[RequestPrediction, RequestPrediction]], int, str]:
    """Requests that differ (predicted, replayed), how many there were, and the engine's version.

    Where a prediction leaves the cached tokens open, the rest of it still has to hold: the made-up
    sampled tokens never recur in a prompt.
    """
    rule = rule_of(version)
    assert rule is not None
    cells = random_cells(CELLS, seed=7, rule=rule, every_boundary=False)
    replayed = replay(reaching(engine_python, package), cells)
    differing = []
    requests = 0
    for cell, ours in zip(cells, replayed.cells, strict=True):
        predicted = predict_cell(cell.requests, cell.settings, max_tokens=cell.max_tokens)
        for left, right in zip(predicted, ours, strict=True):
            requests += 1
            known = right if left.cached_tokens is None else left
            closed = {**left.model_dump(), "cached_tokens": known.cached_tokens}
            if RequestPrediction.model_validate(closed) != right:
                differing.append((left, right))
    return differing, requests, replayed.version


def chats_against_prediction(
    engine_python: Path, package: Path | None, version: str
) -> tuple[list[CellQuestion], int]:
    """Chats whose second turn was predicted wrongly; how many of those left open found more."""
    rule = rule_of(version)
    assert rule is not None
    cells = [chat(seed, rule) for seed in range(CELLS)]
    replayed = replay(reaching(engine_python, package), cells)
    differing, found_more = [], 0
    for cell, (_, second) in zip(cells, replayed.cells, strict=True):
        _, predicted = predict_cell(cell.requests, cell.settings, max_tokens=cell.max_tokens)
        if predicted.cached_tokens is None:
            found_more += len(second.restored_blocks) > len(predicted.restored_blocks)
        elif predicted.cached_tokens != second.cached_tokens:
            differing.append(cell)
    return differing, found_more


def chat(seed: int, rule: Rule) -> CellQuestion:
    """Two turns; the engine's made-up tokens are numbered from `FIRST_SAMPLED`."""
    generator = random.Random(seed)  # noqa: S311 - a panel, not a secret
    (cell,) = random_cells(1, seed=seed, rule=rule, every_boundary=False)
    first = list(range(generator.randint(1, 200)))
    generated = range(FIRST_SAMPLED + 1, FIRST_SAMPLED + 1 + cell.max_tokens)
    tail = range(OWN, OWN + generator.randint(1, 60))
    return replace(cell, requests=[first, [*first, *generated, *tail]])


def reaching(engine_python: Path, package: Path | None) -> RunScript:
    """The prepared engine, or another release's Python files on what is installed beside it."""
    environment = {} if package is None else {"PYTHONPATH": str(package.parent)}
    return under_interpreter(engine_python, environment)
