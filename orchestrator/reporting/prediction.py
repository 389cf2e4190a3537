"""A prediction as text: a line a request, and a picture of its chunks against the grid.

grid      |0         |1600      |3200
A   3196  ###########----------##           0-3196
B#1 3259  ##########*###########            0-1600*  1600-3259
"""

from collections.abc import Iterator, Sequence

from orchestrator.model.prediction import CellPrediction, RequestPrediction, Writer

_PICTURE_COLUMNS = 64
"""Of a whole prompt; what is left of 80 columns beside the label."""

RESTORED, COMPUTED, ALTERNATE, CHECKPOINT, BOUNDARY = ".", "=", "-", "*", "|"
LEGEND = (
    f"{RESTORED} from the cache   {COMPUTED} {ALTERNATE} chunks, in turn   "
    f"{CHECKPOINT} state saved   {BOUNDARY} block boundary"
)

MODULI = (4, 8, 16, 32, 64, 128)
"""Of chunk lengths: whether a kernel's tile decides the outcome can be read off them."""


def describe(
    cell: CellPrediction, lengths: Sequence[int], names: Sequence[str], *, block_tokens: int
) -> Iterator[str]:
    """Every line about one cell.

    Args:
        cell: As predicted.
        lengths: Of each request's prompt, in tokens.
        names: Of each request, such as `A` and `B#1`.
        block_tokens: The grid.
    """
    width = max(map(len, names))
    longest = max(lengths)
    yield f"{'grid':{width}}  {_ruler(longest, block_tokens)}"
    for name, length, request in zip(names, lengths, cell.requests, strict=True):
        yield f"{name:{width}}  {_picture(request, length, longest)}"
        yield from (f"{'':{width}}  {line}" for line in _facts(request, names))
    yield f"{'':{width}}  {LEGEND}"
    yield cell.eligible
    for entry in cell.mixed:
        here = ", ".join(_writer(writer, names) for writer in entry.here)
        there = ", ".join(f"{w.start}-{w.end}" for w in entry.reference) or "no such state"
        yield (
            f"  {names[entry.request]} restores {entry.part} at {entry.position} from {here}; "
            f"B's reference: {there}"
        )


def _ruler(longest: int, block_tokens: int) -> str:
    line = [" "] * _PICTURE_COLUMNS
    for boundary in range(0, longest + 1, block_tokens):
        line[_column(boundary, longest, last=_PICTURE_COLUMNS - 1)] = BOUNDARY
    return "".join(line)


def _picture(request: RequestPrediction, length: int, longest: int) -> str:
    line = [" "] * _PICTURE_COLUMNS
    restored = request.cached_tokens or 0
    _fill(line, 0, restored, longest, RESTORED)
    for number, chunk in enumerate(request.chunks):
        _fill(line, chunk.start, chunk.end, longest, ALTERNATE if number % 2 else COMPUTED)
        if chunk.saves_state:
            line[_column(chunk.end, longest, last=_PICTURE_COLUMNS - 1) - 1] = CHECKPOINT
    return f"{''.join(line).rstrip()} {length}"


def _fill(line: list[str], start: int, end: int, longest: int, sign: str) -> None:
    for column in range(_column(start, longest), _column(end, longest)):
        line[column] = sign


def _column(position: int, longest: int, last: int = _PICTURE_COLUMNS) -> int:
    return min(position * _PICTURE_COLUMNS // longest, last)


def _facts(request: RequestPrediction, names: Sequence[str]) -> Iterator[str]:
    cached = "depends on generated tokens" if request.cached_tokens is None else str(
        request.cached_tokens
    )  # fmt: skip
    chunks = " ".join(
        f"{chunk.start}-{chunk.end}{'*' if chunk.saves_state else ''}" for chunk in request.chunks
    )
    yield f"cached {cached}; chunks {chunks}"
    if request.junction is not None:
        yield f"keys and values without a state up to {request.junction}"
    if request.restored_state is not None:
        blocks = ", ".join(
            "+".join(_writer(writer, names) for writer in block)
            for block in request.restored_blocks
        )
        yield f"restores blocks of {blocks}; state of {_writer(request.restored_state, names)}"


def _writer(writer: Writer, names: Sequence[str]) -> str:
    return f"{names[writer.request]} {writer.start}-{writer.end}"


def moduli(cell: CellPrediction, names: Sequence[str]) -> list[dict[str, int | str]]:
    """The length of every chunk, and its remainder by each of `MODULI`."""
    return [
        {
            "request": name,
            "start": chunk.start,
            "tokens": chunk.end - chunk.start,
            **{f"mod_{modulus}": (chunk.end - chunk.start) % modulus for modulus in MODULI},
        }
        for name, request in zip(names, cell.requests, strict=True)
        for chunk in request.chunks
    ]
