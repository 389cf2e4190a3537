"""`make bench-peer`: both tools on the same work; `docs/peer.md` written anew from what came of it.

`python -m tests.peer.report [--json FILE] [--rounds N]`; ten minutes, more on a busy machine.
"""

import argparse
import os
import platform
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from tests.conftest import PROJECT
from tests.documents import rendered
from tests.peer.comparison import Comparison, Timed, spread
from tests.peer.faults import FAULTS
from tests.peer.jobs import OURS, PANDAS, PEER
from tests.peer.playing import Play, Seen, played
from tests.peer.timeline import OWN_FIELDS, requests, stretches
from tests.peer.work import ARMS, ENGINE_VERSION, REPEATS

HERE = Path(__file__).parent
DOCUMENT = PROJECT / "docs" / "peer.md"


def main() -> None:
    """Print each job as it ends; exit with 1 where we do not keep what we promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--rounds", type=int, default=2, help="of the timing; every other reversed")
    asked = parser.parse_args()
    # A shell lets what it puts in the background ignore SIGINT, and a tool would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    found = compared(asked.rounds)
    if asked.json is not None:
        asked.json.write_text(found.model_dump_json(indent=1) + "\n", encoding="utf-8")
    DOCUMENT.write_text(document(found), encoding="utf-8")
    for short in found.shortcomings():
        sys.stdout.write(f"falls short: {short}\n")
    sys.exit(bool(found.shortcomings()))


def compared(rounds: int) -> Comparison:
    """Run all jobs, one after the other."""
    load = os.getloadavg()[0]
    order = [tool for number in range(rounds) for tool in (OURS, PEER)[:: -1 if number % 2 else 1]]
    plays = [_told(played(tool, tuple(ARMS))) for tool in order]
    pairs = [(fault, tool) for fault in FAULTS for tool in (OURS, PEER)]
    faults = [_told(played(tool, ("caching-on",), fault)).seen for fault, tool in pairs]
    return Comparison(
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        machine=f"{platform.system()}, {os.cpu_count()} processors",
        load=(load, os.getloadavg()[0]),
        versions={
            "vLLM": f"{ENGINE_VERSION} (for the CPU)",
            "vllm-arms": version("vllm-arms"),
            "Python": platform.python_version(),
            "pandas": PANDAS[0].partition("==")[2],
        },
        same_requests=_alike([requests(play.events) for play in plays]),
        timed=tuple(_timed(play) for play in plays),
        faults=tuple(faults),
    )


def document(found: Comparison) -> str:
    """`docs/peer.md`."""
    return rendered(
        HERE / "peer.md.j2",
        found=found,
        tools=(OURS, PEER),
        faults=[fault.name for fault in FAULTS],
        repeats=REPEATS,
        own_fields=sorted(OWN_FIELDS),
        spread=spread,
        count=_count,
    )


def _timed(play: Play) -> Timed:
    return Timed(
        seen=play.seen,
        before_s=play.events[0].at_s - play.seen.started_s,
        servers=tuple(stretches(play.events, ended_s=play.seen.ended_s)),
    )


def _told(play: Play) -> Play:
    seen = play.seen
    sys.stdout.write(f"{seen.tool}, {seen.fault or 'no fault'}: {_sentence(seen)}\n")
    sys.stdout.flush()
    return play


def _sentence(seen: Seen) -> str:
    return (
        f"exit code {seen.exit_code} after {seen.took_s:.1f} s, left: {_count(seen.left)}, "
        f"after reap: {_count(seen.left_after_reap)}, {seen.answered} answered, "
        f"{seen.kept.answers} kept, {' / '.join(seen.said) or 'nothing said'}"
    )


def _count(names: Sequence[str]) -> str:
    """`2 VLLM::Worker, api_server`; or that there is nothing."""
    kinds = {name: names.count(name) for name in sorted(names)}
    return ", ".join(f"{n} {name}" if n > 1 else name for name, n in kinds.items()) or "nothing"


def _alike(sent: Sequence[object]) -> bool:
    return all(each == sent[0] for each in sent)


if __name__ == "__main__":
    main()
