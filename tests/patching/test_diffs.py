"""Whole pull requests, given as unified diffs."""

import pytest

from orchestrator.errors import DefinitionError
from orchestrator.model.patch import Edit, Patch, Variant
from orchestrator.patching.applying import Patched, apply

DIFF = """\
diff --git a/pkg/core.py b/pkg/core.py
--- a/pkg/core.py
+++ b/pkg/core.py
@@ -1,3 +1,4 @@
 start
-old
+new
+more
 end
@@ -8,2 +9,2 @@
 near
-far
+away
diff --git a/pkg/added/extra.py b/pkg/added/extra.py
new file mode 100644
--- /dev/null
+++ b/pkg/added/extra.py
@@ -0,0 +1,2 @@
+one
+two
diff --git a/tests/test_core.py b/tests/test_core.py
--- a/tests/test_core.py
+++ b/tests/test_core.py
@@ -1 +1 @@
-a
+b
"""

REMOVAL = """\
diff --git a/pkg/core.py b/pkg/core.py
deleted file mode 100644
--- a/pkg/core.py
+++ /dev/null
@@ -1 +0,0 @@
-start
"""

CORE = "# moved down\n# by two lines\nstart\nold\nend\n\nnear\nfar\nlast\n"


def applied(diff: str, core: str = CORE, **others: str) -> Patched:
    """The diff and a marker on a package of one file, or of more."""
    marker = Edit(file="pkg/core.py", anchor="last\n", replacement="say('pr on')\nlast\n")
    variant = Variant(releases=("1",), diff=diff, edits=(marker,))
    patch = Patch(name="pr", description="x", upstream="x", marker="pr on", variants=(variant,))
    sources = {"pkg/core.py": core} | others
    return apply(patch, "1", {file: text.encode() for file, text in sources.items()})


def test_every_hunk_applies_where_its_lines_stand() -> None:
    """Line numbers are not looked at; new files come with it, tests are left out and named."""
    patched = applied(DIFF)

    assert patched.contents["pkg/core.py"].decode() == (
        "# moved down\n# by two lines\nstart\nnew\nmore\nend\n\nnear\naway\nsay('pr on')\nlast\n"
    )
    assert patched.contents["pkg/added/extra.py"] == b"one\ntwo\n"
    assert patched.provenance.left_out == ("tests/test_core.py",)
    assert [f.sha256_before is None for f in patched.provenance.files] == [True, False]


@pytest.mark.parametrize(
    ("core", "found"),
    [(CORE.replace("start", "begin"), 0), (CORE + "start\nold\nend\n", 2)],
    ids=["context differs", "context twice"],
)
def test_a_hunk_is_never_fuzzy(core: str, found: int) -> None:
    """One differing line of context, or two places for it, and nothing is changed."""
    with pytest.raises(DefinitionError, match=f"anchor 'start' found {found} times instead of 1"):
        applied(DIFF, core)


@pytest.mark.parametrize(
    ("diff", "problem"),
    [
        (DIFF.replace("pkg/added/extra.py", "csrc/kernel.cu"), "csrc/kernel.cu lies outside pkg/"),
        ("--- a/pkg/core.py\n+++ b/pkg/core.py\n@@ -1,5 +1,5 @@\n start\n", "no unified diff"),
        (DIFF[DIFF.index("diff --git a/tests") :], "changes no file below pkg/"),
        ("--- a/pkg/core.py\n+++ b/pkg/core.py\n@@ -3,0 +4 @@\n+new\n", "hunk without context"),
        (REMOVAL, "removed, renamed or binary"),
    ],
    ids=["compiled code", "cut off", "nothing left", "no context", "removal"],
)  # fmt: skip
def test_what_an_overlay_cannot_do_is_refused(diff: str, problem: str) -> None:
    """A part of a change would be a change that nobody proposed."""
    with pytest.raises(DefinitionError, match=f"diff: .*{problem}"):
        applied(diff)


def test_a_new_file_that_is_there_already_is_refused() -> None:
    """It would be overwritten unread."""
    with pytest.raises(DefinitionError, match=r"pkg/added/extra\.py is there already"):
        applied(DIFF, **{"pkg/added/extra.py": "mine\n"})


def test_a_last_line_without_a_line_feed_stays_so() -> None:
    """As the diff says: the text is compared to its last byte."""
    no_feed = "\\ No newline at end of file\n"
    diff = (
        f"--- a/pkg/core.py\n+++ b/pkg/core.py\n@@ -1,2 +1,2 @@\n last\n-x\n{no_feed}+y\n{no_feed}"
    )

    patched = applied(diff, "last\nx")

    assert patched.contents["pkg/core.py"] == b"say('pr on')\nlast\ny"
