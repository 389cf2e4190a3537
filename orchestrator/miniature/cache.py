"""The prefix cache: blocks, who finds them again, and which one has to go.

One pool serves both kinds of content, as in vLLM: a block holds the keys and values of
`block_size` tokens, or the recurrent state after a whole number of such blocks. A block that
nobody uses stays findable until its place is needed; the one released first goes first.

Sources: vLLM 0.29.0, v1/core/block_pool.py, kv_cache_utils.py (`hash_block_tokens`),
kv_cache_coordinator.py (`HybridKVCacheCoordinator.find_longest_cache_hit`).
"""

import hashlib
import struct
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from .arithmetic import FloatArray

Kind = Literal["keys-values", "state"]


class Key(NamedTuple):
    """What a block is found by."""

    kind: Kind
    prefix_hash: bytes
    """Of every token up to the block's end, and of the salt."""


class Writing(NamedTuple):
    """A chunk that wrote into a block."""

    request: str
    start: int
    end: int


@dataclass(eq=False, slots=True)
class Block:
    """A place in the pool."""

    content: FloatArray | None = None
    key: Key | None = None
    """None: not findable."""

    users: int = 0
    writings: list[Writing] = field(default_factory=list)


def extend_hashes(
    hashes: list[bytes], tokens: Sequence[int], block_size: int, salt: str | None
) -> None:
    """Append the hashes of the blocks that `tokens` fill and `hashes` lacks.

    Each hash covers the one before it, so equal hashes mean equal prefixes. The salt enters the
    first block, and through it all others.
    """
    for index in range(len(hashes), len(tokens) // block_size):
        digest = hashlib.sha256(hashes[-1] if hashes else (salt or "").encode())
        block = tokens[index * block_size : (index + 1) * block_size]
        digest.update(struct.pack(f"<{block_size}q", *block))
        hashes.append(digest.digest())


class Cache:
    """A fixed number of blocks, with an index over those that are filled."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._unused = count
        self._idle: OrderedDict[int, Block] = OrderedDict()
        self._index: dict[Key, list[Block]] = {}

    @property
    def free(self) -> int:
        """Blocks that `take` can give, findable ones included."""
        return self._unused + len(self._idle)

    @property
    def usage(self) -> float:
        """Share of the blocks that requests hold, from 0 to 1."""
        return 1 - self.free / self.count

    def take(self, count: int) -> list[Block]:
        """Give blocks to a request; the caller has looked at `free`."""
        return [self._take_one() for _ in range(count)]

    def release(self, blocks: Iterable[Block]) -> None:
        """Give blocks back, the next to be evicted first."""
        for block in blocks:
            block.users -= 1
            if block.users == 0:
                self._idle[id(block)] = block

    def offer(self, key: Key, block: Block) -> None:
        """Make a filled block findable.

        The first writer wins: a later block of the same key is found only after the earlier ones
        are evicted. Nobody compares their contents.
        """
        if block.key is None:
            block.key = key
            self._index.setdefault(key, []).append(block)

    def find(self, key: Key) -> Block | None:
        """The first block that was offered under this key."""
        return self._index[key][0] if key in self._index else None

    def hold(self, block: Block) -> None:
        """Keep a found block from being evicted until it is released."""
        self._idle.pop(id(block), None)
        block.users += 1

    def evict_idle(self) -> None:
        """Forget every block that no request holds."""
        for block in self._idle.values():
            self._unlist(block)

    def _take_one(self) -> Block:
        if self._unused:
            self._unused -= 1
            return Block(users=1)
        _, block = self._idle.popitem(last=False)
        self._unlist(block)
        block.users, block.content, block.writings = 1, None, []
        return block

    def _unlist(self, block: Block) -> None:
        if block.key is None:
            return
        self._index[block.key].remove(block)
        if not self._index[block.key]:
            del self._index[block.key]
        block.key = None


@dataclass(frozen=True, slots=True)
class Hit:
    """What a request finds of its prompt."""

    tokens: int
    """Restored; a multiple of the block."""

    blocks: tuple[Block, ...] = ()
    state: Block | None = None
    """After exactly `tokens` tokens; None without a hit."""

    junction: int = 0
    """Keys and values reach further, up to here, but no state does: the prefill will stop here
    and save one, because others share this prefix, too. 0 for none."""


def longest_hit(
    cache: Cache, hashes: Sequence[bytes], block_size: int, *, limit: int, drop_last: bool
) -> Hit:
    """Find the longest prefix of which both keys and values and a state are there.

    Args:
        cache: Looked at, not changed.
        hashes: Of the prompt's blocks.
        block_size: In tokens.
        limit: Most tokens to restore; one less than there are, since the last one must be
            computed to have logits.
        drop_last: With drafts: the last matching block is given up, because the draft head's
            keys and values of a block need the first token after it.
    """
    blocks: list[Block] = []
    for prefix_hash in hashes[: limit // block_size]:
        block = cache.find(Key("keys-values", prefix_hash))
        if block is None:
            break
        blocks.append(block)
    if drop_last and blocks:
        blocks.pop()
    for count in range(len(blocks), 0, -1):
        state = cache.find(Key("state", hashes[count - 1]))
        if state is not None:
            break
    else:
        count, state = 0, None
    return Hit(
        tokens=count * block_size,
        blocks=tuple(blocks[:count]),
        state=state,
        junction=len(blocks) * block_size if count < len(blocks) else 0,
    )
