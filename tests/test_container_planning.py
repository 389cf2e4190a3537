"""What a profile's container is made of: paths, mounts, variables, labels. No engine."""

import pytest
from pydantic import ValidationError

from orchestrator.adapters.definition_files import Definitions
from orchestrator.adapters.ownership import this_process
from orchestrator.model.container import Gpus, Resources
from orchestrator.model.labels import OWNER, ContainerLabels, as_labels, read_labels
from orchestrator.model.profile import DockerProfile
from orchestrator.model.secrets import without_secrets
from orchestrator.planning.containers import in_container, model_on_host, snapshot_revision
from tests.conftest import PROJECT

SNAPSHOT = "/hub/models--Qwen--Some/snapshots/0a1b2c"


def docker_profile(name: str = "docker-vllm-cpu-tiny-hybrid") -> DockerProfile:
    """A profile that ships."""
    profile = Definitions(PROJECT).profile(name)
    assert isinstance(profile, DockerProfile)
    return profile


def test_model_and_tokenizer_are_mounted_read_only_at_fixed_places() -> None:
    """The server sees no path of the machine; prompts are made with the machine's own."""
    engine = in_container(
        docker_profile(), image="i", model_dir="/m/tiny", tokenizer_file="/t/t.json", identity="x"
    )

    assert engine.container is not None
    mounts = {(m.source, m.target, m.read_only) for m in engine.container.mounts}
    assert mounts == {("/m/tiny", "/model", True), ("/t/t.json", "/tokenizer.json", True)}
    assert (engine.model_dir, engine.tokenizer_file) == ("/model", "/t/t.json")
    assert engine.served_tokenizer_file == "/tokenizer.json"
    assert engine.environment["HF_HUB_OFFLINE"] == "1"
    assert model_on_host(engine) == "/m/tiny"


def test_a_snapshot_is_mounted_with_the_repository_that_its_links_lead_to() -> None:
    """Its files are links into `blobs`, beside `snapshots`."""
    engine = in_container(
        docker_profile(), image="i", model_dir=SNAPSHOT, tokenizer_file="/t.json", identity="x"
    )

    assert engine.container is not None
    assert engine.container.mounts[0].source == "/hub/models--Qwen--Some"
    assert engine.model_dir == "/model/snapshots/0a1b2c"
    assert model_on_host(engine) == SNAPSHOT
    assert snapshot_revision(SNAPSHOT) == "0a1b2c"
    assert snapshot_revision("/models/snapshots") is None


def test_without_a_model_only_the_tokenizer_is_mounted() -> None:
    """What the miniature wants."""
    engine = in_container(
        docker_profile("docker-miniature"),
        image="i",
        model_dir=None,
        tokenizer_file="/t.json",
        identity="x",
    )

    assert engine.container is not None
    assert [mount.target for mount in engine.container.mounts] == ["/tokenizer.json"]
    assert model_on_host(engine) is None


def test_labels_are_read_back_as_they_were_written() -> None:
    """By another program, later: whose a container is decides whether it may be removed."""
    labels = ContainerLabels(
        role="server", owner=this_process(), run="three-arm/x", arm="clean", folder="/runs/x"
    )

    assert read_labels(as_labels(labels)) == labels
    assert read_labels({"com.example": "theirs"}) is None
    assert read_labels({OWNER: "no JSON"}) is None


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "give either count or device_ids"),
        ({"count": 1, "device_ids": ("0",)}, "give either count or device_ids"),
        ({"count": 0}, "must be 1 or more"),
    ],
)
def test_gpus_are_given_by_number_or_by_name(values: dict[str, object], told: str) -> None:
    """Both, or neither, would be a guess."""
    with pytest.raises(ValidationError, match=told):
        Gpus.model_validate(values)


def test_resources_have_limits_that_the_engine_accepts() -> None:
    """Refused here with the key, and not at the start with a status."""
    with pytest.raises(ValidationError, match="memory_bytes"):
        Resources(shared_memory_bytes=2**26, memory_bytes=1000)
    with pytest.raises(ValidationError, match="must be an absolute path"):
        Resources.model_validate_json(
            '{"shared_memory_bytes": 67108864, "mounts": [{"source": "m", "target": "/m"}]}'
        )


def test_values_that_may_be_secret_are_not_written_down() -> None:
    """By the variable's name; a tokenizer's switch is no token."""
    given = {
        "HF_TOKEN": "hf_x", "VLLM_API_KEY": "k", "https_proxy": "http://me:pw@proxy",
        "TOKENIZERS_PARALLELISM": "false", "VLLM_CPU_KVCACHE_SPACE": "1", "AWS_SECRET": "",
    }  # fmt: skip

    cleaned = without_secrets(given)

    removed = {name for name, value in cleaned.items() if value == "<removed>"}
    assert removed == {"HF_TOKEN", "VLLM_API_KEY", "https_proxy"}
    assert cleaned["TOKENIZERS_PARALLELISM"] == "false"


@pytest.mark.parametrize("name", ["gb10-qwen38-flash-next", "gb10-vllm-0.29.0"])
def test_the_gb10_profiles_pin_the_platform_and_state_the_article_s_launch(name: str) -> None:
    """Flags of the published command; the grid and the drafts that its measurements show."""
    profile = docker_profile(name)

    assert profile.platform == "linux/arm64"
    assert (profile.block_size_tokens, profile.speculative_tokens) == (1600, 2)
    assert "--no-enable-flashinfer-autotune" in profile.args
    assert profile.ready.total_timeout_s > 13 * 60
