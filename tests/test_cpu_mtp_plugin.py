"""The vLLM plugin copies states as the Triton kernels do; memory is a byte array here."""

import ctypes
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

PLUGIN = (
    Path(__file__).parent.parent / "launch_profiles/engines/vllm-cpu/plugin/vllm_arms_cpu_mtp.py"
)

BLOCK_SIZE = 32
"""Tokens in a block of the cache."""

BLOCKS = 4
CONV_WINDOW = 3
"""Tokens in a convolution state; one byte each here."""

STATE_BYTES = 4
"""Of a block's state, both kinds; a convolution state leaves the last byte unused."""

GRID = (1, 2, 16)
"""Requests, states, tiles, as vLLM launches it."""


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    """The plugin's module; it needs no vLLM until it is registered."""
    spec = importlib.util.spec_from_file_location("vllm_arms_cpu_mtp", PLUGIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Memory:
    """Two state tensors of four blocks, and the block table of one request."""

    def __init__(self) -> None:
        self.conv = ctypes.create_string_buffer(b"aaa.bbb.ccc.ddd.", BLOCKS * STATE_BYTES)
        self.temporal = ctypes.create_string_buffer(b"AAAABBBBCCCCDDDD", BLOCKS * STATE_BYTES)
        # Columns to blocks, not in order: a mistaken column shows.
        self.table = (ctypes.c_int32 * BLOCKS)(3, 1, 0, 2)

    def layout(self) -> list[object]:
        """The kernels' arguments that say where the states lie."""
        return [
            [ctypes.addressof(self.table)],
            BLOCKS,
            [ctypes.addressof(self.conv), ctypes.addressof(self.temporal)],
            [STATE_BYTES, STATE_BYTES],
            [1, 1],
            [1, STATE_BYTES],
            [CONV_WINDOW, 0],
            [0, 0],
            [0, 0],
            [0, 0],
        ]

    def states(self) -> tuple[bytes, bytes]:
        """What is in memory now: convolution, temporal."""
        return self.conv.raw, self.temporal.raw


BEFORE = Memory().states()


def test_a_state_moves_to_the_block_that_will_be_written(plugin: ModuleType) -> None:
    """From column 0 (block 3) to column 1 (block 1), both kinds."""
    memory = Memory()

    plugin.PrecopyAlign()[GRID]([1], [0], [0], *memory.layout(), None, 1, COPY_BLOCK_SIZE=1024)

    assert memory.states() == (b"aaa.ddd.ccc.ddd.", b"AAAADDDDCCCCDDDD")


def test_accepted_drafts_shift_the_window_and_select_a_later_temporal_state(
    plugin: ModuleType,
) -> None:
    """One accepted draft: the window loses its oldest token, the state is one column on."""
    memory = Memory()
    memory.conv.raw = b"aaa.bbb.ccc.xyz."

    plugin.PrecopyAlign()[GRID]([2], [0], [1], *memory.layout(), None, 1)

    assert memory.states() == (b"yza.bbb.ccc.xyz.", b"BBBBBBBBCCCCDDDD")


@pytest.mark.parametrize("source", [-1, 1])
def test_a_fresh_request_or_one_in_the_same_block_is_left_alone(
    plugin: ModuleType, source: int
) -> None:
    """There is no state yet, or it is where it belongs."""
    memory = Memory()

    plugin.PrecopyAlign()[GRID]([1], [source], [0], *memory.layout(), None, 1)

    assert memory.states() == BEFORE


def test_a_row_without_a_request_is_skipped(plugin: ModuleType) -> None:
    """VLLM marks it with a negative number."""
    memory = Memory()

    plugin.PrecopyAlign()[GRID]([1], [0], [0], *memory.layout(), [-1], 1)

    assert memory.states() == BEFORE


def finish_step(
    plugin: ModuleType, memory: Memory, *, computed: int, accepted: int, column: int
) -> list[int]:
    """End a step of three tokens, two of them drafts; returns the updated accepted counts."""
    accepted_out = [accepted]
    plugin.PostprocessAlign()[GRID](
        *([accepted], [column], [3], [computed], [2]),
        *memory.layout(),
        *(accepted_out, None, 1),
        block_size=BLOCK_SIZE,
    )
    return accepted_out


def test_no_boundary_crossed_no_state_saved(plugin: ModuleType) -> None:
    """Tokens 10 and 11 are far from the end of a block."""
    memory = Memory()

    assert finish_step(plugin, memory, computed=10, accepted=2, column=0) == [2]
    assert memory.states() == BEFORE


def test_drafts_that_cross_a_boundary_save_the_state_as_of_the_boundary(
    plugin: ModuleType,
) -> None:
    """62 computed, 3 accepted: the running state is at 63, the boundary one token later.

    The running block is column 2 (block 0), the boundary ends column 1 (block 1); the temporal
    state after one more token is one column after the running one (block 2).
    """
    memory = Memory()
    memory.conv.raw = b"xyz.bbb.ccc.ddd."

    assert finish_step(plugin, memory, computed=62, accepted=3, column=2) == [3]
    assert memory.states() == (b"xyz.yzb.ccc.ddd.", b"AAAACCCCCCCCDDDD")


def test_a_boundary_at_the_running_state_needs_no_copy_within_its_block(
    plugin: ModuleType,
) -> None:
    """63 computed: the running state itself is at 64, in the block that ends there."""
    memory = Memory()

    assert finish_step(plugin, memory, computed=63, accepted=2, column=1) == [1]
    assert memory.states() == BEFORE


def test_an_unknown_memory_layout_is_refused(plugin: ModuleType) -> None:
    """Copying it as if it were the known one would be silent corruption."""
    memory = Memory()
    layout = memory.layout()
    layout[8] = [CONV_WINDOW, 0]

    with pytest.raises(NotImplementedError, match="DS layout"):
        plugin.PrecopyAlign()[GRID]([1], [0], [0], *layout, None, 1)
