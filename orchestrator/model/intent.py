"""What an arm asked its server for, beside what the server then said about itself."""

from typing import Literal

from orchestrator.model.record import Record

Value = int | str

Setting = Literal[
    "prefix caching",
    "mamba cache mode",
    "block size",
    "attention backend",
    "speculative method",
    "speculative tokens",
    "retention interval",
    "eager",
    "graph mode",
    "max model length",
    "token budget",
    "kv cache dtype",
]
"""Lengths, sizes and intervals are in tokens; what is switched is `on` or `off`."""

Source = Literal["log", "metrics", "server_info"]
"""`metrics` and `server_info` are the API server's copy of the configuration; what only the
engine's own processes changed stands in the log alone."""

Agreement = Literal["agrees", "contradicts", "not said", "left to the engine"]
"""`not said`: something was asked for, and no source tells what became of it; never equality."""


class Sighting(Record):
    """What one source says."""

    source: Source
    value: Value


class IntentRow(Record):
    """One setting of one arm."""

    setting: Setting

    asked: Value | None
    """`None`: nothing was asked for. `auto`: the choice was given away in so many words."""

    seen: tuple[Sighting, ...]
    """Every source that says something; one that does not is absent."""

    agreement: Agreement
    """`contradicts` as soon as one source does, whatever the others say."""
