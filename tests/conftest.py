"""What several tests need: the project's folder, and a real engine."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from orchestrator.adapters.engine_preparation import (
    PreparedEngine,
    default_cache,
    prepare,
    tokenizer_for,
)
from orchestrator.errors import HostError

PROJECT = Path(__file__).parent.parent
IN_CI = os.environ.get("CI") == "true"


@pytest.fixture(autouse=True)
def _log_configuration() -> Iterator[None]:
    """No test leaves its logging to the next one."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def engine() -> PreparedEngine:
    """The real vLLM for CPU with its tiny model, prepared on first use.

    Where this machine cannot run it, tests that need it are skipped with the reason; in CI a
    missing engine is a failure.
    """
    try:
        return prepare(
            PROJECT / "launch_profiles" / "engines" / "vllm-cpu",
            PROJECT / "arms" / "documents",
            default_cache(),
            report=print,
        )
    except HostError as error:
        if IN_CI:
            raise
        pytest.skip(f"no real vLLM here: {error}")


@pytest.fixture(scope="session")
def engine_python(engine: PreparedEngine) -> Path:
    """The interpreter of the real vLLM's environment."""
    return engine.python


@pytest.fixture(scope="session")
def tokenizer_file() -> Path:
    """The tokenizer that is trained on the shipped documents; needs no engine."""
    return tokenizer_for(
        PROJECT / "launch_profiles" / "engines" / "vllm-cpu",
        PROJECT / "arms" / "documents",
        default_cache(),
    )
