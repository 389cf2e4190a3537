"""The marks by which a process is told to be ours, and whose it is; what labels are to containers.

They are two environment variables: every process that a server starts inherits them, and they
can be read for as long as it lives. Their names do not begin with VLLM_, of which vLLM warns.
"""

from dataclasses import dataclass
from pathlib import Path

import psutil
from pydantic import ValidationError

from orchestrator.adapters.ownership import this_process
from orchestrator.model.ownership import Owner

_OWNER, _FOLDER = "ARMS_OWNER", "ARMS_FOLDER"


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
    """Read back what `marks` wrote; `None`: not ours, or not to be read."""
    try:
        variables = process.environ()
    except (psutil.Error, OSError):  # another user's, or it ended just now
        return None
    if _OWNER not in variables:
        return None
    try:
        owner = Owner.from_json(variables[_OWNER])
    except ValidationError:
        owner = None
    return Marks(owner, variables.get(_FOLDER, ""))
