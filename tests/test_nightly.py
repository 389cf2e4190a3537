"""`vllm-arms nightly`, as a timer calls it, on the miniature."""

import re
import shutil
import signal
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.adapters.definition_files import Definitions, validated
from orchestrator.adapters.nightlies import only_nightly
from orchestrator.adapters.runs_folder import read_runs
from orchestrator.model.nightly import GRAVITY, Nightly, NightlyConfig
from orchestrator.model.run_entry import Listing
from tests.conftest import COMMAND, PROJECT, Call
from tests.test_resuming import KILL_LIMIT_S, wait_for

EXPERIMENT = """
name = "boundary"
question = "Does stopping at every boundary remove it?"
documents = ["de-brief-denkmalamt"]
warm_up_document = "en-letter-tender-decision"
repeats = 3
reference_repeats = 2
max_tokens = 2

[sizes]
shared = "block + block // 2"
b = "2*block + block // 3"
a = ["2*block - 4"]

[[arms]]
name = "contaminated"
cell = "contaminated"

[[arms]]
name = "patched"
cell = "contaminated"
patch = "stop-at-every-boundary"
every_boundary = true

[expectations.miniature]
contaminated = "diverged"
patched = "stable"
"""
"""One document that shows the effect on the miniature: seconds for two arms."""

CONFIG = """
keep_runs = 1

[[entries]]
experiment = "boundary"
profile = "miniature"
baseline = "baselines/both"

[[entries]]
experiment = "boundary"
profile = "second"
arms = ["contaminated"]
baseline = "baselines/second"

[[entries]]
experiment = "boundary"
profile = "miniature"
arms = ["contaminated"]
baseline = "baselines/one"
starts = 2
"""

THREE_WORDS = ["regressed", "infrastructure failure", "unchanged"]


def run(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Call `vllm-arms` as a process of its own."""
    return subprocess.run(
        [*COMMAND, *arguments, "--project", str(place)],
        capture_output=True, text=True, timeout=300, check=False, cwd=PROJECT,
    )  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a baseline for each entry, made by hand while all was well."""
    folder = tmp_path_factory.mktemp("nightly")
    for name in ("arms", "launch_profiles"):
        shutil.copytree(PROJECT / name, folder / name)
    profiles = folder / "launch_profiles"
    text = (profiles / "miniature.toml").read_text()
    (profiles / "second.toml").write_text(text.replace('name = "miniature"', 'name = "second"'))
    (folder / "arms" / "boundary.toml").write_text(EXPERIMENT)
    (folder / "nightly.toml").write_text(CONFIG)
    (folder / "baselines").mkdir()
    only = ("--arm", "contaminated")
    for name, profile, arms in (
        ("both", "miniature", ()), ("second", "second", only), ("one", "miniature", only),
    ):  # fmt: skip
        done = run(folder, "run", "boundary", "--profile", profile, *arms)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        shutil.move((folder / "runs" / "latest").resolve(), folder / "baselines" / name)
    return folder


@dataclass(frozen=True, kw_only=True)
class Night:
    """What a nightly left, as it was when it ended."""

    done: subprocess.CompletedProcess[str]
    record: Nightly
    page: str
    dead_links: list[str]
    runs: Listing


@pytest.fixture(scope="module")
def night(place: Path) -> Night:
    """One regressed on purpose, one that cannot start its server, one as it was."""
    experiment = place / "arms" / "boundary.toml"
    removed = 'patch = "stop-at-every-boundary"\nevery_boundary = true\n'
    assert removed in EXPERIMENT
    experiment.write_text(EXPERIMENT.replace(removed, ""))
    second = place / "launch_profiles" / "second.toml"
    second.write_text(second.read_text().replace('"--max-logprobs"', '"--no-such-flag"'))
    done = run(place, "nightly")
    assert done.stdout, done.stderr
    (folder,) = (place / "runs" / "nightly").glob("2*")
    page = (folder / "summary.html").read_text()
    return Night(
        done=done,
        record=Nightly.from_json((folder / "nightly.json").read_bytes()),
        page=page,
        dead_links=[
            target
            for target in re.findall(r'href="([^"]+)"', page)
            if not (folder / target).is_file()
        ],
        runs=read_runs(place / "runs"),
    )


def test_three_words_and_the_exit_code_of_the_regression(night: Night) -> None:
    """The patch removed, a server that does not start, and nothing: three different words."""
    results = night.record.results
    assert night.done.returncode == night.record.exit_code == 1, night.done.stderr
    assert [result.word for result in results] == THREE_WORDS
    regressed, failed, _ = (result.starts[0].sentence for result in results)
    assert "patched: diverged (1 of 1 cells)" in regressed
    assert "The baseline was as expected. Not comparable: patched: patch" in regressed
    assert "does not know an argument" in failed


def test_standard_output_is_one_line_and_names_the_page(night: Night) -> None:
    """For a chat or a mail; everything else goes to standard error."""
    (line,) = night.done.stdout.splitlines()

    assert line.startswith(f"vllm-arms nightly {night.record.name}: 1 regressed, ")
    assert "1 infrastructure failure, 1 unchanged; boundary on miniature: " in line
    assert line.endswith(f"/runs/nightly/{night.record.name}/summary.html)")
    assert "contaminated: completed after" in night.done.stderr


def test_the_page_tells_what_differs_and_leads_to_every_run(night: Night, place: Path) -> None:
    """No link is dead; the index of all runs leads to the page."""
    assert "patched: patch" in night.page
    assert night.page.count("/report.html") == 4
    assert night.dead_links == []
    index = (place / "runs" / "index.html").read_text()
    assert f"nightly/{night.record.name}/summary.html" in index


def test_each_start_is_a_run_of_its_own_that_names_its_nightly(night: Night) -> None:
    """Two starts were asked for of the third; nothing of this night is removed."""
    made = [start.run for result in night.record.results for start in result.starts]

    assert len(set(made)) == 4
    assert {run.name for run in night.runs.runs} == set(made)
    assert {run.nightly for run in night.runs.runs} == {night.record.name}
    assert night.record.removed == ()


def test_it_stops_after_a_failure_where_the_config_says_so_and_removes_old_runs(
    night: Night, place: Path
) -> None:
    """What did not start is called so; the newest of each experiment and profile stay."""
    config = place / "stop.toml"
    _, failing, passing = CONFIG.split("[[entries]]")[1:]
    config.write_text(
        f'keep_runs = 1\nafter_failure = "stop"\n[[entries]]{failing}[[entries]]{passing}'
    )
    done = run(place, "nightly", str(config))
    left = read_runs(place / "runs").runs

    assert done.returncode == 4, done.stderr
    assert "1 infrastructure failure, 1 not finished; boundary on second: " in done.stdout
    assert [(run.profile, run.nightly == night.record.name) for run in left] == [
        ("miniature", True), ("second", False),
    ]  # fmt: skip


def test_an_interrupted_night_leaves_its_page_and_exit_code_130(place: Path) -> None:
    """A timer that is stopped: the run is closed, what did not finish is called so."""
    config = place / "interrupted.toml"
    config.write_text(f"[[entries]]{CONFIG.split('[[entries]]')[3]}")
    with subprocess.Popen(
        [*COMMAND, "nightly", str(config), "--project", str(place)],
        cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        wait_for(lambda: any(run.state == "running" for run in read_runs(place / "runs").runs))
        process.send_signal(signal.SIGTERM)
        line, _ = process.communicate(timeout=KILL_LIMIT_S)

    assert process.returncode == 130
    assert "1 not finished; boundary on miniature: interrupted by SIGTERM" in line
    newest = max((place / "runs" / "nightly").glob("2*"))
    left = Nightly.from_json((newest / "nightly.json").read_bytes())
    assert left.exit_code == 130
    assert [start.word for start in left.results[0].starts] == ["not finished", "not finished"]
    states = {run.state for run in read_runs(place / "runs").runs if run.nightly == left.name}
    assert states == {"interrupted"}


def test_the_config_in_the_documentation_is_one() -> None:
    """Who copies it gets no error but for the baselines, which are the reader's own."""
    text = (PROJECT / "docs" / "nightly.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)

    config = validated(Path("nightly.toml"), tomllib.loads(shown), NightlyConfig)

    for entry in config.entries:
        asked = Definitions(PROJECT).experiment(entry.experiment)
        assert set(entry.arms) <= {arm.name for arm in asked.arms}
        assert Definitions(PROJECT).profile(entry.profile).name == entry.profile


def test_every_word_is_explained_in_the_documentation() -> None:
    """With its exit code."""
    text = (PROJECT / "docs" / "nightly.md").read_text(encoding="utf-8")

    for word in GRAVITY:
        assert f"\n| `{word}` |" in text


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"boundary"', '"nope"', r"entries\.0: .*there is no such experiment"),
        ('"second"', '"nope"', r"entries\.1: .*there is no such launch profile"),
        ('["contaminated"]', '["nope"]', r"entries\.1: arms: no arm nope; there are contaminated"),
        ("baselines/both", "baselines/nope", r"entries\.0: .*no plan\.json"),
        ("baselines/both", "baselines/second", r"entries\.0: baseline: .* a run of boundary on s"),
        ("starts = 2", "starts = 0", r"entries\.2\.starts: "),
        ("keep_runs", "keep_run", r"keep_run: unknown key"),
        ("keep_runs = 1", 'after_failure = "ask"', r"after_failure: "),
    ],
)
def test_a_config_is_wrong_before_anything_starts(
    call: Call, place: Path, old: str, new: str, told: str
) -> None:
    """File and key are named, nothing is run."""
    config = place / "wrong.toml"
    config.write_text(CONFIG.replace(old, new, 1))
    before = read_runs(place / "runs")

    code, output, errors = call("nightly", config, "--project", place)

    assert code == 2
    assert output == ""
    assert re.search(rf"wrong\.toml: {told}", errors), errors
    assert read_runs(place / "runs") == before


def test_a_profile_whose_image_is_a_tag_is_refused(call: Call, place: Path) -> None:
    """What it stands for tomorrow is not what the baseline ran on."""
    config = place / "tagged.toml"
    config.write_text(CONFIG.replace('"miniature"', '"docker-miniature"', 1))

    code, _, errors = call("nightly", config, "--project", place)

    assert code == 2
    assert "entries.0: profile: docker-miniature names its image by a tag" in errors


def test_a_config_that_is_not_there_and_an_entry_that_stands_twice(
    call: Call, place: Path, tmp_path: Path
) -> None:
    """The first is told where one is shown."""
    code, _, errors = call("nightly", "--project", tmp_path)
    assert code == 2
    assert "nightly.toml: there is no such file; docs/nightly.md shows one" in errors

    twice = place / "twice.toml"
    twice.write_text(CONFIG + CONFIG[CONFIG.index("[[entries]]") :])
    code, _, errors = call("nightly", twice, "--project", place)
    assert code == 2
    assert "entries.3: stands twice" in errors


def test_a_second_nightly_does_not_start(call: Call, place: Path) -> None:
    """It is a failure of the machine's, exit code 4, and says who has the lock."""
    with only_nightly(place / "runs"):
        code, output, errors = call("nightly", "--project", place)

    assert code == 4
    assert output == ""
    assert re.search(r"another nightly is going on .*: process \d+", errors)
