"""`report.html`: what it shows, that it is one valid closed page, and that no text is markup."""

import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from xml.etree.ElementTree import Element

import pytest

from orchestrator.adapters.run_store import RunStore
from orchestrator.cli.reporting import page
from orchestrator.exhibiting import exhibits
from orchestrator.model.exhibits import ArmExhibit
from orchestrator.model.host import HostFacts, HostState, MemorySample, RunEnd, RunStart
from orchestrator.model.outcome import Failed
from orchestrator.model.ownership import Owner
from orchestrator.model.plan import ArmPlan, CellPlan, LaunchPlan, Plan, ProbePlan
from orchestrator.model.verdict import RunVerdict
from orchestrator.reporting.charts.drawing import chart_of, svg
from orchestrator.reporting.charts.memory import memory_chart
from orchestrator.reporting.html import html
from orchestrator.runner import judge_run
from tests.conftest import COMMAND, PROJECT
from tests.definitions import experiment, plan
from tests.pages import named, parsed, words
from tests.scenarios import Reply, Scenario, affected
from tests.test_run_store import NOW

EVIDENCE = PROJECT / "docs" / "evidence"
RUNS = tuple(
    EVIDENCE / name for name in ("cpu-four-arm", "cpu-threshold-scan", "cpu-stack-compare")
)
"""Between them they have every part of a page but a suite's and volleys'; a strict parse of a page
takes seconds."""

SVG = "{http://www.w3.org/2000/svg}svg"
CRASH = (
    PROJECT / "tests" / "fixtures" / "serverlog" / "logs" / "0.29.0-cpu-crash-bad-load-format.log"
)
"""A recorded start that failed on a word of the user's own, `no_such_format`."""

HOSTILE = """"><script>alert(1)</script><img src=x onerror='alert(1)'>"""

each_run = pytest.mark.parametrize("run", RUNS, ids=lambda path: path.name)


@cache
def recorded(run: Path) -> str:
    """The page of a recorded run."""
    store = RunStore.open(run)
    planned = store.read("plan.json", Plan)
    return page(planned, judge_run(planned, store), store)


@cache
def tree_of(run: Path) -> Element:
    """Its page, parsed."""
    return parsed(recorded(run))


@dataclass
class Kept(Scenario):
    """A constructed run, with what a page shows besides."""

    command: tuple[str, ...] = ("vllm-arms", "run", "small")

    def start(self) -> RunStart:
        """On a machine that says little."""
        host = HostFacts(
            vllm_arms_version="0", commit=None, uncommitted_changes=None, python="3", kernel="6",
            architecture="x86_64", cpu=None, cpus=2, memory_bytes=1,
        )  # fmt: skip
        state = HostState(memory_available_bytes=1, swap_free_bytes=0, shared_memory_files=0)
        return RunStart(
            started_at=NOW, command=self.command, owner=Owner(pid=1), host=host, state=state
        )

    def end(self) -> RunEnd | None:
        """Never: as a run that was killed."""
        return None

    def launch(self, arm: str) -> LaunchPlan | None:
        """No arm was reached far enough to write it down."""
        assert arm
        return None

    def page_text(self) -> str:
        """The report."""
        verdict = self.judge()
        return html(self.plan, verdict, exhibits(self.plan, verdict, self), run="a-run")


@each_run
def test_a_page_is_valid_closed_and_names_everything(run: Path) -> None:
    """No parse error; no script, no address; links lead somewhere; headings of tables say what."""
    tree = tree_of(run)
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    links = [element.get("href", "") for element in named(tree, "a")]

    assert len(ids) == len(set(ids))
    for link in links:
        assert link[1:] in ids if link.startswith("#") else (run / link).is_file(), link
    for element in tree.iter():
        assert element.tag.rpartition("}")[2] not in {"script", "iframe", "img", "link", "object"}
        assert not [name for name in element.keys() if name.startswith("on") or name == "src"]  # noqa: SIM118 - not a dict
    assert all(cell.get("scope") for cell in named(tree, "th"))
    (policy,) = [m for m in named(tree, "meta") if m.get("http-equiv")]
    assert policy.get("content", "").startswith("default-src 'none'; style-src 'unsafe-inline'")
    for region in tree.iter():
        if region.get("role") in ("region", "img"):
            assert region.get("aria-label")
    assert [len(named(tree, name)) for name in ("main", "header", "nav", "footer", "h1")] == [1] * 5


@each_run
def test_a_page_says_verdict_limits_and_every_square(run: Path) -> None:
    """The first sentence, what was not shown, and for each repeat its letter and cached tokens."""
    verdict = RunStore.open(run).read("verdicts.json", RunVerdict)
    tree = tree_of(run)
    text = words(tree)

    assert verdict.sentence in text
    assert all(line in text for line in verdict.not_covered)
    squares = [words(cell) for cell in named(tree, "td") if "square" in cell.get("class", "")]
    expected = sorted(
        f"{letter}{probe.cached_tokens}"
        for arm in verdict.arms
        for cell in arm.cells
        if cell.pattern is not None
        for letter, probe in zip(
            cell.pattern.variants, [p for p in cell.probes if p.role == "b"], strict=True
        )
    )
    assert sorted(squares) == expected


def test_the_scan_says_and_draws_where_the_outcome_flips() -> None:
    """Between 95 and 96 tokens of A, in all six documents; one picture, one table of lengths."""
    tree = tree_of(EVIDENCE / "cpu-threshold-scan")
    labels = [element.get("aria-label", "") for element in tree.iter(SVG)]

    assert "flips between 95 and 96 tokens in 6 of 6 documents" in words(tree)
    assert "Outcome of control by length of A and document; flips at 96" in labels
    assert "Outcome of control by the remainder of A's last chunk" in labels


def test_the_top_lists_of_the_first_differing_token_stand_side_by_side() -> None:
    """Twenty rows of the first contaminated cell, and those that moved are marked in words."""
    tree = tree_of(EVIDENCE / "cpu-four-arm")
    table = next(t for t in named(tree, "table") if "Top 20 of generated token" in words(t))
    rows = named(table, "tr")[1:]
    verdict = RunStore.open(EVIDENCE / "cpu-four-arm").read("verdicts.json", RunVerdict)
    seen = [cell for arm in verdict.arms if arm.arm == "contaminated" for cell in arm.cells]
    first = min(seen, key=lambda cell: cell.document).pattern

    assert first is not None
    assert first.difference is not None
    movement = first.difference.movements[first.difference.first_token]
    assert len(rows) == 20 + (20 - movement.shared)
    assert sum(words(row).endswith(" moved") for row in rows) == movement.moved


def test_a_finding_links_to_its_line_of_the_saved_log() -> None:
    """With the excerpt as the log has it, as text."""
    log = CRASH.read_bytes().replace(b"no_such_format", HOSTILE.encode())
    run = Kept(logs={"contaminated": log})
    found = {arm.arm: arm for arm in run.judge().arms}["contaminated"].log_findings
    tree = parsed(run.page_text())

    assert HOSTILE in found[0].excerpt
    item = next(li for li in named(tree, "li") if " ".join(found[0].excerpt.split()) in words(li))
    assert f"line {found[0].line}" in words(item)
    assert [a.get("href") for a in named(item, "a")] == ["arms/contaminated/server.log"]


def test_nothing_that_anybody_wrote_becomes_markup() -> None:
    """A question, an error, a command and a server's answer full of tags stay text."""
    hostile = plan(experiment(question=HOSTILE))
    run = Kept(
        plan=hostile,
        command=("vllm-arms", HOSTILE),
        outcomes={"clean": Failed(stage="wait", error=HOSTILE)},
    )
    text = run.page_text()
    tree = parsed(text)

    assert "<script" not in text
    assert named(tree, "img") == []
    assert words(named(tree, "h1")[0]) == HOSTILE
    assert f"failed at wait: {HOSTILE}" in words(tree)


def test_the_memory_of_many_long_arms_is_drawn() -> None:
    """Minutes of samples in each of ten arms, of three series."""
    samples = tuple(
        MemorySample(
            at_s=float(second), memory_available_bytes=2**30 + second, swap_free_bytes=0,
            server_resident_bytes=2**29, gpu_used_bytes=(2**31,),
        )
        for second in range(300)
    )  # fmt: skip
    arms = [
        ArmExhibit(
            arm=f"arm-{number}", outcome=None, launch=None, facts=None, overlay=None,
            log_file=None, memory=samples, contrasts=(),
        )
        for number in range(10)
    ]  # fmt: skip
    drawn = memory_chart(arms)

    assert drawn is not None
    assert all(arm.arm in drawn for arm in arms)


def test_nothing_becomes_markup_inside_a_chart() -> None:
    """Neither in its label nor in a text that is drawn."""
    drawn = svg(chart_of([{"a": HOSTILE}]).mark_text().encode(text="a:N", y="a:N"), HOSTILE)
    tree = parsed(f"<!DOCTYPE html><title>x</title>{drawn}")

    assert "<script" not in drawn
    assert "<img" not in drawn
    assert HOSTILE in words(tree)
    assert next(tree.iter(SVG)).get("aria-label") == HOSTILE


def test_an_inconclusive_cell_has_letters_without_a_colour() -> None:
    """What was not tested must not look equal."""

    def silent(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        reply = affected(arm, cell, probe)
        reply.cached = None
        return reply

    tree = parsed(Kept(script=silent).page_text())
    rows = [row for row in named(tree, "tr") if "inconclusive" in words(row)]
    squares = [td for row in rows for td in named(row, "td") if "square" in td.get("class", "")]

    assert squares
    assert {td.get("class") for td in squares} == {"square void"}
    assert {words(td)[1:] for td in squares} == {"?"}


def test_a_run_that_was_killed_has_a_page_that_says_what_is_missing() -> None:
    """No memory, no end, an arm that never became ready."""
    run = Kept(outcomes={"clean": Failed(stage="start", error="ServerDiedError: gone")})
    text = words(parsed(run.page_text()))

    assert "never became ready" in text
    assert "failed at start: ServerDiedError: gone" in text
    assert "Memory was not sampled." in text
    assert "No prefill time was measured." in text
    assert "ended (UTC)" not in text


@pytest.mark.parametrize("form", ["md", "html", "junit"])
def test_every_report_works_on_a_folder_that_was_copied_elsewhere(
    tmp_path: Path, form: str
) -> None:
    """Away from the project, with nothing of it at hand, and the same text as here."""
    here = PROJECT / "docs" / "evidence" / "cpu-predicted-pairs"
    there = tmp_path / "elsewhere" / here.name
    shutil.copytree(here, there)

    def report(run: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, "report", str(run), "--format", form],
            capture_output=True, text=True, check=True, cwd=cwd, timeout=120,
        )  # fmt: skip

    assert report(Path(here.name), there.parent).stdout == report(here, PROJECT).stdout
    analyzed = subprocess.run(
        [*COMMAND, "analyze", here.name],
        capture_output=True, text=True, check=False, cwd=there.parent, timeout=120,
    )  # fmt: skip
    assert "the same as this judgement" in analyzed.stdout
    assert sorted(p.name for p in there.iterdir()) == sorted(p.name for p in here.iterdir())


def test_an_unknown_format_is_a_usage_error() -> None:
    """With those that there are."""
    done = subprocess.run(
        [*COMMAND, "report", str(RUNS[0]), "--format", "pdf"],
        capture_output=True, text=True, check=False, cwd=PROJECT, timeout=60,
    )  # fmt: skip

    assert done.returncode == 2
    assert "--format" in done.stderr
    assert all(f"'{form}'" in done.stderr for form in ("md", "html", "junit"))
