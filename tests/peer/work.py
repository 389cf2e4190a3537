"""One experiment in a folder of its own, ready to be done by either tool."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.cli.planning import resolve_plan
from orchestrator.model.plan import ArmPlan, Plan
from tests.conftest import PROJECT

PROFILE = "vllm-cpu-tiny-hybrid"
ENGINE_VERSION = "0.29.0"
REPEATS = 20
MAX_TOKENS = 16
"""Of every measured request."""

ARMS = {"caching-on": "on", "caching-off": "off"}
"""Name to prefix caching: two servers of one command line but for this flag."""

# Without warm-up, whose requests have salts of their own: the peer has one salt for all requests
# of a benchmark, so it needs a benchmark, which is a process, for each cell.
EXPERIMENT = """\
name = "peer"
question = "What do two tools make of the same servers and requests?"
documents = ["hu-szamla-orgonagyar"]
warm_up_document = "en-letter-tender-decision"
warm_up = false
reference_cells = {references}
repeats = {repeats}
reference_repeats = 2
max_tokens = {max_tokens}
top_logprobs = 20
seed = 20261201
[sizes]
shared = "2*block + block // 4"
b = "3*block + block // 2"
a = ["3*block - 2"]
"""

ARM = """
[[arms]]
name = "{name}"
cell = "contaminated"
prefix_caching = "{caching}"
extra_args = {extra_args}
[arms.environment]
PYTHONPATH = "{python_path}"
PEER_STOPWATCH = "{stopwatch}"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What both tools are given."""

    folder: Path
    """A project of `vllm-arms`, and where either tool puts what it keeps."""

    plan: Plan

    @property
    def arms(self) -> tuple[ArmPlan, ...]:
        """One start each."""
        return self.plan.arms

    @property
    def stopwatch(self) -> Path:
        """What the servers saw, in the order of their starts."""
        return self.folder / "stopwatch.jsonl"


def work_in(
    folder: Path, arms: Sequence[str], *, references: bool = False, bad_flags: Sequence[str] = ()
) -> Work:
    """Write the experiment down in an empty folder, and plan it.

    Args:
        folder: Becomes the project.
        arms: Of `ARMS`.
        references: Whether B is also sent where nobody was before it, so that there is something
            to hold its answers to.
        bad_flags: Added to the command line of every server.

    Raises:
        HostError: This machine cannot run the engine.
    """
    for name in ("arms", "launch_profiles"):
        shutil.copytree(PROJECT / name, folder / name)
    arguments = ["--middleware", "tests.peer.stopwatch.Stopwatch", *bad_flags]
    written = [
        ARM.format(
            name=name,
            caching=ARMS[name],
            extra_args=arguments,
            python_path=f"{_plugin_of(folder)}:{PROJECT}",
            stopwatch=folder / "stopwatch.jsonl",
        )
        for name in arms
    ]
    text = EXPERIMENT.format(
        repeats=REPEATS, max_tokens=MAX_TOKENS, references=str(references).lower()
    ) + "".join(written)
    (folder / "arms" / "peer.toml").write_text(text, encoding="utf-8")
    plan = resolve_plan(folder, "peer", PROFILE, "quick", [], lambda _: None).plan
    return Work(folder=folder, plan=plan)


def _plugin_of(folder: Path) -> str:
    """The search path that the engine's recipe sets; an arm's own takes its place."""
    planned = resolve_plan(folder, "three-arm", PROFILE, "quick", ["clean"], None).plan
    return planned.arms[0].launch.environment["PYTHONPATH"]
