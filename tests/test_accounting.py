"""What a start did to its machine: from readings and real kernel lines to findings."""

from orchestrator.accounting import count_kernel_lines, host_findings, not_back
from orchestrator.adapters.kernel_log import message
from orchestrator.model.host import HostAccount, KernelCounts, MemoryReading
from tests.conftest import PROJECT

OOM_KILL = PROJECT / "tests" / "fixtures" / "kernel" / "oom-kill-linux-6.18.kmsg"
"""Read from /dev/kmsg while a memory cgroup of 32 MiB killed a process that wanted 200 MiB."""

GIB = 2**30


def reading(available_gib: float, *gpus_gib: float | None) -> MemoryReading:
    """A machine's memory, and that of its GPUs."""
    used = tuple(None if gib is None else int(gib * GIB) for gib in gpus_gib)
    return MemoryReading(
        memory_available_bytes=int(available_gib * GIB),
        swap_free_bytes=0,
        gpu_used_bytes=used or None,
    )


def account(*, kernel: KernelCounts | None, lacking: str | None = None) -> HostAccount:
    """A start after which everything came back, or not."""
    return HostAccount(
        before=reading(8), after=reading(8), waited_s=0.0, not_back=lacking, kernel=kernel
    )


def kernel(*lines: str, lost: bool = False) -> KernelCounts:
    """What is counted of these lines."""
    return count_kernel_lines(lines, lost=lost)


def test_memory_that_does_not_come_back_is_told_with_its_figures() -> None:
    """Before, after, and the difference; of each device that tells it."""
    said = not_back(reading(8, 1), reading(6, 4), GIB)

    assert said is not None
    assert "2,048 MiB of memory (8,192 MiB were available" in said
    assert "3,072 MiB of GPU 0 (1,024 MiB were used before, 4,096 MiB after)" in said


def test_a_little_less_memory_than_before_is_all_of_it() -> None:
    """Exactly what is allowed, and more than before."""
    assert not_back(reading(8), reading(7), GIB) is None
    assert not_back(reading(8), reading(9), 0) is None


def test_a_gpu_that_does_not_tell_is_not_compared() -> None:
    """A GB10 says N/A; nothing is concluded from that."""
    assert not_back(reading(8, None), reading(8, 100), 0) is None
    assert not_back(reading(8), reading(8, 100), 0) is None


def test_a_real_oom_kill_is_counted_once() -> None:
    """Of the eighty lines that the kernel writes about it, the one that names the victim."""
    lines = [message(record) for record in OOM_KILL.read_bytes().splitlines(keepends=True)]

    counted = kernel(*lines)

    assert len(lines) == 80
    assert (counted.oom_kills, counted.xids, counted.nvrm_out_of_memory) == (1, 0, 0)
    assert len(counted.lines) == 1
    assert counted.lines[0].startswith("Memory cgroup out of memory: Killed process 14060")


def test_an_oom_kill_is_a_remark_and_not_the_servers_fault() -> None:
    """A server that was killed fails its arm by itself; another program's death voids nothing."""
    lines = [message(record) for record in OOM_KILL.read_bytes().splitlines(keepends=True)]

    (finding,) = host_findings(account(kernel=kernel(*lines)))

    assert finding.scope == "remark"
    assert "1 processes that were killed for want of memory" in finding.summary


def test_a_gpu_error_voids_the_start() -> None:
    """A GPU that reported an error may have computed anything."""
    counts = KernelCounts(oom_kills=0, xids=2, nvrm_out_of_memory=0, lines=("…",), lost=False)

    assert [finding.scope for finding in host_findings(account(kernel=counts))] == ["start"]


def test_a_kernel_log_that_cannot_be_read_says_nothing() -> None:
    """Unknown is not zero, and no finding either; memory is told all the same."""
    assert host_findings(account(kernel=None)) == ()
    assert host_findings(None) == ()
    (finding,) = host_findings(account(kernel=None, lacking="2 GiB did not come back"))
    assert finding.summary == "2 GiB did not come back"
