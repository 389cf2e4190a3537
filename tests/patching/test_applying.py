"""Patches on the texts that they were written for, and on others."""

import itertools
from pathlib import Path

import pytest

from orchestrator.adapters.overlay import apply_to
from orchestrator.errors import DefinitionError
from orchestrator.model.patch import Edit, Patch, Variant
from orchestrator.patching.applying import apply, touched_files
from tests.patching.shipped import (
    MINIATURE,
    MINIATURE_SCHEDULER,
    READ,
    SCHEDULER,
    boundary_edit,
    shipped,
    sources,
    stop,
)

NAMES = pytest.mark.parametrize("name", ["stop-at-every-boundary", "sham"])
TEXTS = pytest.mark.parametrize("release", [*READ, MINIATURE])


def changed_lines(diff: str) -> list[str]:
    """Added and removed lines, indentation aside."""
    lines = [
        line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    return [f"{line[0]} {line[1:].strip()}" for line in lines]


def test_the_fix_of_0_29_0_is_the_articles_line_and_a_marker() -> None:
    """Nothing else changes; the result is recorded by hash and diff."""
    patched = apply(shipped("stop-at-every-boundary"), "0.29.0", sources("0.29.0"))

    (file,) = patched.provenance.files
    assert changed_lines(file.diff) == [
        '+ logger.info("PATCH stop-at-every-boundary active")',
        "- next_block_boundary if start % block_size != 0 else 0,",
        "+ 0 if use_internal_checkpoint else next_block_boundary,",
    ]
    assert file.module == "vllm.v1.core.sched.scheduler"
    assert patched.provenance.read_for_release


@NAMES
@TEXTS
def test_every_release_has_one_variant_that_fits(name: str, release: str) -> None:
    """Each file changes, and its marker is in it once."""
    patch = shipped(name)

    patched = apply(patch, release, sources(release))

    (content,) = patched.contents.values()
    assert content.decode().count(patch.marker) == 1
    (file,) = patched.provenance.files
    assert file.sha256_before != file.sha256_after


@NAMES
@TEXTS
def test_a_release_that_nobody_read_gets_the_variant_of_its_text(name: str, release: str) -> None:
    """A build between releases is recognised by its text, and the record says so."""
    known = apply(shipped(name), release, sources(release))

    unknown = apply(shipped(name), "0.1.dev20073+g8e685d198", sources(release))

    assert unknown.contents == known.contents
    assert not unknown.provenance.read_for_release


POSITIONS = list(itertools.product(range(80), (0, 32, 64), (False, True)))


@TEXTS
def test_the_sham_stops_where_the_engine_does(release: str) -> None:
    """Its expression has the engine's value wherever a chunk begins."""
    edit = boundary_edit(shipped("sham"), release)

    for start, last, exempt in POSITIONS:
        # 0.29.0 has no exemption but for a start on a boundary; nor have the others at all.
        before = stop(edit.anchor, start=start, last=last, exempt=exempt)
        assert stop(edit.replacement, start=start, last=last, exempt=exempt) == before


@TEXTS
def test_the_fix_stops_at_the_next_boundary_from_everywhere(release: str) -> None:
    """From a boundary, too, where the engine runs on."""
    edit = boundary_edit(shipped("stop-at-every-boundary"), release)

    assert stop(edit.anchor, start=32, last=64, exempt=False) == 0
    for start, last, _ in POSITIONS:
        expected = (start // 16 + 1) * 16
        assert stop(edit.replacement, start=start, last=last, exempt=False) == expected


def patch_of(*variants: Variant) -> Patch:
    """A small patch of one's own."""
    return Patch(name="own", description="x", upstream="x", marker="own on", variants=variants)


def variant(release: str, anchor: str, *, count: int = 1) -> Variant:
    """One edit of `pkg/a.py`."""
    edit = Edit(file="pkg/a.py", anchor=anchor, replacement="say('own on')\n", count=count)
    return Variant(releases=(release,), edits=(edit,))


@pytest.mark.parametrize(("text", "found"), [("", 0), ("x = 1\nx = 1\n", 2)])
def test_an_anchor_that_is_not_found_as_stated_is_refused(text: str, found: int) -> None:
    """The message says how often it was found, and in which file."""
    with pytest.raises(DefinitionError) as refused:
        apply(patch_of(variant("1", "x = 1\n")), "1", {"pkg/a.py": text.encode()})

    assert str(refused.value) == (
        f"arms/patches/own.toml: does not fit 1: pkg/a.py: anchor 'x = 1' found {found} times"
        " instead of 1"
    )


def test_a_listed_release_is_never_given_another_releases_variant() -> None:
    """Even where that one would fit: what was read is what counts."""
    patch = patch_of(variant("1", "x = 1\n"), variant("2", "x = 2\n"))

    with pytest.raises(DefinitionError, match="does not fit 1"):
        apply(patch, "1", {"pkg/a.py": b"x = 2\n"})


def test_an_unlisted_release_that_two_variants_fit_is_refused() -> None:
    """Which of them is meant cannot be known."""
    patch = patch_of(variant("1", "x = 1\n"), variant("2", "y = 1\n"))

    with pytest.raises(DefinitionError, match="3 is in no variant's list, and 2 of 2 variants fit"):
        apply(patch, "3", {"pkg/a.py": b"x = 1\ny = 1\n"})


def test_an_anchor_may_be_stated_to_occur_more_than_once() -> None:
    """Then every occurrence is replaced."""
    patched = apply(patch_of(variant("1", "x\n", count=2)), "1", {"pkg/a.py": b"x\nx\n"})

    assert patched.contents["pkg/a.py"] == b"say('own on')\nsay('own on')\n"


def test_line_ends_of_the_engine_are_kept() -> None:
    """A file with carriage returns keeps them; only the anchor is replaced."""
    patched = apply(patch_of(variant("1", "x\r\n")), "1", {"pkg/a.py": b"a\r\nx\r\nb\r\n"})

    assert patched.contents["pkg/a.py"] == b"a\r\nsay('own on')\nb\r\n"


def test_a_file_that_the_engine_lacks_is_named() -> None:
    """Instead of a traceback."""
    with pytest.raises(DefinitionError, match=r"there is no pkg/a\.py"):
        apply(patch_of(variant("1", "x")), "1", {})


def test_a_patch_without_its_marker_is_no_patch() -> None:
    """What never logs its marker could never be shown to run."""
    silent = Edit(file="pkg/a.py", anchor="x", replacement="y")

    with pytest.raises(ValueError, match="no replacement and no file logs the marker"):
        patch_of(Variant(releases=("1",), edits=(silent,)))


def test_the_files_of_all_variants_are_asked_for() -> None:
    """So that an unlisted release can be tried with each."""
    assert touched_files(shipped("sham")) == {SCHEDULER, MINIATURE_SCHEDULER}


@pytest.mark.vllm
@NAMES
def test_whole_published_packages(name: str, released: tuple[str, Path]) -> None:
    """The anchors are where they are stated to be in the whole file, too."""
    release, package = released
    patched = apply_to(package, shipped(name), release)

    assert patched.provenance.read_for_release
