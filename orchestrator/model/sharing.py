"""What goes along with a comment on an upstream issue or pull request."""

from orchestrator.model.plan import Role
from orchestrator.model.record import Record


class Found(Record):
    """What the run found in a cell."""

    letters: str
    """`AAA | BBBB | AAA`: reference before, measured, reference after."""

    cached_tokens: tuple[int | None, ...]
    """Of B's repeats."""

    digests: tuple[str, ...]
    """Of B's repeats, token-id order, scheme d1."""


class RepeatableCell(Record):
    """One cell, whole: what `adapters/standalone/repeat_cell.py` is filled with."""

    run: str
    engine: str
    arm: str
    cell: str
    launch: str
    """The command of the start it was measured on."""

    block_size_tokens: int
    max_tokens: int
    top_logprobs: int
    request_timeout_s: float
    reference_repeats: int
    sequence: tuple[Role, ...]
    """Of the measured cell's requests."""
    prompts: dict[str, tuple[int, ...]]
    """By role, as token ids."""

    found: Found


class Attachments(Record):
    """Where a reader of the comment finds what it rests on; `None`: not given."""

    raw_data: str | None = None
    """An address."""

    bundle: str | None = None
    """Name of the archive of raw data."""

    bundle_sha256: str | None = None
    repro: str | None = None
    """Name of the program that repeats one cell."""
