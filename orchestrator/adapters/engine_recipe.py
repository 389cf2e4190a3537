"""Reads the recipe of an engine that the project prepares itself: a folder with `engine.toml`."""

import json
import tomllib
from pathlib import Path

from pydantic import Field, ValidationError

from orchestrator.errors import DefinitionError
from orchestrator.model.record import Record


class Needs(Record):
    """What a machine must have before an engine is downloaded to it."""

    system: str
    """As `platform.system()` says it."""

    architecture: str
    """As `platform.machine()` says it."""

    glibc: str
    """The oldest GNU C library that the wheels run on."""

    python: tuple[str, ...] = Field(min_length=1)
    """Major and minor version of every CPython that has all the wheels."""

    cpu_flags: tuple[str, ...]
    """As `/proc/cpuinfo` names them."""

    programs: dict[str, str]
    """A program that the engine runs, to the Debian package that has it."""

    libraries: dict[str, str]
    """A shared library that the engine loads, to the Debian package that has it."""

    memory_bytes: int = Field(gt=0)
    """Available while a server starts."""

    shared_memory_bytes: int = Field(gt=0)
    """Free in /dev/shm."""

    disk_bytes: int = Field(gt=0)
    """Free in the cache folder's file system before the download."""


class EngineRecipe(Record):
    """The content of `engine.toml`."""

    extends: str | None = None
    """The recipe folder beside this one that has every key and file that this one has not: two
    releases of one engine differ in little more than their number."""

    version: str
    """Of vLLM."""

    torch: str
    """The one requirement that may need an index of its own."""

    torch_index: str
    """Where to look for it when pip, as it is configured, does not find it."""

    first_imports: tuple[str, ...] = Field(min_length=1)
    """Modules that are loaded once after the installation; between them they load what a server
    loads."""

    vocabulary_size: int = Field(ge=512, le=8192)
    """Of the tokenizer that is trained for the model: special tokens, 256 bytes, and merges."""

    needs: Needs


def load_recipe(folder: Path) -> EngineRecipe:
    """Read a recipe folder's `engine.toml`.

    Raises:
        DefinitionError: The file is missing, is no TOML, or has an unknown key, a missing one, or
            one of the wrong type.
    """
    path = folder / "engine.toml"
    content = _read(path)
    base = content.get("extends")
    if isinstance(base, str):
        content = _read(folder.parent / base / path.name) | content
    try:
        # Through JSON, where strict validation accepts an array for a tuple.
        return EngineRecipe.from_json(json.dumps(content))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        raise DefinitionError(path, f"{key}: {first['msg']}") from error


def recipe_file(folder: Path, name: str) -> Path:
    """A file or folder of a recipe: its own, else that of the recipe which it extends.

    Raises:
        DefinitionError: The recipe cannot be read.
    """
    own = folder / name
    if own.exists():
        return own
    base = load_recipe(folder).extends
    return own if base is None else folder.parent / base / name


def _read(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise DefinitionError(path, str(error)) from error
