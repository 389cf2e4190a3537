"""Where a prefill chunk ends in vLLM's align mode.

The recurrent state can be saved only where a chunk ends on a block boundary, so the scheduler
clips chunks. Source: `Scheduler._mamba_block_aligned_split`, v1/core/sched/scheduler.py, of the
releases named below, read as published. Restated for a prompt that was never preempted and for
backends without checkpoints inside a chunk.
"""

from orchestrator.model.prediction import SchedulerSettings
from orchestrator.prediction.releases import drops_last_block


def chunk_end(
    start: int,
    wanted_end: int,
    prompt_tokens: int,
    junction: int | None,
    settings: SchedulerSettings,
) -> int:
    """End of the chunk that begins at `start`; equal to `start` when nothing may be scheduled.

    Args:
        start: Tokens of the prompt that are computed or restored; fewer than all.
        wanted_end: Where the chunk would end if only budget and prompt limited it.
        prompt_tokens: Length of the prompt.
        junction: `RequestPrediction.junction`.
        settings: Of the server. `prefix_caching` is not looked at.
    """
    if settings.rule in ("v0.15", "v0.24"):
        return _single_stop(start, wanted_end, prompt_tokens, junction, settings)
    return _earliest_stop(start, wanted_end, prompt_tokens, junction, settings)


def last_checkpoint(prompt_tokens: int, settings: SchedulerSettings) -> int:
    """The last boundary that a prefill must stop at; 0 for none.

    Where hits give their last block back, a state there would never be found: the stop backs off
    by one block.
    """
    block, limit = settings.block_tokens, prompt_tokens
    if drops_last_block(settings):
        return max(limit // block * block - block, 0)
    if settings.rule in ("v0.32", "v0.33"):
        limit -= 1  # a resent prompt recomputes its last token, so it cannot resume at its end
    return limit // block * block


def _single_stop(
    start: int, end: int, prompt_tokens: int, junction: int | None, settings: SchedulerSettings
) -> int:
    """v0.15 to v0.25: whole blocks up to the last checkpoint, then the rest."""
    block = settings.block_tokens
    last = last_checkpoint(prompt_tokens, settings)
    if end < last:
        end = start + (end - start) // block * block
    elif start < last < end:
        end = last
    if (
        settings.rule == "v0.24"
        and junction is not None
        and block <= junction - start < end - start
    ):
        end = start + (junction - start) // block * block
    return end


def _earliest_stop(
    start: int, end: int, prompt_tokens: int, junction: int | None, settings: SchedulerSettings
) -> int:
    """v0.26 and later: the earliest of several mandatory stops inside the chunk."""
    block = settings.block_tokens
    last = last_checkpoint(prompt_tokens, settings)
    boundary = (start // block + 1) * block
    if settings.rule == "v0.26":
        must_align, realigns = end < last, boundary <= last
    else:
        # A block wider than one step advances in pieces instead of never.
        reaches = end // block * block > start or block <= settings.token_budget
        must_align, realigns = end < prompt_tokens and reaches, True
    if must_align:
        end = end // block * block
    stops = [last]
    if settings.every_boundary or (start % block != 0 and realigns):
        stops.append(boundary)
    if junction is not None and start < junction < end:
        stops.append(start + (junction - start) // block * block)
    return max(min((stop for stop in stops if start < stop < end), default=end), start)
