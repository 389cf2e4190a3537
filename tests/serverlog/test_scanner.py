"""The scanner's own promises: pieces, prefixes, phases, memory."""

import tracemalloc
from pathlib import Path

import pytest

from orchestrator.adapters.log_files import BLOCK_BYTES, scan_file
from orchestrator.serverlog.scan import Scanner, scan
from tests.serverlog.corpus import LOGS, in_words, scan_bytes

BY_NAME = {log.name: log.content for log in LOGS}
CRASH = BY_NAME["0.26.0-h200-startup-crash-missing-module.log"]
HEALTHY = BY_NAME["0.29.0-cpu-caching-on-mtp.log"]

BLOCK_SIZE_LINE = (
    "Setting attention block size to 288 tokens "
    "to ensure that attention page size is >= mamba page size."
)
PLACE = "INFO 11-30 18:10:57 [interface.py:905] "


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_it_does_not_matter_where_the_log_is_cut(size: int) -> None:
    """Any blocks give the scan of the whole, and each finding is reported once."""
    scanner = Scanner()
    reported = [
        found.name
        for start in range(0, len(CRASH), size)
        for found in scanner.feed(CRASH[start : start + size])
    ]

    assert scanner.finish() == scan_bytes(CRASH)
    assert reported == ["missing_module", "start_failed"]


def test_a_wait_for_readiness_learns_of_the_end_with_the_line_that_says_so() -> None:
    """The first fatal finding comes out of the block that completes its line, at once."""
    scanner = Scanner()
    lines = CRASH.splitlines(keepends=True)

    first = next(
        number
        for number, line in enumerate(lines, start=1)
        if any(found.severity == "fatal" for found in scanner.feed(line))
    )

    assert b"ModuleNotFoundError: No module named 'flashinfer'" in lines[first - 1]
    assert scanner.finish().findings[0].line == first


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "(APIServer pid=1715) ",
        "(EngineCore_DP0 pid=1783) ",
        "(EngineCore_0 pid=675221) (VllmWorker TP1 pid=675229) ",
        "(VllmWorker rank=0 pid=2120280) ",
        "2026-11-30T18:10:57.123456789Z ",
        "2026-11-30T18:10:57.123456789Z stderr F (EngineCore pid=1783) ",
        "2026-11-30 18:10:57.123 (EngineCore pid=1783) ",
        "Nov 30 18:10:57 spark vllm[1234]: ",
        "vllm-server-1  | (EngineCore pid=1783) ",
        "\x1b[0;36m(EngineCore pid=1783)\x1b[0;0m ",
        "Capturing CUDA graphs:  50%|█████     | 1/2 [00:01<00:01]\r",
    ],
)
def test_a_fact_is_read_behind_any_prefix(prefix: str) -> None:
    """Process names of all versions, log shippers, colours and progress bars come before it."""
    log = f"{prefix}{PLACE}{BLOCK_SIZE_LINE}\n".encode()

    (fact, _) = scan_bytes(log).facts

    assert (fact.name, fact.value, fact.line) == ("attention_block_size_tokens", 288, 1)
    assert fact.text == BLOCK_SIZE_LINE


@pytest.mark.parametrize(
    "line",
    [
        f'INFO:     127.0.0.1:59496 - "GET /{BLOCK_SIZE_LINE} HTTP/1.1" 404 Not Found',
        f"{PLACE}Received request cmpl-1: prompt: '{BLOCK_SIZE_LINE}'",
        f"{PLACE}Received request cmpl-1: prompt: 'a\\n{PLACE}{BLOCK_SIZE_LINE}'",
        BLOCK_SIZE_LINE,
        f"a word, then {PLACE}{BLOCK_SIZE_LINE}",
    ],
)
def test_what_a_client_wrote_is_no_message(line: str) -> None:
    """A message's words elsewhere than at the message's beginning are somebody's text."""
    assert scan_bytes(f"{line}\n".encode()).facts == ()


def test_a_line_inside_a_longer_message_is_no_message() -> None:
    """The prefix is repeated on each line of a message that holds a client's line feeds."""
    log = f"{PLACE}The prompt was: hello\r\n{PLACE}{BLOCK_SIZE_LINE}\r\n{PLACE}bye\n".encode()

    assert scan_bytes(log).facts == ()
    assert scan(bytes([byte]) for byte in log).facts == ()


def test_the_lines_of_a_terminal_are_messages() -> None:
    """A terminal ends every line with CR LF; messages from other places are not continued."""
    other = PLACE.replace("905", "904")
    log = f"{other}Using max model len 8192\r\n{PLACE}{BLOCK_SIZE_LINE}\r\n".encode()

    assert scan_bytes(log).value("attention_block_size_tokens") == 288


def test_tracebacks_of_two_processes_are_kept_apart() -> None:
    """Interleaved line by line, each gives the exception that it has alone."""
    worker = CRASH.replace(b"EngineCore pid=999", b"Worker_TP1 pid=998").replace(
        b"flashinfer", b"deep_gemm"
    )
    pairs = zip(CRASH.splitlines(), worker.splitlines(), strict=True)
    engine_only = b"\n".join(
        line for pair in pairs for line in pair if b"APIServer" not in line and line
    )

    excerpts = [found.excerpt for found in scan_bytes(engine_only).findings]

    assert excerpts == ["ModuleNotFoundError: No module named 'flashinfer'"]
    assert scan_bytes(engine_only).findings[0].occurrences == 4


def test_a_helper_without_a_name_does_not_end_the_server() -> None:
    """Where the server's processes are named, an uncaught exception of another one is its own."""
    traceback = (
        b"Traceback (most recent call last):\n"
        b'  File "<frozen runpy>", line 198, in _run_module_as_main\n'
        b"ValueError: of a compile worker\n"
    )
    before_serving, _, rest = HEALTHY.partition(b"(APIServer pid=25023) INFO:     Waiting")

    scanned = scan_bytes(before_serving + traceback + b"(APIServer pid=25023) INFO:     W" + rest)

    assert scanned.root_cause is None
    assert scan_bytes(traceback).root_cause is not None


def test_two_banners_are_a_restart() -> None:
    """A second start in one log is a finding of its own; the first start's cause stays the root."""
    scanned = scan_bytes(CRASH + b"\n" + HEALTHY)

    assert in_words(scanned) == [
        "missing_module fatal start",
        "start_failed fatal start",
        "restarted error start",
    ]
    assert scanned.root_cause is not None
    assert scanned.root_cause.name == "missing_module"


def test_each_start_has_a_cause_of_its_own() -> None:
    """A pointer to something above is followed in the second start too."""
    scanned = scan_bytes(CRASH + b"\n" + BY_NAME["0.29.0-cpu-crash-kv-larger-than-memory.log"])

    assert "out_of_memory fatal start" in in_words(scanned)


def test_different_values_of_a_fact_are_kept_up_to_a_number() -> None:
    """Sixteen of a hundred, the first ones; a value that comes back is kept once."""
    log = "".join(f"{PLACE}Using max model len {n % 100}\n" for n in range(300))

    values = [fact.value for fact in scan_bytes(log.encode()).facts]

    assert values == list(range(16))


@pytest.mark.parametrize("value", ["1.2.3", ",", ".", "9" * 5_000, "", "x"])
@pytest.mark.parametrize(
    "message", ["Available KV cache memory: {} GiB", "GPU KV cache size: {} tokens"]
)
def test_a_value_that_is_no_number_is_no_fact(message: str, value: str) -> None:
    """It is left out; nothing is made up, and the scan goes on."""
    log = f"{PLACE}{message.format(value)}\n{PLACE}{BLOCK_SIZE_LINE}\n"

    (fact, _) = scan_bytes(log.encode()).facts

    assert fact.name == "attention_block_size_tokens"


def test_what_the_log_does_not_say_is_none() -> None:
    """A fact that is absent is not zero, not empty and not false."""
    scanned = scan_bytes(b"")

    assert scanned.value("prefix_caching_enabled") is None
    assert scanned.root_cause is None
    assert (scanned.lines, scanned.bytes) == (0, 0)


def test_lines_are_counted_as_an_editor_counts_them() -> None:
    """Carriage returns are no lines, and a last line without a line feed is one."""
    scanned = scan_bytes(b"a\rb\r\nc\n\n" + f"{PLACE}{BLOCK_SIZE_LINE}".encode())

    assert scanned.lines == 4
    assert scanned.facts[0].line == 4


def test_memory_does_not_grow_with_the_log() -> None:
    """Rolling statistics, repeated findings and new processes leave nothing behind."""
    statistics = (
        "(Worker_{n} pid={n}) INFO 11-30 18:11:19 [loggers.py:310] Engine 000: Avg prompt "
        "throughput: {n}.0 tokens/s, GPU KV cache usage: 0.{n}%, Prefix cache hit rate: {n}.1%\n"
        "(Worker_{n} pid={n}) Traceback (most recent call last):\n"
    )
    scanner = Scanner()

    def feed(numbers: range) -> int:
        for n in numbers:
            scanner.feed(statistics.format(n=n).encode())
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    after_few = feed(range(2_000))
    after_many = feed(range(2_000, 20_000))
    tracemalloc.stop()

    assert after_many - after_few < 50_000  # bytes; 18,000 kept lines would be 5 million


@pytest.mark.parametrize("redraw", [b"\r", b""], ids=["progress bar", "no line feed at all"])
def test_a_line_that_never_ends_is_not_kept(redraw: bytes) -> None:
    """A progress bar that redraws itself for hours, or binary data, stays within bounds."""
    scanner = Scanner()
    piece = (redraw + b"Loading safetensors checkpoint shards") * 1_000

    tracemalloc.start()
    for _ in range(200):
        scanner.feed(piece)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    scanner.feed(f"\n{PLACE}{BLOCK_SIZE_LINE}\n".encode())

    assert held < 1_000_000  # of the 7,400,000 bytes fed
    assert scanner.finish().value("attention_block_size_tokens") == 288


def test_a_file_of_several_blocks_is_read_whole(tmp_path: Path) -> None:
    """It gives the scan of its content."""
    content = HEALTHY * (2 * BLOCK_BYTES // len(HEALTHY))
    path = tmp_path / "server.log"
    path.write_bytes(content)

    assert len(content) > BLOCK_BYTES
    assert scan_file(path) == scan_bytes(content)


def test_an_error_that_the_server_survived_is_not_blamed_later() -> None:
    """A request failed, statistics show that the server went on, then the engine died silently."""
    dead = BY_NAME["0.29.0-cpu-engine-dead-on-first-request.log"]
    worker_error, _, rest = dead.partition(b"(EngineCore pid=12620) ERROR")
    pointer = b"(EngineCore pid=12620) ERROR" + rest
    statistics = next(
        line
        for line in BY_NAME["0.26.0-h200-caching-on-mtp.log"].splitlines(keepends=True)
        if b"Avg prompt throughput" in line
    )

    blamed = scan_bytes(worker_error + pointer).root_cause
    not_blamed = scan_bytes(worker_error + statistics + pointer).root_cause

    assert blamed is not None
    assert blamed.excerpt == "RuntimeError: Unexpected head dim size, 32"
    assert not_blamed is not None
    assert not_blamed.excerpt.startswith("RuntimeError: Worker failed with error")
