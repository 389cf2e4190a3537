"""Which runs there are: states, filters, names, histories; `runs/` as it lies on disk."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from orchestrator.adapters.ownership import this_process
from orchestrator.adapters.run_store import RunStore
from orchestrator.adapters.runs_folder import point_latest, read_runs, remove_run, write_index
from orchestrator.errors import DefinitionError, HostError
from orchestrator.listing import Filter, histories, named, selected, state_of
from orchestrator.model.experiment import Experiment
from orchestrator.model.host import HostState, RunEnd
from orchestrator.model.run_entry import ArmEntry, Listing, RunEntry, UnreadableRun
from orchestrator.reporting.pages import index_page
from tests.conftest import Call
from tests.definitions import experiment
from tests.scenarios import Scenario
from tests.test_cli import add_start
from tests.test_run_store import NOW, store, stored  # noqa: F401 - fixtures

STATE = HostState(memory_available_bytes=1, swap_free_bytes=0, shared_memory_files=0)


def entry(day: int, **changes: Any) -> RunEntry:  # noqa: ANN401 - any field
    """A run of a day in September, as expected."""
    values: dict[str, Any] = {
        "name": f"small/2026-09-{day:02d}T00-00-00Z-abc",
        "experiment": "small",
        "profile": "listed",
        "engine": "vLLM 0.0.0",
        "selection": "plain",
        "started_at": datetime(2026, 9, day, tzinfo=UTC),
        "state": "finished",
        "result": "as expected",
        "exit_code": 0,
        "reason": "As expected.",
        "arms": (ArmEntry(arm="clean", verdict="stable"),),
        "resumed": None,
        "nightly": None,
        "report": "report.md",
    }
    return RunEntry.model_validate(values | changes)


def ended(how: str = "finished") -> RunEnd:
    """How a run says that it ended."""
    values = {"ended_at": NOW, "how": how, "exit_code": 0, "reason": "Done.", "state": STATE}
    return RunEnd.model_validate(values)


def test_a_run_that_never_said_how_it_ended_is_told_by_its_owner() -> None:
    """Dead: killed. Alive: running. Not to be told: unknown, which is neither."""
    assert state_of(None, "dead") == "killed"
    assert state_of(None, "alive") == "running"
    assert state_of(None, "unknown") == "unknown"


def test_a_run_that_said_how_it_ended_is_believed_whoever_lives() -> None:
    """A process may go on after its run, and a process id may be used again."""
    assert state_of(ended("interrupted"), "alive") == "interrupted"
    assert state_of(ended(), "dead") == "finished"


def test_filters_are_all_held_and_the_newest_comes_first() -> None:
    """Experiment, profile, what it came to, and since when."""
    runs = [
        entry(1),
        entry(2, profile="other"),
        entry(3, state="killed", result=None),
        entry(4, experiment="large"),
        entry(5),
    ]

    def days(**wanted: Any) -> list[int]:  # noqa: ANN401 - any filter
        return [run.started_at.day for run in selected(runs, Filter(**wanted))]

    assert days() == [5, 4, 3, 2, 1]
    assert days(experiment="small", profile="listed") == [5, 3, 1]
    assert days(word="killed") == [3]
    assert days(word="as expected", since=datetime(2026, 9, 2, tzinfo=UTC)) == [5, 4, 2]


def test_a_word_that_no_run_comes_to_is_named_with_those_that_there_are() -> None:
    """A misspelt filter is no empty list."""
    with pytest.raises(DefinitionError, match=r"--result stabel: .* as expected, .* killed"):
        Filter(word="stabel")


def test_a_run_is_named_by_a_beginning_that_only_it_has() -> None:
    """With and without its experiment; `latest` is the newest."""
    runs = [entry(1), entry(21), entry(22)]

    assert named(runs, "2026-09-01") is runs[0]
    assert named(runs, "small/2026-09-21") is runs[1]
    assert named(runs, "latest") is runs[2]
    with pytest.raises(DefinitionError, match="2 runs begin so: small/2026-09-21"):
        named(runs, "2026-09-2")
    with pytest.raises(DefinitionError, match="there is no such run"):
        named(runs, "2027")


def test_a_whole_name_wins_over_a_longer_one_that_begins_with_it() -> None:
    """Two plans of one second may have hashes of which one begins the other."""
    runs = [entry(1), entry(1, name="small/2026-09-01T00-00-00Z-abcd")]

    assert named(runs, runs[0].name) is runs[0]


def test_a_history_marks_where_an_arms_verdict_turns() -> None:
    """Against the judged run before; what was never judged, or had fewer arms, turns nothing."""
    both = (ArmEntry(arm="clean", verdict="stable"), ArmEntry(arm="dirty", verdict="diverged"))
    fixed = (ArmEntry(arm="clean", verdict="stable"), ArmEntry(arm="dirty", verdict="stable"))
    runs = [
        entry(1, arms=both),
        entry(2, arms=()),
        entry(3, arms=both[:1]),
        entry(4, arms=both),
        entry(5, arms=fixed),
        entry(6, profile="other", arms=both),
    ]

    first, second = histories(reversed(runs))

    assert [run.started_at.day for run in first.runs] == [1, 2, 3, 4, 5]
    assert first.changed == {runs[4].name}
    assert second.changed == frozenset()


@pytest.fixture
def listed(stored: RunStore) -> Path:  # noqa: F811 - a fixture
    """A `runs/` folder with one whole run, judged."""
    add_start(stored)
    stored.write_text("verdicts.json", Scenario().judge().model_dump_json())
    stored.write("end.json", ended())
    return stored.root.parent.parent


def test_what_is_no_run_is_unreadable_with_the_reason_and_hides_nothing(listed: Path) -> None:
    """A foreign folder, a run without its plan's rest, a broken file, a link, the nightlies."""
    (listed / "foreign" / "photos").mkdir(parents=True)
    (listed / "small" / "broken").mkdir()
    (listed / "small" / "broken" / "plan.json").write_text('{"experiment": 7')
    (listed / "copied").mkdir()
    (listed / "copied" / "plan.json").write_text("{}")
    (listed / "latest").symlink_to("small")
    (listed / "nightly" / "2026").mkdir(parents=True)
    (listed / "small" / ".removed-old").mkdir()
    (listed / "empty").mkdir()

    listing = read_runs(listed)

    assert [run.name for run in listing.runs] == ["small/2026-09-14T18-02-11Z-abc"]
    reasons = {folder.name: folder.reason for folder in listing.unreadable}
    assert set(reasons) == {"foreign/photos", "small/broken", "copied"}
    assert "has no plan.json" in reasons["foreign/photos"]
    assert "plan.json: Invalid JSON" in reasons["small/broken"]
    assert "experiment: Field required" in reasons["copied"]


def test_a_run_of_another_version_is_listed_by_what_it_shares(listed: Path) -> None:
    """A list needs a few fields; one more in a verdict is no reason to hide the run."""
    path = next(listed.glob("small/2026*")) / "verdicts.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"new": 1}))

    (run,) = read_runs(listed).runs

    assert run.result == "as expected"
    assert [arm.verdict for arm in run.arms] == ["stable", "diverged", "stable"]


def test_a_folder_that_is_not_there_has_no_runs(tmp_path: Path) -> None:
    """Before the first run."""
    assert read_runs(tmp_path / "runs") == Listing(runs=(), unreadable=())


def test_latest_moves_from_run_to_run_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    """A relative link, so that `runs/` can be moved."""
    for name in ("one", "two"):
        (tmp_path / "small" / name).mkdir(parents=True)
        point_latest(tmp_path, tmp_path / "small" / name)

    assert (tmp_path / "latest").readlink() == Path("small/two")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "small"]


def test_a_folder_in_the_way_of_latest_is_named(tmp_path: Path) -> None:
    """Nothing of somebody else's is removed."""
    (tmp_path / "latest" / "mine").mkdir(parents=True)

    with pytest.raises(HostError, match=r"latest cannot be made a link"):
        point_latest(tmp_path, tmp_path / "small")

    assert [path.name for path in tmp_path.iterdir()] == ["latest"]


@pytest.mark.parametrize("name", ["latest", "nightly"])
def test_no_experiment_takes_a_name_that_runs_has_for_something_else(name: str) -> None:
    """Its runs would lie where the link or the nightlies do."""
    with pytest.raises(ValueError, match=f"{name} is taken"):
        Experiment.model_validate(experiment().model_dump() | {"name": name})


def test_a_removed_run_is_gone_and_so_is_what_a_killed_removal_left(listed: Path) -> None:
    """A half-removed run is never in the list."""
    (run,) = read_runs(listed).runs
    left = listed / "small" / ".removed-earlier"
    left.mkdir()

    remove_run(listed, run.name)

    assert list((listed / "small").iterdir()) == []
    with pytest.raises(HostError, match="cannot be removed"):
        remove_run(listed, run.name)


def test_the_index_page_shows_each_history_with_links_and_escapes_what_it_shows() -> None:
    """Nothing that stands in a run's folder becomes markup."""
    runs = (entry(1), entry(2, engine="<script>alert(1)</script>", result="not as expected"))
    unreadable = (UnreadableRun(name="x/<b>", reason="is no run"),)

    page = index_page(
        Listing(runs=runs, unreadable=unreadable), ["2026-09-02T01-00-00Z"], made_at=NOW
    )

    assert "small on listed" in page
    assert page.index("2026-09-01 00:00: as expected") < page.index("2026-09-02 00:00: not as")
    assert 'href="small/2026-09-02T00-00-00Z-abc/report.md"' in page
    assert 'href="nightly/2026-09-02T01-00-00Z/summary.html"' in page
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert "x/&lt;b&gt;: is no run" in page


@pytest.mark.parametrize(
    ("result", "sign"),
    [("as expected", "✓"), ("batch-dependent", "✗"), ("inconclusive", "?"), ("failed", "!")],
)
def test_the_index_page_gives_every_result_a_sign(result: str, sign: str) -> None:
    """What came to a verdict is not shown as if it had not."""
    page = index_page(Listing(runs=(entry(1, result=result),), unreadable=()), [], made_at=NOW)

    assert f">{sign}<" in page


def test_the_index_page_is_replaced_whole(tmp_path: Path) -> None:
    """And nothing else stays in the folder."""
    write_index(tmp_path, "one")
    write_index(tmp_path, "two")

    assert (tmp_path / "index.html").read_text() == "two"
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    with pytest.raises(HostError, match="cannot write"):
        write_index(tmp_path / "nowhere", "three")


def test_list_and_show_as_a_user_calls_them(call: Call, listed: Path) -> None:
    """A table, JSON lines, one run; a project is the folder that has `runs/`."""
    project = ("--project", listed.parent)
    (listed / "foreign" / "photos").mkdir(parents=True)

    code, output, _ = call("list", *project)
    assert code == 0
    assert "small/2026-09-14T18-02-11Z-abc" in output
    assert "foreign/photos" in output

    code, output, _ = call("list", "--json", "--since", "2026-09-14T18:00", *project)
    run, folder = map(json.loads, output.splitlines())
    assert (run["kind"], run["result"], folder["kind"]) == ("run", "as expected", "unreadable")

    code, output, _ = call("show", "2026-09-14", *project)
    assert code == 0
    assert "finished, exit code 0" in output
    assert "diverged: contamination" in output
    assert call("show", listed / "small" / "2026-09-14T18-02-11Z-abc", *project)[1] == output

    assert call("list", "--since", "yesterday", *project)[0] == 2
    assert call("show", "2027", *project)[0] == 2


def test_list_says_so_when_there_is_nothing(call: Call, tmp_path: Path) -> None:
    """An empty answer is an answer."""
    code, output, _ = call("list", "--project", tmp_path)

    assert code == 0
    assert "no such run" in output


def test_a_run_of_this_process_without_an_end_is_running(listed: Path) -> None:
    """We are its owner, and we are alive."""
    folder = next(listed.glob("small/2026*"))
    (folder / "end.json").unlink()
    start = json.loads((folder / "run.json").read_text())
    start["owner"] = this_process().model_dump()
    (folder / "run.json").write_text(json.dumps(start))

    (run,) = read_runs(listed).runs

    assert run.word == "running"
