"""One question to nvidia-smi, answered or not."""

import subprocess
from shutil import which

_LIMIT_S = 20.0
"""A driver that hangs must not keep a run from ending; an answer takes 0.02 s on an H200."""


def is_here() -> bool:
    """Whether there is such a program, as wherever NVIDIA's driver is installed."""
    return which("nvidia-smi") is not None


def asked(*query: str) -> str | None:
    """What nvidia-smi prints; `None` without the program, or when it fails or hangs."""
    program = which("nvidia-smi")
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *query, "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
