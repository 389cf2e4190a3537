"""The judge without one of its rules: some run of known truth must then be judged untruly.

`python -m tests.truth.mutations` prints the table. A rule whose absence nothing shows is a rule
that nobody would miss: it is proved by no run, or it is none.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import PROJECT

LIST = Path(__file__).with_suffix(".toml")

LIMIT_S = 300.0
"""All built runs take 10 to 30 s, as busy as the machine is; the first untruth ends them."""


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """One text of one file of `orchestrator/`, and what takes its place."""

    name: str
    rule: int
    file: str
    anchor: str
    replacement: str

    def apply(self, package: Path) -> None:
        """Change a copy of the package."""
        path = package / self.file
        text = path.read_text("utf-8")
        assert text.count(self.anchor) == 1, f"{self.name}: {text.count(self.anchor)} times"
        path.write_text(text.replace(self.anchor, self.replacement), encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Noticed:
    """What became of a mutation."""

    mutation: Mutation
    by: str | None
    """The first run that is judged untruly; `None` when none is."""


def mutations() -> list[Mutation]:
    """All of them, in the order of the file."""
    return [Mutation(**entry) for entry in tomllib.loads(LIST.read_text("utf-8"))["mutations"]]


def noticed(mutation: Mutation) -> Noticed:
    """Judge the built runs with a mutated copy, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="vllm-arms-mutation-") as folder:
        copy = Path(folder)
        shutil.copytree(
            PROJECT / "orchestrator",
            copy / "orchestrator",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        for name in ("tests", "arms"):
            (copy / name).symlink_to(PROJECT / name)
        mutation.apply(copy / "orchestrator")
        done = subprocess.run(
            # -P: the package is found in the copy by PYTHONPATH, and nowhere before it.
            [sys.executable, "-B", "-P", "-m", "tests.truth.first_untruth"],
            cwd=copy,
            env={"PYTHONPATH": folder},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    assert done.returncode == 0, f"{mutation.name}: {done.stderr[-2000:]}"
    return Noticed(mutation=mutation, by=done.stdout.strip() or None)


def all_noticed() -> list[Noticed]:
    """Every mutation, a process for each processor at a time; in the order of the file."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return list(pool.map(noticed, mutations()))


def main() -> None:
    """Print one line a mutation, and end with 1 where one was not noticed."""
    found = all_noticed()
    for entry in found:
        by = entry.by or "NOT NOTICED"
        sys.stdout.write(f"rule {entry.mutation.rule:2}  {entry.mutation.name}: {by}\n")
    unnoticed = [entry.mutation.name for entry in found if entry.by is None]
    sys.stdout.write(f"{len(found) - len(unnoticed)} of {len(found)} were noticed\n")
    sys.exit(bool(unnoticed))


if __name__ == "__main__":
    main()
