"""A run, a definition, a page or a log with anything at all in it: a result, or a named error.

What a stranger's files can hold is not foreseen; these tests put arbitrary bytes and values in the
place of real ones. Answers are fuzzed in `test_security.py`, where their bounds are.
"""

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.adapters.definition_files import Definitions
from orchestrator.adapters.run_store import RunStore
from orchestrator.cli.reporting import page
from orchestrator.errors import DefinitionError, OrchestratorError
from orchestrator.metrics import counter_lines, read_cache_config, read_metrics
from orchestrator.model.plan import Plan
from orchestrator.runner import judge_run
from orchestrator.serverlog.scan import scan
from tests.conftest import PROJECT
from tests.test_run_store import store, stored  # noqa: F401 - fixtures

LOGS = PROJECT / "tests" / "fixtures" / "serverlog" / "logs"

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
    st.just([]),
    st.just({}),
    st.just(-1),
    st.just("../../../etc/hostname"),
)
"""In the place of a value of a record."""

fuzzed = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60
)


@fuzzed
@given(data=st.data())
def test_a_damaged_file_of_a_run_is_a_result_or_a_named_error(
    stored: RunStore,  # noqa: F811 - the fixture
    tmp_path: Path,
    data: st.DataObject,
) -> None:
    """Never a traceback."""
    run = _copy(stored, tmp_path / "damaged")
    files = sorted(path for path in run.rglob("*") if path.is_file())
    damaged = data.draw(st.sampled_from(files), label="file")
    damaged.write_bytes(_damage(damaged, data))

    with suppress(OrchestratorError):
        opened = RunStore.open(run)
        plan = opened.read("plan.json", Plan)
        verdict = judge_run(plan, opened)
        assert page(plan, verdict, opened)


@fuzzed
@given(data=st.data())
def test_a_response_that_is_cut_anywhere_claims_nothing_about_its_document(
    stored: RunStore,  # noqa: F811 - the fixture
    tmp_path: Path,
    data: st.DataObject,
) -> None:
    """Half an answer is no answer: its cell claims nothing, and none is stable by it.

    That other repeats differ is seen all the same, and then not called contamination: one of the
    references did not stand.
    """
    run = _copy(stored, tmp_path / "cut")
    answers = sorted((run / "arms").rglob("*-b*.response.json"))
    answer = data.draw(st.sampled_from(answers), label="answer")
    whole = answer.read_bytes()
    answer.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 2), label="bytes")])
    opened = RunStore.open(run)
    plan = opened.read("plan.json", Plan)
    arm = answer.parents[1].name
    probe = answer.name.partition(".")[0]
    (cell,) = [
        cell
        for planned in plan.arms
        if planned.name == arm
        for cell in planned.cells
        if probe in {each.id for each in cell.probes}
    ]

    (judged,) = [each for each in judge_run(plan, opened).arms if each.arm == arm]

    same = [each for each in judged.cells if each.document == cell.document]
    assert same
    assert {each.verdict for each in same if each.cell == cell.id} <= {"inconclusive"}
    assert "stable" not in {each.verdict for each in same}
    assert "contamination" not in {each.attribution for each in same}


@fuzzed
@given(data=st.data())
@pytest.mark.parametrize(
    "name",
    ["arms/three-arm.toml", "launch_profiles/docker-miniature.toml", "arms/documents/*.toml"],
)
def test_a_damaged_definition_is_valid_or_refused_by_name(
    tmp_path: Path, name: str, data: st.DataObject
) -> None:
    """Whatever a text editor can do to it; the message names the file."""
    project = tmp_path / "project"
    if not project.is_dir():
        for folder in ("arms", "launch_profiles"):
            shutil.copytree(PROJECT / folder, project / folder)
    file = next(project.glob(name))
    whole = next(PROJECT.glob(name)).read_text(encoding="utf-8")
    lines = whole.splitlines()
    at = data.draw(st.integers(0, len(lines) - 1), label="line")
    lines[at] = data.draw(st.one_of(st.text(max_size=30), _changed(lines[at])), label="text")
    file.write_text("\n".join(lines), encoding="utf-8", errors="surrogatepass")
    definitions = Definitions(project)
    refused: DefinitionError | None = None
    try:
        definitions.documents(definitions.experiment("three-arm"))
        definitions.profile("docker-miniature")
    except DefinitionError as error:
        refused = error
    assert refused is None or ".toml" in str(refused)


@settings(deadline=None)
@given(
    text=st.text(), lines=st.lists(st.sampled_from(["vllm:", "# TYPE ", "{", "} 1", "\n", "e9"]))
)
def test_any_text_is_a_page_of_metrics_or_none(text: str, lines: list[str]) -> None:
    """A counter that cannot be read is missing, and no error."""
    made = text.join(lines)
    read_metrics(counter_lines(made))
    read_cache_config(made)


@settings(deadline=None, max_examples=30)
@given(data=st.data())
def test_a_log_of_any_bytes_is_scanned(data: st.DataObject) -> None:
    """A real log with arbitrary bytes anywhere in it, in blocks of any size."""
    whole = data.draw(st.sampled_from(sorted(LOGS.glob("*.log")))).read_bytes()[:200_000]
    at = data.draw(st.integers(0, len(whole)))
    log = whole[:at] + data.draw(st.binary(max_size=300)) + whole[at:]
    size = data.draw(st.integers(1, 70_000))
    found = scan(log[start : start + size] for start in range(0, len(log), size))

    assert found.bytes == len(log)
    assert found == scan([log])


def _copy(stored: RunStore, target: Path) -> Path:  # noqa: F811 - the fixture
    """The run anew, in place of what the example before has left."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(stored.root, target)
    return target


def _damage(file: Path, data: st.DataObject) -> bytes:
    """Other bytes, a part, or, of a record, another value at one place."""
    whole = file.read_bytes()
    how = data.draw(st.sampled_from(["bytes", "part", "value"]), label="how")
    if how == "bytes":
        return data.draw(st.binary(max_size=50))
    if how == "part" or not file.name.endswith(".json") or not whole:
        return whole[: data.draw(st.integers(0, max(0, len(whole) - 1)))]
    record = json.loads(whole)
    holder = record
    while isinstance(holder, dict | list) and holder:
        key = data.draw(
            st.sampled_from(sorted(holder) if isinstance(holder, dict) else range(len(holder)))
        )
        inner = holder[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            holder[key] = data.draw(VALUES, label="value")
            break
        holder = inner
    return json.dumps(record).encode()


def _changed(line: str) -> st.SearchStrategy[str]:
    """The line with one of its values replaced, as a person mistypes it."""
    key, equals, _ = line.partition("=")
    values = ["", "-1", "0", '""', "[]", "{}", "nan", "1e999", "true", '"../x"', "9" * 30]
    return st.sampled_from([f"{key}{equals} {value}" for value in values])
