"""`runs/index.html`, and a nightly's `summary.html`: pages that need nothing but themselves."""

from collections.abc import Sequence
from datetime import datetime

from jinja2 import Environment, PackageLoader, StrictUndefined

from orchestrator.listing import histories
from orchestrator.model.nightly import Nightly, Word
from orchestrator.model.run_entry import Listing, RunEntry
from orchestrator.reporting.nightly import counted

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
    "batch-dependent": "✗",
    "inconclusive": "?", "running": "…",
}  # fmt: skip
"""Beside the colour, which not everybody sees."""

_OTHER_SIGN = "!"
"""It did not get as far as a verdict."""

_TONES = {"✓": "good", "✗": "bad", "?": "open", "…": "open", "!": "lost"}

_NIGHTLY_TONES: dict[Word, str] = {
    "unchanged": "good", "regressed": "bad", "infrastructure failure": "lost",
}  # fmt: skip


def index_page(listing: Listing, nightlies: Sequence[str], *, made_at: datetime) -> str:
    """Every run, with the history of the verdicts by experiment and profile.

    Args:
        listing: What is in `runs/`; the page's links lead there.
        nightlies: Names of the nightlies whose summaries are there, newest first.
        made_at: Stated on the page.
    """
    return _TEMPLATES.get_template("index.html.j2").render(
        histories=histories(listing.runs),
        unreadable=listing.unreadable,
        nightlies=nightlies,
        made_at=made_at,
        sign=_sign,
        tone=lambda run: _TONES[_sign(run)],
    )


def _sign(run: RunEntry) -> str:
    return _SIGNS.get(run.word, _OTHER_SIGN)


def nightly_page(nightly: Nightly) -> str:
    """What came of each entry, and what differs from its baseline.

    Args:
        nightly: The page's links lead from its own folder, `runs/nightly/NAME/`, to its runs.
    """
    return _TEMPLATES.get_template("nightly.html.j2").render(
        nightly=nightly,
        counted=counted(nightly),
        tone=lambda word: _NIGHTLY_TONES.get(word, "open"),
    )
