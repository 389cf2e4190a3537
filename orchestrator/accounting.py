"""What a start did to its machine: memory that did not come back, lines of the kernel. Pure."""

import re
from collections.abc import Iterable

from orchestrator.model.host import HostAccount, KernelCounts, MemoryReading
from orchestrator.model.verdict import GateFinding

_OOM_KILL = re.compile(r"Killed process \d+ \(")
"""mm/oom_kill.c, __oom_kill_process; before it stands whether the machine or a cgroup was full."""

_XID = re.compile(r"NVRM: Xid \(")
"""NVIDIA, "XID Errors": `NVRM: Xid (PCI:…): NUMBER, …`."""

_NVRM_OUT_OF_MEMORY = re.compile(r"NVRM: .*NV_ERR_NO_MEMORY")
"""NVIDIA's open kernel modules, as seen on GB10 hosts before they froze, and on healthy ones."""

_KEPT_LINES = 20


def not_back(before: MemoryReading, after: MemoryReading, within_bytes: int) -> str | None:
    """What of the memory did not come back, in one sentence; `None`: all of it that is known.

    A GPU that does not tell its memory is not compared. Neither is swap: pages stay there until
    they are wanted, whoever's they are.
    """
    lacking = []
    missing = before.memory_available_bytes - after.memory_available_bytes
    if missing > within_bytes:
        lacking.append(
            f"{_mib(missing)} of memory ({_mib(before.memory_available_bytes)} were available"
            f" before the start, {_mib(after.memory_available_bytes)} after the end)"
        )
    for device, (used_before, used_after) in enumerate(
        zip(before.gpu_used_bytes or (), after.gpu_used_bytes or (), strict=False)
    ):
        if used_before is None or used_after is None:
            continue
        if used_after - used_before > within_bytes:
            lacking.append(
                f"{_mib(used_after - used_before)} of GPU {device}"
                f" ({_mib(used_before)} were used before, {_mib(used_after)} after)"
            )
    if not lacking:
        return None
    return f"{' and '.join(lacking)} did not come back; another program may have taken it"


def count_kernel_lines(lines: Iterable[str], *, lost: bool) -> KernelCounts:
    """Count what bears on memory and GPUs.

    Args:
        lines: Messages of the kernel, without their prefix.
        lost: Whether the kernel dropped some of them.
    """
    patterns = (_OOM_KILL, _XID, _NVRM_OUT_OF_MEMORY)
    counts = [0] * len(patterns)
    kept: list[str] = []
    for line in lines:
        matched = [pattern.search(line) is not None for pattern in patterns]
        counts = [count + match for count, match in zip(counts, matched, strict=True)]
        if any(matched) and len(kept) < _KEPT_LINES:
            kept.append(line)
    oom_kills, xids, nvrm_out_of_memory = counts
    return KernelCounts(
        oom_kills=oom_kills,
        xids=xids,
        nvrm_out_of_memory=nvrm_out_of_memory,
        lines=tuple(kept),
        lost=lost,
    )


def host_findings(account: HostAccount | None) -> tuple[GateFinding, ...]:
    """What the account says for or against what was measured on the start (13).

    An Xid voids the start: a GPU that reports an error may have computed anything. An OOM kill is
    a remark: had it hit the server, the arm would have failed by itself.
    """
    if account is None:
        return ()
    said = [] if account.not_back is None else [_finding("remark", account.not_back)]
    kernel = account.kernel
    if kernel is None:
        return tuple(said)
    first = kernel.lines[0] if kernel.lines else ""
    if kernel.xids:
        text = f"the kernel logged {kernel.xids} GPU errors (Xid) meanwhile; the first: {first}"
        said.append(_finding("start", text))
    for count, what in (
        (kernel.oom_kills, "processes that were killed for want of memory"),
        (kernel.nvrm_out_of_memory, "allocations that NVIDIA's driver could not make"),
    ):
        if count:
            said.append(_finding("remark", f"the kernel logged {count} {what}; the first: {first}"))
    return tuple(said)


def _finding(scope: str, summary: str) -> GateFinding:
    return GateFinding.model_validate(
        {"rule": 13, "scope": scope, "cell": None, "summary": summary}
    )


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.0f} MiB"
