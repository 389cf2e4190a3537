"""Patched arms: checked before anything starts, and run on an overlay of their own."""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from orchestrator.adapters.container_overlay import (
    package_in_image,
    put_patched,
    put_reporter,
)
from orchestrator.adapters.docker_engine import docker_engine
from orchestrator.adapters.image_package import ImagePackage
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
from orchestrator.cli.patched_images import is_image, on_patched_image
from orchestrator.model.patch import Patch, PatchProvenance, module_of
from orchestrator.model.plan import ArmPlan, LaunchPlan, Plan
from orchestrator.patching.applying import apply, touched_files


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
        patched_now(arm, patches)


def patched_now(arm: ArmPlan, patches: Patches) -> PatchProvenance | None:
    """What the arm's patch makes of what the engine holds now; `None` when it has no patch.

    Raises:
        DefinitionError: An anchor is not found exactly as often as stated.
        HostError: The engine's package cannot be found.
    """
    if arm.patch is None:
        return None
    patch = patches.by_name[arm.patch]
    release = arm.declared.vllm_version
    if arm.launch.container is None:
        return apply_to(_package(arm, patch), patch, release).provenance
    if is_image(arm, patch):
        _, _, overlay = on_patched_image(arm, patch)
        return overlay.provenance
    package = _image_package(arm, patch, touched_files(patch))
    return apply(patch, release, package.sources).provenance


@contextmanager
def overlaid(arm: ArmPlan, patches: Patches, store: RunStore) -> Iterator[ArmPlan]:
    """The arm as it is launched: with the reporter, and on its overlay where it has a patch.

    The overlay lies in the arm's folder while its server lives; what was changed stays there as
    `overlay.json`.

    Raises:
        DefinitionError: The patch does not fit.
        HostError: The overlay cannot be built.
    """
    if not patches.modules and arm.patch is None:
        yield arm
        return
    if arm.launch.container is not None:
        with _overlaid_container(arm, patches, store) as launched:
            yield launched
        return
    variables = with_reporter(arm.launch.environment, patches.modules)
    if arm.patch is None:
        yield _launched_in(arm, variables)
        return
    patch = patches.by_name[arm.patch]
    package = _package(arm, patch)
    folder = store.arm_dir(arm.name).absolute() / "overlay"
    overlay = build_overlay(folder, package, apply_to(package, patch, arm.declared.vllm_version))
    store.write(f"arms/{arm.name}/overlay.json", overlay)
    try:
        yield _launched_in(arm, with_overlay(variables, overlay))
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # links and copies; the diff is kept


@contextmanager
def _overlaid_container(arm: ArmPlan, patches: Patches, store: RunStore) -> Iterator[ArmPlan]:
    patch = None if arm.patch is None else patches.by_name[arm.patch]
    if patch is not None and is_image(arm, patch):
        launch, package, overlay = on_patched_image(arm, patch)
        store.write(f"arms/{arm.name}/overlay.json", overlay)
        changed = [file.module for file in overlay.provenance.files if file.module is not None]
        watched = sorted({*patches.modules, *changed})
        yield _launched_with(arm, put_reporter(launch, package, watched))
        return
    files = {file for entry in patches.by_name.values() for file in touched_files(entry)}
    package = _image_package(arm, patch or next(iter(patches.by_name.values())), files)
    launch = put_reporter(arm.launch, package, patches.modules)
    if patch is None:
        yield _launched_with(arm, launch)
        return
    patched = apply(patch, arm.declared.vllm_version, package.sources)
    folder = store.arm_dir(arm.name).absolute() / "overlay"
    launch, overlay = put_patched(launch, package, patched, folder)
    store.write(f"arms/{arm.name}/overlay.json", overlay)
    try:
        yield _launched_with(arm, launch)
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # copies; the diff is kept


def _package(arm: ArmPlan, patch: Patch) -> Path:
    name = _package_name(arm, patch)
    return package_folder(arm.launch.argv[0], name, environment(arm.launch, os.environ))


def _image_package(arm: ArmPlan, patch: Patch, files: Iterable[str]) -> ImagePackage:
    with docker_engine() as client:
        return package_in_image(client, arm.launch, _package_name(arm, patch), files)


def _package_name(arm: ArmPlan, patch: Patch) -> str:
    return patch.variant_for(arm.declared.vllm_version).package


def _launched_in(arm: ArmPlan, variables: dict[str, str]) -> ArmPlan:
    launch = {name: getattr(arm.launch, name) for name in LaunchPlan.model_fields}
    return _launched_with(arm, LaunchPlan(**(launch | {"environment": variables})))


def _launched_with(arm: ArmPlan, launch: LaunchPlan) -> ArmPlan:
    values = {name: getattr(arm, name) for name in ArmPlan.model_fields}
    return ArmPlan(**(values | {"launch": launch}))
