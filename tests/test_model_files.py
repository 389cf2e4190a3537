"""Whether a model's files are all there and whole: real safetensors files, and broken ones."""

import json
import struct
from pathlib import Path

import pytest

from orchestrator.adapters.model_files import model_problems
from orchestrator.errors import HostError


def safetensors(path: Path, *tensors: str) -> None:
    """A file of the format with a few bytes for each tensor."""
    header = {
        name: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
        for i, name in enumerate(tensors)
    }
    text = json.dumps(header | {"__metadata__": {"format": "pt"}}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(4 * len(tensors)))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of two parts with an index."""
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    first, second = (f"model-0000{i}-of-00002.safetensors" for i in (1, 2))
    safetensors(tmp_path / first, "a", "b")
    safetensors(tmp_path / second, "c")
    index = {"weight_map": {"a": first, "b": first, "c": second}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    return tmp_path


def test_a_complete_model_has_no_problems(model: Path) -> None:
    """Everything that the index names is there, and as long as its header says."""
    assert model_problems(model) == ()


def test_a_part_that_the_index_names_must_be_there(model: Path) -> None:
    """Also when it is a link into a cache whose file was never downloaded."""
    part = model / "model-00002-of-00002.safetensors"
    part.unlink()
    assert model_problems(model) == (f"{part.name} is missing",)

    part.symlink_to(model / "blobs" / "0123")
    assert model_problems(model) == (f"{part.name} is missing",)


def test_without_an_index_the_names_say_how_many_parts_there_are(model: Path) -> None:
    """`00001-of-00002` promises a second one."""
    (model / "model.safetensors.index.json").unlink()
    (model / "model-00002-of-00002.safetensors").unlink()

    assert model_problems(model) == ("model-00002-of-00002.safetensors is missing",)


def test_a_download_that_was_cut_short_is_seen(model: Path) -> None:
    """The header is whole, and the bytes that it promises are not."""
    part = model / "model-00001-of-00002.safetensors"
    whole = part.read_bytes()
    part.write_bytes(whole[:-3])

    (problem,) = model_problems(model)
    assert problem == f"{part.name} has {len(whole) - 3} bytes, its header says {len(whole)}"


def test_a_file_that_is_something_else_is_seen(model: Path) -> None:
    """Such as the pointer that Git LFS leaves, or an empty file."""
    part = model / "model-00001-of-00002.safetensors"
    for content in (b"version https://git-lfs.github.com/spec/v1\n", b""):
        part.write_bytes(content)
        (problem,) = model_problems(model)
        assert problem.startswith(part.name)


def test_a_part_of_another_model_is_seen(model: Path) -> None:
    """It is whole, and lacks what the index looks for in it."""
    safetensors(model / "model-00002-of-00002.safetensors", "d")

    assert model_problems(model) == (
        "model-00002-of-00002.safetensors lacks 1 tensors of the index, c for one",
    )


def test_an_index_that_is_cut_short_is_seen(model: Path) -> None:
    """It names nothing, and the parts alone must not pass for the whole."""
    index = model / "model.safetensors.index.json"
    index.write_text(index.read_text()[:20])

    assert any(problem.startswith(index.name) for problem in model_problems(model))


def test_configuration_and_tokenizer_must_be_there(model: Path) -> None:
    """Without a network nobody can fetch them later."""
    for name in ("config.json", "tokenizer.json"):
        (model / name).unlink()

    assert model_problems(model) == ("config.json is missing", "no tokenizer is there")
    assert model_problems(model / "none") == (f"{model / 'none'} is no folder",)


def test_weights_of_another_format_cannot_be_judged(model: Path) -> None:
    """Neither complete nor incomplete."""
    for path in model.glob("*.safetensors*"):
        path.unlink()
    (model / "pytorch_model.bin").write_bytes(b"1")

    with pytest.raises(HostError, match=r"no \*\.safetensors"):
        model_problems(model)
