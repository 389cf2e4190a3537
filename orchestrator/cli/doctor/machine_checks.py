"""Checks of the machine: processor and libraries, memory, disk, ports, what runs on it."""

import shutil
from itertools import chain

import psutil

from orchestrator.adapters import nvidia_smi
from orchestrator.adapters.engine_place import engine_place
from orchestrator.adapters.engine_preparation import default_cache
from orchestrator.adapters.engine_recipe import load_recipe
from orchestrator.adapters.gpu_holders import gpu_holders
from orchestrator.adapters.leftovers.containers import left_containers
from orchestrator.adapters.leftovers.processes import left_processes
from orchestrator.adapters.leftovers.runs import left_runs
from orchestrator.adapters.machine_check import check_can_run, read_machine
from orchestrator.adapters.process_server import free_port
from orchestrator.cli.doctor.asked import Asked
from orchestrator.cli.reaping import certainly_left
from orchestrator.errors import HostError
from orchestrator.model.check import Check, cannot_say, failed, ok
from orchestrator.model.profile import DockerProfile, PreparedInterpreter, ProcessProfile

_DISK_BYTES = 2**30
"""The smallest run takes 2 MB (`three-arm --quick` on the miniature). The rest is for servers that
fill their logs: a disk that is full ends a run."""


def machine(asked: Asked) -> Check:
    """Processor, system, programs and libraries that a prepared engine needs."""
    name = "machine"
    profile = asked.profile
    if not isinstance(profile, ProcessProfile) or not isinstance(
        profile.interpreter, PreparedInterpreter
    ):
        return ok(name, "the profile's engine states no needs of its own")
    recipe = load_recipe(asked.definitions.engines_dir / profile.interpreter.recipe)
    try:
        check_can_run(read_machine(recipe.needs, default_cache()), recipe.needs)
    except HostError as error:
        return failed(name, str(error))
    return ok(name, "processor, system, programs and libraries are what the engine needs")


def memory(asked: Asked) -> Check:
    """Room for a server, above the floor at which it would be killed."""
    name = "memory"
    if _elsewhere(asked):
        return cannot_say(name, "the server's machine is another one", "run doctor there")
    limits = asked.profile.host
    available = psutil.virtual_memory().available
    told = f"{_gib(available)} available"
    if limits.memory_needed_bytes is None:
        return cannot_say(
            name,
            f"{told}; what a start takes is not declared",
            "measure it (memory.jsonl of a run) and set host.memory_needed_bytes",
        )
    wanted = limits.memory_needed_bytes + (limits.memory_floor_bytes or 0)
    if available < wanted:
        return failed(name, f"{told}, {_gib(wanted)} needed", "end other programs")
    return ok(name, f"{told}, {_gib(wanted)} needed")


def disk(asked: Asked) -> Check:
    """Room for the run's folder."""
    free = shutil.disk_usage(asked.project).free
    told = f"{_gib(free)} free for runs/"
    if free < _DISK_BYTES:
        return failed("disk", f"{told}, {_gib(_DISK_BYTES)} wanted", "make room")
    return ok("disk", told)


def port(_: Asked) -> Check:
    """A port that a server can be given."""
    try:
        found = free_port()
    except HostError as error:
        return failed("port", str(error), "`ss -ltnp` lists what listens there")
    return ok("port", f"{found} on 127.0.0.1 is free, and so can others be")


def leftovers(asked: Asked) -> Check:
    """Nothing that a killed run of ours left behind."""
    name = "leftovers"
    if asked.client is None and isinstance(asked.profile, DockerProfile):
        return cannot_say(name, "no Docker Engine answers, so containers were not looked for")
    try:
        containers = () if asked.client is None else left_containers(asked.client)
        left = certainly_left(
            chain(containers, left_processes(), left_runs(asked.project / "runs"))
        )
    except HostError as error:
        return cannot_say(name, str(error))
    if left:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        return failed(name, f"{left[0]}{more}: of killed runs", "vllm-arms reap")
    return ok(name, "no killed run left anything")


def rivals(asked: Asked) -> Check:
    """Nobody holds a GPU, ourselves in another run included."""
    name = "rivals"
    if _elsewhere(asked):
        return cannot_say(name, "the server's machine is another one", "run doctor there")
    holders = gpu_holders(asked.client)
    if holders is None and nvidia_smi.is_here():
        return cannot_say(name, "nvidia-smi fails", "run it, and repair the driver")
    if holders is None:
        return ok(name, "no NVIDIA GPU is here that anybody could hold")
    if holders:
        told = "; ".join(
            f"{holder.told}{', a server of ours' if holder.ours else ''}" for holder in holders
        )
        return failed(name, told, "end them, or wait: two servers on a GPU change each other")
    return ok(name, "nobody holds a GPU")


def _elsewhere(asked: Asked) -> bool:
    """Whether the server would be on another machine than this one, whose readings say nothing."""
    return isinstance(asked.profile, DockerProfile) and engine_place() is not None


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GiB"
