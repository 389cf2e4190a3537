"""What requests leave in the prefix cache, and what the next request finds there.

A block is found by the hash of all tokens up to its end; here the path through a tree of blocks
stands for that hash. Nothing is evicted: a start's planned tokens stay below half of the cache.

Source: `HybridKVCacheCoordinator.find_longest_cache_hit`, `MambaManager.reachable_block_mask`
(v1/core/kv_cache_coordinator.py, single_type_kv_cache_manager.py) and
`BlockHashToBlockMap.get_one_block` (block_pool.py), for one attention and one recurrent type of
cache group with the same block size.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestrator.model.prediction import SchedulerSettings, Writer
from orchestrator.prediction.releases import drops_last_block, lookahead_tokens

_ROOT = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """What a request finds."""

    tokens: int
    """Where it resumes."""

    junction: int | None
    """See `RequestPrediction.junction`."""

    blocks: tuple[tuple[Writer, ...], ...]
    state: Writer | None

    depends_on_output: bool
    """One of its blocks begins like a block that an earlier request finished while generating."""


@dataclass(frozen=True, slots=True)
class _Unknown:
    """A cached block of which only the beginning is known: the rest was generated."""

    parent: int
    beginning: tuple[int, ...]


@dataclass(slots=True)
class PrefixCache:
    """The cache as one salt sees it."""

    settings: SchedulerSettings

    _path: dict[tuple[int, tuple[int, ...]], int] = field(default_factory=dict)
    """A block's node, by the node before it and by its tokens."""

    _keys_and_values: dict[int, tuple[Writer, ...]] = field(default_factory=dict)
    _states: dict[int, Writer] = field(default_factory=dict)
    _unknown: list[_Unknown] = field(default_factory=list)

    _uncertain: set[int] = field(default_factory=set)
    """Nodes at which a state may or may not have been saved."""

    def find(self, prompt: Sequence[int]) -> Hit:
        """The longest prefix whose keys and values are cached and that ends at a saved state."""
        block = self.settings.block_tokens
        blocks = self._blocks(prompt)
        found = 0
        while found < self._searched(len(prompt)) and blocks[found] in self._keys_and_values:
            found += 1
        if drops_last_block(self.settings):
            found = max(found - 1, 0)
        hit = next((i for i in range(found, 0, -1) if blocks[i - 1] in self._states), 0)
        return Hit(
            tokens=hit * block,
            junction=found * block if hit < found and self.settings.rule != "v0.15" else None,
            blocks=tuple(self._keys_and_values[node] for node in blocks[:hit]),
            state=self._states[blocks[hit - 1]] if hit else None,
            depends_on_output=self._may_match_output(prompt, blocks),
        )

    def keep(
        self, prompt: Sequence[int], hit: Hit, writers: Sequence[Writer], saved: Sequence[Writer]
    ) -> None:
        """Enter what a request computed. What is there already stays: it is found first.

        Args:
            prompt: Its token ids.
            hit: What it found.
            writers: Its chunks, in order.
            saved: Those of them at whose end the state was saved.
        """
        block = self.settings.block_tokens
        nodes = self._blocks(prompt)
        for index in range(hit.tokens // block, len(nodes)):
            self._keys_and_values.setdefault(nodes[index], writers_of(index, block, writers))
        for writer in saved:
            self._states.setdefault(nodes[writer.end // block - 1], writer)
        if hit.depends_on_output:  # it may have resumed later, and saved fewer states
            self._uncertain.update(nodes[hit.tokens // block :])

    def keep_generated(self, prompt: Sequence[int], max_tokens: int) -> None:
        """Note that generation finished a block whose tokens are not known beforehand.

        The last generated token is never computed: nothing follows it.
        """
        block = self.settings.block_tokens
        nodes = self._blocks(prompt)
        if (len(prompt) + max_tokens - 1) // block > len(nodes):
            parent = nodes[-1] if nodes else _ROOT
            self._unknown.append(_Unknown(parent, tuple(prompt[len(nodes) * block :])))

    def _searched(self, prompt_tokens: int) -> int:
        """Blocks that are looked up. The last token is always computed anew, for its logits."""
        whole = self.settings.rule == "v0.32" and self.settings.speculative  # drops one anyway
        return (prompt_tokens if whole else prompt_tokens - 1) // self.settings.block_tokens

    def _blocks(self, prompt: Sequence[int]) -> list[int]:
        """The node of each block of a prompt that has a hash."""
        block, ahead = self.settings.block_tokens, lookahead_tokens(self.settings)
        nodes: list[int] = []
        node = _ROOT
        for begin in range(0, (len(prompt) - ahead) // block * block, block):
            step = (node, tuple(prompt[begin : begin + block + ahead]))
            node = self._path.setdefault(step, len(self._path) + 1)
            nodes.append(node)
        return nodes

    def _may_match_output(self, prompt: Sequence[int], blocks: Sequence[int]) -> bool:
        block = self.settings.block_tokens
        searched = self._searched(len(prompt))
        if any(node in self._uncertain for node in blocks[:searched]):
            return True
        for index in range(searched):
            parent = blocks[index - 1] if index else _ROOT
            for unknown in self._unknown:
                known = len(unknown.beginning)
                tokens = tuple(prompt[index * block : index * block + known])
                if unknown.parent == parent and tokens == unknown.beginning:
                    return True
        return False


def writers_of(block: int, block_tokens: int, chunks: Sequence[Writer]) -> tuple[Writer, ...]:
    """Those of a request's chunks that computed a part of a block, counted from 0."""
    begin, end = block * block_tokens, (block + 1) * block_tokens
    return tuple(chunk for chunk in chunks if chunk.start < end and begin < chunk.end)


def retains(
    position: int, prompt_tokens: int, junction: int | None, settings: SchedulerSettings
) -> bool:
    """Whether a state that stands at `position` tokens of a prompt stays in the cache."""
    block, interval = settings.block_tokens, settings.retention_tokens
    if position % block or position + lookahead_tokens(settings) > prompt_tokens:
        return False
    if interval is None or settings.rule == "v0.15":
        return True
    if interval and position % (max(interval // block, 1) * block) == 0:
        return True
    kept = _resumed_at(prompt_tokens, settings)
    if junction is not None and settings.rule != "v0.24":
        kept.add(junction)
    return position in {place // block * block for place in kept}


def _resumed_at(prompt_tokens: int, settings: SchedulerSettings) -> set[int]:
    """Where a later request that repeats or extends the prompt can resume."""
    block = settings.block_tokens
    if settings.speculative and settings.rule in ("v0.30", "v0.32"):
        resent, extended = prompt_tokens - 1, prompt_tokens
        return {resent // block * block - block, extended // block * block - block}
    return {prompt_tokens - 1}
