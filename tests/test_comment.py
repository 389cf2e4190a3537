"""The upstream comment: what it says, what it leaves out, what must not be in it."""

import re
from pathlib import Path

import pytest

from orchestrator.adapters.run_store import RunStore
from orchestrator.errors import RunFolderError
from orchestrator.model.plan import ArmPlan, CellPlan, Plan, ProbePlan
from orchestrator.model.sharing import Attachments
from orchestrator.reporting.comment import LEFT_OUT, LIMIT_CHARACTERS, comment
from tests.conftest import PROJECT, Call
from tests.definitions import experiment, plan
from tests.scenarios import Reply, Scenario, affected, plain
from tests.test_cli import add_start
from tests.test_evidence import RUNS
from tests.test_run_store import store  # noqa: F401 - a fixture

EVIDENCE = PROJECT / "docs" / "evidence"
FOUR_ARM = EVIDENCE / "cpu-four-arm"
RAW_DATA = "`docs/evidence/cpu-four-arm` in the repository of vllm-arms"


def test_the_comment_of_the_real_evidence_is_the_committed_one(call: Call, tmp_path: Path) -> None:
    """Ready to paste, and made by the command; the program that it names lies beside it."""
    program = tmp_path / "repeat-cpu-four-arm.py"
    code, output, _ = call(
        "report", FOUR_ARM, "--format", "comment", "--repro", program, "--raw-data", RAW_DATA
    )

    assert code == 0
    assert output == (EVIDENCE / "comment-cpu-four-arm.md").read_text(encoding="utf-8")
    assert program.read_bytes() == (EVIDENCE / program.name).read_bytes()
    assert len(output) < LIMIT_CHARACTERS / 2


@pytest.mark.parametrize(
    "said",
    [
        "answers to B differ from each other or from their reference in 6 of 6 cells",
        "| patched | A, then B, patch stop-at-every-boundary | 6 | 0 | 6 | 0 | 32, then 64 |",
        "+            0 if use_internal_checkpoint else next_block_boundary,",
        "https://github.com/vllm-project/vllm/pull/54076",
        "| patched | 24.6 ms | 1.47 (1.20 to 1.55) |",
        '--speculative-config \'{"method": "mtp", "num_speculative_tokens": 2}\'',
        "vLLM 0.29.0, engine identity `a19687f2c2ea`; vllm-arms 0.1.0, commit `8c73a498c9a3`.\n",
        "--host 127.0.0.1 --port 8000 --model",
        "- Concurrent requests: everything was sent one at a time.",
        "This does not claim:\n\n- that anything but vLLM 0.29.0",
        "it is equal in 12 of the 12 pairs",
        "Digests are compared within one server start only",
        f"plan): {RAW_DATA}",
        "in this comment: `<project>` 2 ×, `<cache>` 9 ×.",
    ],
)
def test_the_comment_says_what_a_maintainer_asks_for(said: str) -> None:
    """Claim, table, patch, price, commands, versions, limits, raw data, scrubbing."""
    assert said in (EVIDENCE / "comment-cpu-four-arm.md").read_text(encoding="utf-8")


def written(
    planned: Plan, scenario: Scenario, folder: RunStore, known: dict[str, str] | None = None
) -> str:
    """The comment of a constructed run."""
    add_start(folder)
    return comment(
        planned,
        scenario.judge(),
        start=folder.start(),
        facts={},
        provenance={},
        patches={},
        attachments=Attachments(),
        known=known or {},
    )


def test_secrets_paths_and_names_do_not_leave_and_are_listed(
    store: RunStore,  # noqa: F811 - a fixture
) -> None:
    """Whether they are known ones or only look like it; the flags around them stay."""
    made = plan()
    launch = made.arms[0].launch.model_copy(
        update={
            "argv": ("/opt/somewhere/venv/bin/python", "--api-key", "k3y", "--host", "10.1.2.3"),
            "environment": {"HF_TOKEN": "s3cret", "WHERE": "/srv/box-7/project_x/models"},
        }
    )
    arms = (made.arms[0].model_copy(update={"launch": launch}), *made.arms[1:])
    made = made.model_copy(update={"arms": arms, "question": "Does box-7 | do <b>it</b>?"})
    known = {"/srv/box-7/project_x": "<project>", "box-7": "<host>", "listed": "<name>"}
    text = written(made, Scenario(plan=made), store, known)

    for secret in ("k3y", "s3cret", "box-7", "/opt/somewhere", "10.1.2.3", "<b>"):
        assert secret not in text
    assert "(profile `<name>`)" in text
    assert "HF_TOKEN='<removed>' WHERE=<project>/models" in text
    assert "<path>/python --api-key <secret> --host <address>" in text
    for listed in ("`<project>` 1 ×", "`<host>` 1 ×", "`<secret>` 1 ×", "`<path>` 1 ×"):
        assert listed in text


def test_a_comment_that_would_be_too_long_leaves_cells_out_and_says_so(
    store: RunStore,  # noqa: F811 - a fixture
) -> None:
    """First the stable ones, then all; the claims, the limits and the arms' table stay."""
    sizes = {"shared": "20", "b": "40", "a": [str(length) for length in range(31, 211)]}
    long = plan(experiment(sizes=sizes), selection="full")

    def reply(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        few = cell.a_tokens is not None and cell.a_tokens < 41
        return (affected if few else plain)(arm, cell, probe)

    text = written(long, Scenario(script=reply, plan=long), store)

    assert len(text) <= LIMIT_CHARACTERS
    assert f"Left out for length: {LEFT_OUT[0]}; the raw data has them." in text
    assert "| contaminated | A, then B | 360 | 20 | 340 | 0 |" in text
    assert "<summary>20 cells</summary>" in text

    everything = written_again(long, store)
    assert len(everything) <= LIMIT_CHARACTERS
    assert f"Left out for length: {', '.join(LEFT_OUT[:2])}; the raw data has them." in everything
    assert "This does not claim:" in everything


def written_again(planned: Plan, folder: RunStore) -> str:
    """The same run with every contaminated cell diverging."""
    return comment(
        planned,
        Scenario(plan=planned).judge(),
        start=folder.start(),
        facts={},
        provenance={},
        patches={},
        attachments=Attachments(),
        known={},
    )


def test_a_comment_that_cannot_be_short_enough_is_refused(
    store: RunStore,  # noqa: F811 - a fixture
) -> None:
    """With its length and what to do."""
    made = plan(experiment(question="why? " * 20_000))

    with pytest.raises(RunFolderError, match=r"has 1\d\d,\d\d\d characters .* GitHub takes 65,536"):
        written(made, Scenario(plan=made), store)


def test_a_comment_on_the_miniature_says_so_at_the_top(
    store: RunStore,  # noqa: F811 - a fixture
) -> None:
    """Nobody posts it upstream unawares."""
    made = plan().model_copy(update={"engine": "MINIATURE: not vLLM"})

    head, _, _ = written(made, Scenario(plan=made), store).partition("### Claim and scope")

    assert "**What answered is MINIATURE: not vLLM. Nothing here is evidence about vLLM.**" in head


def test_the_options_of_a_comment_need_the_comment(call: Call, tmp_path: Path) -> None:
    """A bundle beside another report is wrong usage; so is a file that is there."""
    code, _, errors = call("report", FOUR_ARM, "--bundle", tmp_path / "x")
    assert code == 2
    assert "add --format comment" in errors

    (tmp_path / "there.py").write_text("mine")
    code, _, errors = call(
        "report", FOUR_ARM, "--format", "comment", "--repro", tmp_path / "there.py",
        "--bundle", tmp_path / "x",
    )  # fmt: skip
    assert code == 2
    assert "exists already" in errors
    assert [path.name for path in tmp_path.iterdir()] == ["there.py"]

    for option in ("--bundle", "--repro"):
        mistyped = tmp_path / "nowhere" / "file"
        code, _, errors = call("report", FOUR_ARM, "--format", "comment", option, mistyped)
        assert code == 2
        assert f"there is no folder {mistyped.parent}; make it first" in errors
        assert not mistyped.parent.exists()


def test_the_comment_says_what_each_server_was_made_of(call: Call) -> None:
    """Of a run that recorded it: torch, CUDA, the model's files, the image."""
    run = PROJECT / "docs" / "evidence" / "docker-cpu-three-arm"
    made = RunStore.open(run).provenance("clean")
    assert made is not None
    assert made.model is not None
    assert made.image is not None

    code, output, _ = call("report", run, "--format", "comment")

    assert code == 0
    assert "- clean: torch 2.13.0+cpu; CUDA not found" in output
    assert f"list sha256 {made.model.list_sha256[:12]}" in output
    assert made.image.id in output


@pytest.mark.parametrize("run", RUNS, ids=lambda path: path.name)
def test_every_recorded_run_has_its_program_or_says_why_not(
    call: Call, tmp_path: Path, run: Path
) -> None:
    """A named error, wrong usage, and no file: where nothing diverged, and of a suite."""
    program = tmp_path / "repeat.py"
    code, output, errors = call("report", run, "--format", "comment", "--repro", program)

    refused = run.name in {"cpu-extraction-suite", "cpu-memory-pressure", "h200-four-arm-shallow"}
    assert not re.search(r"None|undefined|has  |first  ", output)
    assert (code, program.is_file()) == ((2, False) if refused else (0, True)), errors
    assert ("`repeat.py`" in output) is not refused
    assert ("leave it out" in errors) is refused


CLAIMS = {
    "cpu-stack-compare": [
        (
            "in 6 of 6 cells. Of these, 6 are attributed to nothing (all repeats are equal, and"
            " differ from the reference; the run has no caching-off arm"
        ),
        "One fresh server start an arm; one request at a time; greedy.",
        "**Which is faster?** vllm-0.28 against vllm-0.29: no difference shown at 255",
        "| decoding, tokens/s | 97.2 (18.1 to 133.6, n 38) |",
        "\n### Stacks\n",
        "preemptions by the counter",
    ],
    "cpu-extraction-suite": [
        "answers to an item's question differ from each other or from their reference in 1 of 50",
        "Of these, 1 is attributed to nothing (",
        "Of these, 8 are attributed to another request's cache: the references agree, and with",
        (
            "50 items over 9 documents were asked 3 times each; at most 16 tokens were generated;"
            " response schemas enforced by the server; a cache block has 32 tokens; random weights"
        ),
        "Items of one document share a `cache_salt` in shared, shared-shuffled",
        "`stable`: neither.\n",
    ],
    "cpu-memory-pressure": [
        "measured requests at once (4 in room-for-all, 4 in too-small, 4 in too-small-no-speculat",
        "B has 92 tokens; no other request was sent before it under its salt;",
        "| room-for-all | 4 copies of B at once | 3 | 0 | 0 | 0 | 3 | 0 | 0 |",
        "`batch-equal`: none does",
    ],
}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_comment_says_what_was_sent_and_no_reason_that_was_not_measured(
    call: Call, name: str
) -> None:
    """Where no caching-off arm ran, none is named; a suite has items; volleys are not serial."""
    _, output, _ = call("report", EVIDENCE / name, "--format", "comment")

    assert [said for said in CLAIMS[name] if said not in output] == []
    if name == "cpu-stack-compare":
        assert "with caching off all answers are equal" not in output
    if name == "cpu-memory-pressure":
        assert "`diverged`" not in output
