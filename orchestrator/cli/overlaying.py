"""Patched arms: checked before anything starts, and run on an overlay of their own."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.adapters.overlay import (
    apply_to,
    build_overlay,
    package_folder,
    with_overlay,
    with_reporter,
)
from orchestrator.adapters.patch_files import load_patch
from orchestrator.adapters.process_server import environment
from orchestrator.adapters.run_store import RunStore
from orchestrator.model.patch import Patch, module_of
from orchestrator.model.plan import ArmPlan, LaunchPlan, Plan
from orchestrator.patching.applying import touched_files


@dataclass(frozen=True, slots=True, kw_only=True)
class Patches:
    """The patches of a run, and what they touch."""

    by_name: dict[str, Patch]

    modules: tuple[str, ...]
    """Reported by every arm of the run, patched or not."""


def read_patches(folder: Path, plan: Plan) -> Patches:
    """Read the patches that the plan's arms name.

    Raises:
        DefinitionError: One is missing or wrong.
    """
    names = dict.fromkeys(arm.patch for arm in plan.arms if arm.patch is not None)
    by_name = {name: load_patch(folder / f"{name}.toml") for name in names}
    files = {file for patch in by_name.values() for file in touched_files(patch)}
    modules = {module for file in files if (module := module_of(file)) is not None}
    return Patches(by_name=by_name, modules=tuple(sorted(modules)))


def check_patches(plan: Plan, patches: Patches) -> None:
    """Apply every patch to what the engine holds now, and write nothing.

    Raises:
        DefinitionError: An anchor is not found exactly as often as stated.
        HostError: The engine's package cannot be found.
    """
    for arm in plan.arms:
        if arm.patch is not None:
            patch = patches.by_name[arm.patch]
            apply_to(_package(arm, patch), patch, arm.declared.vllm_version)


@contextmanager
def overlaid(arm: ArmPlan, patches: Patches, store: RunStore) -> Iterator[ArmPlan]:
    """The arm as it is launched: with the reporter, and on its overlay where it has a patch.

    The overlay lies in the arm's folder while its server lives; what was changed stays there as
    `overlay.json`.

    Raises:
        DefinitionError: The patch does not fit.
        HostError: The overlay cannot be built.
    """
    if not patches.modules:
        yield arm
        return
    variables = with_reporter(arm.launch.environment, patches.modules)
    if arm.patch is None:
        yield _launched_with(arm, variables)
        return
    patch = patches.by_name[arm.patch]
    package = _package(arm, patch)
    folder = store.arm_dir(arm.name).absolute() / "overlay"
    overlay = build_overlay(folder, package, apply_to(package, patch, arm.declared.vllm_version))
    store.write(f"arms/{arm.name}/overlay.json", overlay)
    try:
        yield _launched_with(arm, with_overlay(variables, overlay))
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # links and copies; the diff is kept


def _package(arm: ArmPlan, patch: Patch) -> Path:
    release = arm.declared.vllm_version
    known = next((v for v in patch.variants if release in v.releases), patch.variants[0])
    return package_folder(arm.launch.argv[0], known.package, environment(arm.launch, os.environ))


def _launched_with(arm: ArmPlan, variables: dict[str, str]) -> ArmPlan:
    launch = {name: getattr(arm.launch, name) for name in LaunchPlan.model_fields}
    values = {name: getattr(arm, name) for name in ArmPlan.model_fields}
    return ArmPlan(**(values | {"launch": LaunchPlan(**(launch | {"environment": variables}))}))
