"""Two copies of a package, as it stands in two images → what the second one changes."""

import hashlib
from collections.abc import Mapping

from orchestrator.errors import DefinitionError
from orchestrator.model.patch import Patch, PatchedFile, PatchProvenance
from orchestrator.patching.applying import unified_diff, where


def difference(
    patch: Patch, release: str, before: Mapping[str, bytes], after: Mapping[str, bytes]
) -> PatchProvenance:
    """Record what a patched image changes.

    Args:
        patch: The patch that names the image.
        release: As the engine's profile declares it.
        before: Every file of the package in the profile's image, by name.
        after: The same of the patched image.

    Raises:
        DefinitionError: Nothing differs; a file was removed, or is no text, so that no diff can
            tell what was done to it; or nothing that differs logs the marker.
    """
    removed = sorted(before.keys() - after.keys())
    if removed:
        raise DefinitionError(where(patch), f"image: {removed[0]} is removed in it, not changed")
    changed = sorted(file for file in after if after[file] != before.get(file))
    if not changed:
        raise DefinitionError(where(patch), "image: the package in it is the profile's image's own")
    if not any(patch.marker.encode() in after[file] for file in changed):
        raise DefinitionError(where(patch), "image: no changed file in it logs the marker")
    return PatchProvenance(
        patch=patch.name,
        upstream=patch.upstream,
        marker=patch.marker,
        release=release,
        read_for_release=any(release in variant.releases for variant in patch.variants),
        files=tuple(_record(patch, file, before.get(file), after[file]) for file in changed),
        left_out=(),
    )


def _record(patch: Patch, file: str, before: bytes | None, after: bytes) -> PatchedFile:
    try:
        diff = unified_diff(file, "" if before is None else before.decode(), after.decode())
    except UnicodeDecodeError as error:
        raise DefinitionError(
            where(patch), f"image: {file} was changed in it, and is no text"
        ) from error
    return PatchedFile(
        file=file,
        sha256_before=None if before is None else hashlib.sha256(before).hexdigest(),
        sha256_after=hashlib.sha256(after).hexdigest(),
        diff=diff,
    )
