"""Who started something, and whether it is still there."""

import os
import signal
import subprocess
import sys

from orchestrator.adapters.ownership import alive, this_process
from orchestrator.model.host import RunStart
from orchestrator.model.ownership import Owner

TELL = """
import sys, time
from orchestrator.adapters.ownership import this_process
print(this_process().model_dump_json(), flush=True)
time.sleep(60)
"""


def _changed(owner: Owner, **values: object) -> Owner:
    return Owner.model_validate(owner.model_dump() | values)


def test_this_process_is_alive() -> None:
    """We run, therefore we are."""
    assert alive(this_process()) == "alive"


def test_a_killed_process_is_dead_even_before_it_is_collected() -> None:
    """A zombie still has a process id and a start; it owns nothing any more."""
    with subprocess.Popen([sys.executable, "-c", TELL], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        owner = Owner.model_validate_json(child.stdout.readline())
        assert owner.pid == child.pid
        assert alive(owner) == "alive"
        child.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert alive(owner) == "dead"
    assert alive(owner) == "dead"


def test_a_process_id_that_is_used_again_is_not_the_owner() -> None:
    """Only the moment of its start tells two processes of one id apart."""
    ticks = this_process().pid_started_ticks
    assert ticks is not None
    assert alive(_changed(this_process(), pid_started_ticks=ticks - 1)) == "dead"


def test_a_reboot_ends_every_owner() -> None:
    """The same id and the same ticks, counted by another boot."""
    assert alive(_changed(this_process(), boot_id="another")) == "dead"


def test_an_owner_on_another_machine_is_never_judged_from_here() -> None:
    """Its boot id is another one, too, and that does not make it dead."""
    there = _changed(this_process(), machine="another", boot_id="another")
    assert alive(there) == "unknown"


def test_a_run_of_the_first_version_has_an_owner_of_whom_nothing_is_known() -> None:
    """It told the process id alone, which names nobody."""
    old = """{"started_at":"2026-11-30T00:00:00Z","command":["vllm-arms"],"owner_pid":7,
    "host":{"vllm_arms_version":"0.1.0","commit":null,"uncommitted_changes":null,"python":"3.11",
    "kernel":"6","architecture":"x86_64","cpu":null,"cpus":2,"memory_bytes":1},
    "state":{"memory_available_bytes":1,"swap_free_bytes":0,"shared_memory_files":0}}"""
    owner = RunStart.model_validate_json(old).owner
    assert owner == Owner(pid=7)
    assert alive(owner) == "unknown"
