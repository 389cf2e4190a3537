"""One thing that a run of ours started or wrote, and that may have outlived it."""

from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.model.ownership import Owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """Found, and not touched yet."""

    what: str
    """With the run it belongs to, as a person would look for it."""

    owner: Owner | None
    """`None`: it is ours, and does not say whose, or not so that it can be understood."""

    removal: str
    """What `remove` does, in a few words."""

    remove: Callable[[], None]
    """Raises HostError when it cannot be done."""
