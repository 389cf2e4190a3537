"""`make truth`: everything judged, everything mutated, `docs/truth.md` written anew."""

import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.conftest import PROJECT
from tests.documents import rendered
from tests.truth.built import Case
from tests.truth.confusion import Confusion, of_built, of_witnessed
from tests.truth.families import built_cases
from tests.truth.mutations import Noticed, all_noticed
from tests.truth.witnessed import witnessed_run

HERE = Path(__file__).parent
PANEL = HERE / "panel.toml"
DOCUMENT = PROJECT / "docs" / "truth.md"


def main() -> None:
    """Print the document, and end with 1 where it says that something is not so."""
    cases = list(built_cases())
    built = of_built(cases)
    with tempfile.TemporaryDirectory(prefix="vllm-arms-truth-") as folder:
        witnessed = of_witnessed(witnessed_run(PROJECT, str(PANEL), folder=Path(folder)))
    found = all_noticed()
    text = document(cases, built, witnessed, found)
    DOCUMENT.write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    wrong = [c.false_stable + c.false_diverged for c in (built, witnessed)]
    sys.exit(any(wrong) or any(entry.by is None for entry in found))


def document(
    cases: Sequence[Case], built: Confusion, witnessed: Confusion, found: Sequence[Noticed]
) -> str:
    """`docs/truth.md`."""
    return rendered(
        HERE / "truth.md.j2",
        runs=len(cases),
        families=sorted(Counter(case.family for case in cases).items()),
        built=built,
        witnessed=witnessed,
        found=sorted(found, key=lambda entry: entry.mutation.rule),
        unnoticed=sum(entry.by is None for entry in found),
    )


if __name__ == "__main__":
    main()
