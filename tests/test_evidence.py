"""The recorded runs under docs/evidence: anybody can judge them again."""

import lzma
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from orchestrator.adapters.definition_files import Definitions
from orchestrator.adapters.packed_files import COMPRESSED, PACKED
from orchestrator.adapters.run_store import RunStore
from orchestrator.decoding import decode
from orchestrator.model.plan import Plan
from orchestrator.model.verdict import ArmVerdict, RunVerdict
from orchestrator.planning.cells import scheduler_settings
from orchestrator.prediction.cells import predict_cell
from orchestrator.runner import judge_run, stored_evidence
from orchestrator.serverlog.scan import scan
from tests.conftest import PROJECT

EVIDENCE = PROJECT / "docs" / "evidence"
RUNS = sorted(path.parent for path in EVIDENCE.glob("*/trimmed.json"))

MACHINE_PATH = re.compile(rb"/(?:root|home|work|mnt|srv|opt/vllm(?!-cpu/))\b")
"""`/opt/vllm-cpu/` is of the image that `make image-vllm-cpu` builds, on every machine."""


ANSWERS = {
    "cpu-agreeing-drafts": "clean stable 6/6, contaminated diverged 5/6, caching-off stable 6/6",
    "cpu-boundary-price": "sham-patch diverged 1/1, patched stable 1/1,"
    " patched.again stable 1/1, sham-patch.again diverged 1/1",
    "cpu-chunk-length": "control diverged 92/92",
    "cpu-extraction-suite": "untouched diverged 1/50, shared diverged 8/50,"
    " shared-shuffled diverged 8/50, caching-off stable 50/50",
    "cpu-four-arm": "clean stable 6/6, contaminated diverged 6/6, caching-off stable 6/6,"
    " patched stable 6/6, sham-patch diverged 6/6",
    "cpu-memory-pressure": "room-for-all batch-equal 3/3, too-small inconclusive 3/3,"
    " too-small-no-speculation inconclusive 3/3",
    "cpu-no-speculation": "no-speculation diverged 30/30, caching-off stable 30/30",
    "cpu-predicted-pairs": "control diverged 12/12",
    "cpu-stack-compare": "vllm-0.29 diverged 6/6, vllm-0.28 diverged 6/6,"
    " vllm-0.28.again diverged 6/6, vllm-0.29.again diverged 6/6",
    "cpu-three-arm-full": "clean stable 6/6, contaminated diverged 18/18, caching-off stable 18/18",
    "cpu-threshold-scan": "control diverged 60/60",
    "cpu-workarounds": "control diverged 6/6, budget-equals-block stable 6/6, primed diverged 6/6,"
    " reversed stable 6/6, no-speculation stable 6/6, caching-off stable 6/6, patched stable 6/6",
    "docker-cpu-three-arm": "clean stable 6/6, contaminated diverged 6/6, caching-off stable 6/6",
    "h200-cuda-graphs": "eager diverged 9/15, graphs diverged 9/15",
    "h200-four-arm": "clean stable 6/6, contaminated diverged 6/6, caching-off stable 6/6,"
    " patched stable 6/6, sham-patch diverged 6/6",
    "h200-four-arm-shallow": "clean stable 6/6, contaminated stable 6/6, caching-off stable 6/6,"
    " patched stable 6/6, sham-patch stable 6/6",
    "h200-misaligned-tiles": "contaminated diverged 6/6",
    "h200-threshold-scan": "control diverged 54/84",
}
"""What docs/evidence/README.md says of each run: an arm's word, in how many of its cells."""


def test_there_is_evidence_and_every_run_is_told_of() -> None:
    """In the table above, and on the page that a reader begins with."""
    page = (EVIDENCE / "README.md").read_text(encoding="utf-8")

    assert sorted(ANSWERS) == [run.name for run in RUNS]
    assert [name for name in ANSWERS if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize("run", RUNS, ids=lambda path: path.name)
def test_a_recorded_run_is_judged_again_as_it_was(run: Path) -> None:
    """From its raw bytes alone; and as the page says it."""
    store = RunStore.open(run)

    judged = judge_run(store.read("plan.json", Plan), store)
    told = [
        f"{arm.arm} {arm.verdict} {words[arm.verdict]}/{len(arm.cells)}"
        for arm in judged.arms
        for words in [Counter(cell.verdict for cell in arm.cells)]
    ]

    assert judged == store.read("verdicts.json", RunVerdict)
    assert ", ".join(told) == ANSWERS[run.name]


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

COMPANY = [EVIDENCE / "cpu-memory-pressure"]
"""Sent at once throughout: nothing is predicted of a volley."""


@pytest.mark.parametrize(
    "run", [run for run in RUNS if run not in SUITES + COMPANY], ids=lambda path: path.name
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
        small = "--num-gpu-blocks-override" in arm.launch.argv
        assert ((log.value("kv_cache_tokens") or 0) > 100_000) is not small


PREEMPTED = re.compile(r"volley \d: (\d+) preemptions")


def test_every_preempted_volley_is_left_unjudged_and_what_it_answered_is_kept() -> None:
    """Preemptions are in no log, only in the counter; 97 of them in 24 volleys."""
    store = RunStore.open(EVIDENCE / "cpu-memory-pressure")
    roomy, *pressed = store.read("verdicts.json", RunVerdict).arms

    assert roomy.findings == ()
    counted = [
        [int(told[1]) for f in arm.findings if (told := PREEMPTED.fullmatch(f.summary))]
        for arm in pressed
    ]
    assert [(len(volleys), sum(volleys)) for volleys in counted] == [(12, 49), (12, 48)]
    assert unlike_a_lone_answer(roomy) == 0
    assert [unlike_a_lone_answer(arm) for arm in pressed] == [12, 24]


def test_lone_requests_after_the_preemptions_are_answered_as_before_them() -> None:
    """Digest by digest; the verdict does not say it, since what comes later is void."""
    store = RunStore.open(EVIDENCE / "cpu-memory-pressure")
    for arm in stored_evidence(store.read("plan.json", Plan), store):
        answers = defaultdict(list)
        for cell in arm.cells:
            if cell.plan.place != "measured":
                answers[cell.plan.document].append([repeat.key for repeat in cell.repeats])
        assert [before == after for before, after in answers.values()] == [True] * 3


def unlike_a_lone_answer(arm: ArmVerdict) -> int:
    """Of 48 in company."""
    patterns = [cell.pattern for cell in arm.cells if cell.pattern is not None]
    return sum(letter != "A" for seen in patterns for letter in seen.variants)


def test_the_length_of_the_chunk_changes_nothing_on_the_cpu() -> None:
    """Every one of 23 lengths gives a document one and the same answer, and not its reference's."""
    verdict = RunStore.open(EVIDENCE / "cpu-chunk-length").read("verdicts.json", RunVerdict)
    answers = defaultdict(set)
    for cell in verdict.arms[0].cells:
        answers[cell.document] |= {probe.digests for probe in cell.probes if probe.role == "b"}

    assert sorted(len(digests) for digests in answers.values()) == [1, 1, 1, 1]
    assert {cell.pattern and cell.pattern.variants for cell in verdict.arms[0].cells} == {"BB"}


@pytest.mark.parametrize("run", RUNS, ids=lambda path: path.name)
def test_a_recorded_run_was_finished_by_a_known_state_of_this_project(run: Path) -> None:
    """Without its end, a run counts as killed (docs/results.md)."""
    store = RunStore.open(run)
    end = store.end()

    assert end is not None
    assert (end.how, end.exit_code) == (
        "finished",
        store.read("verdicts.json", RunVerdict).exit_code,
    )
    known = store.start().host.commit is not None
    assert known is not run.name.startswith("h200-")  # made from a copy without its history


def test_all_evidence_together_is_small() -> None:
    """Under 8 MB, and a run under 2 MB."""
    sizes = {run.name: sum(p.stat().st_size for p in run.rglob("*") if p.is_file()) for run in RUNS}

    assert max(sizes.values()) < 2_000_000
    assert sum(sizes.values()) < 8_000_000
