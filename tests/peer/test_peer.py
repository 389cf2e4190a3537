"""The comparison with the peer: its instruments, and what its recorded run says.

`recordings/` holds what a stopwatch noted for either tool, and a result that the peer kept: of one
run of both on the same work, with a real vLLM 0.29.0 for the CPU.
"""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from orchestrator.adapters.engine_preparation import PreparedEngine
from tests.peer.comparison import Comparison
from tests.peer.faults import BAD_FLAG
from tests.peer.household import Household
from tests.peer.jobs import OURS, PEER, Job
from tests.peer.keeping import kept_by
from tests.peer.playing import played
from tests.peer.report import DOCUMENT, document
from tests.peer.stopwatch import Stopwatch
from tests.peer.timeline import measured, read_events, requests, stretches
from tests.peer.work import REPEATS

HERE = Path(__file__).parent
RECORDINGS = HERE / "recordings"
TREE = """\
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
time.sleep(60)
"""


@pytest.fixture(scope="module")
def recorded() -> Comparison:
    """The run that the document was written from."""
    return Comparison.from_json((HERE / "recorded.json").read_text("utf-8"))


def test_the_document_says_what_the_recorded_run_found(recorded: Comparison) -> None:
    """Neither is edited by hand."""
    assert document(recorded) == DOCUMENT.read_text("utf-8")


def test_both_tools_did_the_same_work_in_the_recorded_run(recorded: Comparison) -> None:
    """Otherwise its times would say nothing."""
    assert recorded.same_requests
    assert {timed.seen.answered for timed in recorded.timed} == {2 * (REPEATS + 1)}


def test_we_kept_what_we_promise_in_the_recorded_run(recorded: Comparison) -> None:
    """Whatever the peer did."""
    assert recorded.shortcomings() == []


def test_what_the_document_says_of_the_peer_in_words_was_seen(recorded: Comparison) -> None:
    """Its prose is not generated, so a run that shows otherwise must not go with it."""
    taken = recorded.fault_of(PEER, "port served by another server")
    killed = recorded.fault_of(PEER, "engine core killed in the middle")
    differing = recorded.fault_of(PEER, "answers to one request that differ")

    assert (taken.exit_code, taken.answered) == (0, 0)
    assert taken.kept.answers == REPEATS + 1
    assert killed.exit_code == 0
    assert killed.kept.counted_failed
    assert (differing.exit_code, recorded.fault_of(OURS, differing.fault or "").exit_code) == (0, 1)
    for name in ("SIGTERM in the middle", "SIGKILL in the middle"):
        seen = recorded.fault_of(PEER, name)
        assert "VLLM::EngineCore" in seen.left
        assert seen.kept.answers == REPEATS + 1


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"exit_code": 0}, "exit code 0"),
        ({"exit_code": None}, "exit code None"),
        ({"left_after_reap": ("VLLM::EngineCore",)}, "VLLM::EngineCore left"),
        ({"answered": 12}, "12 answered, 6 kept"),
    ],
)
def test_a_row_of_ours_that_falls_short_is_told(
    recorded: Comparison, change: dict[str, object], told: str
) -> None:
    """The same row of the peer's is no promise of ours."""
    name = "SIGTERM in the middle"
    kept = recorded.fault_of(OURS, name).kept.model_copy(update={"answers": 6})
    row = recorded.fault_of(OURS, name).model_copy(update={"answered": 6, "kept": kept} | change)
    ours = recorded.model_copy(update={"faults": (row,)})
    peers = recorded.model_copy(update={"faults": (row.model_copy(update={"tool": PEER}),)})

    assert ours.shortcomings() == [f"{name}: {told}"]
    assert peers.shortcomings() == []


def test_the_recorded_stopwatches_saw_the_same_requests() -> None:
    """Two servers each, of whose requests only the fields differ that one tool always sends."""
    ours, peers = (
        read_events((RECORDINGS / f"{name}.jsonl").read_text("utf-8")) for name in ("ours", "peer")
    )

    assert [len(asked) for asked in requests(ours)] == 2 * [REPEATS + 1]
    assert requests(ours) == requests(peers)
    assert [event.asked for event in measured(ours)] != [event.asked for event in measured(peers)]


@pytest.mark.parametrize("name", ["ours", "peer"])
def test_the_stretches_of_a_job_follow_each_other(name: str) -> None:
    """From the start of a server to that of the next one, nothing is missing or counted twice."""
    events = read_events((RECORDINGS / f"{name}.jsonl").read_text("utf-8"))
    starts_s = [event.at_s for event in events if event.event == "started"]

    first, last = stretches(events, ended_s=events[-1].at_s)

    parts = (first.loading_s, first.first_request_s, first.measuring_s, first.leaving_s)
    known = [part for part in parts if part is not None]
    assert len(known) == len(parts)
    assert all(part > 0 for part in known)
    assert sum(known) == pytest.approx(starts_s[1] - starts_s[0])
    assert last.noticed_s is not None
    assert last.first_request_s is not None
    assert 0 < last.noticed_s <= last.first_request_s


def test_a_job_without_an_answer_has_stretches_that_are_missing() -> None:
    """Missing is not zero."""
    (only,) = stretches(read_events('{"event": "started", "at_s": 5.0}'), ended_s=9.0)

    assert only.loading_s is None
    assert only.measuring_s is None
    assert only.leaving_s is None


def test_a_stopwatch_notes_what_passes_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The body arrives whole, the answer goes out whole, and the prompt is in neither note."""
    monkeypatch.setenv("PEER_STOPWATCH", str(tmp_path / "stopwatch.jsonl"))

    async def echo(request: Request) -> PlainTextResponse:
        """Give back what was sent."""
        return PlainTextResponse(await request.body(), status_code=201)

    app = Starlette(routes=[Route("/v1/completions", echo, methods=["POST"])])
    app.add_middleware(Stopwatch)
    with TestClient(app) as client:
        body = b'{"prompt": [7, 8, 9], "max_tokens": 16}'
        answer = client.post("/v1/completions", content=body)

    text = (tmp_path / "stopwatch.jsonl").read_text("utf-8")
    started, serving, answered = read_events(text)
    assert answer.content == body
    assert (started.event, serving.event, answered.status) == ("started", "serving", 201)
    assert started.at_s < serving.at_s < answered.at_s <= time.monotonic()
    assert answered.asked is not None
    assert answered.asked["max_tokens"] == 16
    assert "[7, 8, 9]" not in text


def test_a_household_knows_who_outlived_the_tool() -> None:
    """A killed tool's servers have another parent by then."""
    with subprocess.Popen([sys.executable, "-c", TREE]) as tool:
        household = Household(tool.pid)
        until_s = time.monotonic() + 10
        while not household.living() and time.monotonic() < until_s:
            household.look()
        tool.send_signal(signal.SIGKILL)
        tool.wait()
        outlived = household.names()
        household.end()

    assert len(outlived) == 1
    assert household.living() == []


@pytest.mark.parametrize(("share", "answers", "failed"), [(1.0, 21, 0), (0.5, 0, None)])
def test_a_result_that_was_half_written_keeps_no_answers(
    tmp_path: Path, share: float, answers: int, failed: int | None
) -> None:
    """The peer writes in place, so a kill can leave half a file."""
    shutil.copy(RECORDINGS / "run=0.json", tmp_path)
    content = (RECORDINGS / "run=0.json").read_bytes()
    (tmp_path / "run=0.json").write_bytes(content[: int(len(content) * share)])

    kept = kept_by(Job(tool=PEER, argv=(), environment={}, kept=tmp_path))

    assert (kept.answers, kept.counted_failed or None) == (answers, failed or None)
    assert not kept.logprobs
    assert not kept.states_version


@pytest.mark.vllm
def test_the_peer_still_takes_our_work_and_gives_up_at_a_bad_flag(engine: PreparedEngine) -> None:
    """The real tool, starting the real server: the cheapest of the faults."""
    seen = played(PEER, ("caching-on",), BAD_FLAG).seen

    assert engine.python.exists()
    assert seen.exit_code == 1
    assert "RuntimeError: Server process crashed with return code 2" in seen.said
    assert seen.left == ()
    assert seen.kept.files == 0
