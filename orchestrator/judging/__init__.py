"""Patterns, gates and expectations → verdicts, with what they do not cover.

Numbers in parentheses are rules of `docs/verdicts.md`. The precedence is the same everywhere:
inconclusive over diverged over stable (2); a cell that was not measured is never equal.

    measured    the evidence of one start
    references  its reference cells, and which cells are evidence of nothing
    cells       one measured cell
    company     one whose requests were sent at once
    items       a suite's items, and two starts of a suite
    limits      what nobody may read into a verdict
    runs        arms and the whole run
"""
