"""`vllm-arms reap`: what killed runs left behind, removed where it is certain that it is left."""

from collections.abc import Iterable
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from rich.text import Text

from orchestrator.adapters.docker_engine import docker_engine
from orchestrator.adapters.gpu_holders import gpu_holders
from orchestrator.adapters.leftovers.containers import left_containers
from orchestrator.adapters.leftovers.leftover import Leftover
from orchestrator.adapters.leftovers.processes import left_processes
from orchestrator.adapters.leftovers.runs import left_runs
from orchestrator.adapters.ownership import alive
from orchestrator.cli.progress import terminal
from orchestrator.errors import HostError
from orchestrator.model.ownership import Owner


def reap(project: Path, *, dry_run: bool) -> int:
    """Remove what belongs to dead orchestrators, and say of everything what was done and why.

    Returns:
        0, or 4 when something that belongs to a dead orchestrator could not be removed.
    """
    console = terminal()

    def say(done: str, what: str, why: str) -> None:
        console.print(Text(f"{done}: {what}: {why}"), soft_wrap=True)

    exit_code = 0
    with ExitStack() as connected:
        try:
            client = connected.enter_context(docker_engine())
            containers = left_containers(client)
        except HostError as error:
            say("not looked at", "containers", str(error))
            client, containers = None, ()
        for left in chain(containers, left_processes(), left_runs(project / "runs")):
            done, why = _done(left, dry_run=dry_run)
            say(done, left.what, why)
            if done == "failed":
                exit_code = HostError.exit_code
        for holder in gpu_holders(client) or ():
            if not holder.ours:
                say("left", holder.told, "not ours")
    return exit_code


def _done(left: Leftover, *, dry_run: bool) -> tuple[str, str]:
    dead, why = owned_by_a_dead_one(left.owner)
    if not dead:
        return "left", why
    if dry_run:
        return "would remove", f"{why}; to be done: {left.removal}"
    try:
        left.remove()
    except HostError as error:
        return "failed", f"{why}; {error}"
    return "removed", f"{why}; {left.removal}"


def owned_by_a_dead_one(owner: Owner | None) -> tuple[bool, str]:
    """Whether an owner is certainly dead, and the sentence that says so or why not."""
    if owner is None:
        return False, "it does not say whose it is"
    match alive(owner):
        case "dead":
            return True, f"its orchestrator, process {owner.pid}, is dead"
        case "alive":
            return False, f"its orchestrator, process {owner.pid}, is alive"
        case "unknown":
            return False, (
                f"its orchestrator, process {owner.pid}, ran on another machine, or its record"
                " says too little"
            )


def certainly_left(leftovers: Iterable[Leftover]) -> list[str]:
    """What of these `reap` would remove."""
    return [left.what for left in leftovers if owned_by_a_dead_one(left.owner)[0]]
