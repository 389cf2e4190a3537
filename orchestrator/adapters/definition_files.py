"""TOML ↔ types; the only reader of `arms/` and `launch_profiles/`."""

import json
import tomllib
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from orchestrator.errors import DefinitionError
from orchestrator.model.experiment import Document, Experiment
from orchestrator.model.profile import PROFILE_KINDS, AnyProfile
from orchestrator.model.record import Record
from orchestrator.model.suite import SuiteExperiment, SuiteItem

R = TypeVar("R", bound=Record)

_SUITES_KEY = "items"
"""What a suite's file has, and an experiment's has not."""


class Definitions:
    """The definitions of one project folder, which holds `arms/` and `launch_profiles/`."""

    def __init__(self, root: Path) -> None:
        self.documents_dir = root / "arms" / "documents"
        self.patches_dir = root / "arms" / "patches"
        self.engines_dir = root / "launch_profiles" / "engines"
        self.images_dir = root / "launch_profiles" / "images"
        self._arms = root / "arms"
        self._suites_dir = root / "arms" / "suites"
        self._profiles = root / "launch_profiles"

    def experiment(self, name: str) -> Experiment:
        """Read `arms/NAME.toml`; `name` may also be that file's path.

        Raises:
            DefinitionError: No such file, no TOML, or not a valid experiment.
        """
        path = _find(self._arms, name, "experiment")
        if _SUITES_KEY in read_table(path):
            raise DefinitionError(path, "is a suite; what is asked for takes an experiment only")
        return _read(path, Experiment)

    def suite(self, name: str) -> SuiteExperiment | None:
        """Read `arms/NAME.toml` where it is a suite: it has the key `items`. Otherwise `None`.

        Raises:
            DefinitionError: No such file, no TOML, or not a valid suite.
        """
        path = _find(self._arms, name, "experiment")
        return _read(path, SuiteExperiment) if _SUITES_KEY in read_table(path) else None

    def suite_items(self, suite: SuiteExperiment) -> tuple[SuiteItem, ...]:
        """The items of a suite, in the order of its file.

        Raises:
            DefinitionError: No such file, or a line that is no valid item, or an id that stands
                twice.
        """
        path = self._suites_dir / f"{suite.items}.jsonl"
        if not path.is_file():
            raise DefinitionError(f"arms/{suite.name}.toml", f"items: no file {path}")
        items: dict[str, SuiteItem] = {}
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                item = SuiteItem.from_json(line)
            except ValidationError as error:
                raise DefinitionError(f"{path}:{number}", _problems(error)) from error
            if item.id in items:
                raise DefinitionError(f"{path}:{number}", f"id: {item.id} stands twice")
            items[item.id] = item
        if not items:
            raise DefinitionError(path, "has no item")
        return tuple(items.values())

    def suite_documents(
        self, suite: SuiteExperiment, items: Sequence[SuiteItem]
    ) -> dict[str, Document]:
        """Every document that an item names, and the warm-up's.

        Raises:
            DefinitionError: One is missing, or its file or text is not valid.
        """
        named = {item.document: (f"{suite.items}.jsonl", f"{item.id}: document") for item in items}
        named[suite.warm_up_document] = (f"arms/{suite.name}.toml", "warm_up_document")
        return {name: self._document(name, *place) for name, place in named.items()}

    def profile(self, name: str) -> AnyProfile:
        """Read `launch_profiles/NAME.toml`; `name` may also be that file's path.

        Raises:
            DefinitionError: No such file, no TOML, or not a valid profile.
        """
        path = _find(self._profiles, name, "launch profile")
        values = self._extended(path, [])
        kind = values.get("kind")
        if not isinstance(kind, str) or kind not in PROFILE_KINDS:
            raise DefinitionError(path, f"kind: must be one of {', '.join(PROFILE_KINDS)}")
        return _named(path, validated(path, values, PROFILE_KINDS[kind]))

    def _extended(self, path: Path, extending: list[Path]) -> dict[str, object]:
        """A profile's keys over those of the one that it `extends`; of a table, key by key."""
        if path in extending:
            raise DefinitionError(path, "extends: leads back to itself")
        own = read_table(path)
        base = own.pop("extends", None)
        if base is None:
            return own
        base_path = _find(self._profiles, str(base), "launch profile")
        values = self._extended(base_path, [*extending, path])
        for key, value in own.items():
            inherited = values.get(key)
            if not isinstance(inherited, dict) or not isinstance(value, dict):
                values[key] = value
            elif value.get("kind", inherited.get("kind")) != inherited.get("kind"):
                values[key] = value  # of another kind, with other keys
            else:
                values[key] = {**inherited, **value}
        return values

    def documents(self, experiment: Experiment) -> dict[str, Document]:
        """Every document that the experiment names, for warm-up and cold requests too.

        Raises:
            DefinitionError: One is missing, or its file or text is not valid.
        """
        where = f"arms/{experiment.name}.toml"
        panel = [(f"documents.{i}", name) for i, name in enumerate(experiment.documents)]
        of_speed = () if experiment.throughput is None else experiment.throughput.documents
        cold = [(f"throughput.documents.{i}", name) for i, name in enumerate(of_speed)]
        return {
            name: self._document(name, where, key)
            for key, name in [*panel, *cold, ("warm_up_document", experiment.warm_up_document)]
        }

    def _document(self, name: str, where: str, key: str) -> Document:
        definition, text_file = (self.documents_dir / f"{name}{end}" for end in (".toml", ".txt"))
        for path in (definition, text_file):
            if not path.is_file():
                known = sorted(path.stem for path in self.documents_dir.glob("*.toml"))
                raise DefinitionError(
                    where, f"{key}: no file {path}; there are {', '.join(known) or 'none'}"
                )
        values = read_table(definition)
        for key_set_here in ("name", "text"):
            if key_set_here in values:
                raise DefinitionError(definition, f"{key_set_here}: unknown key")
        try:
            text = unicodedata.normalize("NFC", text_file.read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise DefinitionError(text_file, f"is not UTF-8: {error}") from error
        document = validated(definition, values | {"name": name, "text": text}, Document)
        for task, schema in (("a", document.a), ("b", document.b)):
            try:
                json.loads(schema.response_schema)
            except json.JSONDecodeError as error:
                raise DefinitionError(
                    definition, f"{task}.response_schema: is no JSON: {error}"
                ) from error
        return document


def _find(folder: Path, name: str, what: str) -> Path:
    path = Path(name) if name.endswith(".toml") else folder / f"{name}.toml"
    if not path.is_file():
        known = sorted(file.stem for file in folder.glob("*.toml"))
        raise DefinitionError(path, f"there is no such {what}; there are {', '.join(known)}")
    return path


def _read(path: Path, kind: type[R]) -> R:
    return _named(path, validated(path, read_table(path), kind))


def _named(path: Path, record: R) -> R:
    if getattr(record, "name", path.stem) != path.stem:
        raise DefinitionError(path, f"name: must be {path.stem!r}, the file's own name")
    return record


def read_table(path: Path) -> dict[str, object]:
    """A TOML file as it is.

    Raises:
        DefinitionError: It is no TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DefinitionError(path, f"is no TOML: {error}") from error


def validated(path: Path, values: dict[str, object], kind: type[R]) -> R:
    """The values of a TOML file as a record, strictly.

    Raises:
        DefinitionError: Names the file and every key that is wrong.
    """
    try:
        # Through JSON, so that strict types hold and a list still becomes a tuple.
        return kind.from_json(json.dumps(values))
    except TypeError as error:
        raise DefinitionError(
            path, f"has a value that is no text, number, list: {error}"
        ) from error
    except ValidationError as error:
        raise DefinitionError(path, _problems(error)) from error


def _problems(error: ValidationError) -> str:
    told = []
    problems = error.errors(include_url=False)
    for problem in problems:
        loc = problem["loc"]
        if problem["type"] == "too_short" and any(
            other["loc"][: len(loc)] == loc != other["loc"] for other in problems
        ):
            continue  # what is in it was left out only because it is wrong itself
        key = ".".join(str(part) for part in problem["loc"])
        message = (
            "unknown key" if problem["type"] == "extra_forbidden"
            else problem["msg"].removeprefix("Value error, ")
        )  # fmt: skip
        told.append(f"{key}: {message}" if key else message)
    return "; ".join(told)
