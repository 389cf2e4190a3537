"""Patches that are images: compared with the profile's before anything starts, and started."""

from orchestrator.adapters.container_overlay import on_image
from orchestrator.adapters.docker_engine import docker_engine, find_image
from orchestrator.adapters.image_package import ImagePackage, whole_package
from orchestrator.errors import DefinitionError
from orchestrator.model.container import stated
from orchestrator.model.patch import Overlay, Patch
from orchestrator.model.plan import ArmPlan, LaunchPlan
from orchestrator.patching.applying import where
from orchestrator.patching.comparing import difference


def is_image(arm: ArmPlan, patch: Patch) -> bool:
    """Whether the patch is an image for the arm's release."""
    return patch.variant_for(arm.declared.vllm_version).image is not None


def on_patched_image(arm: ArmPlan, patch: Patch) -> tuple[LaunchPlan, ImagePackage, Overlay]:
    """The arm's start on the patched image, with its package and what it changes.

    Raises:
        DefinitionError: The package in it is not a changed copy of the profile's image's.
        HostError: One of the images is not on the engine, or cannot be looked into.
    """
    variant = patch.variant_for(arm.declared.vllm_version)
    container = arm.launch.container
    if variant.image is None or container is None:
        raise DefinitionError(where(patch), "image: only a profile of kind docker starts one")
    python, variables, name = container.python, arm.launch.environment, variant.package
    with docker_engine() as client:
        image = find_image(client, variant.image, container.platform).id
        before = whole_package(client, container.image, python, variables, package=name)
        after = whole_package(client, image, python, variables, package=name)
    provenance = difference(patch, arm.declared.vllm_version, before.sources, after.sources)
    launch, overlay = on_image(arm.launch, image, stated(variant.image), after, provenance)
    return launch, after, overlay
