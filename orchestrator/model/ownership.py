"""Who started something: the orchestrator's process, told apart from every other one ever."""

from typing import Literal

from orchestrator.model.record import Record

Alive = Literal["alive", "dead", "unknown"]
"""`unknown`: it ran on another machine, or its record says too little."""


class Owner(Record):
    """One orchestrator's process.

    A process id is used again, after a reboot surely: only together with the moment of its start
    and the boot that counted it does it name one process. `None`: the record does not say.
    """

    pid: int
    pid_started_ticks: int | None = None
    """Clock ticks from the boot to the start of the process, field 22 of `/proc/PID/stat`."""

    boot_id: str | None = None
    """`/proc/sys/kernel/random/boot_id`."""

    machine: str | None = None
    """SHA-256 of `/etc/machine-id`, or of the host name where there is none: tells machines apart
    and names none."""
