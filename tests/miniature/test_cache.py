"""Who finds what again, and who has to go."""

import numpy as np

from orchestrator.miniature.cache import Block, Cache, Key, Kind, extend_hashes, longest_hit

BLOCK = 4


def hashes(tokens: list[int], salt: str | None = None) -> list[bytes]:
    """Of every full block."""
    result: list[bytes] = []
    extend_hashes(result, tokens, BLOCK, salt)
    return result


def fill(cache: Cache, kind: Kind, prefix_hash: bytes) -> Block:
    """Have a block written, offered, and given back."""
    (block,) = cache.take(1)
    block.content = np.zeros(1, np.float32)
    cache.offer(Key(kind, prefix_hash), block)
    cache.release([block])
    return block


def test_a_hash_covers_everything_before_it() -> None:
    """Equal blocks behind different ones are different blocks."""
    one, other = hashes([1, 2, 3, 4, 5, 6, 7, 8]), hashes([9, 2, 3, 4, 5, 6, 7, 8])

    assert len(one) == 2
    assert one[1] != other[1]


def test_the_salt_separates_from_the_first_block_on() -> None:
    """And a partly filled block has no hash at all."""
    plain, salted = hashes([1, 2, 3, 4, 5]), hashes([1, 2, 3, 4, 5], "salt")

    assert len(plain) == 1
    assert plain != salted


def test_the_first_writer_of_a_block_wins() -> None:
    """A second block of the same prefix is found only when the first one is gone."""
    cache = Cache(2)
    key = Key("keys-values", hashes([1, 2, 3, 4])[0])
    first, second = fill(cache, *key), fill(cache, *key)

    assert cache.find(key) is first
    cache.take(1)  # evicts the one released first
    assert cache.find(key) is second


def test_the_block_released_first_is_evicted_first() -> None:
    """Unless somebody holds it."""
    cache = Cache(3)
    keys = [Key("keys-values", prefix_hash) for prefix_hash in hashes(list(range(12)))]
    blocks = [fill(cache, *key) for key in keys]
    cache.hold(blocks[0])

    cache.take(1)

    assert [cache.find(key) is not None for key in keys] == [True, False, True]
    assert cache.free == 1


def prompt_in_cache(*, states: set[int]) -> tuple[Cache, list[bytes]]:
    """A cache with keys and values of three blocks, and states after some of them."""
    cache, prefix_hashes = Cache(8), hashes(list(range(16)))
    for count, prefix_hash in enumerate(prefix_hashes[:3], start=1):
        fill(cache, "keys-values", prefix_hash)
        if count in states:
            fill(cache, "state", prefix_hash)
    return cache, prefix_hashes


def test_a_hit_needs_keys_and_values_and_a_state() -> None:
    """It reaches to the last boundary that has both; what only keys and values have is told."""
    cache, prefix_hashes = prompt_in_cache(states={1})

    hit = longest_hit(cache, prefix_hashes, BLOCK, limit=15, drop_last=False)

    assert (hit.tokens, len(hit.blocks), hit.junction) == (BLOCK, 1, 3 * BLOCK)
    assert hit.state is not None


def test_with_drafts_the_last_matching_block_is_given_up() -> None:
    """Also when a state is there."""
    cache, prefix_hashes = prompt_in_cache(states={2, 3})

    hit = longest_hit(cache, prefix_hashes, BLOCK, limit=15, drop_last=True)

    assert (hit.tokens, hit.junction) == (2 * BLOCK, 0)


def test_the_last_token_is_never_restored() -> None:
    """A prompt of whole blocks gives up its last one, since something must be computed."""
    cache, prefix_hashes = prompt_in_cache(states={2, 3})

    hit = longest_hit(cache, prefix_hashes[:3], BLOCK, limit=3 * BLOCK - 1, drop_last=False)

    assert hit.tokens == 2 * BLOCK


def test_without_a_state_nothing_is_restored() -> None:
    """Keys and values alone cannot continue a recurrence."""
    cache, prefix_hashes = prompt_in_cache(states=set())

    hit = longest_hit(cache, prefix_hashes, BLOCK, limit=15, drop_last=False)

    assert (hit.tokens, hit.blocks, hit.state) == (0, (), None)
    assert hit.junction == 3 * BLOCK
