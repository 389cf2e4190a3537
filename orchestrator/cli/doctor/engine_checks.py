"""Checks of the engine: there, the declared one, its GPU, its model, its flags, its patches."""

import os
from pathlib import Path

from orchestrator.adapters.engine_questions import flags_known_here, installed_versions
from orchestrator.adapters.model_files import model_problems
from orchestrator.adapters.nvidia_smi import asked as nvidia_smi
from orchestrator.cli.doctor.asked import Asked, Resolved
from orchestrator.cli.overlaying import check_patches, read_patches
from orchestrator.errors import DefinitionError, HostError
from orchestrator.flags import program, unknown_flags
from orchestrator.model.check import Check, cannot_say, failed, ok
from orchestrator.model.profile import MiniatureInterpreter, ProcessProfile

_NOT_PREPARED = "vllm-arms prepare --profile {profile}"


def engine(asked: Resolved) -> Check:
    """The interpreter is there, and has the declared release."""
    name, declared = "engine", asked.profile.vllm_version
    if _is_miniature(asked):
        return ok(name, f"{declared} comes with this program")
    python = Path(asked.launch.argv[0])
    if not os.access(python, os.X_OK):
        return failed(
            name, f"{python} is not there yet", _NOT_PREPARED.format(profile=asked.profile.name)
        )
    try:
        found, _ = installed_versions(asked.launch)
    except HostError as error:
        return failed(name, str(error), "repair the environment that the profile names")
    if found is None or _without_build(found) != _without_build(declared):
        return failed(
            name,
            f"{python} has vLLM {found or '(none)'}, the profile declares {declared}",
            "correct vllm_version, or install the declared release",
        )
    return ok(name, f"vLLM {found} under {python}")


def gpu(asked: Resolved) -> Check:
    """A GPU with its driver, where torch is built for one."""
    name = "GPU"
    if _is_miniature(asked):
        return ok(name, "none is asked for")
    try:
        _, torch = installed_versions(asked.launch)
    except HostError:
        torch = None
    if torch is None:
        return cannot_say(name, "what torch is built for could not be found out")
    if torch.endswith("+cpu"):
        return ok(name, f"none is asked for: torch {torch}")
    told = nvidia_smi("--query-gpu=name,driver_version")
    if not told:
        return failed(
            name,
            f"torch {torch} wants a GPU, and nvidia-smi names none",
            "install NVIDIA's driver, or use a profile for the CPU",
        )
    return ok(name, "; ".join(told.strip().splitlines()))


def model(asked: Resolved) -> Check:
    """The model's files are all here, and whole: nothing will be downloaded."""
    name, folder = "model", asked.model_dir
    if folder is None:
        return ok(name, "the server wants no files")
    if not folder.exists():
        return failed(
            name, f"{folder} is not there yet", _NOT_PREPARED.format(profile=asked.profile.name)
        )
    try:
        problems = model_problems(folder)
    except HostError as error:
        return cannot_say(name, str(error), "check by hand that its files are complete")
    if problems:
        return failed(name, f"{folder}: {'; '.join(problems)}", "download the snapshot again")
    return ok(name, f"{folder} is complete")


def flags(asked: Resolved) -> Check:
    """Every flag of every arm is known to the program that gets it."""
    head = program(asked.launch.argv)
    try:
        known = flags_known_here(asked.launch, head)
    except HostError as error:
        return cannot_say("flags", str(error))
    return judged_flags(asked, head, known)


def judged_flags(asked: Resolved, head: list[str], known: frozenset[str]) -> Check:
    """The arms' flags against those that the program `head` knows."""
    arguments = [argument for arm in asked.arms for argument in arm.launch.argv[len(head) :]]
    unknown = unknown_flags(arguments, known)
    if unknown:
        told = ", ".join(f"{one.flag} (nearest: {one.nearest or 'none'})" for one in unknown)
        return failed(
            "flags",
            f"unknown to `{' '.join(head)}`: {told}",
            "correct args in the profile, or extra_args of the arm that brings it",
        )
    return ok("flags", f"every flag of {len(asked.arms)} arms is one of {len(known)} known ones")


def patches(asked: Resolved) -> Check:
    """Every patch of the experiment fits the engine's own files."""
    name = "patches"
    try:
        read = read_patches(asked.definitions.patches_dir, asked.plan)
        if not read.by_name:
            return ok(name, "the experiment has none")
        check_patches(asked.plan, read)
    except DefinitionError as error:
        return failed(name, str(error), "docs/patches.md says how a patch is made to fit")
    except HostError as error:
        return cannot_say(name, str(error))
    return ok(name, f"{', '.join(read.by_name)} fit the engine's files")


def _without_build(release: str) -> str:
    """`0.29.0+cpu` is the release 0.29.0; the server's own word decides when it runs."""
    return release.partition("+")[0]


def _is_miniature(asked: Asked) -> bool:
    return isinstance(asked.profile, ProcessProfile) and isinstance(
        asked.profile.interpreter, MiniatureInterpreter
    )
