"""`nightly.toml`: read, and held against what it names, before anything is started."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestrator.adapters.definition_files import Definitions, read_table, validated
from orchestrator.cli.comparing import judged_run
from orchestrator.errors import DefinitionError, RunFolderError
from orchestrator.model.comparison import JudgedRun
from orchestrator.model.container import is_pinned
from orchestrator.model.nightly import NightlyConfig, NightlyEntry
from orchestrator.model.profile import DockerProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A config of which everything that it names is there."""

    config: NightlyConfig
    baselines: Mapping[str, JudgedRun]
    """By `NightlyEntry.baseline`."""


def checked_config(project: Path, file: Path) -> Checked:
    """Read a config, its experiments and profiles, and judge its baselines from their raw files.

    Raises:
        DefinitionError: Names the file and the key that is wrong.
    """
    if file.is_dir():
        raise DefinitionError(file, "is a folder; name the TOML file in it")
    if not file.is_file():
        raise DefinitionError(file, "there is no such file; docs/nightly.md shows one")
    config = validated(file, read_table(file), NightlyConfig)
    baselines: dict[str, JudgedRun] = {}
    for number, entry in enumerate(config.entries):
        try:
            _check_definitions(Definitions(project), entry)
            if entry.baseline not in baselines:
                baselines[entry.baseline] = judged_run(project / entry.baseline)
            _check_baseline(entry, baselines[entry.baseline])
        except (DefinitionError, RunFolderError) as error:
            raise DefinitionError(file, f"entries.{number}: {error}") from error
    return Checked(config=config, baselines=baselines)


def _check_definitions(definitions: Definitions, entry: NightlyEntry) -> None:
    asked = definitions.suite(entry.experiment) or definitions.experiment(entry.experiment)
    known = [arm.name for arm in asked.arms]
    for arm in entry.arms:
        if arm not in known:
            raise DefinitionError("arms", f"no arm {arm}; there are {', '.join(known)}")
    for name in _profiles(asked.stacks, entry):
        profile = definitions.profile(name)
        if isinstance(profile, DockerProfile) and not is_pinned(profile.image):
            raise DefinitionError(
                "profile",
                f"{name} names its image by a tag, which may stand for another image tomorrow:"
                " pin it by digest or by local image id",
            )


def _profiles(stacks: Sequence[str], entry: NightlyEntry) -> Sequence[str]:
    """Of an experiment whose arms name theirs (`stacks`), or the entry's own: never both."""
    if stacks and entry.profile is not None:
        raise DefinitionError(
            "profile",
            f"the arms of {entry.experiment} name their own ({', '.join(stacks)}); leave it out",
        )
    if stacks:
        return stacks
    if entry.profile is None:
        raise DefinitionError(
            "profile", f"is missing, and the arms of {entry.experiment} name none"
        )
    return (entry.profile,)


def _check_baseline(entry: NightlyEntry, baseline: JudgedRun) -> None:
    """A run that cannot be a baseline would make every night's answer the same."""
    plan = baseline.plan
    if plan.experiment != entry.experiment or entry.profile not in (None, plan.profile):
        raise DefinitionError(
            "baseline", f"{entry.baseline} is a run of {plan.experiment} on {plan.profile}"
        )
    if baseline.verdict.result in ("failed", "inconclusive"):
        raise DefinitionError(
            "baseline", f"{entry.baseline} is {baseline.verdict.result}: nothing can be held to it"
        )
