"""What a server's log says about the modules that its processes loaded, read back.

The plugin in `adapters/engine_side/reporter` writes the lines; a patch's own code logs its marker.
Both are looked for at the start of a line only: a client's text may stand further on.
"""

import json
import re

from pydantic import ValidationError

from orchestrator.model.patch import LoadedModule

_COLOUR = re.compile(rb"\x1b\[[\d;]*m")

_PREFIXES = rb"^(?:\(\w[^()\n]* pid=\d+\) )*"
"""Of vLLM's processes; `vllm/utils/system_utils.py`, _add_prefix."""

_CORE_PREFIXES = _PREFIXES + rb"\(EngineCore\w* pid=(?P<pid>\d+)\) "
"""EngineCore, EngineCore_0 or EngineCore_DP0, the last of the prefixes."""

_REPORT = re.compile(_PREFIXES + rb"vllm-arms: loaded (?P<report>\{[^\r\n]*\})\r?$", re.MULTILINE)

_CORE_LINE = re.compile(_CORE_PREFIXES, re.MULTILINE)

_LOGGER = rb"[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? \[[\w./-]+:\d+\] "
"""`vllm/logger.py`, _FORMAT."""


def loaded_modules(log: bytes) -> tuple[LoadedModule, ...]:
    """Every report in the log, in its order.

    A line that another process wrote into is no report: what cannot be read is missing.
    """
    text = _COLOUR.sub(b"", log)
    cores = {int(line["pid"]) for line in _CORE_LINE.finditer(text)}
    reports = []
    for line in _REPORT.finditer(text):
        try:
            said = json.loads(line["report"])
            reports.append(
                LoadedModule.model_validate(said | {"engine_core": said["pid"] in cores})
            )
        except (ValueError, KeyError, TypeError, RecursionError, ValidationError):
            continue
    return tuple(reports)


def marked_engine_cores(log: bytes, marker: str) -> frozenset[int]:
    """Process ids of the engine cores whose logger wrote the marker, alone on its line."""
    line = re.compile(
        _CORE_PREFIXES + _LOGGER + re.escape(marker.encode()) + rb"\r?$", re.MULTILINE
    )
    return frozenset(int(found["pid"]) for found in line.finditer(_COLOUR.sub(b"", log)))
