"""The patches that ship, and the texts that they were written for."""

from pathlib import Path

from orchestrator.adapters.patch_files import load_patch
from orchestrator.model.patch import Edit, Overlay, Patch
from orchestrator.patching.applying import apply
from orchestrator.patching.reported import loaded_modules
from tests.conftest import PROJECT

HERE = Path(__file__).parent
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
MINIATURE = "MINIATURE: not vLLM 0.1.0"
MINIATURE_SCHEDULER = "orchestrator/miniature/scheduler.py"
READ = ("0.26.0", "0.28.0", "0.29.0", "0.30.0", "0.33.0")
"""One release of each text; `sources/` has what a patch touches of it, as published."""


def shipped(name: str) -> Patch:
    """A patch of this project, read as the product reads it."""
    return load_patch(PROJECT / "arms" / "patches" / f"{name}.toml")


def sources(release: str) -> dict[str, bytes]:
    """What `apply` is given of an engine."""
    if release == MINIATURE:
        return {MINIATURE_SCHEDULER: (PROJECT / MINIATURE_SCHEDULER).read_bytes()}
    return {SCHEDULER: (HERE / "sources" / f"{release}.txt").read_bytes()}


def log_of(arm: str) -> bytes:
    """Lines around the report of a real vLLM 0.29.0's start; only paths were shortened."""
    return (HERE / "logs" / f"0.29.0-cpu-{arm}.log").read_bytes()


def recorded_overlay(arm: str, patch: str) -> Overlay:
    """The overlay that the start of `log_of` ran on."""
    provenance = apply(shipped(patch), "0.29.0", sources("0.29.0")).provenance
    # The recorded start had the whole file, of which `sources` keeps a part: other hashes.
    whole = {m.module: m.sha256 for m in loaded_modules(log_of(arm))}
    files = [f.model_dump() | {"sha256_after": whole[f.module or ""]} for f in provenance.files]
    return Overlay.model_validate(
        {
            "folder": f"/srv/overlays/{arm}",
            "environment": {},
            "provenance": provenance.model_dump() | {"files": tuple(files)},
        }
    )


def boundary_edit(patch: Patch, release: str) -> Edit:
    """The edit that changes, or pretends to change, where a chunk stops."""
    variant = next(v for v in patch.variants if release in v.releases)
    return next(edit for edit in variant.edits if "next_block_boundary" in edit.anchor)


def stop(text: str, *, start: int, last: int, exempt: bool) -> int:
    """The value that an entry of the list of stops has, at a block of 16 tokens."""
    values = {
        "start": start,
        "block_size": 16,
        "next_block_boundary": (start // 16 + 1) * 16,
        "last_cache_position": last,
        "use_internal_checkpoint": exempt,
    }
    value: int = eval(f"({text})", {}, values)[0]  # noqa: S307 - our own patch's text
    return value
