"""The machine around a server's life: the real machine, and real waits."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from orchestrator.adapters.host_account import accounted_host, drop_page_cache
from orchestrator.adapters.kernel_log import KERNEL_LOG, kernel_log
from orchestrator.errors import HostError, ServerDiedError
from orchestrator.model.host import HostAccount
from orchestrator.model.host_limits import HostLimits

MIB = 2**20

HOLD = "import sys; x = b'1' * (600 << 20); print(flush=True); sys.stdin.read()"
"""A program that holds 600 MiB until it is told to end."""


@pytest.fixture
def saved() -> list[HostAccount]:
    """What was put on disk."""
    return []


def test_an_account_is_saved_with_both_readings(saved: list[HostAccount]) -> None:
    """A start that gives everything back waits for nothing."""
    with accounted_host(HostLimits(), saved.append, hurry=threading.Event()):
        pass

    assert saved[0].before.memory_available_bytes > MIB
    assert saved[0].not_back is None


def test_memory_that_stays_away_is_waited_for_and_then_told(saved: list[HostAccount]) -> None:
    """A real process takes 600 MiB during the block and keeps them past the limit."""
    limits = HostLimits(memory_back_within_bytes=200 * MIB, memory_back_timeout_s=0.5)

    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        with accounted_host(limits, saved.append, hurry=threading.Event()):
            child.stdout.readline()
        child.communicate()

    assert saved[0].waited_s >= 0.5
    assert "did not come back" in (saved[0].not_back or "")


def test_a_hurry_ends_the_wait(saved: list[HostAccount]) -> None:
    """A second signal: whoever stops us twice does not wait for memory."""
    hurry = threading.Event()
    hurry.set()
    limits = HostLimits(memory_back_within_bytes=200 * MIB, memory_back_timeout_s=60.0)

    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        with accounted_host(limits, saved.append, hurry=hurry):
            child.stdout.readline()
        child.communicate()

    assert saved[0].waited_s < 10


def test_the_account_of_an_arm_that_failed_is_saved_too(saved: list[HostAccount]) -> None:
    """And what failed it is what is raised."""
    with (
        pytest.raises(ServerDiedError, match="it did"),
        accounted_host(HostLimits(), saved.append, hurry=threading.Event()),
    ):
        raise ServerDiedError("it did")

    assert len(saved) == 1


def test_no_server_is_started_below_the_floor() -> None:
    """The next arm cannot do better, so the run ends, with the figures and what to do."""
    total = psutil.virtual_memory().total
    limits = HostLimits(memory_floor_bytes=2 * total, memory_back_timeout_s=0.3)
    started_s = time.monotonic()

    with (
        pytest.raises(HostError, match=r"memory_floor_bytes, \d+ MiB.*end other programs"),
        accounted_host(limits, lambda _: None, hurry=threading.Event()),
    ):
        raise AssertionError("it was started")

    assert time.monotonic() - started_s >= 0.3


def test_the_page_cache_is_dropped_where_we_may(tmp_path: Path) -> None:
    """The kernel's switch for the page cache alone; a stand-in, for the machine's sake."""
    switch = tmp_path / "drop_caches"

    drop_page_cache(switch)

    assert switch.read_text() == "1\n"


def test_a_page_cache_that_cannot_be_dropped_says_what_it_needs(tmp_path: Path) -> None:
    """Neither silently left out, nor a traceback."""
    with pytest.raises(HostError, match=r"needs root.*sudo tee"):
        drop_page_cache(tmp_path / "no-such-folder" / "drop_caches")


def test_the_kernels_log_is_read_from_here_on_or_not_at_all() -> None:
    """What it said before the block is not counted; where we may not read it, nothing is known."""
    with kernel_log() as log:
        counted = log.counts()

    assert (counted is not None) == os.access(KERNEL_LOG, os.R_OK)
    if counted is not None:
        assert not counted.lost


def test_a_kernel_log_that_is_not_there_is_unknown_and_not_empty(tmp_path: Path) -> None:
    """As on a machine that does not give it to us."""
    with kernel_log(str(tmp_path / "kmsg")) as log:
        assert log.counts() is None
