"""The log against the logs of real servers, line by line."""

import re
import signal
from pathlib import Path

import pytest

from .servers import ARGUMENTS, DRAFTS, RunningServer, started

_LOGS = Path(__file__).parents[1] / "fixtures" / "serverlog" / "logs"
_WITH_ROUTES = Path(__file__).with_name("recordings") / "served-0.29.0.log"
"""vLLM for CPU 0.29.0 with drafts, from its start to its end; the others lack the routes."""

_PREFIX = re.compile(
    r"(?:\((?:APIServer|EngineCore|Worker) pid=\d+\) )?"
    r"(?:(?:INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[[\w.]+:\d+\] ?|INFO: +)?"
)
_CONFIG = re.compile(r"(?<=non-default args: ).*|(?<= with config: ).*")
_DATA = re.compile(r"(?<= for )\w+For\w+|(?<=architecture: )\w+|(?<=model )/\S+|\d[\d.,]*")
_OUR_OWN = {"Route: /oracle/{request}, Methods: GET"}


def messages(log: str) -> set[str]:
    """What the lines say, without the process, the time, the place, and the data."""
    texts = (_PREFIX.sub("", line, count=1) for line in log.splitlines())
    return {_DATA.sub("…", _CONFIG.sub("…", text)).rstrip() for text in texts}


@pytest.fixture(scope="module")
def real() -> set[str]:
    """Every message of the recorded logs of vLLM 0.29.0 and 0.26.0."""
    files = [*sorted(_LOGS.glob("*.log")), _WITH_ROUTES]
    logs = (path.read_text(encoding="utf-8") for path in files)
    return set().union(*(messages(log) for log in logs))


def served(folder: Path, *arguments: str) -> str:
    """The log of a server from start to stop, with a request in between."""
    environment = {"VLLM_SERVER_DEV_MODE": "1"}
    with started(folder, *ARGUMENTS, *arguments, **environment) as server:
        server.wait_until_ready()
        server.complete(list(range(100)))
        server.http.post("/reset_prefix_cache")
        server.http.close()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(10) == 0
        return server.log


@pytest.mark.parametrize("arguments", [DRAFTS, (), ("--no-enable-prefix-caching",)])
def test_every_line_is_a_real_servers_or_says_what_it_is(
    tmp_path: Path, real: set[str], arguments: tuple[str, ...]
) -> None:
    """From the first line to the last: vLLM's wording, or the label."""
    log = served(tmp_path, *arguments)

    unknown = {message for message in messages(log) - real if "MINIATURE" not in message}
    assert unknown <= _OUR_OWN


def test_the_mode_is_logged_only_with_caching(tmp_path: Path) -> None:
    """As on a real server, where its absence says that caching is off."""
    line = "Mamba cache mode is set to 'align'"
    on, off = tmp_path / "on", tmp_path / "off"
    on.mkdir()
    off.mkdir()

    assert line in served(on)
    assert line not in served(off, "--no-enable-prefix-caching")


def test_a_port_in_use_ends_the_start(tmp_path: Path) -> None:
    """With the recorded last line, and exit code 1."""
    recorded = (_LOGS / "0.29.0-cpu-crash-port-in-use.log").read_text(encoding="utf-8")
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with started(first, *ARGUMENTS) as holder:
        holder.wait_until_ready()
        with started(second, *ARGUMENTS, "--port", str(holder.port)) as server:
            assert server.process.wait(10) == 1
            assert last_message(server) == _PREFIX.sub("", recorded.splitlines()[-1])


def last_message(server: RunningServer) -> str:
    """The last line without its process."""
    return _PREFIX.sub("", server.log.splitlines()[-1])


@pytest.mark.parametrize(
    "arguments",
    [("--no-such-flag",), ("--block-size", "many"), ("--speculative-config", "{}")],
)
def test_a_wrong_command_line_ends_with_two(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """As vLLM's; the message is argparse's in both."""
    with started(tmp_path, *ARGUMENTS, *arguments) as server:
        assert server.process.wait(10) == 2
        assert re.match(r"\w+\.py: error: ", server.log.splitlines()[-1])


def test_a_cache_too_small_for_one_request_ends_the_start(tmp_path: Path) -> None:
    """The cause first, then the general last line of a failed start, and exit code 1."""
    with started(tmp_path, *ARGUMENTS, "--num-gpu-blocks-override", "9") as server:
        assert server.process.wait(10) == 1
        assert "ValueError: To serve at least one request with the model's max seq len (8192)" in (
            server.log
        )
        assert last_message(server).startswith("RuntimeError: Engine core initialization failed.")
