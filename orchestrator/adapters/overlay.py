"""A copy of an engine's package in which some files are patched; the engine stays as it is.

overlay/
├── vllm/                       real folders on the way to a patched file
│   ├── engine ──▶ …            everything beside is a link into the engine
│   └── v1/core/sched/
│       ├── scheduler.py        the patched file, and no byte code of it
│       └── __pycache__/        links to the byte code of its neighbours
└── caches/                     compiled code of this start alone
"""

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from orchestrator.errors import DefinitionError, HostError
from orchestrator.model.patch import Overlay, Patch
from orchestrator.patching.applying import Patched, apply, touched_files, where

REPORTER = Path(__file__).parent / "engine_side" / "reporter"
"""Folder of the plugin that says which file a module was loaded from."""

WATCHED_VARIABLE = "ARMS_WATCHED_MODULES"

_LOOK_LIMIT_S = 60.0
"""For an interpreter to start and find a package, which it does not import: 0.1 s when idle."""

_FIND = """
import importlib.util, sys
spec = importlib.util.find_spec(sys.argv[1])
print(*(spec.submodule_search_locations or () if spec else ()), sep="\\n")
"""


def package_folder(python: str, package: str, environment: Mapping[str, str]) -> Path:
    """Where an interpreter would import a package from.

    Args:
        python: The interpreter.
        package: Its top-level name, such as `vllm`.
        environment: The server's variables: PYTHONPATH decides.

    Raises:
        HostError: The interpreter cannot be started, or has not exactly one such folder.
    """
    with tempfile.TemporaryDirectory(prefix="vllm-arms-look-") as empty:
        try:
            done = subprocess.run(
                [python, "-B", "-c", _FIND, package],
                env=dict(environment),
                cwd=empty,  # which -c would search first
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_LOOK_LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HostError(f"{python} cannot say where {package} is: {error}") from error
    folders = done.stdout.split("\n")[:-1]
    if done.returncode != 0 or len(folders) != 1 or not folders[0]:
        raise HostError(
            f"{python} has {package} in {len(list(filter(None, folders)))} folders instead of one"
            f" {done.stderr.strip()[-300:]}"
        )
    return Path(folders[0]).resolve()


def apply_to(package: Path, patch: Patch, release: str) -> Patched:
    """Apply a patch to what an engine's package holds now; nothing is written.

    Raises:
        DefinitionError: It does not fit, or a file is no UTF-8.
    """
    sources = {
        file: path.read_bytes()
        for file in touched_files(patch)
        if (path := package.parent / file).is_file()
    }
    try:
        return apply(patch, release, sources)
    except UnicodeDecodeError as error:
        raise DefinitionError(where(patch), f"a file of the engine is no UTF-8: {error}") from error


def build_overlay(folder: Path, package: Path, patched: Patched) -> Overlay:
    """Build the overlay of one start.

    Args:
        folder: Where; must not exist, so that no byte code and no cache of before is in it.
        package: Of the engine, as `package_folder` gives it.
        patched: What `apply_to` made of it.

    Raises:
        HostError: The folder exists, or cannot be written.
    """
    try:
        folder.mkdir(parents=True)
        files = frozenset(
            PurePosixPath(file).relative_to(package.name) for file in patched.contents
        )
        _mirror(package, folder / package.name, files)
        for file, content in patched.contents.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)  # of a file that is new
            (folder / file).write_bytes(content)
    except OSError as error:
        raise HostError(f"the overlay {folder} cannot be built: {error}") from error
    caches = folder.absolute() / "caches"
    return Overlay(
        folder=str(folder.absolute()),
        environment={
            # What is compiled of patched code must neither be found later nor come from before.
            # Triton's own cache stays: its keys hash the source of a kernel and of all it calls,
            # and filling it anew costs 105 s a start (vLLM 0.26.0 on an H200).
            "VLLM_CACHE_ROOT": str(caches / "vllm"),
            "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
            # Links lead into the engine: its folders are not written to.
            "PYTHONDONTWRITEBYTECODE": "1",
            # `python -m` would search the working directory before PYTHONPATH.
            "PYTHONSAFEPATH": "1",
        },
        provenance=patched.provenance,
    )


def with_overlay(environment: Mapping[str, str], overlay: Overlay) -> dict[str, str]:
    """A start's variables, with the overlay first on PYTHONPATH."""
    return _found_first(overlay.folder, {**environment, **overlay.environment})


def with_reporter(environment: Mapping[str, str], modules: Iterable[str]) -> dict[str, str]:
    """A start's variables, with the reporter watching `modules`; for every arm, patched or not."""
    watched = {WATCHED_VARIABLE: ",".join(sorted(modules))}
    return _found_first(str(REPORTER), {**environment, **watched})


def _found_first(folder: str, environment: Mapping[str, str]) -> dict[str, str]:
    others = environment.get("PYTHONPATH")
    path = f"{folder}{os.pathsep}{others}" if others else folder
    return {**environment, "PYTHONPATH": path}


def _mirror(source: Path, target: Path, patched: frozenset[PurePosixPath]) -> None:
    """Link everything but what is patched; `patched` is relative to `source`."""
    target.mkdir()
    here = {path.name for path in patched if len(path.parts) == 1}
    on_the_way = {path.parts[0] for path in patched if len(path.parts) > 1}
    for entry in source.iterdir():
        place = target / entry.name
        if entry.name in on_the_way:
            below = {p.relative_to(entry.name) for p in patched if p.parts[0] == entry.name}
            _mirror(entry, place, frozenset(below))
        elif entry.name == "__pycache__" and here:
            _link_byte_code(entry, place, {name.partition(".")[0] for name in here})
        elif entry.name not in here:
            place.symlink_to(entry)


def _link_byte_code(source: Path, target: Path, patched: set[str]) -> None:
    target.mkdir()
    for entry in source.iterdir():
        if entry.name.partition(".")[0] not in patched:
            (target / entry.name).symlink_to(entry)
