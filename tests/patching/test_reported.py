"""Reports and markers, read back from real logs."""

import pytest

from orchestrator.patching.reported import loaded_modules, marked_engine_cores
from tests.conftest import PROJECT
from tests.patching.shipped import log_of, shipped

MARKER = "PATCH stop-at-every-boundary active"
MARKED_BY = b"(EngineCore pid=29) INFO 11-30 21:36:59 [scheduler.py:329]"
SHA256_OF_0_29_0 = "abca7134821e2fb5cc8572df5c4a0b570ecf702646254327bc786fc452074983"


def test_an_unpatched_server_reports_the_published_file() -> None:
    """Path and hash, from the engine core; no marker."""
    (report,) = loaded_modules(log_of("control"))

    assert report.module == "vllm.v1.core.sched.scheduler"
    assert report.file == "/opt/engine/lib/python3.11/site-packages/vllm/v1/core/sched/scheduler.py"
    assert (report.sha256, report.runs_file) == (SHA256_OF_0_29_0, True)
    assert (report.pid, report.engine_core) == (14, True)
    assert marked_engine_cores(log_of("control"), MARKER) == set()


def test_a_patched_server_reports_the_overlay_and_logs_its_marker() -> None:
    """Both from one process, the engine core."""
    (report,) = loaded_modules(log_of("patched"))

    assert report.file == "/srv/overlays/patched/vllm/v1/core/sched/scheduler.py"
    assert marked_engine_cores(log_of("patched"), MARKER) == {report.pid}
    assert marked_engine_cores(log_of("patched"), shipped("sham").marker) == set()


def test_the_marker_of_another_release_is_read_as_well() -> None:
    """From vLLM 0.26.0 on a GPU, with a copy of the package that somebody else made."""
    logs = PROJECT / "tests" / "fixtures" / "serverlog" / "logs"

    assert marked_engine_cores((logs / "0.26.0-h200-patched-mtp.log").read_bytes(), MARKER) == {722}
    assert marked_engine_cores((logs / "0.26.0-h200-caching-on-mtp.log").read_bytes(), MARKER) == (
        set()
    )


def test_a_process_that_the_log_does_not_name_is_no_engine_core() -> None:
    """A report alone does not say that its process schedules."""
    log = log_of("patched")
    (line,) = [line for line in log.splitlines() if b"vllm-arms: loaded" in line]

    (report,) = loaded_modules(line + b"\n")

    assert not report.engine_core


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"vllm-arms: loaded", b"Received request: 'vllm-arms: loaded"),
        (b'"pid": 29}', b'"pid": 29'),
        (b'"runs_file": true, ', b""),
        (b'"sha256": "c5', b'"sha256": "'),
    ],
    ids=["inside a message", "cut", "field missing", "no hash"],
)
def test_what_is_not_a_whole_report_is_none(before: bytes, after: bytes) -> None:
    """Missing, not guessed; and a client's text is never taken for the server's word."""
    log = log_of("patched")
    assert before in log

    assert loaded_modules(log.replace(before, after)) == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (MARKER.encode(), b"Received request: '" + MARKER.encode() + b"'"),
        (MARKED_BY, MARKED_BY.replace(b"EngineCore pid=29", b"APIServer pid=2")),
    ],
    ids=["inside a message", "another process"],
)  # fmt: skip
def test_a_marker_counts_from_the_engine_cores_logger_only(before: bytes, after: bytes) -> None:
    """A request may quote it, and the API server does not schedule."""
    log = log_of("patched")
    assert before in log

    assert marked_engine_cores(log.replace(before, after), MARKER) == set()


def test_colours_are_looked_through() -> None:
    """VLLM_LOGGING_COLOR=1 colours prefixes and levels."""
    log = log_of("patched").replace(
        b"(EngineCore pid=29)", b"\x1b[0;36m(EngineCore pid=29)\x1b[0;0m"
    )

    assert marked_engine_cores(log, MARKER) == {29}
    assert loaded_modules(log)[0].engine_core
