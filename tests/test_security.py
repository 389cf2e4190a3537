"""What docs/security.md promises of a hostile server, a stranger's run folder, and secrets."""

import io
import json
import os
import shutil
import socket
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from orchestrator.adapters.heartbeat import Heartbeat
from orchestrator.adapters.http_probe import ServerClient
from orchestrator.adapters.packed_files import PACKED, compressed, unpacked
from orchestrator.adapters.run_store import RunStore
from orchestrator.adapters.server_connections import LARGEST_PAGE_BYTES
from orchestrator.decoding import decode
from orchestrator.errors import ProbeError, RunFolderError
from orchestrator.model.exchange import Arrival
from orchestrator.model.plan import LaunchPlan, ProbePlan
from orchestrator.model.profile import ReadyLimits, StopLimits
from orchestrator.model.secrets import REMOVED, without_secrets
from orchestrator.reporting.figures import launch_command
from orchestrator.scoring.grading import values_of
from orchestrator.streaming import decode_stream
from tests.answers import TOP, body
from tests.conftest import PROJECT, Call

if TYPE_CHECKING:
    from orchestrator.model.exchange import Exchange

MANY_DIGITS = b"9" * 5000
"""More than the 4300 that Python turns into an integer."""

OVERFLOWING = b"1" + b"0" * 400
"""An integer that no double holds."""


@contextmanager
def hostile(head: bytes, block: bytes, *, pause_s: float = 0.0) -> Iterator[int]:
    """A server that sends `head`, and then `block` again and again until it is left."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(65536)
                connection.sendall(head)
                while True:
                    connection.sendall(block)
                    time.sleep(pause_s)

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(5)
        assert not thread.is_alive()


@contextmanager
def client_of(port: int, timeout_s: float) -> Iterator[ServerClient]:
    """A client that is closed, and its server's connection with it."""
    client = ServerClient(port, timeout_s=timeout_s)
    try:
        yield client
    finally:
        client.close()


def test_a_page_that_never_ends_is_given_up() -> None:
    """Neither /metrics nor /server_info can fill our memory."""
    with (
        hostile(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 2**20) as port,
        client_of(port, 30.0) as client,
        pytest.raises(httpx.HTTPError, match=f"exceeds {LARGEST_PAGE_BYTES} bytes"),
    ):
        client.page("/metrics")


def test_a_compressed_page_is_refused() -> None:
    """What was not asked for is not unpacked."""
    with (
        hostile(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", b"x") as port,
        client_of(port, 5.0) as client,
        pytest.raises(httpx.HTTPError, match="compressed"),
    ):
        client.page("/metrics")


def test_a_page_that_drips_is_given_up() -> None:
    """The time limit is the whole page's, not that between two bytes."""
    with (
        hostile(b"HTTP/1.1 200 OK\r\n\r\n", b"x", pause_s=0.05) as port,
        client_of(port, 0.5) as client,
        pytest.raises(httpx.HTTPError, match=r"not whole after 0\.5 s"),
    ):
        client.page("/server_info")


@pytest.mark.parametrize(
    ("head", "received"), [(b"HTTP/1.1 200 OK\r\n\r\n", b"xx"), (b"HTTP/1.1 200 OK\r\nX: ", b"")]
)
def test_an_answer_that_drips_is_given_up_and_kept(head: bytes, received: bytes) -> None:
    """From the first byte of its head on; what came of its body is evidence all the same."""
    kept: list[Exchange] = []
    probe = ProbePlan(id="001-b1", role="b", prompt="p", salt="s", repeat=1)
    with (
        hostile(head, b"x", pause_s=0.05) as port,
        client_of(port, 0.5) as client,
        pytest.raises(ProbeError, match=r"not whole after 0\.5 s"),
    ):
        client.send([(probe, b"{}")], kept.append)

    assert [exchange.response[:2] for exchange in kept] == [received]
    assert kept[0].times.latency_s < 2


@pytest.mark.parametrize(
    ("block", "pause_s", "told"), [(b"x" * 2**20, 0.0, "exceeds"), (b"x", 0.05, "not whole")]
)
def test_the_liveness_check_reads_no_page_without_end(
    block: bytes, pause_s: float, told: str
) -> None:
    """What it cannot read whole is no sign of life, and neither fills memory nor takes for ever."""
    now_s = 0.0
    with hostile(b"HTTP/1.1 200 OK\r\n\r\n", block, pause_s=pause_s) as port:
        heartbeat = Heartbeat(port, timeout_s=0.5, clock=lambda: now_s)
        heartbeat.begin()
        now_s = 60.0
        with pytest.raises(ProbeError, match=told):
            heartbeat.check()
        heartbeat.close()


def test_headers_that_never_end_are_given_up() -> None:
    """The HTTP library bounds them; this holds it to that."""
    with (
        hostile(b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65536) as port,
        client_of(port, 30.0) as client,
        pytest.raises(httpx.HTTPError),
    ):
        client.page("/health")


@settings(max_examples=200, deadline=None)
@given(raw=st.binary(max_size=400))
@example(raw=b'{"choices": ' + MANY_DIGITS + b"}")
@example(raw=b"[" * 100_000)
@example(raw=b'{"choices": [1], "usage": {"completion_tokens": 1e999, "prompt_tokens": 1}}')
@example(raw=body().replace(b"token_id:7", b"token_id:" + MANY_DIGITS))
def test_any_bytes_are_an_observation_or_a_typed_error(raw: bytes) -> None:
    """No answer of a server ends a run in another way."""
    with suppress(ProbeError):
        decode(raw, top_logprobs=TOP)
    stream = b"data: " + raw + b"\n\ndata: [DONE]\n\n"
    with suppress(ProbeError):
        decode_stream(stream, [Arrival(bytes=len(stream), at_s=1.0)])
    values_of(raw.decode("latin-1"))


@pytest.mark.parametrize("number", [int(OVERFLOWING), 2**1023, 10**60, 2**64 + 1])
def test_an_integer_that_no_float_holds_is_no_log_probability(number: int) -> None:
    """It is refused by name, and no error of Python's own escapes."""
    answer = json.loads(body())
    answer["choices"][0]["logprobs"]["token_logprobs"][0] = number

    with pytest.raises(ProbeError, match="no float32"):
        decode(json.dumps(answer).encode(), top_logprobs=TOP)


@pytest.mark.parametrize("linked", ["the plan", "an arm", "an exchange"])
def test_a_link_out_of_a_strangers_folder_is_not_followed(
    tmp_path: Path, call: Call, linked: str
) -> None:
    """Neither a file's nor a folder's: what it leads to is nobody's evidence."""
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    shutil.copytree(PROJECT / "docs" / "evidence" / "cpu-predicted-pairs", run)
    arm = next((run / "arms").iterdir())
    target = {"the plan": run / "plan.json.xz", "an arm": arm}.get(linked)
    if target is None:
        (arm / PACKED).unlink()
        (arm / "exchanges").mkdir()
        target = arm / "exchanges" / "000-ready.times.json"
        target.write_text("{}", encoding="utf-8")
    target.rename(elsewhere)
    target.symlink_to(elsewhere)

    code, _, error = call("analyze", run)

    assert code == 2
    assert "leads out of the run's folder" in error


def test_a_pipe_in_the_place_of_an_exchange_is_refused(tmp_path: Path) -> None:
    """Nobody would ever write to it, and reading it would wait for ever."""
    folder = tmp_path / "arms/a/exchanges"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "000-ready.times.json")

    with pytest.raises(RunFolderError, match="no plain file"):
        RunStore(tmp_path).exchange_files("a")


def test_a_run_without_its_arms_is_not_trimmed(tmp_path: Path, call: Call) -> None:
    """Its folder is named, and nothing half-written stays."""
    run, made = tmp_path / "run", tmp_path / "made"
    shutil.copytree(PROJECT / "docs" / "evidence" / "cpu-predicted-pairs", run)
    shutil.rmtree(run / "arms")
    code, _, error = call("trim", run, made)

    assert code == 2
    assert f"{run / 'arms'}: is missing" in error
    assert not made.exists()


def test_a_bundle_takes_nothing_from_outside_a_strangers_folder(tmp_path: Path, call: Call) -> None:
    """A bundle is made to be published: a link in the folder must not bring a private file in."""
    run, private, made = tmp_path / "run", tmp_path / "private", tmp_path / "made.tar.xz"
    shutil.copytree(PROJECT / "docs" / "evidence" / "cpu-predicted-pairs", run)
    private.write_text("canary", encoding="utf-8")
    (run / "notes.txt").symlink_to(private)
    code, _, error = call("report", run, "--format", "comment", "--bundle", made)

    assert code == 2
    assert "leads out of the run's folder" in error
    assert not made.exists()


def _archive(name: str, kind: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.type = kind
        info.linkname = "/etc/hostname"
        archive.addfile(info)
    return compressed(buffer.getvalue())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../001.times.json", tarfile.REGTYPE),
        ("/001.times.json", tarfile.REGTYPE),
        ("001.times.json", tarfile.SYMTYPE),
        ("001.times.json", tarfile.LNKTYPE),
        ("001.times.json", tarfile.FIFOTYPE),
    ],
)
def test_an_archive_with_anything_but_flat_files_is_refused(
    tmp_path: Path, name: str, kind: bytes
) -> None:
    """A stranger's run folder is read, and nothing of it is taken for a path."""
    (tmp_path / "arms/a").mkdir(parents=True)
    (tmp_path / "arms/a" / PACKED).write_bytes(_archive(name, kind))

    with pytest.raises(RunFolderError, match="cannot be read"):
        RunStore(tmp_path).exchange_files("a")


@settings(max_examples=50, deadline=None)
@given(raw=st.binary(max_size=200))
@example(raw=compressed(b"no archive"))
def test_any_bytes_in_the_place_of_an_archive_are_a_typed_error(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes
) -> None:
    """Whatever a stranger's archive holds."""
    root = tmp_path_factory.mktemp("run")
    (root / "arms/a").mkdir(parents=True)
    (root / "arms/a" / PACKED).write_bytes(raw)

    with suppress(RunFolderError):
        RunStore(root).exchange_files("a")


def test_what_unpacks_to_too_much_is_refused() -> None:
    """At the limit it is read, one byte above it is not."""
    packed = compressed(bytes(1001))

    assert unpacked(packed, largest_bytes=1001) == bytes(1001)
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        unpacked(packed, largest_bytes=1000)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HF_TOKEN", "canary"),
        ("SIGNING_KEY", "canary"),
        ("DB_PASSWORD", "canary"),
        ("MODEL_MIRROR", "https://user:canary@mirror.example/models"),
        ("MODEL_MIRROR", "https://:canary@mirror.example"),
        ("MODEL_MIRROR", "https://canary@mirror.example/models"),
    ],
)
def test_a_secret_of_the_environment_is_not_written_down(name: str, value: str) -> None:
    """By its name, or by a password in its value."""
    assert without_secrets({name: value}) == {name: REMOVED}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKENIZERS_PARALLELISM", "false"),
        ("MODEL_MIRROR", "https://mirror.example:8443/a"),
        ("MODEL_MIRROR", "https://mirror.example/@team/model"),
        ("DOCKER_HOST", "ssh://me@machine.example"),
    ],
)
def test_what_is_no_secret_is_written_down(name: str, value: str) -> None:
    """What a server was started with stays readable."""
    assert without_secrets({name: value}) == {name: value}


def test_a_planned_secret_is_neither_stored_nor_shown() -> None:
    """The plan that starts the server knows it; plan.json, launch.json and reports do not."""
    launch = LaunchPlan(
        argv=("vllm", "serve"),
        environment={"HF_TOKEN": "canary", "HF_HUB_OFFLINE": "1"},
        inherit=(),
        ready=ReadyLimits(total_timeout_s=1.0, no_progress_timeout_s=1.0),
        stop=StopLimits(grace_s=1.0),
        request_timeout_s=1.0,
    )

    assert launch.environment.get("HF_TOKEN") == "canary"
    assert json.loads(launch.model_dump_json())["environment"] == {
        "HF_TOKEN": REMOVED,
        "HF_HUB_OFFLINE": "1",
    }
    assert "canary" not in launch_command(launch.environment, launch.argv)
