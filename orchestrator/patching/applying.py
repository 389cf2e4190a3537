"""Patch × release × source texts → patched texts, or a sentence that says what does not fit."""

import difflib
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from orchestrator.errors import DefinitionError
from orchestrator.model.patch import Edit, Patch, PatchedFile, PatchProvenance, Variant
from orchestrator.patching.diffs import NO_CHANGES, Changes, UnusableDiffError, changes


@dataclass(frozen=True, slots=True, kw_only=True)
class Patched:
    """The changed files, and the record of the change."""

    provenance: PatchProvenance
    contents: Mapping[str, bytes]


def touched_files(patch: Patch) -> frozenset[str]:
    """Every file that a variant changes: what `apply` wants to see of the engine.

    Raises:
        DefinitionError: A diff cannot be used.
    """
    return frozenset(file for variant in patch.variants for file in _touched(patch, variant))


def _touched(patch: Patch, variant: Variant) -> Iterator[str]:
    diff = _diff_of(patch, variant)
    yield from (*variant.files, *diff.added)
    yield from (edit.file for edit in (*diff.edits, *variant.edits))


def apply(patch: Patch, release: str, sources: Mapping[str, bytes]) -> Patched:
    """Apply a patch to an engine's sources.

    The variant is the one whose list has the release. For a release that is in no list, exactly
    one variant must fit, whole files left aside: they have no anchor that could fit or not.

    Args:
        patch: What to change.
        release: As the engine's profile declares it.
        sources: The engine's files by name, those of `touched_files` that it has.

    Raises:
        DefinitionError: An anchor is found more or less often than stated; whole files are the
            engine's own; or for a release that was not read none or several variants fit.
    """
    known = next((v for v in patch.variants if release in v.releases), None)
    attempts = [
        _attempt(patch, variant, sources)
        for variant in ([v for v in patch.variants if not v.files] if known is None else [known])
    ]
    fitting = [attempt for attempt in attempts if not attempt.misfits]
    if len(fitting) != 1:
        # Of each attempt the first: what follows from the same difference says nothing new.
        told = "; ".join(attempt.misfits[0] for attempt in attempts if attempt.misfits)
        problem = (
            f"does not fit {release}: {told}" if known is not None
            else f"{release} is in no variant's list, and {len(fitting)} of {len(attempts)}"
            f" variants fit{': ' if told else ''}{told}"
        )  # fmt: skip
        raise DefinitionError(where(patch), problem)
    (fit,) = fitting
    return Patched(
        provenance=PatchProvenance(
            patch=patch.name,
            upstream=patch.upstream,
            marker=patch.marker,
            release=release,
            read_for_release=known is not None,
            files=tuple(_record(file, fit.texts[file], sources) for file in sorted(fit.texts)),
            left_out=fit.left_out,
        ),
        contents={file: text.encode() for file, text in fit.texts.items()},
    )


def where(patch: Patch) -> str:
    """The patch's file, for messages."""
    return f"arms/patches/{patch.name}.toml"


@dataclass(frozen=True, slots=True)
class _Attempt:
    texts: dict[str, str]
    left_out: tuple[str, ...]
    misfits: tuple[str, ...]


def _attempt(patch: Patch, variant: Variant, sources: Mapping[str, bytes]) -> _Attempt:
    if variant.image is not None:
        return _Attempt({}, (), ("it is an image, which only a profile of kind docker starts",))
    diff = _diff_of(patch, variant)
    differing = {
        file: text for file, text in variant.files.items() if sources.get(file) != text.encode()
    }
    texts = {**differing, **diff.added}
    misfits = [f"{file} is there already" for file in diff.added if file in sources]
    if variant.files and not differing:
        misfits.append("every file of the overlay is the engine's own")
    misfits += _edit((*diff.edits, *variant.edits), sources, texts)
    return _Attempt(texts, diff.left_out, tuple(misfits))


def _diff_of(patch: Patch, variant: Variant) -> Changes:
    if not variant.diff:
        return NO_CHANGES
    try:
        return changes(variant.diff, variant.package)
    except UnusableDiffError as error:
        raise DefinitionError(where(patch), f"diff: {error}") from error


def _edit(
    edits: Iterable[Edit], sources: Mapping[str, bytes], texts: dict[str, str]
) -> Iterator[str]:
    """Edit one after the other, into `texts`; yield why one does not fit."""
    for edit in edits:
        if edit.file not in texts:
            if edit.file not in sources:
                yield f"there is no {edit.file}"
                continue
            texts[edit.file] = sources[edit.file].decode()
        found = texts[edit.file].count(edit.anchor)
        if found == edit.count:
            texts[edit.file] = texts[edit.file].replace(edit.anchor, edit.replacement)
        else:
            first_line = edit.anchor.strip().splitlines()[0]
            yield f"{edit.file}: anchor {first_line!r} found {found} times instead of {edit.count}"


def _record(file: str, text: str, sources: Mapping[str, bytes]) -> PatchedFile:
    before = sources.get(file)
    return PatchedFile(
        file=file,
        sha256_before=None if before is None else hashlib.sha256(before).hexdigest(),
        sha256_after=hashlib.sha256(text.encode()).hexdigest(),
        diff=unified_diff(file, "" if before is None else before.decode(), text),
    )


def unified_diff(file: str, before: str, after: str) -> str:
    """The difference of two texts, in the form that `git apply` takes."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        f"a/{file}" if before else "/dev/null",
        f"b/{file}",
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
