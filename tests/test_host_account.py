"""The machine around a server's life: the real machine, and real waits."""

import os
import threading
import time
from pathlib import Path

import docker
import psutil
import pytest

from orchestrator.adapters.host_account import accounted_host, drop_page_cache
from orchestrator.adapters.kernel_log import KERNEL_LOG, kernel_log
from orchestrator.adapters.memory_watchdog import killed_when_memory_is_low
from orchestrator.adapters.server_container import ServerContainer
from orchestrator.errors import HostError, LowMemoryError, ServerDiedError
from orchestrator.model.host import HostAccount
from orchestrator.model.host_limits import HostLimits
from tests.container_servers import ANSWERING, ContainerServers

MIB = 2**20
TIB = 2**40

LIMITS = HostLimits(memory_back_within_bytes=TIB, memory_back_timeout_s=0.5)
"""More than any machine has, so that only the GPU below can hold something back."""


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The mebibytes in use on a GPU, in a file that a stand-in for nvidia-smi reads.

    A machine's own memory moves with what else runs there, and cannot be asked not to.
    """
    used = tmp_path / "used"
    used.write_text("5")
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\nread used <{used}\necho "0, $used"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return used


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


def test_memory_that_stays_away_is_waited_for_and_then_told(
    saved: list[HostAccount], gpu: Path
) -> None:
    """A server is gone, and its memory is still in use when the limit is over."""
    with accounted_host(LIMITS, saved.append, hurry=threading.Event()):
        gpu.write_text(str(2 * TIB // MIB))

    assert saved[0].waited_s >= 0.5
    assert "2,097,147 MiB of GPU 0 (5 MiB were used before" in (saved[0].not_back or "")


def test_memory_that_comes_back_late_is_all_back(saved: list[HostAccount], gpu: Path) -> None:
    """A driver that takes its time; the wait ends as soon as it is done."""
    limits = HostLimits(memory_back_within_bytes=TIB, memory_back_timeout_s=60.0)
    release = threading.Timer(0.3, gpu.write_text, ["5"])

    with accounted_host(limits, saved.append, hurry=threading.Event()):
        gpu.write_text(str(2 * TIB // MIB))
        release.start()
    release.join()

    assert 0.1 < saved[0].waited_s < 30
    assert saved[0].not_back is None


def test_a_hurry_ends_the_wait(saved: list[HostAccount], gpu: Path) -> None:
    """A second signal: whoever stops us twice does not wait for memory."""
    hurry = threading.Event()
    hurry.set()
    limits = HostLimits(memory_back_within_bytes=TIB, memory_back_timeout_s=60.0)

    with accounted_host(limits, saved.append, hurry=hurry):
        gpu.write_text(str(2 * TIB // MIB))

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


def test_the_watchdog_kills_a_container_as_it_kills_a_process(
    docker_client: docker.DockerClient, base_image: str, tmp_path: Path
) -> None:
    """The same error, and nothing of the container stays but its log."""
    servers = ContainerServers(docker_client, base_image, tmp_path, f"watchdog-{os.getpid()}")
    floor = 2 * psutil.virtual_memory().total

    with (
        pytest.raises(LowMemoryError, match="killed before the machine ran out of memory"),
        servers.start(servers.launch(ANSWERING)) as server,
        killed_when_memory_is_low(server.kill, floor),
    ):
        _until_it_ends(server)

    assert servers.left() == []
    assert "SIGKILL" in server.how_it_ended()


def _until_it_ends(server: ServerContainer) -> None:
    """As whoever asks a server finds out."""
    assert server.wait_for_exit(30)
    server.check_alive()
