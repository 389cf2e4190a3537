"""Any bytes: nothing raises, nothing hangs, and the cut between blocks never matters."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.serverlog.scan import TABLES, scan
from tests.serverlog.corpus import ENTRIES

PIECES = (
    b"\r",
    b"\n",
    b"\r\n",
    b" ",
    b"\x1b[0;36m",
    b"\x00\xff\xfe",
    b"INFO 11-30 18:10:57 [interface.py:905] ",
    b"ERROR 11-30 18:10:57 core.py:905] ",
    b"(EngineCore pid=999) ",
    b"2026-11-30T18:10:57Z ",
    b"Traceback (most recent call last):",
    b'  File "<frozen runpy>", line 198, in _run_module_as_main\n',
    b"During handling of the above exception, another exception occurred:",
    b"pydantic_core._pydantic_core.ValidationError: 1 validation error for X\n",
    b"9" * 5_000,
    *(entry.text.encode() for entry in ENTRIES[::7]),
)
BEGINNINGS = tuple(
    rule.starts.encode()
    for rules in (TABLES.facts, TABLES.findings, TABLES.introductions, TABLES.exceptions)
    for rule in rules
)

LOGS = st.lists(
    st.one_of(st.binary(max_size=40), st.sampled_from(PIECES), st.sampled_from(BEGINNINGS)),
    max_size=60,
).map(b"".join)


@settings(max_examples=300, deadline=2_000)  # milliseconds an example; a scan takes about one
@given(log=LOGS, cuts=st.lists(st.integers(0, 6_000), max_size=8))
def test_any_bytes_in_any_blocks_give_one_scan(log: bytes, cuts: list[int]) -> None:
    """Whatever the bytes are, and wherever they are cut."""
    ends = [*sorted(cuts), len(log)]
    blocks = [log[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    whole = scan([log])

    assert scan(blocks) == whole
    assert whole.bytes == len(log)


def test_a_line_made_to_be_slow_is_not() -> None:
    """Long runs of what prefixes are made of take time in proportion, not by its square."""
    makings = (b"a", b"(", b"1:", b"x.", b" ", b"(a pid=1) ", b"[", b"Nov 30 18:10:57 ", b"\xff")
    for making in makings:
        started = time.process_time()

        scan([making * (2**20 // len(making)) + b"\n"])

        assert time.process_time() - started < 2.0, making  # seconds; about 0.05 for a mebibyte
