"""The recorded runs under docs/evidence: anybody can judge them again."""

import lzma
import re
from collections import defaultdict
from pathlib import Path

import pytest

from orchestrator.adapters.definition_files import Definitions
from orchestrator.adapters.packed_files import COMPRESSED, PACKED
from orchestrator.adapters.run_store import RunStore
from orchestrator.decoding import decode
from orchestrator.model.plan import Plan
from orchestrator.model.verdict import RunVerdict
from orchestrator.planning.cells import scheduler_settings
from orchestrator.prediction.cells import predict_cell
from orchestrator.runner import judge_run
from orchestrator.serverlog.scan import scan
from tests.conftest import PROJECT

EVIDENCE = PROJECT / "docs" / "evidence"
RUNS = sorted(path.parent for path in EVIDENCE.glob("*/trimmed.json"))

MACHINE_PATH = re.compile(rb"/(?:root|home|work|mnt|srv|opt/vllm(?!-cpu/))\b")
"""`/opt/vllm-cpu/` is of the image that `make image-vllm-cpu` builds, on every machine."""


def test_there_is_evidence() -> None:
    """The tests below look at something."""
    assert RUNS


@pytest.mark.parametrize("run", RUNS, ids=lambda path: path.name)
def test_a_recorded_run_is_judged_again_as_it_was(run: Path) -> None:
    """From its raw bytes alone."""
    store = RunStore.open(run)

    assert judge_run(store.read("plan.json", Plan), store) == store.read(
        "verdicts.json", RunVerdict
    )


@pytest.mark.parametrize("run", RUNS, ids=lambda path: path.name)
def test_a_recorded_run_names_no_path_of_a_machine(run: Path) -> None:
    """What was replaced is counted in `trimmed.json`."""
    assert (run / "trimmed.json").is_file()
    for path in run.rglob("*"):
        if path.is_file() and path.name != PACKED:
            content = path.read_bytes()
            text = lzma.decompress(content) if path.suffix == COMPRESSED else content
            found = MACHINE_PATH.search(text)
            assert found is None, f"{path}: {found}"


SUITES = [run for run in RUNS if RunStore.open(run).read("plan.json", Plan).suite is not None]
"""Their prompts are rendered by the server, so nothing was predicted of them."""


@pytest.mark.parametrize(
    "run", [run for run in RUNS if run not in SUITES], ids=lambda path: path.name
)
def test_predicted_cached_tokens_are_the_measured_ones(run: Path) -> None:
    """On every probe of every measured cell for which there was a prediction."""
    verdict = RunStore.open(run).read("verdicts.json", RunVerdict)
    probes = [probe for arm in verdict.arms for cell in arm.cells for probe in cell.probes]
    predicted = [probe for probe in probes if probe.predicted_cached_tokens is not None]

    assert predicted
    assert all(probe.cached_tokens == probe.predicted_cached_tokens for probe in predicted)


@pytest.mark.parametrize("run", SUITES, ids=lambda path: path.name)
def test_the_rule_fits_a_suite_once_its_token_ids_are_known(run: Path) -> None:
    """Each item alone under its salt: cached tokens of its three runs, from the rendered ids."""
    store = RunStore.open(run)
    plan = store.read("plan.json", Plan)
    settings = scheduler_settings(
        Definitions(PROJECT).profile(plan.profile), speculative=False, prefix_caching=True
    )
    assert settings is not None
    prompts: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    cached: dict[str, list[int | None]] = defaultdict(list)
    measured = {cell.salt for cell in plan.arms[0].cells if cell.place == "measured"}
    for exchange, _ in store.exchanges("untouched"):
        salt = exchange.times.probe.salt
        if salt in measured:
            answer = decode(exchange.response, top_logprobs=plan.top_logprobs)
            prompts[salt].append(answer.prompt_token_ids or ())
            cached[salt].append(answer.cached_tokens)

    assert len(prompts) == 50
    for salt, sent in prompts.items():
        predicted = predict_cell(sent, settings, max_tokens=plan.max_tokens)
        assert [request.cached_tokens for request in predicted] == cached[salt]


@pytest.mark.parametrize("run", RUNS, ids=lambda path: path.name)
def test_the_logs_of_a_recorded_run_have_the_right_facts_and_no_finding(run: Path) -> None:
    """Our own runs as fixtures of the log scanner: healthy servers, nothing against them."""
    store = RunStore.open(run)
    for arm in store.read("plan.json", Plan).arms:
        log = scan([store.log(arm.name)])
        assert log.findings == ()
        assert log.value("vllm_version") == arm.declared.vllm_version
        assert log.value("prefix_caching_enabled") is (arm.prefix_caching == "on")
        assert (log.value("kv_cache_tokens") or 0) > 100_000


def test_all_evidence_together_is_small() -> None:
    """Under 8 MB, and a run under 2 MB."""
    sizes = {run.name: sum(p.stat().st_size for p in run.rglob("*") if p.is_file()) for run in RUNS}

    assert max(sizes.values()) < 2_000_000
    assert sum(sizes.values()) < 8_000_000
