"""Numbers and command lines as text, the same in every report."""

import shlex
from collections.abc import Mapping, Sequence

from orchestrator.model.secrets import without_secrets

ABSENT = "–"
"""What was not measured: never a zero."""


def milliseconds(seconds: float | None) -> str:
    """Seconds as `12.3 ms`."""
    return ABSENT if seconds is None else f"{1000 * seconds:.1f} ms"


def ratio(value: float | None) -> str:
    """With two decimals."""
    return ABSENT if value is None else f"{value:.2f}"


def launch_command(environment: Mapping[str, str], argv: Sequence[str]) -> str:
    """One line for a shell that sets the variables, and one that starts the server."""
    shown = without_secrets(environment)
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in shown.items())
    return f"{settings} \\\n  {shlex.join(argv)}"
