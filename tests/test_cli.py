"""The command line, called as a user calls it, without a server."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.adapters.run_store import RunStore
from orchestrator.model.host import HostFacts, HostState, RunStart
from orchestrator.model.ownership import Owner
from tests.conftest import PROJECT, Call
from tests.scenarios import Scenario
from tests.test_run_store import NOW, store, stored  # noqa: F401 - fixtures


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "nope"], "there is no such experiment; there are "),
        (["run", "three-arm", "--profile", "nope"], "there is no such launch profile"),
        (["run", "three-arm", "--quick", "--full"], "--quick, --full: only one"),
        (["plan", "three-arm", "--arm", "nope"], "--arm nope"),
        (
            ["run", "stack-compare", "--profile", "miniature"],
            "--profile miniature: arms/stack-compare.toml says itself which profile each arm runs",
        ),
        (["analyze", "/no/such/run"], "RUN /no/such/run: there is no such run"),
        (["run"], "Missing argument"),
        (["run", "three-arm", "--nope"], "No such option"),
    ],
)
def test_wrong_usage_is_exit_2_with_what_to_do(call: Call, arguments: list[str], told: str) -> None:
    """A clear sentence on standard error, no traceback, nothing started."""
    code, _, errors = call(
        *arguments,
        *(["--project", PROJECT] if {"three-arm", "stack-compare"} & {*arguments} else []),
    )

    assert code == 2
    assert told in " ".join(re.sub(r"[│╭╮╰╯─]", " ", errors).split())
    assert "Traceback" not in errors


def test_help_names_every_command(call: Call) -> None:
    """What the README promises is there."""
    code, output, _ = call("--help")

    assert code == 0
    for command in ("run", "plan", "prepare", "analyze", "report", "trim", "scan-log"):
        assert command in output


def test_every_command_of_the_readme_exists(call: Call) -> None:
    """README commands are true."""
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"`\.venv/bin/vllm-arms ([a-z-]+)", text)

    assert len(commands) >= 7
    for command in commands:
        assert call(command, "--help")[0] == 0
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([a-z-]+)`", text):
        assert f"\n{target}:" in makefile


def test_help_does_not_import_what_it_does_not_need() -> None:
    """`--help` answers at once because nothing heavy is loaded for it."""
    code = "import sys, orchestrator.cli.app; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PROJECT
    )

    assert not {"pydantic", "httpx", "tokenizers", "docker", "psutil"} & set(done.stdout.split())


def test_plan_prints_commands_cells_and_token_counts_and_starts_nothing(
    call: Call, tokenizer_file: Path
) -> None:
    """Each arm's launch command, each cell with its sizes, the predicted cached tokens."""
    assert tokenizer_file.is_file()
    code, output, errors = call("plan", "three-arm", "--quick", "--project", PROJECT)

    assert code == 0, errors
    assert output.count("-m vllm.entrypoints.openai.api_server") == 3
    assert output.count("--no-enable-prefix-caching") == 1
    assert "purpose reproduce" in output
    assert re.search(r"a94/measured\s+│\s+94\s+│\s+112\s+│\s+10", output)
    assert "3 server starts, 50 probes" in output


def add_start(run: RunStore) -> None:
    """What `run` writes first."""
    host = HostFacts(
        vllm_arms_version="0.1.0", commit=None, uncommitted_changes=None, python="3.11",
        kernel="6", architecture="x86_64", cpu=None, cpus=2, memory_bytes=1,
    )  # fmt: skip
    state = HostState(memory_available_bytes=1, swap_free_bytes=0, shared_memory_files=0)
    start = RunStart(
        started_at=NOW,
        command=("vllm-arms", "run", "small"),
        owner=Owner(pid=1),
        host=host,
        state=state,
    )
    run.write("run.json", start)


def test_analyze_prints_the_table_and_compares_with_the_stored_verdict(
    call: Call,
    stored: RunStore,  # noqa: F811 - a fixture
) -> None:
    """From raw bytes; a stored verdict that says otherwise is called different."""
    assert "there is none" in call("analyze", stored.root)[1]
    stored.write("verdicts.json", Scenario().judge())
    code, output, _ = call("analyze", stored.root)
    assert code == 0
    assert "the same as this judgement" in output
    assert output.count("diverged: contamination") == 2

    (stored.root / "arms/clean/outcome.json").unlink()
    code, output, _ = call("analyze", stored.root)
    assert code == 4
    assert "DIFFERENT from this judgement" in output


def test_report_has_the_sentence_the_table_and_the_limits(
    call: Call,
    stored: RunStore,  # noqa: F811 - a fixture
) -> None:
    """What the article's author would look for."""
    add_start(stored)
    code, output, _ = call("report", stored.root)

    assert code == 0
    assert output.startswith("# small on listed\n\n**As expected.")
    assert "| contaminated | one | 31 |" in output
    assert (
        "`ABBB` | 0, then 16 | unknown | – | differs (AA, AA) | diverged: contamination |" in output
    )
    assert "## Not covered" in output
    assert "vllm-arms run small" in output
    assert "| contaminated | one/a31/measured |" in output


def test_trim_says_what_it_replaced(
    call: Call,
    stored: RunStore,  # noqa: F811 - a fixture
    tmp_path: Path,
) -> None:
    """And the copy can be analyzed."""
    add_start(stored)
    code, output, _ = call("trim", stored.root, tmp_path / "copy", "--project", tmp_path)

    assert code == 0
    assert "<project> stands 0 times" in output
    assert call("analyze", tmp_path / "copy")[0] == 0


def test_scan_log_prints_facts_and_findings(call: Call) -> None:
    """Of any log, also as JSON."""
    log = PROJECT / "tests/fixtures/serverlog/logs"
    path = next(log.glob("0.29.0*caching-on-mtp*"))
    code, output, _ = call("scan-log", path)
    assert code == 0
    assert "mamba_cache_mode" in output

    code, output, _ = call("scan-log", path, "--json")
    facts = {fact["name"]: fact["value"] for fact in json.loads(output)["facts"]}
    assert facts["mamba_cache_mode"] == "align"
