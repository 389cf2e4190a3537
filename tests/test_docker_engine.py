"""Images on the real engine: what a pin stands for, and what is refused."""

import docker
import pytest

from orchestrator.adapters.docker_engine import docker_engine, find_image
from orchestrator.errors import HostError
from orchestrator.model.container import DigestPin, ImagePin, LocalPin, TagPin


def tagged(name: str, **more: str) -> TagPin:
    """A pin by tag."""
    return TagPin(kind="tag", reference=name, **more)


def test_a_tag_is_resolved_to_the_id_that_is_a_pin_of_its_own(
    docker_client: docker.DockerClient, base_image: str
) -> None:
    """Both name the same image; the platform is the engine's own."""
    by_tag = find_image(docker_client, tagged(base_image), "linux/amd64")
    by_id = find_image(docker_client, LocalPin(kind="local", id=by_tag.id), "linux/amd64")

    assert by_tag.id == by_id.id
    assert by_tag.declared == base_image
    assert by_tag.platform == "linux/amd64"


@pytest.mark.parametrize(
    ("pin", "told"),
    [
        (tagged("no-such-image:1"), "docker pull --platform linux/amd64 no-such-image:1"),
        (tagged("no-such-image:1", obtain="make it"), "to get it: make it"),
        (LocalPin(kind="local", id=f"sha256:{'0' * 64}"), "docker images --no-trunc"),
        (DigestPin(kind="digest", reference=f"no/such@sha256:{'0' * 64}"), "docker pull"),
    ],
)
def test_an_image_that_is_not_there_comes_with_the_way_to_get_it(
    docker_client: docker.DockerClient, pin: ImagePin, told: str
) -> None:
    """And nothing is pulled."""
    with pytest.raises(HostError, match=told):
        find_image(docker_client, pin, "linux/amd64")


def test_emulation_is_refused(docker_client: docker.DockerClient, base_image: str) -> None:
    """The profile's platform is neither the image's nor the machine's."""
    with pytest.raises(HostError, match="is linux/amd64, the profile's platform is linux/arm64"):
        find_image(docker_client, tagged(base_image), "linux/arm64")


def test_a_digest_that_begins_otherwise_is_refused(
    docker_client: docker.DockerClient, base_image: str
) -> None:
    """An image that was built here has none at all."""
    pin = tagged(base_image, digest_begins="sha256:fc120ece")

    with pytest.raises(HostError, match="the profile's begins sha256:fc120ece"):
        find_image(docker_client, pin, "linux/amd64")


def test_an_engine_that_does_not_answer_is_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit 4, and no traceback."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")

    with pytest.raises(HostError, match="the Docker Engine does not answer"), docker_engine():
        pytest.fail("there is none")
