"""First process of a server's own world: nothing of a server survives it.

Started as `python -I server_init.py CONTROL_FD REPORT_FD GRACE_S ARGV…` with the server's stdout
and stderr already pointing at the arm's log. Imports the standard library only, and nothing of
this package, since it must start fast and stand alone.

Where the kernel allows it, this process makes a PID namespace with its own /proc and /dev/shm and
becomes process 1 there: when it ends, however it ends, the kernel kills everything in the
namespace, and the shared memory is gone with the mount. Elsewhere it becomes a child subreaper,
so that every orphan of the server is its child, and it remembers which shared-memory files the
server's processes had mapped.

The orchestrator writes one letter to CONTROL: `T` sends SIGTERM to the server, `K` kills
everything at once. End of file means that the orchestrator is gone: kill everything.
To REPORT go JSON lines: `started`, `exited` (of the server's first process, at once), `done`.
"""

import ctypes
import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
_MS_REC, _MS_PRIVATE, _MS_NOSUID_NODEV = 0x4000, 0x40000, 0x2 | 0x4
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
"""linux/sched.h, linux/mount.h, linux/prctl.h."""

_POLL_S = 0.5
"""How often shared memory is looked up; exits and commands wake the loop at once."""

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    """Run the server until it is gone; the exit code only says that this process worked."""
    control, report, grace_s, argv = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    isolation = _isolation()
    if isolation == "session":
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        return _supervise(control, report, float(grace_s), argv, isolation)
    _unshare(isolation)
    inner = os.fork()
    if inner:
        os.close(control)
        os.close(report)
        _, status = os.waitpid(inner, 0)
        return os.waitstatus_to_exitcode(status) & 0xFF
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    _mount_own_world()
    return _supervise(control, report, float(grace_s), argv, isolation)


def _isolation() -> str:
    """The strongest kind that this kernel grants, found by trying it in a child."""
    for kind in ("pid-namespace", "user-and-pid-namespace"):
        child = os.fork()
        if child == 0:
            os._exit(_try(kind))
        if os.waitpid(child, 0)[1] == 0:
            return kind
    return "session"


def _try(kind: str) -> int:
    try:
        _unshare(kind)
        inner = os.fork()
        if inner == 0:
            _mount_own_world()
            os._exit(0)
        return 0 if os.waitpid(inner, 0)[1] == 0 else 1
    except OSError:
        return 1


def _unshare(kind: str) -> None:
    uid, gid = os.getuid(), os.getgid()
    flags = _CLONE_NEWPID | _CLONE_NEWNS
    _check(_libc.unshare(flags | (_CLONE_NEWUSER if kind.startswith("user") else 0)))
    if kind.startswith("user"):
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _mount_own_world() -> None:
    _check(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
    _check(_libc.mount(b"proc", b"/proc", b"proc", _MS_NOSUID_NODEV, None))
    _check(_libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", _MS_NOSUID_NODEV, None))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _supervise(control: int, report: int, grace_s: float, argv: list[str], isolation: str) -> int:
    woken = _wake_on_child()
    server = _start(argv, (control, report))
    _tell(report, "started", isolation=isolation)
    watch = _Watch(server, keep_shared_memory=isolation == "session")
    deadline: float | None = None
    while deadline is None or (watch.others() and time.monotonic() < deadline):
        ready, _, _ = select.select([control, woken], [], [], _POLL_S if deadline is None else 0.05)
        if woken in ready:
            os.read(woken, 4096)
        status = watch.reap()
        if status is not None:
            _tell(report, "exited", status=status)
            deadline = time.monotonic() + grace_s
        if control in ready:
            if os.read(control, 1) != b"T":
                break
            if deadline is None:
                os.kill(server, signal.SIGTERM)
    survivors = watch.others()
    status = watch.kill_all()
    if status is not None:
        _tell(report, "exited", status=status)
    removed = watch.remove_shared_memory()
    _tell(report, "done", survivors=survivors, shared_memory_removed=removed)
    return 0


def _wake_on_child() -> int:
    """A descriptor that becomes readable when a child ends; no other signal reaches us."""
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # orders come through CONTROL only
    return woken


def _tell(report: int, event: str, **values: object) -> None:
    with suppress(OSError):  # nobody listens any more; what must be done is done all the same
        os.write(report, json.dumps({"event": event, **values}).encode() + b"\n")


def _start(argv: list[str], not_inherited: tuple[int, ...]) -> int:
    server = os.fork()
    if server:
        return server
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        for descriptor in not_inherited:
            os.close(descriptor)
        os.setsid()
        os.execvpe(argv[0], argv, os.environ)  # noqa: S606 - no shell is the point
    except OSError as error:
        os.write(2, f"cannot start {argv[0]}: {error}\n".encode())
    os._exit(127)


class _Watch:
    """The server's processes: who is left, and what shared memory they mapped."""

    def __init__(self, server: int, *, keep_shared_memory: bool) -> None:
        self._server: int | None = server
        self._look = keep_shared_memory
        self._shared_memory: set[str] = set()

    def reap(self) -> int | None:
        """Collect the dead; the server's own exit status (negative: a signal) the first time."""
        self._note_shared_memory()
        status = None
        while True:
            try:
                pid, raw = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == self._server:
                self._server, status = None, os.waitstatus_to_exitcode(raw)
        return status

    def others(self) -> list[str]:
        """Names of living processes of ours, this one left out."""
        return [_name(pid) for pid in _descendants(os.getpid())]

    def kill_all(self) -> int | None:
        """SIGKILL until nobody is left; the server's exit status if it was still running."""
        status = None
        while pids := _descendants(os.getpid()):
            for pid in pids:
                with suppress(ProcessLookupError):  # it ended by itself just now
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.005)
            ended = self.reap()
            status = ended if status is None else status
        ended = self.reap()
        return ended if status is None else status

    def remove_shared_memory(self) -> list[str]:
        """Delete what our processes had mapped and left behind; the names."""
        removed = []
        for path in sorted(self._shared_memory):
            try:
                os.unlink(path)  # noqa: PTH108 - as lean as the rest of this file
            except OSError:
                continue  # its owner removed it, as it should
            removed.append(path)
        return removed

    def _note_shared_memory(self) -> None:
        if not self._look:
            return  # our own /dev/shm is gone with the namespace
        for pid in _descendants(os.getpid()):
            try:
                maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
            except OSError:
                continue
            self._shared_memory.update(
                line.split(maxsplit=5)[5] for line in maps.splitlines() if " /dev/shm/" in line
            )


def _descendants(root: int) -> list[int]:
    """Living processes below `root`; a zombie is dead."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - names are what is wanted
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text(errors="replace")
            except OSError:
                continue
            state, parent = stat.rpartition(")")[2].split()[:2]
            if state != "Z":
                children.setdefault(int(parent), []).append(int(entry))
    found, queue = [], [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def _name(pid: int) -> str:
    try:
        return f"{pid} {Path(f'/proc/{pid}/comm').read_text().strip()}"
    except OSError:
        return str(pid)


if __name__ == "__main__":
    sys.exit(main())
