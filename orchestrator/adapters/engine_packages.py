"""The vllm package of a release that is at hand: in a wheel, an environment or a folder.

Only its Python files are looked at, and nothing of them is imported.
"""

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.errors import DefinitionError

PACKAGE = "vllm"
_SCHEDULER = Path("v1/core/sched/scheduler.py")


@contextmanager
def package_at(given: Path) -> Iterator[Path]:
    """Folder of the package; of a wheel, unpacked for the time of the block.

    Args:
        given: A wheel, a virtual environment, a folder that holds `vllm`, or that folder itself.

    Raises:
        DefinitionError: It is none of these.
    """
    if given.suffix == ".whl":
        with tempfile.TemporaryDirectory(prefix="vllm-arms-wheel-") as folder:
            _unpack(given, Path(folder))
            yield _below(given, Path(folder))
    else:
        yield _below(given, given)


def _unpack(wheel: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.startswith(f"{PACKAGE}/") and name.endswith(".py"):
                    archive.extract(name, folder)  # which lets no name lead out of the folder
    except (OSError, zipfile.BadZipFile) as error:
        raise DefinitionError(f"--versions {wheel}", f"cannot be unpacked: {error}") from error


def _below(given: Path, folder: Path) -> Path:
    places = (folder, folder / PACKAGE, *folder.glob(f"lib/python*/site-packages/{PACKAGE}"))
    found = [package for package in places if (package / _SCHEDULER).is_file()]
    if len(found) != 1:
        raise DefinitionError(
            f"--versions {given}",
            f"{len(found)} folders of it are a {PACKAGE} package with {_SCHEDULER}, instead of one;"
            " give a wheel, a virtual environment, or the folder that the package lies in",
        )
    return found[0]
