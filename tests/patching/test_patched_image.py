"""Patches that are images: what they change is found by comparing, on a real Docker Engine."""

import io
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import docker
import pytest

from orchestrator.adapters.run_store import RunStore
from orchestrator.cli.overlaying import Patches, check_patches, overlaid
from orchestrator.errors import DefinitionError
from orchestrator.model.container import ContainerPlan, LocalPin, Resources
from orchestrator.model.patch import Overlay, Patch, Variant
from orchestrator.model.plan import ArmPlan, Plan
from orchestrator.patching.applying import apply
from orchestrator.patching.comparing import difference
from tests.conftest import PROJECT, Call
from tests.definitions import experiment, plan

RULE, PATCHED_RULE = b"RULE = 'old'\n", b"RULE = 'new'\nsay('own on')\n"
PACKAGE = {"pkg/__init__.py": b"", "pkg/core/rule.py": RULE, "pkg/core/__init__.py": b""}
CHANGED = PACKAGE | {"pkg/core/rule.py": PATCHED_RULE, "pkg/core/added.py": b"ADDED = 1\n"}


def patch_of(image: str = f"sha256:{'0' * 64}") -> Patch:
    """A patch that is an image."""
    pin = LocalPin(kind="local", id=image)
    variant = Variant(releases=("0.0.0",), image=pin, image_package="pkg")
    return Patch(name="own", description="x", upstream="x", marker="own on", variants=(variant,))


def test_what_an_image_changes_is_recorded_file_by_file() -> None:
    """By hash and diff, as an edit is; what is the same in both is no change."""
    provenance = difference(patch_of(), "0.0.0", PACKAGE, CHANGED)

    added, rule = provenance.files
    assert (added.file, added.sha256_before) == ("pkg/core/added.py", None)
    assert rule.module == "pkg.core.rule"
    assert "-RULE = 'old'\n+RULE = 'new'\n+say('own on')\n" in rule.diff
    assert provenance.read_for_release


@pytest.mark.parametrize(
    ("after", "problem"),
    [
        (PACKAGE, "is the profile's image's own"),
        ({"pkg/__init__.py": b""}, "pkg/core/__init__.py is removed in it"),
        (CHANGED | {"pkg/_C.so": b"\xff"}, r"pkg/_C\.so was changed in it, and is no text"),
        (PACKAGE | {"pkg/core/rule.py": b"RULE = 3\n"}, "no changed file in it logs the marker"),
    ],
)
def test_an_image_that_shows_no_patch_is_refused(after: Mapping[str, bytes], problem: str) -> None:
    """Nothing differs, or what differs could not be told or shown to run."""
    with pytest.raises(DefinitionError, match=problem):
        difference(patch_of(), "0.0.0", PACKAGE, after)


def test_a_process_cannot_be_started_from_an_image() -> None:
    """The same patch on a profile of the other kind."""
    with pytest.raises(DefinitionError, match="only a profile of kind docker starts"):
        apply(patch_of(), "0.0.0", {"pkg/core/rule.py": RULE})


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"image_package": None}, "one is nothing without the other"),
        ({"diff": "x"}, "nothing else is done to it"),
    ],
)
def test_an_image_is_a_change_of_its_own(values: dict[str, object], problem: str) -> None:
    """Beside it, no diff and no edit: it would have to be put into the image."""
    variant = patch_of().variants[0].model_dump() | values

    with pytest.raises(ValueError, match=problem):
        Variant.model_validate(variant)


Build = Callable[[Mapping[str, bytes]], str]


@pytest.fixture
def build(docker_client: docker.DockerClient, base_image: str) -> Iterator[Build]:
    """Make an image with these files on Python's path; all of them go after the test."""
    made: list[str] = []

    def image(files: Mapping[str, bytes]) -> str:
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as archive:
            for name, content in files.items():
                entry = tarfile.TarInfo(f"opt/engine/{name}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        container = docker_client.containers.create(base_image)
        try:
            container.put_archive("/", layer.getvalue())
            made.append(str(container.commit(conf={"Env": ["PYTHONPATH=/opt/engine"]}).id))
        finally:
            container.remove()
        return made[-1]

    yield image
    for name in made:
        docker_client.images.remove(name, force=True)


def planned(image: str) -> Plan:
    """One arm with the patch, in a container of an image."""
    asked = experiment(
        arms=[{"name": "patched", "cell": "contaminated", "patch": "own"}], expectations={}
    )
    made = plan(asked)
    (arm,) = made.arms
    container = ContainerPlan(
        image=image,
        declared=image,
        platform="linux/amd64",
        resources=Resources(shared_memory_bytes=2**26),
        mounts=(),
    )
    launch = arm.launch.model_dump() | {
        "argv": ("python3", "-m", "pkg"), "environment": {}, "container": container.model_dump(),
    }  # fmt: skip
    arm = ArmPlan.model_validate(arm.model_dump() | {"launch": launch})
    return Plan.model_validate(made.model_dump() | {"arms": (arm.model_dump(),)})


def test_the_arm_starts_on_the_other_image(build: Build, tmp_path: Path) -> None:
    """With the reporter watching what it changes, at the place where that image has it."""
    own, patched = build(PACKAGE), build(CHANGED)
    made, patches = planned(own), Patches(by_name={"own": patch_of(patched)}, modules=())
    store = RunStore(tmp_path)

    check_patches(made, patches)
    with overlaid(made.arms[0], patches, store) as launched:
        container = launched.launch.container

    assert container is not None
    assert container.image == patched
    assert launched.launch.environment["ARMS_WATCHED_MODULES"] == "pkg.core.added,pkg.core.rule"
    overlay = store.read("arms/patched/overlay.json", Overlay)
    assert overlay.folder == "/opt/engine"
    assert [file.file for file in overlay.provenance.files] == [
        "pkg/core/added.py", "pkg/core/rule.py",
    ]  # fmt: skip


def test_the_profiles_own_image_is_no_patch(build: Build) -> None:
    """`plan` and `run` refuse before anything starts."""
    own = build(PACKAGE)

    with pytest.raises(DefinitionError, match="is the profile's image's own"):
        check_patches(planned(own), Patches(by_name={"own": patch_of(own)}, modules=()))


def test_a_release_in_an_image_is_asked_for_its_rule(build: Build, call: Call) -> None:
    """Its package is read out of the image; this one's function is no published one."""
    scheduler = b"""
class Scheduler:
    def _mamba_block_aligned_split(
        self, request, num_new_tokens, num_new_local_computed_tokens=0
    ):
        return num_new_tokens
"""
    files = {
        "vllm/__init__.py": b"",
        "vllm/_version.py": b"__version__ = '0.29.0'\n",
        "vllm/v1/core/sched/scheduler.py": scheduler,
    }
    image = build(files)

    code, _, errors = call("predict", "--versions", f"image:{image}", "--project", PROJECT)

    assert code == 2
    assert "does not follow rule v0.27, which vLLM 0.29.0 was read to follow" in errors
