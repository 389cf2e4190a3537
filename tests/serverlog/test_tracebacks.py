"""Which exceptions ended a process, and which traceback a line belongs to."""

from dataclasses import dataclass, field

from orchestrator.serverlog.lines import Line, Source
from orchestrator.serverlog.tracebacks import (
    CHAINING,
    MAX_CHAIN,
    MAX_INTRODUCTION_DISTANCE_LINES,
    MAX_TRACEBACK_LINES,
    OPENING,
    Raised,
    Tracebacks,
)

RAW = Source(b"EngineCore", None)
LOGGED = Source(b"EngineCore", b"ERROR")
OUTERMOST = '  File "<frozen runpy>", line 198, in _run_module_as_main'
INNER = '  File "/opt/site/vllm/v1/engine/core.py", line 1299, in run_engine_core'


@dataclass
class Log:
    """Feeds lines to tracebacks as the scanner does."""

    tracebacks: Tracebacks = field(default_factory=Tracebacks)
    number: int = 0

    def write(self, source: Source, *texts: str) -> Raised | None:
        """Some lines; what the last one raised."""
        raised = None
        for text in texts:
            self.number += 1
            line = Line(number=self.number, source=source, text=text, continues=False)
            raised = self.tracebacks.read(line)
            if text == OPENING:
                self.tracebacks.open(line)
            elif text in CHAINING:
                self.tracebacks.chain(line)
        return raised

    def introduce(self, source: Source) -> None:
        """The server says that this process ends."""
        self.number += 1
        text = "EngineCore failed to start."
        line = Line(number=self.number, source=source, text=text, continues=False)
        self.tracebacks.introduce(line)


def test_an_exception_that_reached_the_outermost_frame_ended_the_process() -> None:
    """Nobody was left to catch it; one that starts further in was caught."""
    uncaught = Log().write(RAW, OPENING, OUTERMOST, "ValueError: x")
    caught = Log().write(RAW, OPENING, INNER, "ValueError: x")

    assert uncaught is not None
    assert uncaught.ended_process
    assert caught is not None
    assert not caught.ended_process


def test_a_logged_exception_was_caught_by_whoever_logged_it() -> None:
    """Even if its traceback starts at the outermost frame."""
    raised = Log().write(LOGGED, OPENING, OUTERMOST, "ValueError: x")

    assert raised is not None
    assert not raised.ended_process


def test_an_announced_end_is_one_wherever_the_traceback_starts() -> None:
    """The announcement and the traceback are one message."""
    log = Log()
    log.introduce(LOGGED)

    raised = log.write(LOGGED, OPENING, INNER, "ValueError: x")

    assert raised is not None
    assert raised.ended_process


def test_an_announcement_does_not_count_for_a_later_traceback() -> None:
    """A traceback that comes much later is about something else."""
    log = Log()
    log.introduce(LOGGED)
    log.number += MAX_INTRODUCTION_DISTANCE_LINES

    raised = log.write(LOGGED, OPENING, INNER, "ValueError: x")

    assert raised is not None
    assert not raised.ended_process


def test_chained_exceptions_are_kept_in_order_and_others_are_not_mixed_in() -> None:
    """The first cause comes first; a later traceback of the same source stands alone."""
    log = Log()
    log.write(RAW, OPENING, INNER, "OSError: first", "", CHAINING[0], "")

    chained = log.write(RAW, OPENING, OUTERMOST, "ValueError: second")
    alone = log.write(RAW, OPENING, OUTERMOST, "KeyError: third")

    assert chained is not None
    assert [line.text for line in chained.chain] == ["OSError: first", "ValueError: second"]
    assert alone is not None
    assert [line.text for line in alone.chain] == ["KeyError: third"]


def test_a_chain_without_end_is_cut() -> None:
    """A log that goes round in circles does not fill the memory."""
    log = Log()
    for number in range(3 * MAX_CHAIN):
        log.write(RAW, OPENING, INNER, f"ValueError: {number}", CHAINING[1])

    raised = log.write(RAW, OPENING, INNER, "ValueError: last")

    assert raised is not None
    assert len(raised.chain) == MAX_CHAIN
    assert raised.chain[0].text == "ValueError: 0"


def test_what_a_traceback_needs_is_asked_for_and_no_more() -> None:
    """Every line until the first frame, unindented ones until the end; then none."""
    log = Log()

    log.write(RAW, OPENING)
    assert log.tracebacks.wanted(1) == "every"
    log.write(RAW, INNER)
    assert log.tracebacks.wanted(2) == "unindented"
    log.write(RAW, "ValueError: x")
    assert log.tracebacks.wanted(3) == "beginnings"


def test_a_traceback_without_an_end_is_given_up() -> None:
    """The scan does not stay slow, and what comes after is no exception of it."""
    log = Log()
    log.write(RAW, OPENING, INNER)
    log.number += MAX_TRACEBACK_LINES

    assert log.tracebacks.wanted(log.number) == "beginnings"
    assert log.write(RAW, "ValueError: of something else") is None


def test_a_line_that_is_no_exception_ends_a_traceback_without_one() -> None:
    """Text that was written over the end of a traceback is not taken for what was raised."""
    assert Log().write(RAW, OPENING, INNER, "100% |####| 3/3 [00:01<00:00]") is None
