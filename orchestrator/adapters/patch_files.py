"""`arms/patches/NAME.toml` → `Patch`, with the diffs that lie beside it."""

from pathlib import Path

from orchestrator.adapters.definition_files import read_table, validated
from orchestrator.errors import DefinitionError
from orchestrator.model.patch import Patch


def load_patch(path: Path) -> Patch:
    """Read a patch; the diff that a variant names is read from the same folder.

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
        if isinstance(variant, dict) and isinstance(variant.get("diff"), str):
            variant["diff"] = _diff(path, f"variants.{number}.diff", variant["diff"])
    patch = validated(path, values, Patch)
    if patch.name != path.stem:
        raise DefinitionError(path, f"name: must be {path.stem!r}, the file's own name")
    return patch


def _diff(path: Path, key: str, name: str) -> str:
    file = path.parent / name
    if file.parent != path.parent or not file.is_file():
        raise DefinitionError(path, f"{key}: there is no file {name} beside it")
    try:
        # As bytes, so that line ends stay what they are.
        return file.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise DefinitionError(file, f"is not UTF-8: {error}") from error
