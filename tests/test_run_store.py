"""Run folders: whole files, written once; trimmed copies that still can be judged."""

import json
import resource
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from orchestrator.adapters.run_store import RunStore
from orchestrator.adapters.trimming import trim
from orchestrator.errors import HostError, RunFolderError
from orchestrator.model.outcome import Completed, Failed
from orchestrator.model.plan import Plan
from orchestrator.runner import judge_run
from tests.scenarios import Scenario

NOW = datetime(2026, 9, 14, 18, 2, 11, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    """The folder of a new run."""
    return RunStore.create(tmp_path / "runs", "small", "abc", NOW)


@pytest.fixture
def stored(store: RunStore) -> RunStore:
    """A whole constructed run on disk."""
    scenario = Scenario()
    store.write_text("plan.json", scenario.plan.model_dump_json())
    for arm in scenario.plan.arms:
        for exchange, counters in scenario.exchanges(arm.name):
            store.keep(arm.name, exchange)
            store.save_counters(arm.name, exchange.times.probe.id, counters)
        facts = scenario.facts(arm.name)
        assert facts is not None
        store.save_facts(arm.name, facts)
        store.save_outcome(arm.name, Completed())
        store.save_page(arm.name, "server.log", "log of /home/somebody/model on box-7\n")
        store.save_page(
            arm.name, "metrics-end.txt", scenario.page(arm.name, "metrics-end.txt") or ""
        )
    return store


def test_a_run_is_named_after_its_time_and_plan(store: RunStore) -> None:
    """UTC, sortable, and without characters that a file system minds."""
    assert store.root.name == "2026-09-14T18-02-11Z-abc"
    with pytest.raises(HostError, match="cannot make"):
        RunStore.create(store.root.parent.parent, "small", "abc", NOW)


def test_a_file_is_never_written_over(store: RunStore) -> None:
    """Runs are never edited; the first content stays, and no partial file."""
    store.write_text("a/file.txt", "first")

    with pytest.raises(FileExistsError):
        store.write_text("a/file.txt", "second")

    assert (store.root / "a/file.txt").read_text() == "first"
    assert [path.name for path in (store.root / "a").iterdir()] == ["file.txt"]


def test_a_disk_that_is_full_is_a_host_error_and_leaves_nothing(store: RunStore) -> None:
    """The operating system's own refusal, by the limit on a file's size."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(HostError, match=r"cannot write .*File too large"):
            store.write_text("a/file.txt", "x" * 101)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert list((store.root / "a").iterdir()) == []


def test_a_run_is_judged_from_its_folder_as_it_was_in_memory(stored: RunStore) -> None:
    """The same verdict, from raw bytes alone."""
    assert judge_run(stored.read("plan.json", Plan), stored) == Scenario().judge()


def test_a_trimmed_run_is_judged_the_same_and_names_no_path(
    stored: RunStore, tmp_path: Path
) -> None:
    """Exchanges are packed byte for byte; texts are cleaned; what was replaced is counted."""
    target = tmp_path / "evidence"

    counts = trim(
        stored,
        target,
        {"/home/somebody": "<home>", "box-7": "<host>"},
        judged={"report.md": "on box-7"},
    )

    copy = RunStore.open(target)
    assert judge_run(copy.read("plan.json", Plan), copy) == Scenario().judge()
    assert counts == {"<home>": 3, "<host>": 4, "<secret>": 0}
    assert json.loads((target / "trimmed.json").read_text())["of"] == stored.root.name
    log = (target / "arms" / "clean" / "server.log").read_text()
    assert log == "log of <home>/model on <host>\n"
    assert (target / "report.md").read_text() == "on <host>"
    assert not (target / "arms" / "clean" / "exchanges").exists()


def test_trimming_twice_gives_the_same_bytes(stored: RunStore, tmp_path: Path) -> None:
    """Nothing in the archive depends on when or where it was made."""
    for name in ("one", "two"):
        trim(stored, tmp_path / name, {}, judged={})
    archive = "arms/clean/exchanges.tar.xz"

    assert (tmp_path / "one" / archive).read_bytes() == (tmp_path / "two" / archive).read_bytes()
    with tarfile.open(tmp_path / "one" / archive) as packed:
        assert len(packed.getnames()) == 4 * (1 + 2 * 2 + 2 * 4 + 2 * 2)


def test_trimming_never_writes_into_a_folder_that_is_there(
    stored: RunStore, tmp_path: Path
) -> None:
    """Nothing of somebody else's is mixed in."""
    (tmp_path / "target").mkdir()

    with pytest.raises(RunFolderError, match="exists already"):
        trim(stored, tmp_path / "target", {}, judged={})


def test_a_broken_archive_is_named(stored: RunStore, tmp_path: Path) -> None:
    """And nothing is judged from a part of it."""
    target = tmp_path / "evidence"
    trim(stored, target, {}, judged={})
    archive = target / "arms" / "clean" / "exchanges.tar.xz"
    archive.write_bytes(archive.read_bytes()[:200])

    with pytest.raises(RunFolderError, match=r"exchanges\.tar\.xz: cannot be read"):
        list(RunStore.open(target).exchanges("clean"))


def test_a_missing_part_of_an_exchange_is_an_error(stored: RunStore) -> None:
    """An answer that is gone is not an answer that was never given."""
    (stored.root / "arms/clean/exchanges/003-b1.response.json").unlink()

    with pytest.raises(RunFolderError, match="003-b1"):
        list(stored.exchanges("clean"))


def test_what_is_not_there_is_absent_and_what_is_broken_is_an_error(store: RunStore) -> None:
    """An arm without an outcome has none; a file that says nonsense is named."""
    assert store.outcome("clean") is None
    assert store.facts("clean") is None
    store.write_text("arms/clean/outcome.json", '{"kind": "lost"}')
    with pytest.raises(RunFolderError, match=r"outcome\.json"):
        store.outcome("clean")
    with pytest.raises(RunFolderError, match=r"no plan\.json"):
        RunStore.open(store.root)


def test_an_outcome_is_read_back_as_it_was(store: RunStore) -> None:
    """A union on disk, too."""
    failed = Failed(stage="probe", error="ProbeError: HTTP 500")
    store.save_outcome("clean", failed)

    assert store.outcome("clean") == failed
