"""The marks by which a process is told to be ours, and whose it is; what labels are to containers.

They are two environment variables, which every process that a server starts inherits. Their names
do not begin with VLLM_, of which vLLM warns. A vLLM's engine core and workers write their titles
over their environment (`setproctitle`); they are known by where their output goes, the log in the
folder of an arm, whose run says who owns it.
"""

from dataclasses import dataclass
from pathlib import Path

import psutil
from pydantic import ValidationError

from orchestrator.adapters.ownership import this_process
from orchestrator.adapters.run_store import RunStore
from orchestrator.errors import RunFolderError
from orchestrator.model.ownership import Owner

_OWNER, _FOLDER = "ARMS_OWNER", "ARMS_FOLDER"
_LOG = "server.log"


@dataclass(frozen=True, slots=True)
class Marks:
    """What a process of ours says about where it belongs."""

    owner: Owner | None
    """`None`: it cannot be understood."""

    folder: str
    """The arm's folder."""


def marks(folder: Path) -> dict[str, str]:
    """The variables of a server that belongs to us and to an arm's folder."""
    return {_OWNER: this_process().model_dump_json(), _FOLDER: str(folder.absolute())}


def read_marks(process: psutil.Process) -> Marks | None:
    """Read back what `marks` wrote, or what its output tells; `None`: not ours, or not readable."""
    try:
        variables = process.environ()
    except (psutil.Error, OSError):  # another user's, or it ended just now
        return None
    if _OWNER not in variables:
        return _by_its_output(process)
    try:
        owner = Owner.from_json(variables[_OWNER])
    except ValidationError:
        owner = None
    return Marks(owner, variables.get(_FOLDER, ""))


def _by_its_output(process: psutil.Process) -> Marks | None:
    try:
        log = Path(f"/proc/{process.pid}/fd/1").readlink()
        if log.name != _LOG or log.parent.parent.name != "arms":
            return None
        owner = RunStore.open(log.parents[2]).start().owner
    except (OSError, RunFolderError):  # it ended just now, or that is no run's folder
        return None
    return Marks(owner, str(log.parent))
