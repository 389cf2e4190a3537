"""`vllm-arms build-image`: the project's own images, built here from what this machine has."""

import tempfile
from pathlib import Path

from rich.text import Text

from orchestrator.adapters.definition_files import Definitions
from orchestrator.adapters.docker_engine import docker_engine
from orchestrator.adapters.engine_preparation import default_cache, prepare
from orchestrator.adapters.engine_recipe import load_recipe
from orchestrator.adapters.image_building import build, miniature_tree, vllm_cpu_tree
from orchestrator.cli.progress import terminal
from orchestrator.errors import DefinitionError

MODEL = "tiny-hybrid"
"""Prepared along with the environment that the image is made of; no image holds a model."""

IMAGES = {"miniature": "vllm-arms-miniature:local", "vllm-cpu": "vllm-arms-vllm-cpu:0.29.0"}
"""Name on the command line to the tag that the profiles state."""


def print_built_image(project: Path, name: str, base: str) -> None:
    """Build an image, and print its tag and id.

    Raises:
        DefinitionError: There is no such image.
        HostError: The engine does not answer, or the build failed.
    """
    if name not in IMAGES:
        raise DefinitionError(f"build-image {name}", f"must be one of {', '.join(IMAGES)}")
    definitions = Definitions(project)
    console = terminal()

    def say(line: str) -> None:
        console.print(Text(line), soft_wrap=True)

    with (
        docker_engine() as client,
        tempfile.TemporaryDirectory(prefix="vllm-arms-image-") as folder,
    ):
        if name == "miniature":
            tree = miniature_tree(Path(folder))
        else:
            recipe = definitions.engines_dir / name
            arguments = (recipe, definitions.documents_dir, default_cache())
            engine = prepare(*arguments, model=MODEL, report=say)
            tree = vllm_cpu_tree(engine.python, recipe / "plugin", load_recipe(recipe).needs)
        dockerfile = definitions.images_dir / name / "Dockerfile"
        image = build(client, IMAGES[name], dockerfile, tree, base=base, report=say)
        say(f"{IMAGES[name]}: {image}")
