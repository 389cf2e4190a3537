"""A vLLM plugin: what MTP speculation in Mamba cache mode "align" lacks on the CPU backend.

vLLM 0.29.0 moves recurrent states between cache blocks with two Triton kernels of
`vllm/v1/worker/mamba_utils.py`, which the CPU model runner does not replace. Without Triton they
are plain functions, and the first request ends with "'function' object is not subscriptable".
The two classes below take their place. They copy the same bytes between the same cache slots;
they compute nothing, so no logit comes out of this file.

Not shown: equality with the Triton kernels, which cannot run here. With random weights hardly a
draft token is ever accepted, so copies after an accepted draft are hardly exercised.

vLLM loads the plugin in each of its processes, through the entry point in the folder next to this
file; that folder and this one are found because PYTHONPATH names their parent.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

INT32_BYTES = 4
"""vLLM's block tables hold int32 (`_copy_mamba_state_block`: "block ids are int32")."""

Integers = Sequence[int]
"""In the engine a one-dimensional tensor, whose elements `int` turns into numbers."""


@dataclass(frozen=True)
class StateLayout:
    """Where the recurrent states lie in memory: their count, then the kernels' arguments in order.

    The block table addresses have an entry a cache group, the other sequences have an entry a
    state: each layer has a convolution state and a temporal state.
    """

    state_count: int
    block_table_addresses: Integers
    block_table_stride: int
    base_addresses: Integers
    block_strides_bytes: Integers
    element_sizes_bytes: Integers
    inner_sizes: Integers
    conv_widths: Integers
    group_indices: Integers
    dim_row_counts: Integers
    dim_row_strides_bytes: Integers

    def copy(self, *, table_row: int, source_column: int, target_column: int, bias: int) -> None:
        """Copy every state of one request from one column of its block table to another.

        `bias` is the number of accepted draft tokens: it shifts a convolution window by so many
        tokens, and selects the temporal state saved so many columns further on.
        """
        for state in range(self.state_count):
            base = int(self.base_addresses[state])
            stride_bytes = int(self.block_strides_bytes[state])
            token_bytes = int(self.inner_sizes[state]) * int(self.element_sizes_bytes[state])
            window = int(self.conv_widths[state])
            target = base + self._block(state, table_row, target_column) * stride_bytes
            if window > 0:
                if int(self.dim_row_counts[state]) > 0:
                    raise NotImplementedError("a convolution state in vLLM's DS layout")
                block = self._block(state, table_row, source_column)
                source = base + block * stride_bytes + bias * token_bytes
                ctypes.memmove(target, source, (window - bias) * token_bytes)
            else:
                block = self._block(state, table_row, source_column + bias)
                ctypes.memmove(target, base + block * stride_bytes, token_bytes)

    def _block(self, state: int, table_row: int, column: int) -> int:
        table = int(self.block_table_addresses[int(self.group_indices[state])])
        entry = table_row * self.block_table_stride + column
        return ctypes.c_int32.from_address(table + INT32_BYTES * entry).value


class PrecopyAlign:
    """Takes the place of `precopy_mamba_align_fused_kernel`, launched as `kernel[grid](…)`.

    Before a forward pass, moves a request's state into the block that the pass will write.
    """

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        """Return what runs over `grid`: (requests, states, tiles)."""

        def run(
            target_columns: Integers,
            source_columns: Integers,
            biases: Integers,
            *layout_and_rest: Any,  # noqa: ANN401 -- ten of StateLayout's fields and two more
            **_: object,  # sizes of Triton's tiles
        ) -> None:
            *tensors, request_of_row, row_count = layout_and_rest
            layout = StateLayout(grid[1], *tensors)
            for row, request in requests(request_of_row, row_count):
                source, target = int(source_columns[request]), int(target_columns[request])
                if source < 0 or source == target:  # a fresh request, or still in the same block
                    continue
                layout.copy(
                    table_row=row,
                    source_column=source,
                    target_column=target,
                    bias=int(biases[request]),
                )

        return run


class PostprocessAlign:
    """Takes the place of `postprocess_mamba_fused_kernel`, launched as `kernel[grid](…)`.

    As the V1 model runner does: the other one, V2, needs Triton itself, and hands over a count
    that is computed already.

    After a forward pass, saves the state as of the last block boundary where accepted drafts
    carried the request across it.
    """

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        """Return what runs over `grid`: (requests, states, tiles)."""

        def run(
            accepted: Integers,
            running_columns: Integers,
            scheduled: Integers,
            computed: Integers,
            drafted: Integers,
            *layout_and_rest: Any,  # noqa: ANN401 -- ten of StateLayout's fields and three more
            block_size: int,
            **_: object,  # sizes of Triton's tiles
        ) -> None:
            *tensors, accepted_out, request_of_row, row_count = layout_and_rest
            layout = StateLayout(grid[1], *tensors)
            for row, request in requests(request_of_row, row_count):
                before, new = int(computed[request]), int(scheduled[request])
                at_running_state = before + new - int(drafted[request])
                now_computed = at_running_state + int(accepted[request]) - 1
                boundary = now_computed // block_size * block_size
                if boundary < at_running_state:  # no boundary was crossed
                    continue
                bias = boundary - at_running_state
                source, target = int(running_columns[request]), boundary // block_size - 1
                if source == target:
                    accepted_out[request] = 1
                    if bias == 0:  # the state is where it belongs
                        continue
                layout.copy(table_row=row, source_column=source, target_column=target, bias=bias)

        return run


def requests(request_of_row: Integers | None, row_count: int) -> list[tuple[int, int]]:
    """Pair each row of the batch with its request; without a mapping they are the same.

    A mapping marks a row to skip with a negative number.
    """
    if request_of_row is None:
        return [(row, row) for row in range(row_count)]
    pairs = ((row, int(request_of_row[row])) for row in range(row_count))
    return [(row, request) for row, request in pairs if request >= 0]


def register() -> None:
    """Put the replacements in place, in a process in which Triton is not usable."""
    # Here, so that the copying above can be tested without vLLM.
    from vllm import _custom_ops  # noqa: PLC0415
    from vllm.triton_utils import HAS_TRITON  # noqa: PLC0415
    from vllm.v1.worker import mamba_utils  # noqa: PLC0415

    if HAS_TRITON:
        return
    mamba_utils.precopy_mamba_align_fused_kernel = PrecopyAlign()
    mamba_utils.postprocess_mamba_fused_kernel = PostprocessAlign()
    _custom_ops.fused_sigmoid_gating_delta_rule_update_cpu = with_contiguous_indices(
        _custom_ops.fused_sigmoid_gating_delta_rule_update_cpu
    )


def with_contiguous_indices(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a recurrent decode step so that its two index tensors are contiguous.

    A chunk of one token (a prompt of one token more than a block, with the patched scheduler)
    hands over slices of length 1. Such a slice keeps the stride it was cut with, `contiguous()`
    returns it as it is, and the CPU kernel refuses it, which ends the engine. Copies of the same
    values change nothing else.
    """

    def run(**arguments: Any) -> Any:  # noqa: ANN401 -- whatever vLLM's operation takes and gives
        for name in ("initial_state_indices", "cu_seqlens"):
            tensor = arguments[name]
            arguments[name] = tensor.new_empty(tensor.shape).copy_(tensor)
        return operation(**arguments)

    return run
