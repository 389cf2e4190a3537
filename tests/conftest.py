"""What several tests need: the project's folder, and a real engine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest
import structlog

from orchestrator.adapters.docker_engine import docker_engine
from orchestrator.adapters.engine_preparation import (
    PreparedEngine,
    default_cache,
    prepare,
    tokenizer_for,
)
from orchestrator.adapters.run_store import RunStore
from orchestrator.cli.app import main
from orchestrator.errors import HostError

PROJECT = Path(__file__).parent.parent
COMMAND = [sys.executable, "-m", "orchestrator"]
Call = Callable[..., tuple[int, str, str]]
"""Exit code, standard output and standard error of a call."""

IN_CI = os.environ.get("CI") == "true"


def engine_image() -> str:
    """Name of an image with the Python that runs us: ENGINE_IMAGE, else the public one."""
    return os.environ.get("ENGINE_IMAGE", "python:3.11-slim")


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
            model="tiny-hybrid",
            report=print,
        )
    except HostError as error:
        if IN_CI:
            raise
        pytest.skip(f"no real vLLM here: {error}")


@pytest.fixture(scope="session")
def docker_client() -> Iterator[docker.DockerClient]:
    """The Docker Engine; skipped with the reason where there is none, a failure in CI."""
    try:
        with docker_engine() as client:
            yield client
    except HostError as error:
        if IN_CI:
            raise
        pytest.skip(f"no Docker Engine here: {error}")


@pytest.fixture(scope="session")
def browser() -> str:
    """Chromium or Chrome; skipped where there is none, a failure in CI."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None and IN_CI:
        raise AssertionError("CI needs chromium: .ci/run installs it")
    if found is None:
        pytest.skip("no chromium and no google-chrome here")
    return found


@pytest.fixture(scope="session")
def base_image(docker_client: docker.DockerClient) -> str:
    """The image of `engine_image`, where the engine has it."""
    name = engine_image()
    if not docker_client.images.list(name):
        if IN_CI:
            raise HostError(f"ENGINE_IMAGE: the engine has no image {name}")
        pytest.skip(f"no Python image here: ENGINE_IMAGE names {name}, which the engine lacks")
    return name


@pytest.fixture(scope="session")
def miniature_image(base_image: str) -> str:
    """The miniature's image, built from this checkout."""
    done = subprocess.run(
        [*COMMAND, "build-image", "miniature", "--base", base_image, "--project", str(PROJECT)],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return "vllm-arms-miniature:local"


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped definitions, for runs of any kind."""
    return copied_project(tmp_path_factory.mktemp("project"))


@pytest.fixture
def own_project(tmp_path: Path) -> Path:
    """The shipped definitions, for a test that changes them."""
    return copied_project(tmp_path / "project")


@pytest.fixture(scope="session")
def real_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped definitions, for the one run of `real_run`."""
    return copied_project(tmp_path_factory.mktemp("real"))


def copied_project(folder: Path) -> Path:
    """A project of its own in a folder, with our definitions and no runs."""
    """A project of its own, with our definitions and no runs."""
    for name in ("arms", "launch_profiles"):
        shutil.copytree(PROJECT / name, folder / name)
    return folder


def newest_run(project: Path, experiment: str = "three-arm") -> RunStore:
    """The newest run of an experiment."""
    return RunStore.open(max((project / "runs" / experiment).iterdir()))


@pytest.fixture(scope="session")
def real_run(engine: PreparedEngine, real_project: Path) -> subprocess.CompletedProcess[str]:
    """`vllm-arms run three-arm` on the real vLLM: three server starts, six documents."""
    assert engine.version == "0.29.0"
    return subprocess.run(
        [*COMMAND, "run", "three-arm", "--project", str(real_project)],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
        cwd=PROJECT,
    )


@pytest.fixture(scope="session")
def engine_python(engine: PreparedEngine) -> Path:
    """The interpreter of the real vLLM's environment."""
    return engine.python


OTHER_PACKAGES = [Path(p) for p in os.environ.get("VLLM_ARMS_PACKAGES", "").split(os.pathsep) if p]
"""Folders of other releases' vllm packages, each as RELEASE/vllm; none is needed."""


@pytest.fixture(
    params=[None, *OTHER_PACKAGES], ids=lambda p: p.parent.name if p is not None else "installed"
)
def released(request: pytest.FixtureRequest, engine: PreparedEngine) -> tuple[str, Path]:
    """A release and its vllm package: the engine's own, and whichever others are at hand."""
    if request.param is not None:
        return request.param.parent.name, request.param
    (package,) = engine.python.parent.parent.glob("lib/python*/site-packages/vllm")
    return engine.version, package


@pytest.fixture(scope="session")
def tokenizer_file() -> Path:
    """The tokenizer that is trained on the shipped documents; needs no engine."""
    return tokenizer_for(
        PROJECT / "launch_profiles" / "engines" / "vllm-cpu",
        PROJECT / "arms" / "documents",
        default_cache(),
    )


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Call `vllm-arms` in this process: exit code, standard output, standard error."""

    def called(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["vllm-arms", *map(str, arguments)])
        try:
            code = main()
        except SystemExit as end:
            code = int(end.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return called
