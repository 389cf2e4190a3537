"""Checks of a container's engine: the Docker Engine, the image, its GPU runtime, its flags."""

from orchestrator.adapters.container_questions import flags_known_in
from orchestrator.adapters.docker_engine import UNREACHABLE, docker_engine, find_image
from orchestrator.adapters.nvidia_smi import asked as nvidia_smi
from orchestrator.cli.doctor.asked import Asked, Resolved
from orchestrator.cli.doctor.engine_checks import judged_flags
from orchestrator.errors import HostError
from orchestrator.flags import program
from orchestrator.model.check import Check, cannot_say, failed, ok
from orchestrator.model.container import is_pinned
from orchestrator.model.profile import DockerProfile

_NO_ENGINE = "the Docker Engine does not answer"


def engine(_: Asked) -> Check:
    """The Docker Engine answers."""
    name = "engine"
    try:
        with docker_engine() as client:
            told = client.version()
    except HostError as error:
        return failed(name, str(error))
    except UNREACHABLE as error:
        return failed(name, f"the Docker Engine does not tell its version: {error}")
    return ok(name, f"Docker Engine {told['Version']} on {told['Os']}/{told['Arch']}")


def image(asked: Asked) -> Check:
    """The pinned image is there, for this machine's processor."""
    name, profile = "image", _profile(asked)
    if asked.client is None:
        return cannot_say(name, _NO_ENGINE)
    try:
        found = find_image(asked.client, profile.image, profile.platform)
    except HostError as error:
        return failed(name, str(error))
    known_as = ", ".join(found.digests or found.tags) or "without a name"
    if not is_pinned(profile.image):
        return ok(name, f"{found.id} ({known_as}); a tag, so tomorrow it may be another one")
    return ok(name, f"{found.id} ({known_as}), {found.platform}")


def gpu(asked: Asked) -> Check:
    """The engine can give a container the GPUs that the profile asks for."""
    name, wanted = "GPU", _profile(asked).resources.gpus
    if wanted is None:
        return ok(name, "none is asked for")
    if asked.client is None:
        return cannot_say(name, _NO_ENGINE)
    try:
        runtimes = asked.client.info().get("Runtimes") or {}
    except UNREACHABLE as error:
        return cannot_say(name, f"the engine does not tell its runtimes: {error}")
    if "nvidia" not in runtimes:
        return failed(
            name,
            f"the engine has the runtimes {', '.join(sorted(runtimes))}, and not nvidia",
            "install nvidia-container-toolkit, then `nvidia-ctk runtime configure"
            " --runtime=docker`, and restart the engine",
        )
    told = nvidia_smi("--query-gpu=name,driver_version")
    if not told:
        return cannot_say(name, "the engine has the nvidia runtime; nvidia-smi names no GPU here")
    return ok(name, "; ".join(told.strip().splitlines()))


def flags(asked: Resolved) -> Check:
    """Every flag of every arm is known to the image's program."""
    name, plan = "flags", asked.launch
    if asked.client is None or plan.container is None:
        return cannot_say(name, _NO_ENGINE)
    head = program(plan.argv)
    try:
        known = flags_known_in(asked.client, plan.container.image, head, plan.environment)
    except HostError as error:
        return cannot_say(name, str(error))
    return judged_flags(asked, head, known)


def _profile(asked: Asked) -> DockerProfile:
    if not isinstance(asked.profile, DockerProfile):
        raise TypeError(asked.profile)  # these checks are chosen by the profile's kind
    return asked.profile
