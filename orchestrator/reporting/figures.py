"""Numbers and command lines as text, the same in every report."""

import shlex
from collections.abc import Mapping, Sequence

from orchestrator.model.secrets import without_secrets
from orchestrator.pricing import Price

PRICES = (
    "Prefill times of B by the server's own histogram, medians of repeats. A price is a ratio of"
    " times to {}'s, paired: above 1 takes longer, below 1 is faster; in brackets the interval of"
    " the median over repeats. Two starts differ by chance too, which it does not cover."
)
"""What the table of prices says of itself; of the control's name."""

ABSENT = "–"
"""What was not measured: never a zero."""


def milliseconds(seconds: float | None) -> str:
    """Seconds as `12.3 ms`."""
    return ABSENT if seconds is None else f"{1000 * seconds:.1f} ms"


def ratio(value: float | None) -> str:
    """With two decimals."""
    return ABSENT if value is None else f"{value:.2f}"


def later_ratio(price: Price) -> str:
    """A price with its interval: `1.47 (1.44 to 1.50)`."""
    told = ratio(price.later_ratio)
    if price.later_interval is None:
        return told
    return f"{told} ({price.later_interval.low:.2f} to {price.later_interval.high:.2f})"


def launch_command(environment: Mapping[str, str], argv: Sequence[str]) -> str:
    """One line for a shell that sets the variables, and one that starts the server."""
    shown = without_secrets(environment)
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in shown.items())
    return f"{settings} \\\n  {shlex.join(argv)}"
