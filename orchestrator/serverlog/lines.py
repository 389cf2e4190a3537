"""How a line of a vLLM log is built: prefixes of many kinds, then the message.

    2026-11-30T18:05:14Z (EngineCore pid=999) ERROR 11-30 18:05:14 [core.py:1330] EngineCore failed
    └─ log shipper ────┘ └─ process ────────┘ └─ level, time, place ─────────────┘ └─ message

Every prefix may be missing. A prefix is looked for at the start of the line only, so that what
a client wrote, and the server repeats inside a message, is never taken for a message.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

PREFIX = rb"""
(?P<prefix>
(?:\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?[ ](?:std(?:out|err)[ ][FP][ ])? # containerd
  |[A-Z][a-z]{2}[ ][ \d]\d[ ]\d\d:\d\d:\d\d[ ]\S+[ ]\S+:[ ]                           # syslog
  |[\w.-]+[ ]*[ ]\|[ ]                                                              # compose
)?
(?:\((?P<process>[A-Za-z]\w*(?:[ ][\w=]+)?)[ ]pid=\d+\)[ ])*          # 0.10 nests them
(?:(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)
   (?:[ ]\d\d-\d\d[ ]\d\d:\d\d:\d\d(?:\.\d+)?[ ]\[?[\w./-]+:\d+\][ ]    # vLLM; V0 has no "["
     |:[ ]{1,9})                                                      # uvicorn
  |(?:\[rank\d+\]:)?\[[EFIW]\d{4}[ ][\d:.]+[ ][\w.]+:\d+\][ ]            # PyTorch's C++ part
  |[\w.-]+:\d+:\d+[ ]\[\d+\][ ](?:\S+[ ])?(?=NCCL[ ])                   # NCCL
  |(?:vllm(?:[ ]serve)?|\w+\.py):[ ](?=error:[ ])                        # argparse
)?
)
"""
"""Sources: `vllm/logger.py` (_FORMAT) with `vllm/logging_utils/formatter.py` (NewLineFormatter),
`vllm/utils/system_utils.py` (_add_prefix), `uvicorn/logging.py` (DefaultFormatter). Old forms:
place without a bracket, vLLM #9225; `(VllmWorker rank=1 pid=7)`, #17939; nested, #23517."""

ANSI_COLOUR = re.compile(rb"\x1b\[[\d;]*m")
"""Written when the server believes to be on a terminal (ColoredFormatter, _add_prefix)."""

Wanted = Literal["beginnings", "unindented", "every"]
"""Which lines are worth a look: usually those that begin as some rule does; the unindented ones
while a traceback is under way, whose frames are indented; every one until its first frame."""

MAX_LINE_BYTES = 65_536
"""More of one line is not kept. The longest recorded line, a scheduler dump, has 4,200 bytes; a
dump that holds token ids may have any number."""

MAX_TEXT_CHARACTERS = 400
"""Of a fact or finding: a configuration line has 4,000, and what it says is in the value."""


@dataclass(frozen=True, slots=True)
class Source:
    """Who wrote a message: what belongs together when several writers are interleaved."""

    process: bytes | None
    """For example EngineCore; None where the log does not name processes."""

    level: bytes | None
    """None: written past the logger, as the traceback of a dying process is."""


@dataclass(frozen=True, slots=True)
class Line:
    """One message and the number of the line that it stands on."""

    number: int
    source: Source
    text: str
    """The message; what is no UTF-8 is replaced."""

    continues: bool
    """Part of a longer message: vLLM repeats the prefix on each of a message's lines, and ends
    all but the last with CR LF (NewLineFormatter)."""

    @property
    def excerpt(self) -> str:
        """The message, shortened."""
        return self.text[:MAX_TEXT_CHARACTERS]


class LineReader:
    """Cuts blocks of a log into lines and yields those that begin as wanted.

    A carriage return inside a line, as progress bars write it, separates messages too.
    """

    def __init__(self, beginnings: Iterable[bytes]) -> None:
        alternatives = b"|".join(re.escape(beginning) for beginning in beginnings)
        self._patterns: dict[Wanted, re.Pattern[bytes]] = {
            "beginnings": _line(rb"(?:" + alternatives + rb")[^\r\n]*"),
            "unindented": _line(rb"[^\s][^\r\n]*"),
            "every": _line(rb"[^\r\n]*"),
        }
        self._incomplete = b""
        self._previous = b""
        self.lines = 0
        self.bytes = 0

    def read(self, block: bytes, wanted: Callable[[int], Wanted]) -> Iterator[Line]:
        """The wanted lines that this block completes.

        Args:
            block: The next part of the log, cut anywhere.
            wanted: Which lines are, after the line of this number.
        """
        self.bytes += len(block)
        text = self._incomplete + block
        end = text.rfind(b"\n")
        if end < 0 and len(text) > MAX_LINE_BYTES:
            end = text.rfind(b"\r")  # a progress bar that redraws itself for a long time
            text = text if end >= 0 else text[:MAX_LINE_BYTES]
        self._incomplete = text[end + 1 :]
        if end >= 0:
            yield from self._cut(text[: end + 1], wanted)

    def finish(self, wanted: Callable[[int], Wanted]) -> Iterator[Line]:
        """The last line, when it is wanted and no line feed ends it."""
        if self._incomplete:
            yield from self._cut(self._incomplete + b"\n", wanted)
            self._incomplete = b""

    def _cut(self, complete: bytes, wanted: Callable[[int], Wanted]) -> Iterator[Line]:
        if b"\x1b" in complete:
            complete = ANSI_COLOUR.sub(b"", complete)
        text = b"\n" + complete  # each message has a line feed before it, which is searched for
        end = len(text) - 1
        position = counted = 0
        number = self.lines
        while match := self._patterns[wanted(number)].search(text, position, end):
            number += text.count(b"\n", counted, match.start() + 1)
            counted = match.start() + 1
            yield Line(
                number=number,
                source=Source(match["process"], match["level"]),
                text=match["message"][:MAX_LINE_BYTES].decode("utf-8", "replace"),
                continues=self._continues(text, match.start(), match["prefix"]),
            )
            position = match.end()
        self.lines += complete.count(b"\n")
        last = text[text.rfind(b"\n", 0, end) + 1 : end]
        self._previous = last[:256] + last[-1:]

    def _continues(self, text: bytes, start: int, prefix: bytes) -> bool:
        if start == 0:
            return self._previous.endswith(b"\r") and self._previous.startswith(prefix)
        if not prefix or text[start - 1 : start + 1] != b"\r\n":
            return False
        return text.startswith(prefix, text.rfind(b"\n", 0, start) + 1)


def _line(message: bytes) -> re.Pattern[bytes]:
    """A line with such a message.

    The line feed comes first, so that `re` leaps from line to line. The prefix is taken as it is
    found and never given back: a message begins where the prefix ends.
    """
    expression = rb"[\n\r](?!\n)(?>" + PREFIX + rb")(?P<message>" + message + rb")"
    return re.compile(expression, re.VERBOSE)
