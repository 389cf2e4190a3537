"""TOML files → types, strictly."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from orchestrator.adapters.definition_files import Definitions
from orchestrator.errors import DefinitionError
from orchestrator.model.profile import ProcessProfile
from orchestrator.scoring.reading import canonical
from tests.conftest import PROJECT

Edit = Callable[[str, str, str], Definitions]


@pytest.fixture
def edit(tmp_path: Path) -> Edit:
    """The shipped definitions with one text in one file replaced."""
    for folder in ("arms", "launch_profiles"):
        shutil.copytree(PROJECT / folder, tmp_path / folder)

    def edited(name: str, old: str, new: str) -> Definitions:
        path = tmp_path / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        return Definitions(tmp_path)

    return edited


def test_every_shipped_definition_is_valid() -> None:
    """Experiments with their documents, and profiles."""
    definitions = Definitions(PROJECT)

    for path in (PROJECT / "arms").glob("*.toml"):
        suite = definitions.suite(path.stem)
        if suite is None:
            assert definitions.documents(definitions.experiment(path.stem))
        else:
            assert definitions.suite_documents(suite, definitions.suite_items(suite))
    for path in (PROJECT / "launch_profiles").glob("*.toml"):
        assert definitions.profile(path.stem).name == path.stem


@pytest.mark.parametrize(
    "secret",
    [
        '"--api-key", "canary"',
        '"--api_key=canary"',
        '"--hf-token", "canary"',
        '"--ssl-keyfile-password", "canary"',
        '"--download-mirror", "https://user:canary@mirror.example"',
        '"--download-mirror", "https://canary@mirror.example"',
    ],
)
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("launch_profiles/miniature.toml", "\nargs = [", "\nargs = [{}, "),
        ("arms/three-arm.toml", '"contaminated"\n', '"contaminated"\nextra_args = [{}]\n'),
    ],
)
def test_a_secret_among_the_arguments_is_refused_without_being_told(
    edit: Edit, secret: str, name: str, old: str, new: str
) -> None:
    """It could not be kept out of the process list; the message says where it belongs."""
    definitions = edit(name, old, new.format(secret))
    read = definitions.profile if "profiles" in name else definitions.experiment
    with pytest.raises(DefinitionError, match="VLLM_API_KEY") as refused:
        read(Path(name).stem)

    assert Path(name).name in str(refused.value)
    assert "args" in str(refused.value)
    assert "canary" not in str(refused.value)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("capabilities", '["SYS_PTRACEE"]', "resources.capabilities.0"),
        ("ulimits.memlockk", "{ soft = 1, hard = 1 }", "resources.ulimits.memlockk"),
    ],
)
def test_a_resource_that_no_kernel_knows_is_refused_by_its_key(
    edit: Edit, key: str, value: str, told: str
) -> None:
    """Before an engine refuses it in words that name neither file nor key."""
    definitions = edit(
        "launch_profiles/docker-miniature.toml", "[resources]\n", f"[resources]\n{key} = {value}\n"
    )
    with pytest.raises(DefinitionError, match=rf"docker-miniature\.toml: .*{told}"):
        definitions.profile("docker-miniature")


def test_the_shipped_documents_are_many_and_varied() -> None:
    """At least eight, in three languages and of three kinds, each several real blocks long."""
    definitions = Definitions(PROJECT)
    names = [path.stem for path in definitions.documents_dir.glob("*.toml")]
    experiment = definitions.experiment("three-arm").model_copy(
        update={"documents": tuple(names[1:]), "warm_up_document": names[0]}
    )
    documents = definitions.documents(experiment).values()

    assert len(documents) >= 8
    assert {document.language for document in documents} == {"hu", "en", "de"}
    assert {document.kind for document in documents} == {"invoice", "contract", "letter"}
    # A block of the article's model is 1600 tokens; its tokenizer needs at most 4.5 characters
    # for a token of such text, so this is two blocks at least.
    assert all(len(document.text) > 2 * 1600 * 4.3 for document in documents)
    assert len({document.text[:100] for document in documents}) == len(documents)


@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("three-arm", "repeats = 10", "repeat = 10", r"three-arm\.toml: repeat: unknown key"),
        ("three-arm", "repeats = 10", 'repeats = "10"', r"repeats: Input should be a valid int"),
        ("three-arm", "repeats = 10", "repeats = 1", r"repeats: .* greater than or equal to 2"),
        ("three-arm", "repeats = 10", "repeats = 2026-01-01", r"no text, number, list"),
        ("three-arm", "repeats = 10", "repeats = ", r"is no TOML"),
        ("three-arm", 'cell = "reference"', 'cell = "ref"', r"arms\.0\.cell: "),
        ("three-arm", 'name = "three-arm"', 'name = "other"', r"name: must be 'three-arm'"),
        ("three-arm", 'name = "clean"', 'name = "caching-off"', r"arms: a name stands twice"),
        ("three-arm", 'clean = "stable"', 'cleen = "stable"', r"cleen: there is no such arm"),
        ("three-arm", 'clean = "stable"', 'clean = "fine"', r"expectations\..*\.clean: "),
        ("three-arm", '"hu-szerzodes-raktarberlet",', '"nope",', r"documents\.0: no file .*nope"),
        ("three-arm", '"hu-szerzodes-raktarberlet",', '"../x",', r"documents\.0: String should"),
        ("three-arm", '"en-letter-tender-decision"', '"nope"', r"warm_up_document: no file"),
    ],
)  # fmt: skip
def test_a_mistake_in_an_experiment_names_file_and_key(
    edit: Edit, file: str, old: str, new: str, told: str
) -> None:
    """Unknown key, wrong type, unknown value, unknown document, unknown arm: exit 2."""
    definitions = edit(f"arms/{file}.toml", old, new)

    with pytest.raises(DefinitionError, match=told) as caught:
        definitions.documents(definitions.experiment(file))
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("grace_s = 20.0", "grace = 20.0", r"stop\.grace: unknown key"),
        ("grace_s = 20.0", "grace_s = 0.0", r"stop\.grace_s: .* greater than 0"),
        ("grace_s = 20.0", "grace_s = inf", r"stop\.grace_s: "),
        ('kind = "process"', 'kind = "podman"', r"kind: must be one of process, docker"),
        ('kind = "prepared"', 'kind = "magic"', r"interpreter: Input tag 'magic'"),
        ('HF_HUB_OFFLINE = "1"', "HF_HUB_OFFLINE = 1", r"environment\.HF_HUB_OFFLINE: "),
        ('HF_HUB_OFFLINE = "1"', '"A=B" = "1"', r"environment\.A=B"),
    ],
)
def test_a_mistake_in_a_profile_names_file_and_key(
    edit: Edit, old: str, new: str, told: str
) -> None:
    """The same strictness."""
    definitions = edit("launch_profiles/vllm-cpu-tiny-hybrid.toml", old, new)

    with pytest.raises(DefinitionError, match=rf"vllm-cpu-tiny-hybrid\.toml: .*{told}"):
        definitions.profile("vllm-cpu-tiny-hybrid")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('language = "hu"', 'language = "fr"', r"language: "),
        ("title =", 'text = "x"\ntitle =', r"text: unknown key"),
        ("response_schema = '''{", "response_schema = '''", r"a\.response_schema: is no JSON"),
    ],
)
def test_a_mistake_in_a_document_names_file_and_key(
    edit: Edit, old: str, new: str, told: str
) -> None:
    """A document's own definition is as strict."""
    definitions = edit("arms/documents/hu-szamla-orgonagyar.toml", old, new)

    with pytest.raises(DefinitionError, match=rf"hu-szamla-orgonagyar\.toml: {told}"):
        definitions.documents(definitions.experiment("three-arm"))


def test_the_second_stack_differs_from_the_first_in_its_release_alone() -> None:
    """What stack-compare compares: the same arguments on another engine."""
    definitions = Definitions(PROJECT)
    base = definitions.profile("vllm-cpu-tiny-hybrid")
    derived = definitions.profile("vllm-cpu-0.28-tiny-hybrid")
    own = {"name", "description", "vllm_version", "interpreter"}

    assert derived.model_dump(exclude=own) == base.model_dump(exclude=own)
    assert (derived.vllm_version, base.vllm_version) == ("0.28.0", "0.29.0")


@pytest.mark.parametrize("what", ["experiment", "profile"])
def test_an_unknown_name_lists_the_known_ones(what: str) -> None:
    """So that the next try is right."""
    with pytest.raises(DefinitionError, match=r"nope\.toml: there is no such .*three-arm|vllm-cpu"):
        getattr(Definitions(PROJECT), what)("nope")


def test_a_document_that_is_no_utf8_is_refused(edit: Edit, tmp_path: Path) -> None:
    """Never a replacement character in a prompt."""
    definitions = edit("arms/three-arm.toml", "repeats = 10", "repeats = 10")
    text = tmp_path / "arms" / "documents" / "hu-szamla-orgonagyar.txt"
    text.write_bytes(b"\xff\xfe" + text.read_bytes())

    with pytest.raises(DefinitionError, match=r"orgonagyar\.txt: is not UTF-8"):
        definitions.documents(definitions.experiment("three-arm"))


def test_a_documents_tasks_begin_with_different_tokens(tokenizer_file: Path) -> None:
    """Else A and B would share more than the shared part."""
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    definitions = Definitions(PROJECT)
    for document in definitions.documents(definitions.experiment("three-arm")).values():
        first = {tokenizer.encode(task.question).ids[0] for task in (document.a, document.b)}
        assert len(first) == 2


def suite_project(root: Path, *lines: str) -> Definitions:
    """A project with one suite, whose items are these lines."""
    for name in ("arms", "launch_profiles"):
        shutil.copytree(PROJECT / name, root / name)
    (root / "arms" / "suites" / "extraction.jsonl").write_text(
        "".join(f"{line}\n" for line in lines), encoding="utf-8"
    )
    return Definitions(root)


def shipped_item(**changes: object) -> str:
    """The first shipped item, changed."""
    path = PROJECT / "arms" / "suites" / "extraction.jsonl"
    first = json.loads(path.read_text(encoding="utf-8").splitlines()[0])
    return json.dumps(first | changes)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([], "has no item"),
        (["{"], "extraction.jsonl:1: "),
        ([shipped_item(), shipped_item()], "extraction.jsonl:2: id: .* stands twice"),
        ([shipped_item(answer="x")], "extraction.jsonl:1: answer: unknown key"),
        ([shipped_item(question="")], "extraction.jsonl:1: question: "),
        ([shipped_item(response_schema={})], "fields: are not the properties of response_schema"),
    ],
)
def test_an_item_that_is_none_is_told_by_its_line(
    tmp_path: Path, lines: list[str], told: str
) -> None:
    """File, line and key."""
    definitions = suite_project(tmp_path, *lines)
    suite = definitions.suite("extraction-suite")
    assert suite is not None

    with pytest.raises(DefinitionError, match=told):
        definitions.suite_items(suite)


def test_a_document_that_is_missing_is_told_by_its_item(tmp_path: Path) -> None:
    """The suite's own file names it."""
    definitions = suite_project(tmp_path, shipped_item(document="nope"))
    suite = definitions.suite("extraction-suite")
    assert suite is not None

    with pytest.raises(DefinitionError, match=r"extraction\.jsonl: hu-szamla-orgonagyar\.1"):
        definitions.suite_documents(suite, definitions.suite_items(suite))


def test_a_suite_is_no_experiment_and_an_experiment_no_suite() -> None:
    """Each is told from the other by its own key."""
    definitions = Definitions(PROJECT)

    assert definitions.suite("three-arm") is None
    with pytest.raises(DefinitionError, match="is a suite"):
        definitions.experiment("extraction-suite")


def test_the_shipped_suite_has_fifty_items_in_three_languages() -> None:
    """Five of each document; each has what its document says."""
    definitions = Definitions(PROJECT)
    suite = definitions.suite("extraction-suite")
    assert suite is not None
    items = definitions.suite_items(suite)
    documents = definitions.suite_documents(suite, items)

    assert len(items) == 50
    assert {documents[item.document].language for item in items} == {"hu", "en", "de"}
    for item in items:
        document = documents[item.document]
        for field in item.fields.values():
            assert field.written in document.text
            assert canonical(field.written, field.kind, document.language) == field.value


def test_a_profile_that_extends_another_has_its_keys_where_it_has_none(tmp_path: Path) -> None:
    """Of a table, key by key; a table of another kind stands in its place, whole."""
    project = tmp_path / "project"
    shutil.copytree(PROJECT / "launch_profiles", project / "launch_profiles")
    profile = project / "launch_profiles" / "mine.toml"
    profile.write_text(
        'extends = "vllm-cpu-tiny-hybrid"\nname = "mine"\n[environment]\nOMP_NUM_THREADS = "1"\n'
        '[interpreter]\nkind = "found"\npython = "python3"\nrecipe = "vllm-cpu"\n'
    )
    base = Definitions(project).profile("vllm-cpu-tiny-hybrid")

    read = Definitions(project).profile("mine")

    assert read.args == base.args
    assert read.environment == {**base.environment, "OMP_NUM_THREADS": "1"}
    assert isinstance(read, ProcessProfile)
    assert read.interpreter.kind == "found"


def test_a_profile_that_extends_itself_is_refused(tmp_path: Path) -> None:
    """By whatever way round."""
    folder = tmp_path / "launch_profiles"
    folder.mkdir()
    (folder / "one.toml").write_text('extends = "two"\nname = "one"\n')
    (folder / "two.toml").write_text('extends = "one"\nname = "two"\n')

    with pytest.raises(DefinitionError, match=r"one\.toml: extends: leads back to itself"):
        Definitions(tmp_path).profile("one")
