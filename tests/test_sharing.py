"""The upstream comment, its bundle, and the program that repeats a cell."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.adapters.arm_server import running_arm_server
from orchestrator.adapters.engine_preparation import PreparedEngine
from orchestrator.adapters.repro_file import repro_file
from orchestrator.adapters.run_store import RunStore
from orchestrator.adapters.standalone import repeat_cell
from orchestrator.cli.planning import resolve_plan
from orchestrator.comparing import Repeat, VariantLetters
from orchestrator.digest import digests
from orchestrator.errors import RunFolderError
from orchestrator.model.plan import ArmPlan, CellPlan, Plan, ProbePlan
from orchestrator.model.sharing import Attachments
from orchestrator.model.verdict import RunVerdict
from orchestrator.reporting.comment import LEFT_OUT, LIMIT_CHARACTERS, comment
from orchestrator.reporting.repeating import repeatable_cell
from orchestrator.requesting import PATH, request_body
from tests.answers import PLAIN, TOP, body, moved, observation
from tests.conftest import COMMAND, PROJECT, Call, newest_run
from tests.definitions import experiment, plan
from tests.scenarios import Reply, Scenario, affected, plain
from tests.test_cli import add_start
from tests.test_run_store import store, stored  # noqa: F401 - fixtures

EVIDENCE = PROJECT / "docs" / "evidence"
FOUR_ARM = EVIDENCE / "cpu-four-arm"
PROGRAM = EVIDENCE / "repeat-cpu-four-arm.py"
RAW_DATA = "`docs/evidence/cpu-four-arm` in the repository of vllm-arms"


@contextmanager
def serving(planned: Plan, arm: str, folder: Path) -> Iterator[str]:
    """A fresh server of one arm, started with its launch command; the base URL."""
    made = next(entry for entry in planned.arms if entry.name == arm)
    with running_arm_server(
        made,
        ready_body=request_body(planned, made, made.ready_probe),
        path=PATH,
        log_file=folder / "server.log",
        memory_file=folder / "memory.jsonl",
        keep=lambda exchange: None,
        keep_beats=lambda probe, beats: None,
        on_wait=lambda waited_s, line: None,
        hurry=threading.Event(),
    ) as (_, facts):
        yield f"http://127.0.0.1:{facts.port}"


def repeat_at(program: Path, base_url: str) -> tuple[int, str]:
    """Run the program as a maintainer does, away from this project; exit code and output."""
    done = subprocess.run(
        [sys.executable, str(program), "--base-url", base_url],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=program.parent,
        env={"PATH": os.environ["PATH"]},
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


# The comment


def test_the_comment_of_the_real_evidence_is_the_committed_one(call: Call, tmp_path: Path) -> None:
    """Ready to paste, and made by the command; so is its program."""
    program = tmp_path / PROGRAM.name
    code, output, _ = call(
        "report", FOUR_ARM, "--format", "comment", "--repro", program, "--raw-data", RAW_DATA
    )

    assert code == 0
    assert output == (EVIDENCE / "comment-cpu-four-arm.md").read_text(encoding="utf-8")
    assert program.read_bytes() == PROGRAM.read_bytes()
    assert len(output) < LIMIT_CHARACTERS / 2


@pytest.mark.parametrize(
    "said",
    [
        "answers to B differ from each other or from their reference in 6 of 6 cells",
        "| patched | A, then B, patch stop-at-every-boundary | 6 | 0 | 6 | 0 | 32, then 64 |",
        "+            0 if use_internal_checkpoint else next_block_boundary,",
        "https://github.com/vllm-project/vllm/pull/54076",
        "| patched | 21.9 ms | 1.47 |",
        '--speculative-config \'{"method": "mtp", "num_speculative_tokens": 2}\'',
        "vLLM 0.29.0, engine identity `46bdc7cb9b53`; vllm-arms 0.1.0, commit `60865f38bacd`",
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
    assert "HF_TOKEN=<secret> WHERE=<project>/models" in text
    assert "<path>/python --api-key <secret> --host <address>" in text
    for listed in ("`<project>` 1 ×", "`<host>` 1 ×", "`<secret>` 2 ×", "`<path>` 1 ×"):
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


# The bundle


def bundled(call: Call, run: Path, target: Path, project: Path) -> str:
    """SHA-256 of the bundle, which the comment states too."""
    code, output, _ = call(
        "report", run, "--format", "comment", "--bundle", target, "--project", project
    )
    assert code == 0
    digest = hashlib.sha256(target.read_bytes()).hexdigest()
    assert f"SHA-256 of `{target.name}`: `{digest}`" in output
    return digest


@pytest.mark.parametrize("kind", ["whole", "trimmed"])
def test_a_bundle_is_the_same_bytes_from_a_copy_elsewhere(
    call: Call,
    stored: RunStore,  # noqa: F811 - a fixture
    tmp_path: Path,
    kind: str,
) -> None:
    """Made twice, and from a copy with other times, modes and order of files."""
    if kind == "whole":
        add_start(stored)
    run = stored.root if kind == "whole" else FOUR_ARM
    copy = tmp_path / "elsewhere" / run.name
    for path in sorted(run.rglob("*"), reverse=True):
        if path.is_file():
            target = copy / path.relative_to(run)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            os.utime(target, (1_000_000, 1_000_000))
            target.chmod(0o600)

    first, second, third = (
        bundled(call, folder, tmp_path / f"{name}.tar.xz", tmp_path)
        for name, folder in (("one", run), ("two", run), ("three", copy))
    )

    assert first == second == third


def test_an_unpacked_bundle_is_judged_as_the_run_was(
    call: Call,
    stored: RunStore,  # noqa: F811 - a fixture
    tmp_path: Path,
) -> None:
    """It is the raw data, and names no path."""
    add_start(stored)
    bundled(call, stored.root, tmp_path / "b.tar.xz", tmp_path)
    with tarfile.open(tmp_path / "b.tar.xz") as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (run,) = (tmp_path / "unpacked").iterdir()

    assert run.name == stored.root.name
    assert call("analyze", run)[1].split() == call("analyze", stored.root)[1].split()
    assert b"somebody" not in (run / "arms" / "clean" / "server.log").read_bytes()


# The program


def test_a_run_without_a_diverging_cell_has_nothing_to_repeat() -> None:
    """A clear error, and no file."""
    made = plan()

    with pytest.raises(RunFolderError, match=r"no cell diverged, so --repro has nothing to repeat"):
        repeatable_cell(made, Scenario(script=plain, plan=made).judge(), run="r")


def test_the_cell_to_repeat_is_the_controls_and_attributed() -> None:
    """Not the first that differs, but the one that says most."""
    made = plan(experiment(control="contaminated"))

    def reply(arm: ArmPlan, cell: CellPlan, probe: ProbePlan) -> Reply:
        answer = affected(arm, cell, probe)
        if arm.name == "clean" and cell.place == "measured" and probe.repeat == 3:
            answer.lists = moved(2)
        return answer

    cell = repeatable_cell(made, Scenario(script=reply, plan=made).judge(), run="r")

    assert (cell.arm, cell.sequence) == ("contaminated", ("a", "b", "b", "b", "b"))
    assert cell.found.letters == "AA | ABBB | AA"
    assert cell.found.cached_tokens == (0, 16, 16, 16)
    assert len(cell.prompts["b"]) == 40


ANSWERS = {
    "plain": PLAIN,
    "moved": moved(1),
    "other order": tuple(tuple(reversed(entries)) for entries in PLAIN),
    "tie at the cut": (*PLAIN[:2], (*PLAIN[2][:2], (3, -4.0), (5, -4.0))),
    "the same tie": (*PLAIN[:2], (*PLAIN[2][:2], (3, -4.0), (6, -4.0))),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_the_program_has_our_digest(name: str) -> None:
    """Its own few lines and the package's give one number."""
    lists = ANSWERS[name]
    theirs = repeat_cell.read("b", json.loads(body(lists, chosen=[7, 2, 1])), TOP)

    ours = observation(lists, chosen=[7, 2, 1])
    assert repeat_cell.digest(theirs) == digests(ours).id_order


def test_the_program_has_our_letters() -> None:
    """Order and ties at the cut are no difference; a moved candidate is one."""
    ours = [
        Repeat(
            probe=name,
            observation=observation(lists, chosen=[7, 2, 1]),
            cached_tokens=0,
            accepted_tokens=None,
        )
        for name, lists in ANSWERS.items()
    ]
    theirs = [
        repeat_cell.read("b", json.loads(body(lists, chosen=[7, 2, 1])), TOP)
        for lists in ANSWERS.values()
    ]

    assert repeat_cell.Letters().of(theirs) == VariantLetters().of(ours) == "ABACC"


def answers(*entries: tuple[str, int | None]) -> list[repeat_cell.Answer]:
    """Answers to B, by name of their lists and with their cached tokens."""
    return [
        repeat_cell.read("b", json.loads(body(ANSWERS[name], cached=cached, chosen=[7, 2, 1])), TOP)
        for name, cached in entries
    ]


COLD, HIT = ("plain", 0), ("plain", 16)
CELL = {"block_size_tokens": 16, "found": {"cached_tokens": [0, 16]}}
SERVER = repeat_cell.Server(version="1", model="m", block=16, caching=True)
OFF = repeat_cell.Server(version="1", model="m", block=16, caching=False)
OTHER_BLOCK = repeat_cell.Server(version="1", model="m", block=32, caching=True)


@pytest.mark.parametrize(
    ("server", "before", "measured", "after", "code", "said"),
    [
        (SERVER, [COLD, HIT], [COLD, HIT], [COLD, HIT], 0, "NOT SEEN"),
        (SERVER, [COLD, HIT], [COLD, ("moved", 16)], [COLD, HIT], 1, "B2 differs from its refer"),
        (SERVER, [COLD], [("other order", 0), HIT], [COLD], 0, "NOT SEEN"),
        (SERVER, [COLD], [COLD, HIT, ("moved", 16)], [COLD], 1, "within one hit state"),
        (SERVER, [COLD, HIT], [COLD, HIT], [COLD, ("moved", 16)], 3, "reference before differs"),
        (SERVER, [("plain", None)], [("plain", None)], [("plain", None)], 3, "does not report"),
        (OFF, [("plain", None)], [("plain", None)], [("plain", None)], 0, "caching is off"),
        (OFF, [COLD], [COLD, COLD], [COLD], 0, "caching is off"),
        (SERVER, [COLD], [COLD, COLD], [COLD], 3, "other tokens were served"),
        (OTHER_BLOCK, [COLD], [COLD, HIT], [COLD], 3, "sized for blocks of 16"),
    ],
)
def test_the_program_concludes(
    server: repeat_cell.Server,
    before: list[tuple[str, int | None]],
    measured: list[tuple[str, int | None]],
    after: list[tuple[str, int | None]],
    code: int,
    said: str,
) -> None:
    """Diverged, not seen, or inconclusive with the reason; missing is not zero."""
    told = repeat_cell.conclude(CELL, server, answers(*before), answers(*measured), answers(*after))

    assert told[0] == code
    assert said in told[1]


@pytest.fixture(scope="module")
def miniature_run(project: Path) -> RunStore:
    """Contaminated and caching-off over the panel, on the miniature."""
    command = ["run", "three-arm", "--profile", "miniature", "--project", str(project)]
    done = subprocess.run(
        [*COMMAND, *command, "--arm", "contaminated", "--arm", "caching-off"],
        capture_output=True, text=True, timeout=300, check=False, cwd=PROJECT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return newest_run(project)


@pytest.fixture
def program(miniature_run: RunStore, tmp_path: Path) -> Path:
    """The program of that run."""
    planned = miniature_run.read("plan.json", Plan)
    verdict = miniature_run.read("verdicts.json", RunVerdict)
    path = tmp_path / "repeat.py"
    path.write_text(repro_file(repeatable_cell(planned, verdict, run="r")), encoding="utf-8")
    return path


def test_the_program_finds_on_a_fresh_miniature_what_the_run_found(
    miniature_run: RunStore, program: Path, tmp_path: Path
) -> None:
    """Twice on one server: a warm cache of the first call does not reach the second."""
    with serving(miniature_run.read("plan.json", Plan), "contaminated", tmp_path) as base_url:
        outcomes = [repeat_at(program, base_url) for _ in range(2)]

    for code, output in outcomes:
        assert code == 1, output
        assert "DIVERGED: B2 differs from its reference, first at generated token 0" in output
        assert "prefix caching on\n" in output
        assert "letters here:       AAA | ABBBBBBBBB | AAA\n" in output
        assert "letters in the run: AAA | ABBBBBBBBB | AAA\n" in output
        assert "digests: the same as in the run" in output


def test_the_program_says_when_a_server_is_not_affected(
    miniature_run: RunStore, program: Path, tmp_path: Path
) -> None:
    """Prefix caching off: not seen, and what that does not say."""
    with serving(miniature_run.read("plan.json", Plan), "caching-off", tmp_path) as base_url:
        code, output = repeat_at(program, base_url)

    assert code == 0, output
    assert "NOT SEEN: all answers are equal. Prefix caching is off on this server" in output
    assert "its cache was not tested" in output


def test_the_program_tells_a_server_that_does_not_answer_from_one_that_diverges(
    program: Path,
) -> None:
    """Exit 4 and the reason."""
    code, output = repeat_at(program, "http://127.0.0.1:9")

    assert code == 4
    assert output.startswith("NO USABLE ANSWER: ConnectError")


@pytest.mark.vllm
def test_the_committed_program_finds_on_a_fresh_vllm_what_the_run_found(
    engine: PreparedEngine, tmp_path: Path
) -> None:
    """The evidence's own program against a real server, started with the profile's command."""
    planned = resolve_plan(
        PROJECT, "four-arm", "vllm-cpu-tiny-hybrid", "quick", ["contaminated"], print
    ).plan
    assert planned.engine == f"vLLM {engine.version}"
    with serving(planned, "contaminated", tmp_path) as base_url:
        code, output = repeat_at(PROGRAM, base_url)

    assert code == 1, output
    assert "letters here:       AAA | BBBBBBBBBB | AAA\n" in output
    assert "letters in the run: AAA | BBBBBBBBBB | AAA\n" in output
