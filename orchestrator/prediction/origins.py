"""Whether a cell restores anything that B's reference cell computed in other chunks.

The value of a key, of a state, depends on the bounds of the chunk that computed it and on the
state that chunk started from. So what is compared is a history: the bounds of the chunk, and of
every chunk that its starting state went through. Parts of equal history were computed by the same
operations on the same shapes. (A chunk also reads the keys and values before it. Where those are
of another origin, they are restored together with what it wrote, and show there.)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestrator.model.prediction import (
    CellPrediction,
    Eligibility,
    MixedOrigin,
    RequestPrediction,
    SchedulerSettings,
    Writer,
)
from orchestrator.prediction.caching import writers_of
from orchestrator.prediction.cells import predict_cell

_Chunk = tuple[int, int, int]
"""Start, end, and the history of the state it started from."""

_Histories = tuple[int, ...]
"""Of the chunks that computed one block's keys and values."""

_COLD = 0
"""History of the state before the first token."""


def compare_with_reference(
    requests: Sequence[Sequence[int]],
    b: Sequence[int],
    settings: SchedulerSettings,
    *,
    max_tokens: int,
) -> CellPrediction:
    """Predict a cell and set it against as many repeats of B alone.

    Args:
        requests: Token ids of each prompt of the cell; those equal to `b` are its repeats.
        b: Token ids of B.
        settings: Of the server.
        max_tokens: Tokens that each request generates.

    Raises:
        DefinitionError: As `predict_cell`.
    """
    repeats = [index for index, prompt in enumerate(requests) if tuple(prompt) == tuple(b)]
    cell = predict_cell(requests, settings, max_tokens=max_tokens)
    reference = predict_cell([b] * len(repeats), settings, max_tokens=max_tokens)
    mixed = mixed_origins(cell, reference, repeats=repeats, block_tokens=settings.block_tokens)
    return CellPrediction(
        requests=cell, eligible=eligibility(cell, mixed, repeats=repeats), mixed=mixed
    )


def eligibility(
    cell: Sequence[RequestPrediction], mixed: Sequence[MixedOrigin], *, repeats: Sequence[int]
) -> Eligibility:
    """What is said of a cell; undetermined where a repeat depends on generated tokens."""
    if any(cell[index].cached_tokens is None for index in repeats):
        return "undetermined"
    return "eligible" if mixed else "not eligible"


def mixed_origins(
    cell: Sequence[RequestPrediction],
    reference: Sequence[RequestPrediction],
    *,
    repeats: Sequence[int],
    block_tokens: int,
) -> tuple[MixedOrigin, ...]:
    """Every restored block and state of the repeats that the reference computed otherwise.

    Args:
        cell: The cell, predicted by us or replayed by the engine; nothing in it restores what was
            generated.
        reference: B alone, as often as it is repeated.
        repeats: Which requests of the cell are B.
        block_tokens: The grid.
    """
    names: dict[_Chunk, int] = {}
    ours, theirs = _Cell(names, block_tokens), _Cell(names, block_tokens)
    for request in reference:
        theirs.add(request)
    for request in cell:
        ours.add(request)
    found: list[MixedOrigin] = []
    for index in repeats:
        found += _mixed_blocks(index, cell[index], ours, theirs)
        found += _mixed_state(index, cell[index], ours, theirs)
    return tuple(found)


def _mixed_blocks(
    index: int, request: RequestPrediction, ours: "_Cell", theirs: "_Cell"
) -> list[MixedOrigin]:
    return [
        MixedOrigin(
            request=index,
            part="keys and values",
            position=(block + 1) * ours.block_tokens,
            here=writers,
            reference=next(iter(theirs.blocks[block].values())),
        )
        for block, writers in enumerate(request.restored_blocks)
        if ours.of_block(writers) not in theirs.blocks[block]
    ]


def _mixed_state(
    index: int, request: RequestPrediction, ours: "_Cell", theirs: "_Cell"
) -> list[MixedOrigin]:
    state = request.restored_state
    if state is None:
        return []
    there = theirs.states.get(state.end, {})
    if ours.of_chunk(state) in there:
        return []
    return [
        MixedOrigin(
            request=index,
            part="state",
            position=state.end,
            here=(state,),
            reference=tuple(there.values())[:1],
        )
    ]


@dataclass(slots=True)
class _Cell:
    """The history of everything that the requests of one cell computed or restored."""

    names: dict[_Chunk, int]
    """Shared by the two cells: equal number, equal history."""

    block_tokens: int
    blocks: dict[int, dict[_Histories, tuple[Writer, ...]]] = field(default_factory=dict)
    """By block, then history: who computed it; the first request's comes first."""

    states: dict[int, dict[int, Writer]] = field(default_factory=dict)
    """By position in tokens, then history: the chunk that ended there."""

    _chunks: dict[tuple[int, int], int] = field(default_factory=dict)
    """History of a chunk, by request and start."""

    _requests: int = 0

    def add(self, request: RequestPrediction) -> None:
        """Follow one request from what it restores to its last chunk."""
        state = _COLD if request.restored_state is None else self.of_chunk(request.restored_state)
        own: list[Writer] = []
        for chunk in request.chunks:
            key = (chunk.start, chunk.end, state)
            state = self.names.setdefault(key, len(self.names) + 1)
            own.append(Writer(request=self._requests, start=chunk.start, end=chunk.end))
            self._chunks[self._requests, chunk.start] = state
            self.states.setdefault(chunk.end, {}).setdefault(state, own[-1])
        self._requests += 1
        self._enter_blocks(request.restored_blocks, own)

    def of_chunk(self, writer: Writer) -> int:
        """History of a chunk, and so of the state at its end."""
        return self._chunks[writer.request, writer.start]

    def of_block(self, writers: Sequence[Writer]) -> _Histories:
        """History of a block's keys and values."""
        return tuple(self.of_chunk(writer) for writer in writers)

    def _enter_blocks(self, restored: Sequence[tuple[Writer, ...]], own: Sequence[Writer]) -> None:
        full = own[-1].end // self.block_tokens
        computed = [
            writers_of(block, self.block_tokens, own) for block in range(len(restored), full)
        ]
        for block, writers in enumerate([*restored, *computed]):
            self.blocks.setdefault(block, {}).setdefault(self.of_block(writers), writers)
