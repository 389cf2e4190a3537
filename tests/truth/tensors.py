"""What the miniature's oracle and the raw answers say of a cell; no digest, no judge.

A request's answer is a function of what it restored (keys and values of its blocks, one state) and
of the chunks that it computed itself. So the bits of a cell are **equal** to its reference's when
all of them had the same keys and values in every full block of the prompt, the same state wherever
they began at the same position, and the same cuts behind the last position that any of them began
at. Then nothing may differ. Otherwise the bits **differ**, and the answers may show it or not.
"""

import json
from collections.abc import Sequence
from typing import Literal

from orchestrator.model.plan import ArmPlan, CellPlan
from tests.truth.witnessed import Testimony, WitnessedRun

Bits = Literal["equal", "differ, visible", "differ, not visible"]


def bits_of(run: WitnessedRun, arm: ArmPlan, cell: CellPlan) -> Bits:
    """Of a measured cell, against the reference cells of its document on the same start."""
    cells = [
        cell,
        *(c for c in arm.cells if c.place != "measured" and c.document == cell.document),
    ]
    probes = [(arm.name, p.id) for c in cells for p in c.probes if p.role == "b"]
    if _same_bits([run.truths[probe] for probe in probes], prompt_tokens=cell.b_tokens):
        return "equal"
    answers = {_visible(run.answers[probe]) for probe in probes}
    return "differ, visible" if len(answers) > 1 else "differ, not visible"


def _same_bits(truths: Sequence[Testimony], *, prompt_tokens: int) -> bool:
    keys_values = {tuple(b["keys_values_sha256"] for b in truth["blocks"]) for truth in truths}
    states = {(truth["restored_tokens"], truth["restored_state_sha256"]) for truth in truths}
    beginnings = {truth["restored_tokens"] for truth in truths}
    cuts = {
        tuple(end for _, end in truth["chunks"] if max(beginnings) < end <= prompt_tokens)
        for truth in truths
    }
    return len(keys_values) == 1 and len(states) == len(beginnings) and len(cuts) == 1


def _visible(answer: bytes) -> str:
    """The lists of candidates as the server wrote them, whatever their order."""
    said = json.loads(answer)["choices"][0]["logprobs"]
    lists = [sorted(entries.items()) for entries in said["top_logprobs"]]
    return json.dumps([said["tokens"], lists])
