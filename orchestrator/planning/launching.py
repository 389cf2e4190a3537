"""What an arm makes of a profile's command line."""

from orchestrator.errors import DefinitionError
from orchestrator.model.engine import EngineFiles
from orchestrator.model.experiment import Arm
from orchestrator.model.plan import LaunchPlan
from orchestrator.model.profile import LaunchProfile, ProcessProfile
from orchestrator.sizing import resolve


def step_budget(arm: Arm, profile: LaunchProfile, where: str) -> int:
    """Tokens of one scheduler step.

    Raises:
        DefinitionError: The arm's size cannot be resolved.
    """
    if arm.token_budget is None:
        return profile.max_num_batched_tokens
    try:
        return resolve(arm.token_budget, block_tokens=profile.block_size_tokens)
    except ValueError as error:
        raise DefinitionError(where, f"arms.{arm.name}.token_budget: {error}") from error


def launch_plan(arm: Arm, profile: LaunchProfile, engine: EngineFiles, budget: int) -> LaunchPlan:
    """The command of the arm's start, with nothing open but the port."""
    caching = profile.prefix_caching
    args = (
        *profile.args,
        *(profile.speculation if arm.speculation == "on" else ()),
        *(caching.on if arm.prefix_caching == "on" else caching.off),
        *arm.extra_args,
    )
    return LaunchPlan(
        argv=(engine.python, *(_filled_in(arg, engine, budget) for arg in args)),
        environment={**engine.environment, **profile.environment, **arm.environment},
        inherit=profile.inherit if isinstance(profile, ProcessProfile) else (),
        ready=profile.ready,
        stop=profile.stop,
        request_timeout_s=profile.request_timeout_s,
        heartbeat_timeout_s=profile.heartbeat_timeout_s,
        host=profile.host,
        container=engine.container,
    )


def _filled_in(argument: str, engine: EngineFiles, budget: int) -> str:
    parts = {
        "{model}": engine.model_dir,
        "{tokenizer}": engine.served_tokenizer_file or engine.tokenizer_file,
        "{budget}": str(budget),
    }
    for name, value in parts.items():
        argument = argument.replace(name, value)
    return argument


def engine_name(profile: LaunchProfile) -> str:
    """What a reader is told answers; the miniature's version says itself what it is not."""
    version = profile.vllm_version
    return version if "not vLLM" in version else f"vLLM {version}"
