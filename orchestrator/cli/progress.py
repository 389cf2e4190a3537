"""What a person sees while a run goes on: one live line on a terminal, plain lines elsewhere."""

import time

from rich.console import Console
from rich.status import Status
from rich.text import Text

from orchestrator.model.outcome import Failed, Outcome
from orchestrator.model.verdict import RunVerdict
from orchestrator.reporting.stacks import speed_sentence
from orchestrator.reporting.terminal import table

_PLAIN_INTERVAL_S = 10.0
"""Between two lines about one stage where nothing can be overwritten."""


_PLAIN_WIDTH = 120
"""Columns of a table that goes into a file or a pipe."""


def terminal(*, errors: bool = False) -> Console:
    """Standard output or error; as wide as a table needs where it is no terminal."""
    console = Console(stderr=errors)
    return console if console.is_terminal else Console(stderr=errors, width=_PLAIN_WIDTH)


class ConsoleProgress:
    """Arm, stage, how long it has waited and on what, last log line, probes done."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = Status("", console=console) if console.is_terminal else None
        self._arm = ""
        self._arm_started_s = 0.0
        self._said_s = 0.0

    def arm_started(self, arm: str, number: int, total: int) -> None:
        """Its server is being started."""
        self._arm = f"{arm} ({number} of {total})"
        self._arm_started_s = time.monotonic()
        self._say(f"{self._arm}: starting a fresh server")
        if self._status is not None:
            self._status.start()

    def waiting(self, waited_s: float, last_line: str) -> None:
        """Its server is not ready yet."""
        self._passing(f"{self._arm}: waiting for the server, {waited_s:.0f} s: {last_line}")

    def asked(self, cell: str, done: int, total: int) -> None:
        """One more probe was answered."""
        text = f"{self._arm}: {done} of {total} probes, {cell}"
        if done == total:
            self._say(text)
        else:
            self._passing(text)

    def arm_ended(self, arm: str, outcome: Outcome) -> None:
        """Its server is gone."""
        if self._status is not None:
            self._status.stop()
        took = f"{time.monotonic() - self._arm_started_s:.1f} s"
        why = f": {outcome.stage}: {outcome.error}" if isinstance(outcome, Failed) else ""
        self._say(f"{arm}: {outcome.kind} after {took}{why}")

    def line(self, text: str) -> None:
        """A line of its own, for what is not about an arm."""
        self._say(text)

    def result(self, verdict: RunVerdict) -> None:
        """What the run came to."""
        self._console.print(Text(f"server: {verdict.engine}"))
        self._console.print(table(verdict))
        self._say(verdict.sentence)
        if verdict.stacks is not None:
            self._say(f"cold prompts: {speed_sentence(verdict.stacks)}")

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._status is not None:
            self._status.stop()

    def _say(self, text: str) -> None:
        self._said_s = time.monotonic()
        self._console.print(Text(text), soft_wrap=True)

    def _passing(self, text: str) -> None:
        if self._status is not None:
            line = Text(text, no_wrap=True, overflow="ellipsis")
            line.truncate(self._console.width - 4, overflow="ellipsis")
            self._status.update(line)
        elif time.monotonic() - self._said_s > _PLAIN_INTERVAL_S:
            self._say(text)
