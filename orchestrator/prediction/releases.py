"""A vLLM version → the scheduler's rule that it follows."""

import re

from orchestrator.model.prediction import Rule

_SINCE: tuple[tuple[int, Rule], ...] = (
    (33, "v0.33"),
    (32, "v0.32"),
    (30, "v0.30"),
    (27, "v0.27"),
    (26, "v0.26"),
    (24, "v0.24"),
    (15, "v0.15"),
)
"""First minor release of each rule, the newest first."""

_NEWEST_READ = 33
"""A later release may follow another rule; nothing is predicted for it."""


def rule_of(version: str) -> Rule | None:
    """The rule of a release; `None` where no rule of ours was checked against its source.

    A build between releases (`0.1.dev20073+g8e685d198`) says nothing about its source.
    """
    match = re.fullmatch(r"0\.(\d+)\.\d+(\.post\d+)?(\+\w+)?", version)
    if match is None or int(match[1]) > _NEWEST_READ:
        return None
    return next((rule for minor, rule in _SINCE if int(match[1]) >= minor), None)
