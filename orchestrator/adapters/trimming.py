"""A run's folder → a copy that `analyze` can judge, without this machine's names and paths."""

import getpass
import json
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

from orchestrator.adapters.packed_files import COMPRESSED, PACKED, compressed, pack
from orchestrator.adapters.run_store import TRIMMED, RunStore
from orchestrator.errors import RunFolderError
from orchestrator.scrubbing import Scrubber

VERDICTS = "verdicts.json"
KEPT = ("plan.json", "run.json", "resumed.json", "end.json")
KEPT_OF_ARM = (
    "launch.json", "engine.json", "outcome.json", "overlay.json", "metrics-end.txt",
    "server-info.json", "memory.jsonl", "host.json", "server.log", "provenance.json",
)  # fmt: skip
"""`metrics-ready.txt` is left out: its counters stand after each probe in the packed exchanges; and
`inspection.json`: it names the engine's own folders, and `provenance.json` says what counts."""

LARGEST_PLAIN_BYTES = 16 * 2**10
"""Larger texts are compressed, but for the report: a plan, a log and a page of metrics become a
tenth, and a recorded run of four starts stays below half a megabyte."""


def replacements(project: Path, cache: Path) -> dict[str, str]:
    """This machine's texts, and what stands for them wherever a run is passed on."""
    found = {
        str(project.resolve()): "<project>",
        str(cache.resolve()): "<cache>",
        str(Path.home()): "<home>",
        platform.node(): "<host>",
    }
    user = getpass.getuser()
    if user != "root":
        found[f"/{user}/"] = "/<user>/"
    return found


def trim(
    store: RunStore, target: Path, replaced: Mapping[str, str], *, judged: Mapping[str, str]
) -> dict[str, int]:
    """Copy a run for keeping, and say what was replaced how often.

    Requests and answers are packed byte for byte; they name no path. In everything else each
    text of `replaced` gives way, and whatever looks like a secret or a home folder. The counts are
    also left in the copy, as `trimmed.json`. Large texts are compressed (`xz`).

    Args:
        store: The run.
        target: A folder that does not exist yet.
        replaced: Text to what stands for it.
        judged: Name to content of what is made anew from the raw files: `report.md`, and
            `verdicts.json`, which is left out where the run has none: it was not finished.

    Raises:
        RunFolderError: The target exists, or the run is not complete.
    """
    if target.exists():
        raise RunFolderError(f"{target}: exists already")
    arms = store.root / "arms"
    if not arms.is_dir():
        raise RunFolderError(f"{arms}: is missing; the run is not complete")
    copy = RunStore(target)
    scrubber = Scrubber(replaced)
    try:
        for name in KEPT:
            _copy_text(store, copy, name, scrubber)
        for name, text in judged.items():
            if name == VERDICTS and not store.has(name):
                continue
            _write(copy, name, text.encode(), scrubber)
        for arm in sorted(path.name for path in arms.iterdir()):
            for name in KEPT_OF_ARM:
                _copy_text(store, copy, f"arms/{arm}/{name}", scrubber)
            files = store.exchange_files(arm)
            copy.write_bytes(f"arms/{arm}/{PACKED}", pack(files))
        told = {"of": store.root.name, "replaced": scrubber.counts}
        copy.write_text(TRIMMED, json.dumps(told, indent=2, sort_keys=True) + "\n")
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)  # nothing half-written stays
        raise
    return scrubber.counts


def _copy_text(store: RunStore, copy: RunStore, name: str, scrubber: Scrubber) -> None:
    content = store.read_bytes(name)
    if content is not None:
        _write(copy, name, content, scrubber)


def _write(copy: RunStore, name: str, content: bytes, scrubber: Scrubber) -> None:
    cleaned = _cleaned(content, scrubber)
    if len(cleaned) > LARGEST_PLAIN_BYTES and not name.endswith(".md"):
        copy.write_bytes(name + COMPRESSED, compressed(cleaned))
    else:
        copy.write_bytes(name, cleaned)


def _cleaned(content: bytes, scrubber: Scrubber) -> bytes:
    # A log may hold any bytes; those that are no text come back as they were.
    return scrubber.clean(content.decode(errors="surrogateescape")).encode(errors="surrogateescape")
