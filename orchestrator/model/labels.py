"""The labels by which a container is told to be ours, and whose it is."""

from collections.abc import Mapping
from typing import Literal

from pydantic import ValidationError

from orchestrator.model.ownership import Owner
from orchestrator.model.record import Record

RUN, ARM, FOLDER, OWNER, ROLE = (
    f"vllm-arms.{key}" for key in ("run", "arm", "folder", "owner", "role")
)
"""`OWNER` is on every container of ours and on no other: what is looked for."""

Role = Literal["server", "look"]
"""`look`: reads something of an image, without network, and ends by itself."""


class ContainerLabels(Record):
    """What a container of ours says about where it belongs."""

    role: Role
    owner: Owner

    run: str | None = None
    """`EXPERIMENT/TIME-HASH`, the end of its folder. `None`: of no run, as with `plan`."""

    arm: str | None = None

    folder: str | None = None
    """The arm's folder on the owner's machine: where log and inspection belong."""


def as_labels(labels: ContainerLabels) -> dict[str, str]:
    """As the engine takes them; what is `None` is absent."""
    told = {RUN: labels.run, ARM: labels.arm, FOLDER: labels.folder, ROLE: labels.role}
    present = {key: value for key, value in told.items() if value is not None}
    return {**present, OWNER: labels.owner.model_dump_json()}


def read_labels(labels: Mapping[str, str]) -> ContainerLabels | None:
    """Read back what `as_labels` wrote; `None`: not ours, or not to be understood."""
    if OWNER not in labels:
        return None
    values = {
        "role": labels.get(ROLE, "server"),
        "run": labels.get(RUN),
        "arm": labels.get(ARM),
        "folder": labels.get(FOLDER),
    }
    try:
        return ContainerLabels.model_validate({**values, "owner": Owner.from_json(labels[OWNER])})
    except ValidationError:
        return None
