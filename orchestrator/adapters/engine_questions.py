"""Questions to an engine of this machine that start no server: what it is, what flags it knows."""

import os
import subprocess
import tempfile
from collections.abc import Sequence

from orchestrator.adapters.process_server import environment
from orchestrator.errors import HostError
from orchestrator.flags import known_flags
from orchestrator.model.plan import LaunchPlan

_LIMIT_S = 180.0
"""For an interpreter to import what it needs: vLLM for CPU prints its help after 8 s on a machine
that does nothing else."""

_VERSIONS = """
from importlib.metadata import PackageNotFoundError, version
for package in ("vllm", "torch"):
    try:
        print(version(package))
    except PackageNotFoundError:
        print()
"""


def installed_versions(launch: LaunchPlan) -> tuple[str | None, str | None]:
    """The releases of vLLM and of torch that the plan's interpreter has; `None`: it has none.

    Raises:
        HostError: It cannot be started.
    """
    printed = _output([launch.argv[0], "-c", _VERSIONS], launch)
    vllm, torch = [*printed.split("\n"), "", ""][:2]
    return vllm or None, torch or None


def flags_known_here(launch: LaunchPlan, program: Sequence[str]) -> frozenset[str]:
    """The flags that the plan's program names in its help.

    Asks for `--help=all`, without which newer releases name groups of flags only; where a program
    does not take it, for `--help`.

    Raises:
        HostError: It names none, whatever it is asked.
    """
    try:
        flags = known_flags(_output([*program, "--help=all"], launch))
    except HostError:
        flags = frozenset()
    flags = flags or known_flags(_output([*program, "--help"], launch))
    if not flags:
        raise HostError(f"the help of `{' '.join(program)}` names no flags")
    return flags


def _output(argv: Sequence[str], launch: LaunchPlan) -> str:
    with tempfile.TemporaryDirectory(prefix="vllm-arms-question-") as empty:
        try:
            done = subprocess.run(
                argv,
                env=environment(launch, os.environ),
                cwd=empty,  # which `python -m` would search first
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HostError(f"cannot be asked: {error}") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        raise HostError(f"`{' '.join(argv[:3])}` failed with exit code {done.returncode}: {last}")
    return done.stdout
