"""Memory samples while a server lives: of real processes, on a real disk, through real kills."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from orchestrator.adapters.host_sampling import (
    gpu_memory,
    read_samples,
    sampled_memory,
    used_bytes,
)


def wait_for(condition: Callable[[], bool]) -> None:
    """Until it holds, at most five seconds."""
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def lines(path: Path) -> int:
    """Finished lines of a file that may not be there yet."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_samples_are_taken_at_both_ends_and_in_between(tmp_path: Path) -> None:
    """At least one when the block begins, and one when it ends, however short it is."""
    file = tmp_path / "memory.jsonl"
    before_s = time.monotonic()

    with sampled_memory(lambda: {os.getpid()}, file, interval_s=60):
        wait_for(lambda: lines(file) == 1)

    samples = read_samples(file.read_bytes())
    assert len(samples) == 2
    assert before_s < samples[0].at_s < samples[1].at_s < time.monotonic()
    assert samples[0].memory_available_bytes > 2**20
    assert samples[0].server_resident_bytes is not None


def test_a_run_that_is_killed_keeps_what_was_sampled(tmp_path: Path) -> None:
    """SIGKILL to the process that samples, as the kernel does when memory is gone."""
    file = tmp_path / "memory.jsonl"
    program = (
        "import os, sys, time, pathlib\n"
        "from orchestrator.adapters.host_sampling import sampled_memory\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "with sampled_memory(lambda: [os.getpid()], file, interval_s=0.01):\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(file)]) as process:
        wait_for(lambda: lines(file) >= 3)
        process.send_signal(signal.SIGKILL)

    assert len(read_samples(file.read_bytes())) >= 3


def test_the_resident_memory_is_that_of_all_the_servers_processes(tmp_path: Path) -> None:
    """A child that touches 64 MiB counts in full."""
    file = tmp_path / "memory.jsonl"
    hold = "import sys; x = b'1' * (64 << 20); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with sampled_memory(lambda: [os.getpid(), child.pid], file):
            wait_for(lambda: lines(file) >= 1)
        with sampled_memory(lambda: [os.getpid()], tmp_path / "alone.jsonl"):
            pass
        child.communicate()

    together = read_samples(file.read_bytes())[0].server_resident_bytes
    alone = read_samples((tmp_path / "alone.jsonl").read_bytes())[0].server_resident_bytes
    assert together is not None
    assert alone is not None
    assert together - alone > 64 << 20


def test_the_memory_of_a_server_that_is_gone_is_unknown_and_not_zero(tmp_path: Path) -> None:
    """Its processes ended between the list of them and the look at them."""
    file = tmp_path / "memory.jsonl"
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()

    with sampled_memory(lambda: [ended.pid], file):
        pass

    assert {sample.server_resident_bytes for sample in read_samples(file.read_bytes())} == {None}


def test_sampling_that_fails_leaves_the_run_alone(tmp_path: Path) -> None:
    """The block goes on and ends as it would have; the log says what is missing."""
    file = tmp_path / "memory.jsonl"

    def broken() -> list[int]:
        raise OSError(28, "No space left on device")

    with capture_logs() as events, sampled_memory(broken, file):
        reached = True

    assert reached
    assert file.read_bytes() == b""
    assert [(event["event"], event["taken"]) for event in events] == [("memory.sampling_failed", 0)]


def test_sampling_stays_below_its_share_of_a_core(tmp_path: Path) -> None:
    """Asked to sample without a pause, it makes one: 1 % of a core, measured by the kernel."""
    with (
        capture_logs() as events,
        sampled_memory(lambda: [os.getpid()], tmp_path / "memory.jsonl", interval_s=0),
    ):
        time.sleep(1.0)

    assert events[0]["taken"] > 5
    assert events[0]["processor_s"] < 0.02  # a second, and the samples at its two ends


def test_a_file_that_is_there_is_never_written_over(tmp_path: Path) -> None:
    """Runs are never edited."""
    file = tmp_path / "memory.jsonl"
    file.write_text("")

    with pytest.raises(FileExistsError), sampled_memory(list, file):
        pass


def test_only_an_unfinished_last_line_is_left_out(tmp_path: Path) -> None:
    """A run that was killed in the middle of a write; a broken line before is an error."""
    file = tmp_path / "memory.jsonl"
    with sampled_memory(lambda: [os.getpid()], file):
        pass
    whole = file.read_bytes()

    assert read_samples(whole + whole[:40]) == read_samples(whole)
    assert read_samples(b"") == ()
    with pytest.raises(ValidationError):
        read_samples(whole[:40] + b"\n" + whole)


@pytest.mark.parametrize(
    ("read", "used"),
    [
        (b"0, 0\n", (0,)),  # an idle H200
        (b"0, 1234\n1, 5\n0, 1300\n1, 5\n", (1300 << 20, 5 << 20)),
        (b"0, [N/A]\n", (None,)),  # a GB10
        (b"0, 12\n1, [N/A]\n", (12 << 20, None)),
        (b"234\n0, 1300\n0, 13", (1300 << 20,)),
        (b"No devices were found\n", None),
        (b"", None),
    ],
)
def test_the_last_whole_reading_of_each_gpu_counts(
    read: bytes, used: tuple[int | None, ...] | None
) -> None:
    """What cannot be read is unknown, and never zero."""
    assert used_bytes(read) == used


def program(folder: Path, script: str) -> None:
    """An nvidia-smi that does this."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_gpus_are_read_from_one_program_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is started once, read without waiting, and gone at the end; nothing is read twice."""
    program(tmp_path, f"echo $$ >>{tmp_path}/pid; echo '0, 7'; exec /bin/sleep 60")
    monkeypatch.setenv("PATH", str(tmp_path))
    readings: list[tuple[int | None, ...] | None] = []

    def first() -> bool:
        readings.append(read())
        return readings[-1] is not None

    started_s = time.monotonic()
    with gpu_memory() as read:
        wait_for(first)
        second = read()
    assert time.monotonic() - started_s < 5

    assert readings[-1] == (7 << 20,)
    assert second is None
    (pid,) = (tmp_path / "pid").read_text().split()
    assert not Path(f"/proc/{pid}").exists()


def test_without_nvidia_smi_no_gpu_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without the program, and one where it fails at once."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with gpu_memory() as read:
        assert read() is None

    program(tmp_path, "exit 9")
    with gpu_memory() as read:
        time.sleep(0.1)
        assert read() is None
