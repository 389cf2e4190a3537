"""Faults on demand: what a server can do to whoever depends on it.

They are switched on by the variable MINIATURE_FAULTS, or by the content of the file named by
MINIATURE_FAULTS_FILE, which is read again before every use. Both hold entries separated by commas
or white space:

    name            every time
    name=value      with a value
    name@3          for the third generating request only, counted from 1 (also name=value@3)
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

AT_START = {
    "slow-start": "takes VALUE more seconds to start, with a line of log each second",
    "no-progress": "stops for ever while starting, without a line of log",
    "crash-at-start": "dies while starting, with a traceback and exit code 1",
    "log-flood": "writes VALUE lines of log, a kibibyte each, while starting",
    "invalid-utf8": "writes a line of log that is no UTF-8 while starting",
    "ignore-sigterm": "does not react to SIGTERM",
    "orphan": "leaves a child behind that keeps the port, for ten minutes at most",
}
"""What happens to the process."""

AT_REQUEST = {
    "engine-dies": "the engine dies of the request: 500, then /health 503, then exit code 0",
    "hang": "the engine never computes again; /health stays 200",
    "freeze": "the whole process stops (SIGSTOP)",
    "exit-0": "the process ends at once with exit code 0",
    "preempt": "the request is preempted after its first token, and counted as such",
    "evict": "every idle block of the cache is evicted before the request",
}
"""What happens in the engine when a generating request arrives."""

IN_ANSWER = {
    "drip": "the body comes in ten pieces, VALUE seconds apart",
    "truncated-json": "the body ends in the middle",
    "wrong-json": "the body is JSON of another shape",
    "nan": "the first candidate's log probability is NaN",
    "floor": "the last candidate's log probability is -9999",
    "short-list": "lists have one candidate less than was asked for",
    "one-more-candidate": "lists have one candidate more, although the chosen token is in them",
    "tie-at-the-cut": "the last candidate is another token with the same log probability",
    "stop-entry": "chat: an empty entry is appended for the stop (vLLM #17637)",
    "cached-null": "cached_tokens is null",
    "cached-absent": "the details of the prompt's tokens are absent",
    "cached-too-large": "cached_tokens is the length of the prompt",
    "cached-negative": "cached_tokens is -32",
    "wrong-model": "the answer names another model",
}
"""What happens to the answer."""

IN_TRANSPORT = {
    "html": "the body is a page of HTML, with status 200",
    "status": "the answer is an error with the HTTP status VALUE",
    "redirect": "the answer sends the client to another path (307)",
    "huge": "VALUE MiB of blanks follow the body",
    "cut-off": "the connection is closed in the middle of the body",
}
"""What happens to an answer in one piece on its way."""

_ENTRY = re.compile(r"(?P<name>[a-z0-9-]+)(?:=(?P<value>[0-9.]+))?(?:@(?P<ordinal>[0-9]+))?")
_VALUED = {"slow-start", "log-flood", "drip", "status", "huge"}


class FaultError(ValueError):
    """A fault was asked for that there is not, or not in this way."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One entry."""

    name: str
    value: float | None
    ordinal: int | None


def parse(text: str) -> tuple[Fault, ...]:
    """Read entries.

    Raises:
        FaultError: An entry is not in this module's tables, or lacks or has a value.
    """
    return tuple(_parse_entry(entry) for entry in re.split(r"[,\s]+", text) if entry)


def _parse_entry(entry: str) -> Fault:
    match = _ENTRY.fullmatch(entry)
    known = AT_START.keys() | AT_REQUEST.keys() | IN_ANSWER.keys() | IN_TRANSPORT.keys()
    if match is None or match["name"] not in known:
        raise FaultError(f"{entry!r} is no fault; there are: {', '.join(sorted(known))}")
    if (match["value"] is not None) != (match["name"] in _VALUED):
        raise FaultError(f"{entry!r}: {', '.join(sorted(_VALUED))} have a value, others do not")
    return Fault(
        match["name"],
        None if match["value"] is None else float(match["value"]),
        None if match["ordinal"] is None else int(match["ordinal"]),
    )


class Faults:
    """The faults that are on, as of now."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._fixed = parse(environment.get("MINIATURE_FAULTS", ""))
        file = environment.get("MINIATURE_FAULTS_FILE")
        self._file = None if file is None else Path(file)

    def at_start(self) -> dict[str, float | None]:
        """Those that concern the process, with their values."""
        return {fault.name: fault.value for fault in self._all() if fault.name in AT_START}

    def for_request(self, ordinal: int) -> dict[str, float | None]:
        """Those that concern a generating request, with their values.

        Args:
            ordinal: Of the request on this server, counted from 1.
        """
        return {
            fault.name: fault.value
            for fault in self._all()
            if fault.name not in AT_START and fault.ordinal in (None, ordinal)
        }

    def _all(self) -> tuple[Fault, ...]:
        if self._file is None or not self._file.exists():
            return self._fixed
        return self._fixed + parse(self._file.read_text(encoding="utf-8"))
