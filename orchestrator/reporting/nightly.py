"""A nightly in one line, for a chat or a mail."""

from collections import Counter

from orchestrator.model.nightly import GRAVITY, EntryResult, Nightly

_LINE_CHARACTERS = 400
"""A chat shows so much without folding it; the page has all of it."""


def counted(nightly: Nightly) -> str:
    """How often each word, the gravest first: `1 regressed, 2 unchanged`."""
    counts = Counter(result.word for result in nightly.results)
    return ", ".join(f"{counts[word]} {word}" for word in GRAVITY if counts[word])


def nightly_line(nightly: Nightly, page: str) -> str:
    """What came of it, the gravest entry with its reason, and where to read on."""
    gravest = min(nightly.results, key=lambda result: GRAVITY.index(result.word))
    told = f"vllm-arms nightly {nightly.name}: {counted(nightly)}"
    if gravest.word != "unchanged":
        told = f"{told}; {_reason(gravest)}"
    if len(told) > _LINE_CHARACTERS:
        told = f"{told[:_LINE_CHARACTERS]}…"
    return f"{told} ({page})"


def _reason(result: EntryResult) -> str:
    start = next(start for start in result.starts if start.word == result.word)
    return f"{result.entry.title}: {' '.join(start.sentence.split())}"
