"""`arms/patches/NAME.toml`: strict, and errors that name file and key."""

from pathlib import Path

import pytest

from orchestrator.adapters.patch_files import load_patch
from orchestrator.errors import DefinitionError
from tests.patching.shipped import shipped

TEXT = """
name = "own"
description = "x"
upstream = "x"
marker = "own on"
[[variants]]
releases = ["1"]
diff = "pr.diff"
[[variants.edits]]
file = "pkg/a.py"
anchor = "x"
replacement = "say('own on')"
"""


def written(folder: Path, text: str, *, name: str = "own") -> Path:
    """A patch's file with a diff beside it."""
    (folder / "pr.diff").write_bytes(b"--- a\r\n")
    path = folder / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_diff_is_read_from_beside_the_patch(tmp_path: Path) -> None:
    """Its text stands where its name stood, line ends as they are."""
    assert load_patch(written(tmp_path, TEXT)).variants[0].diff == "--- a\r\n"


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("marker", "markers", "markers: unknown key"),
        ('anchor = "x"', 'anchor = ""', "variants.0.edits.0.anchor: "),
        ('anchor = "x"', "anchor = 'x'\ncount = 0", "variants.0.edits.0.count: "),
        ("pkg/a.py", "pkg/../../a.py", "variants.0.edits.0.file: "),
        ("pkg/a.py", "/etc/a.py", "variants.0.edits.0.file: "),
        ("pr.diff", "none.diff", "variants.0.diff: there is no file none.diff beside it"),
        ("pr.diff", "../own.toml", "variants.0.diff: there is no file ../own.toml beside it"),
        ("say('own on')", "x = 2", "variants.0: no replacement and no file logs the marker"),
        ('["1"]', '["1", "1"]', "variants.0.releases: 1 stands twice"),
        ('"own"', '"other"', "name: must be 'own'"),
    ],
)
def test_a_wrong_file_is_refused_by_name_and_key(
    tmp_path: Path, before: str, after: str, problem: str
) -> None:
    """Nothing is guessed, and no path leads out of the package."""
    path = written(tmp_path, TEXT.replace(before, after, 1))

    with pytest.raises(DefinitionError) as refused:
        load_patch(path)

    assert str(refused.value).startswith(f"{path}: ")
    assert problem in refused.value.problem


def test_a_patch_that_does_not_exist_is_told_from_those_that_do(tmp_path: Path) -> None:
    """So that a misspelt name is quickly found."""
    written(tmp_path, TEXT)

    with pytest.raises(DefinitionError, match="there is no such patch; there are own"):
        load_patch(tmp_path / "owm.toml")


def test_the_fix_and_the_sham_cover_the_same_releases() -> None:
    """A control that could not run beside its patch would be none."""
    fix, sham = (
        {release for variant in shipped(name).variants for release in variant.releases}
        for name in ("stop-at-every-boundary", "sham")
    )

    assert fix == sham
