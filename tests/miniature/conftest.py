"""What the tests of the miniature share: one model, and engines around it."""

import os

# Before NumPy is loaded, as in orchestrator/miniature/__main__.py.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from orchestrator.miniature.engine import Engine
from orchestrator.miniature.model import Model
from orchestrator.miniature.requests import Request, Wish
from orchestrator.miniature.scheduler import Limits
from orchestrator.miniature.weights import random_weights

from .servers import ARGUMENTS, DRAFTS, RunningServer, started

_DOCUMENTS = Path(__file__).parents[2] / "arms" / "documents"
_FIRST_BYTE_TOKEN = 3  # the project's tokenizer has three special tokens before its bytes

BLOCK = 32
PANEL = 16
"""Documents: enough for some to be stable and most not to be."""

SHARED_TOKENS = 40
"""Between one and two blocks, as in the measurements of docs/verdicts.md."""


MEASURED = Limits(
    block_size=BLOCK,
    max_num_batched_tokens=2048,
    max_model_len=2048,
    prefix_caching=True,
    num_speculative_tokens=2,
    num_blocks=2048,
)
"""Of an engine like the one that was measured: block 32, two drafts."""


class Client:
    """Sends one request after the other to an engine in this process."""

    def __init__(self, model: Model, limits: Limits, engine: type[Engine] = Engine) -> None:
        self.engine = engine(model, limits, seed=0)
        self._numbers = count(1)

    def ask(self, prompt: list[int], *, salt: str | None = None, max_tokens: int = 1) -> Request:
        """Have a prompt continued."""
        wish = Wish(prompt=tuple(prompt), max_tokens=max_tokens, salt=salt, top_logprobs=20)
        request = self.engine.add(f"request-{next(self._numbers)}", wish)
        while request.finish_reason is None:
            self.engine.step()
        return request


@pytest.fixture(scope="session")
def model() -> Model:
    """The model that a server has by default."""
    return Model(random_weights(0))


@pytest.fixture(scope="session")
def documents() -> list[list[int]]:
    """Parts of the shipped documents as token ids, all different from the first block on."""
    texts = sorted(_DOCUMENTS.glob("*.txt"))
    parts = [text.read_bytes()[start : start + 400] for start in (0, 700) for text in texts]
    return [[_FIRST_BYTE_TOKEN + byte for byte in part] for part in parts[:PANEL]]


@pytest.fixture(scope="session")
def server(
    tmp_path_factory: pytest.TempPathFactory, tokenizer_file: Path
) -> Iterator[RunningServer]:
    """One with drafts, a tokenizer and the development endpoints."""
    arguments = (*ARGUMENTS, *DRAFTS, "--tokenizer", str(tokenizer_file))
    folder = tmp_path_factory.mktemp("server")
    with started(folder, *arguments, VLLM_SERVER_DEV_MODE="1") as server:
        server.wait_until_ready()
        yield server
