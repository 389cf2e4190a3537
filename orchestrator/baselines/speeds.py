"""Cold requests of two runs → how fast each column is at each length, against the baseline.

The requests are the same in both (`comparability.py`), so those of one start and repeat are paired,
and the word is said on the conditions of `stacks.py`. With one start a side nothing shows what
another start would bring; so a speed is told, and changes no result.
"""

from collections.abc import Iterator

from orchestrator.model.comparison import ColdSpeed, JudgedRun
from orchestrator.stacks import Times, first_token_times, speed_ratio


def cold_speeds(run: JudgedRun, baseline: JudgedRun) -> Iterator[ColdSpeed]:
    """Every column of a comparable pair at every length; nothing where no cold one was planned."""
    columns: dict[str, list[str]] = {}
    for arm in run.plan.arms:
        columns.setdefault(arm.column, []).append(arm.name)
    lengths = [cold.prompt_tokens for cold in run.plan.arms[0].cold]
    for column, starts in columns.items():
        for tokens in lengths:
            ours, theirs = (
                [_times(side, name, tokens) for name in starts] for side in (run, baseline)
            )
            yield ColdSpeed(column=column, prompt_tokens=tokens, ratio=speed_ratio(ours, theirs))


def _times(run: JudgedRun, arm: str, tokens: int) -> Times:
    return first_token_times(
        [cold for cold in run.cold.get(arm, ()) if cold.prompt_tokens == tokens and cold.repeat > 0]
    )
