"""What every check is asked about."""

from dataclasses import dataclass
from pathlib import Path

import docker

from orchestrator.adapters.definition_files import Definitions
from orchestrator.model.plan import ArmPlan, LaunchPlan, Plan
from orchestrator.model.profile import AnyProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A profile on this machine, with the engine for containers."""

    project: Path
    definitions: Definitions
    profile: AnyProfile

    client: docker.DockerClient | None
    """`None`: no Docker Engine answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved(Asked):
    """And an experiment on it, resolved."""

    plan: Plan
    model_dir: Path | None
    """On this machine; `None`: the server wants none."""

    @property
    def launch(self) -> LaunchPlan:
        """Of the first arm; its program, its variables and its image are those of all."""
        return self.plan.arms[0].launch

    @property
    def arms(self) -> tuple[ArmPlan, ...]:
        """Every arm, each with a command line of its own."""
        return self.plan.arms
