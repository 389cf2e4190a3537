"""Patches that are a folder of whole files, laid over the engine's package."""

from pathlib import Path

import pytest

from orchestrator.adapters.overlay import apply_to, build_overlay
from orchestrator.adapters.patch_files import load_patch
from orchestrator.errors import DefinitionError

TEXT = """
name = "own"
description = "x"
upstream = "x"
marker = "own on"
[[variants]]
releases = ["1"]
files = "own"
"""
RULE = "say('own on')\n"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An engine's package of two modules."""
    folder = tmp_path / "engine" / "pkg"
    (folder / "core").mkdir(parents=True)
    (folder / "core" / "rule.py").write_text("RULE = 'old'\n", encoding="utf-8")
    (folder / "other.py").write_text("OTHER = 1\n", encoding="utf-8")
    return folder


@pytest.fixture
def patch_file(tmp_path: Path) -> Path:
    """A patch with its folder: one changed file, one new one, and byte code of nobody's."""
    folder = tmp_path / "own" / "pkg"
    for name, text in {
        "core/rule.py": RULE,
        "core/added.py": "ADDED = 1\n",
        "core/__pycache__/rule.pyc": "\0",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    path = tmp_path / "own.toml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_its_files_stand_in_place_of_the_engines(
    package: Path, patch_file: Path, tmp_path: Path
) -> None:
    """Diff and hashes are recorded as for an edit; the engine's own files stay as they were."""
    patched = apply_to(package, load_patch(patch_file), "1")
    overlay = build_overlay(tmp_path / "overlay", package, patched)

    added, rule = overlay.provenance.files
    assert (added.file, added.sha256_before) == ("pkg/core/added.py", None)
    assert (rule.file, rule.module) == ("pkg/core/rule.py", "pkg.core.rule")
    assert "-RULE = 'old'\n+say('own on')\n" in rule.diff
    laid = Path(overlay.folder) / "pkg"
    assert (laid / "core" / "rule.py").read_text("utf-8") == RULE
    assert (laid / "other.py").read_text("utf-8") == "OTHER = 1\n"
    assert (package / "core" / "rule.py").read_text("utf-8") == "RULE = 'old'\n"


def test_a_file_that_the_engine_holds_already_is_no_change(package: Path, patch_file: Path) -> None:
    """Only what differs is recorded; a folder in which nothing differs is refused."""
    (package / "core" / "added.py").write_text("ADDED = 1\n", encoding="utf-8")
    patch = load_patch(patch_file)

    assert [file.file for file in apply_to(package, patch, "1").provenance.files] == [
        "pkg/core/rule.py"
    ]
    (package / "core" / "rule.py").write_text(RULE, encoding="utf-8")
    with pytest.raises(DefinitionError, match="every file of the overlay is the engine's own"):
        apply_to(package, patch, "1")


def test_whole_files_are_for_their_own_releases_only(package: Path, patch_file: Path) -> None:
    """They have no anchor: over another release they would undo what that release changed."""
    with pytest.raises(DefinitionError, match="2 is in no variant's list, and 0 of 0 variants fit"):
        apply_to(package, load_patch(patch_file), "2")


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ('files = "own"', 'files = "none"', "variants.0.files: there is no folder none beside it"),
        ('files = "own"', 'files = "../own"', "variants.0.files: there is no folder own beside it"),
        ('releases = ["1"]\n', "", "releases: whole files are those of the releases"),
        ("[[variants]]", '[[variants]]\ndiff = "own.toml"', "files: stand in place of a diff"),
        ("own on", "own off", "variants.0: no replacement and no file logs the marker"),
    ],
)
def test_a_folder_that_cannot_be_used_is_refused_by_key(
    patch_file: Path, before: str, after: str, problem: str
) -> None:
    """Nothing outside the patches' folder is read, and nothing is guessed."""
    patch_file.write_text(TEXT.replace(before, after), encoding="utf-8")

    with pytest.raises(DefinitionError, match=problem):
        load_patch(patch_file)


def test_a_link_in_the_folder_is_refused(patch_file: Path) -> None:
    """It may lead to any file of this machine."""
    (patch_file.parent / "own" / "pkg" / "link.py").symlink_to("/etc/hostname")

    with pytest.raises(DefinitionError, match=r"variants\.0\.files: .*link\.py is a link"):
        load_patch(patch_file)


def test_files_of_two_packages_are_refused(patch_file: Path) -> None:
    """An overlay is a copy of one package."""
    other = patch_file.parent / "own" / "zlib_like"
    other.mkdir()
    (other / "a.py").write_text("", encoding="utf-8")

    with pytest.raises(DefinitionError, match="not all of them lie below pkg/"):
        load_patch(patch_file)
