"""`arms/patches/NAME.toml` → `Patch`, with the diffs and overlay folders that lie beside it."""

from pathlib import Path

from orchestrator.adapters.definition_files import read_table, validated
from orchestrator.errors import DefinitionError
from orchestrator.model.patch import Patch


def load_patch(path: Path) -> Patch:
    """Read a patch; the diff or the overlay folder that a variant names is read from beside it.

    Raises:
        DefinitionError: No such file, no TOML, or not a valid patch; names file and key.
    """
    if not path.is_file():
        known = sorted(file.stem for file in path.parent.glob("*.toml"))
        raise DefinitionError(
            path, f"there is no such patch; there are {', '.join(known) or 'none'}"
        )
    values = read_table(path)
    variants = values.get("variants")
    for number, variant in enumerate(variants if isinstance(variants, list) else ()):
        if isinstance(variant, dict):
            _read_beside(path, f"variants.{number}", variant)
    patch = validated(path, values, Patch)
    if patch.name != path.stem:
        raise DefinitionError(path, f"name: must be {path.stem!r}, the file's own name")
    return patch


def _read_beside(path: Path, where: str, variant: dict[str, object]) -> None:
    """Put texts where the patch's file has names."""
    diff, folder = variant.get("diff"), variant.get("files")
    if isinstance(diff, str):
        file = path.parent / diff
        if file.parent != path.parent or not file.is_file():
            how = f"; {variant['obtain']}" if variant.get("obtain") else ""
            raise DefinitionError(path, f"{where}.diff: there is no file {diff} beside it{how}")
        variant["diff"] = _text(file)
    if isinstance(folder, str):
        variant["files"] = _overlay(path, f"{where}.files", path.parent / folder)


def _overlay(path: Path, where: str, folder: Path) -> dict[str, str]:
    """Every file below the folder by its name from there on; byte code is nobody's source."""
    if folder.parent != path.parent or not folder.is_dir():
        raise DefinitionError(path, f"{where}: there is no folder {folder.name} beside it")
    found = [file for file in sorted(folder.rglob("*")) if "__pycache__" not in file.parts]
    for file in found:
        if file.is_symlink():
            raise DefinitionError(path, f"{where}: {file} is a link, which may lead anywhere")
    return {file.relative_to(folder).as_posix(): _text(file) for file in found if file.is_file()}


def _text(file: Path) -> str:
    try:
        # As bytes, so that line ends stay what they are.
        return file.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise DefinitionError(file, f"is not UTF-8: {error}") from error
