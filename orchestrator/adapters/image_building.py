"""Builds the project's own images on the Docker Engine, without a registry and without a network.

What goes in is gathered on this machine first: packages that pip has installed, an engine that was
prepared, programs and libraries of the system. The base is any image with the same Python.
"""

import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import docker
from docker.errors import BuildError

import orchestrator
from orchestrator.adapters.docker_engine import UNREACHABLE, said
from orchestrator.adapters.engine_recipe import Needs
from orchestrator.errors import PreparationError

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
"""Packages are for the interpreter that runs us; so must the base's be."""

_MINIATURE_NEEDS = ("numpy", "prometheus-client", "pydantic", "starlette", "tokenizers", "uvicorn")
"""What `orchestrator.miniature` imports, in the versions that are installed here."""

_OF_EVERY_BASE = ("linux-vdso", "ld-linux", "libc.", "libm.")
"""The heart of the C library, of which only the base's own can be used."""

_C_LIBRARY_PARTS = ("libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1")
"""What wheels name that were built where these were no part of libc.so.6 yet. A base without such
a program lacks them; where it has them, its own are used (see the Dockerfiles)."""

Tree = Mapping[str, Path]
"""Name in the build context to a file or folder of this machine."""


def miniature_tree(scratch: Path) -> Tree:
    """What the miniature's image holds; its packages are installed into `scratch`.

    Raises:
        PreparationError: pip failed.
    """
    packages = scratch / "packages"
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
        *("--no-input", "--no-compile", "--only-binary=:all:", "--target", str(packages)),
        *(f"{name}=={version(name)}" for name in _MINIATURE_NEEDS),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PreparationError(f"pip could not gather the packages: {done.stderr.strip()[-600:]}")
    package = Path(orchestrator.__file__).parent
    return {
        **_system_files((), ("libstdc++.so.6",)),  # NumPy's; a slim base may lack it
        "packages": packages,
        "orchestrator/__init__.py": package / "__init__.py",
        "orchestrator/miniature": package / "miniature",
    }


def vllm_cpu_tree(python: Path, plugin: Path, needs: Needs) -> Tree:
    """What the image of a prepared vLLM for CPU holds.

    Args:
        python: The prepared environment's interpreter.
        plugin: The folder that a process finds on its PYTHONPATH.
        needs: Of the engine's recipe: the programs and libraries that it wants of the system.

    Raises:
        PreparationError: One of them is not on this machine.
    """
    (packages,) = (python.parent.parent / "lib").glob("python*/site-packages")
    return {
        **_system_files(tuple(needs.programs), tuple(needs.libraries)),
        "packages": packages,
        "plugin": plugin,
    }


def build(
    client: docker.DockerClient,
    tag: str,
    dockerfile: Path,
    tree: Tree,
    *,
    base: str,
    report: Callable[[str], None],
) -> str:
    """Build an image and give its id.

    Raises:
        PreparationError: The engine could not build it; with what the failed step said.
    """
    report(f"gathering what {tag} is made of")
    with tempfile.TemporaryFile() as context:
        with tarfile.open(fileobj=context, mode="w") as archive:
            archive.add(dockerfile, "Dockerfile", filter=_reproducible)
            for name, path in sorted(tree.items()):
                archive.add(path, name, filter=_reproducible)
        report(f"building {tag} from {base}: {context.tell() / 1e6:.0f} MB to the engine")
        context.seek(0)
        try:
            image, _ = client.images.build(
                fileobj=context,
                custom_context=True,
                tag=tag,
                buildargs={"BASE": base, "PYTHON": PYTHON},
                network_mode="none",
                rm=True,
                forcerm=True,
            )
        except BuildError as error:
            raise PreparationError(f"{tag} could not be built: {_told(error)}") from error
        except UNREACHABLE as error:
            raise PreparationError(f"{tag} could not be built: {said(error)}") from error
    return str(image.id)


def _told(error: BuildError) -> str:
    """The end of what the build printed."""
    lines = [str(entry["stream"]) for entry in error.build_log if "stream" in entry]
    return f"{error.msg} {' '.join(''.join(lines).split())[-600:]}"


def _reproducible(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """The same files make the same layer, whoever owns them. Byte code needs the files' times."""
    if entry.name.startswith("orchestrator/") and entry.name.endswith("/__pycache__"):
        return None  # of whatever last ran here
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _system_files(programs: Sequence[str], libraries: Sequence[str]) -> Tree:
    paths = [shutil.which(name) for name in programs]
    wanted = (*libraries, *_C_LIBRARY_PARTS)
    paths += _library_paths(wanted)
    if None in paths or len(paths) != len(programs) + len(wanted):
        raise PreparationError(f"this machine lacks one of {', '.join((*programs, *wanted))}")
    files = {Path(path) for path in paths if path is not None}
    files |= {linked for file in files for linked in _linked_to(file)}
    return {f"system/{file.name}": file.resolve() for file in files}


def _library_paths(names: Iterable[str]) -> list[str]:
    """As the dynamic loader would find them."""
    loader = shutil.which("ldconfig", path="/usr/sbin:/sbin:/usr/bin:/bin") or "ldconfig"
    listed = subprocess.run([loader, "-p"], capture_output=True, text=True, check=True).stdout
    found: dict[str, str] = {}
    for line in listed.splitlines():
        name, arrow, path = line.partition(" => ")
        if arrow:
            found.setdefault(name.split()[0], path.strip())
    return [found[name] for name in names if name in found]


def _linked_to(file: Path) -> Iterator[Path]:
    """Libraries that a program or a library is linked to, the C library's left out."""
    told = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=True).stdout  # noqa: S607 - the loader's own script
    for line in told.splitlines():
        name, arrow, path = line.strip().partition(" => ")
        if arrow and not name.startswith(_OF_EVERY_BASE):
            yield Path(path.split(" (")[0])
