"""`runs/index.html`: every run, with the history of the verdicts by experiment and profile."""

from collections.abc import Sequence
from datetime import datetime

from jinja2 import Environment, PackageLoader, StrictUndefined

from orchestrator.listing import histories
from orchestrator.model.run_entry import Listing, RunEntry

_TEMPLATES = Environment(
    loader=PackageLoader("orchestrator.reporting", "templates"),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=True,
)

_SIGNS = {
    "as expected": "✓", "not seen": "✓", "not as expected": "✗", "affected": "✗",
    "inconclusive": "?", "running": "…",
}  # fmt: skip
"""Beside the colour, which not everybody sees."""

_OTHER_SIGN = "!"
"""It did not get as far as a verdict."""


def index_page(listing: Listing, nightlies: Sequence[str], *, made_at: datetime) -> str:
    """The page as HTML that needs nothing but itself; its links lead into `runs/`.

    Args:
        listing: What is in the folder.
        nightlies: Names of the nightlies whose summaries are there, newest first.
        made_at: Stated on the page.
    """
    return _TEMPLATES.get_template("index.html.j2").render(
        histories=histories(listing.runs),
        unreadable=listing.unreadable,
        nightlies=nightlies,
        made_at=made_at,
        sign=_sign,
        tone=_tone,
    )


def _sign(run: RunEntry) -> str:
    return _SIGNS.get(run.word, _OTHER_SIGN)


def _tone(run: RunEntry) -> str:
    """The class that colours it."""
    return {"✓": "good", "✗": "bad", "?": "open", "…": "open"}.get(_sign(run), "lost")
