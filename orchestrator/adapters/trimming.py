"""A run's folder → a copy that `analyze` can judge, without this machine's names and paths."""

import getpass
import platform
import shutil
from collections.abc import Mapping
from pathlib import Path

from orchestrator.adapters.run_store import PACKED, RunStore, as_json, pack
from orchestrator.errors import RunFolderError

KEPT = ("plan.json", "run.json", "end.json", "verdicts.json")
KEPT_OF_ARM = (
    "launch.json", "engine.json", "outcome.json", "overlay.json", "metrics-end.txt",
    "server-info.json", "memory.jsonl", "host.json", "server.log", "provenance.json",
    "inspection.json",
)  # fmt: skip
"""`metrics-ready.txt` is left out: its counters stand after each probe in the packed exchanges."""


def replacements(project: Path, cache: Path) -> dict[str, str]:
    """What stands for what in a trimmed run; longer texts are replaced first."""
    found = {
        str(project.resolve()): "<project>",
        str(cache.resolve()): "<cache>",
        str(Path.home()): "<home>",
        platform.node(): "<host>",
    }
    user = getpass.getuser()
    if user != "root":
        found[f"/{user}/"] = "/<user>/"
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def trim(
    store: RunStore, target: Path, replaced: Mapping[str, str], *, report: str
) -> dict[str, int]:
    """Copy a run for keeping, and say what was replaced how often.

    Requests and answers are packed byte for byte; they name no path. In everything else each
    text of `replaced` gives way, in `report` too, which becomes `report.md`. The counts are also
    left in the copy, as `trimmed.json`.

    Raises:
        RunFolderError: The target exists, or the run is not complete.
    """
    if target.exists():
        raise RunFolderError(f"{target}: exists already")
    copy = RunStore(target)
    counts = dict.fromkeys(replaced.values(), 0)
    try:
        for name in KEPT:
            _copy_text(store, copy, name, replaced, counts)
        copy.write_bytes("report.md", _cleaned(report.encode(), replaced, counts))
        for arm in sorted(path.name for path in (store.root / "arms").iterdir()):
            for name in KEPT_OF_ARM:
                _copy_text(store, copy, f"arms/{arm}/{name}", replaced, counts)
            files = store.exchange_files(arm)
            copy.write_bytes(f"arms/{arm}/{PACKED}", pack(files))
        copy.write_text("trimmed.json", as_json({"of": store.root.name, "replaced": counts}))
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)  # nothing half-written stays
        raise
    return counts


def _copy_text(
    store: RunStore, copy: RunStore, name: str, replaced: Mapping[str, str], counts: dict[str, int]
) -> None:
    content = store.read_bytes(name)
    if content is None:
        return
    copy.write_bytes(name, _cleaned(content, replaced, counts))


def _cleaned(content: bytes, replaced: Mapping[str, str], counts: dict[str, int]) -> bytes:
    for text, stand_in in replaced.items():
        counts[stand_in] += content.count(text.encode())
        content = content.replace(text.encode(), stand_in.encode())
    return content
