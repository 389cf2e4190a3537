"""A unified diff → edits. The lines of a hunk are an anchor like any other.

So a hunk applies where its context and removed lines stand, exactly once in the file, wherever
that is by now: no fuzz, and no trust in its line numbers.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from unidiff.constants import LINE_TYPE_NO_NEWLINE
from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk, Line, PatchSet
from unidiff.patch import PatchedFile as DiffedFile

from orchestrator.model.patch import Edit

UNNEEDED = ("tests", "docs", "benchmarks", "examples", ".buildkite", ".github")
"""Folders of vLLM's repository that a running server never reads."""


class UnusableDiffError(ValueError):
    """The diff asks for what an overlay cannot do; says what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a diff asks for."""

    edits: tuple[Edit, ...]
    added: dict[str, str]
    """New files and their texts."""

    left_out: tuple[str, ...]
    """Files outside the package, which a server never reads."""


NO_CHANGES = Changes(edits=(), added={}, left_out=())


def changes(diff: str, package: str) -> Changes:
    """Read a diff.

    Args:
        diff: The text of a unified diff, as of `git diff`.
        package: Top folder of the files that can be changed.

    Raises:
        UnusableDiffError: It cannot be read; or it touches what an overlay of Python files does
            not reach, so that only a part of the change would run.
    """
    try:
        files = PatchSet(diff)
    except UnidiffParseError as error:
        raise UnusableDiffError(f"is no unified diff: {error}") from error
    edits: list[Edit] = []
    added: dict[str, str] = {}
    left_out: list[str] = []
    for file in files:
        top = file.path.partition("/")[0]
        if top in UNNEEDED:
            left_out.append(file.path)
        elif top != package:
            raise UnusableDiffError(f"{file.path} lies outside {package}/: it would not be changed")
        elif file.is_added_file:
            added[file.path] = "".join(_after(hunk) for hunk in file)
        else:
            edits += _edits(file)
    if not edits and not added:
        raise UnusableDiffError(f"changes no file below {package}/")
    return Changes(edits=tuple(edits), added=added, left_out=tuple(left_out))


def _edits(file: DiffedFile) -> Iterator[Edit]:
    if file.is_removed_file or file.is_rename or file.is_binary_file:
        raise UnusableDiffError(f"{file.path} is removed, renamed or binary")
    for hunk in file:
        anchor = _before(hunk)
        if not anchor:
            raise UnusableDiffError(f"{file.path}: a hunk without context can stand anywhere")
        yield Edit(file=file.path, anchor=anchor, replacement=_after(hunk))


def _before(hunk: Hunk) -> str:
    return "".join(value for line, value in _lines(hunk) if line.is_context or line.is_removed)


def _after(hunk: Hunk) -> str:
    return "".join(value for line, value in _lines(hunk) if line.is_context or line.is_added)


def _lines(hunk: Hunk) -> Iterator[tuple[Line, str]]:
    """Each line with its text; the remark that no line feed ends it belongs to the line before."""
    following: list[Line | None] = [*hunk, None]
    for line, after in zip(hunk, following[1:], strict=True):
        ends_file = after is not None and after.line_type == LINE_TYPE_NO_NEWLINE
        yield line, line.value.removesuffix("\n") if ends_file else line.value
