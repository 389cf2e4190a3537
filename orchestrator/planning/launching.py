"""What an arm makes of a profile's command line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.errors import DefinitionError
from orchestrator.model.engine import EngineFiles
from orchestrator.model.experiment import ServerSettings
from orchestrator.model.plan import LaunchPlan
from orchestrator.model.profile import LaunchProfile, ProcessProfile
from orchestrator.sizing import resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """A way to start a server, with the engine that it starts."""

    profile: LaunchProfile
    engine: EngineFiles


def check_alike(stacks: Sequence[Stack], where: str) -> None:
    """Stacks are sent the same token ids, so their prompts must be made in one way.

    Raises:
        DefinitionError: Their profiles put different texts around a document.
    """
    first = stacks[0].profile
    for stack in stacks[1:]:
        for key in ("prompt_prefix", "prompt_suffix"):
            ours, theirs = getattr(stack.profile, key), getattr(first, key)
            if ours != theirs:
                problem = f"{key} of {stack.profile.name} is not that of {first.name}"
                raise DefinitionError(where, f"arms.profile: {problem}")


def step_budget(arm: ServerSettings, profile: LaunchProfile, where: str) -> int:
    """Tokens of one scheduler step.

    Raises:
        DefinitionError: The arm's size cannot be resolved.
    """
    if arm.token_budget is None:
        return profile.max_num_batched_tokens
    return _size(arm, "token_budget", arm.token_budget, profile, where)


def _size(arm: ServerSettings, key: str, text: str, profile: LaunchProfile, where: str) -> int:
    try:
        return resolve(text, block_tokens=profile.block_size_tokens)
    except ValueError as error:
        raise DefinitionError(where, f"arms.{arm.name}.{key}: {error}") from error


def launch_plan(
    arm: ServerSettings, profile: LaunchProfile, engine: EngineFiles, budget: int, where: str
) -> LaunchPlan:
    """The command of the arm's start, with nothing open but the port.

    Raises:
        DefinitionError: The arm's context cannot be resolved, or is not used.
    """
    caching = profile.prefix_caching
    args = (
        *profile.args,
        *(profile.speculation if arm.speculation == "on" else ()),
        *(caching.on if arm.prefix_caching == "on" else caching.off),
        *arm.extra_args,
    )
    filled_in = {
        "{model}": engine.model_dir,
        "{tokenizer}": engine.served_tokenizer_file or engine.tokenizer_file,
        "{budget}": str(budget),
        "{context}": str(_context(arm, profile, args, where)),
    }
    return LaunchPlan(
        argv=(engine.python, *(_filled_in(arg, filled_in) for arg in args)),
        environment={**engine.environment, **profile.environment, **arm.environment},
        inherit=profile.inherit if isinstance(profile, ProcessProfile) else (),
        ready=profile.ready,
        stop=profile.stop,
        request_timeout_s=profile.request_timeout_s,
        heartbeat_timeout_s=profile.heartbeat_timeout_s,
        host=profile.host,
        container=engine.container,
    )


def _context(
    arm: ServerSettings, profile: LaunchProfile, args: Sequence[str], where: str
) -> int | None:
    if arm.context is None:
        return profile.context_tokens
    if not any("{context}" in arg for arg in args):
        problem = "no argument has {context}; extra_args may say --max-model-len {context}"
        raise DefinitionError(where, f"arms.{arm.name}.context: {problem}")
    return _size(arm, "context", arm.context, profile, where)


def _filled_in(argument: str, parts: Mapping[str, str]) -> str:
    for name, value in parts.items():
        argument = argument.replace(name, value)
    return argument


def engine_name(profile: LaunchProfile) -> str:
    """What a reader is told answers; the miniature's version says itself what it is not."""
    version = profile.vllm_version
    return version if "not vLLM" in version else f"vLLM {version}"
