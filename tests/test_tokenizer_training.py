"""The tokenizer knows every shipped document."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer

from orchestrator.adapters.engine_recipe import load_recipe
from orchestrator.adapters.tokenizer_training import SPECIAL_TOKENS, train

PROJECT = Path(__file__).parent.parent
DOCUMENTS = sorted((PROJECT / "arms" / "documents").glob("*.txt"))
VOCABULARY_SIZE = load_recipe(PROJECT / "launch_profiles/engines/vllm-cpu").vocabulary_size


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Trained as the engine's preparation trains it."""
    return Tokenizer.from_str(train(DOCUMENTS, VOCABULARY_SIZE))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_a_document_encodes_without_loss_into_many_different_tokens(
    tokenizer: Tokenizer, document: Path
) -> None:
    """Nothing becomes an unknown token, and the text is no filler of a few tokens repeated."""
    text = document.read_text(encoding="utf-8")

    ids = tokenizer.encode(text).ids

    assert tokenizer.decode(ids) == text
    assert len(set(ids)) >= 300


def test_text_that_no_document_has_encodes_without_loss(tokenizer: Tokenizer) -> None:
    """All 256 bytes are in the alphabet: there is no unknown token to fall back on."""
    text = "日本語 \x00\x7f 🦀 ½"

    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_the_special_tokens_are_one_token_each_and_come_first(tokenizer: Tokenizer) -> None:
    """A chat turn's marks must not be spelt in pieces; the model's configuration names them."""
    assert tokenizer.encode("".join(SPECIAL_TOKENS)).ids == [0, 1, 2]


def test_the_vocabulary_is_as_large_as_declared(tokenizer: Tokenizer) -> None:
    """The documents have enough text for all the merges: the model has no unused rows."""
    assert tokenizer.get_vocab_size() == VOCABULARY_SIZE


def test_the_same_documents_give_the_same_tokenizer() -> None:
    """Token ids are compared across machines: training must not depend on chance."""
    assert train(DOCUMENTS, VOCABULARY_SIZE) == train(DOCUMENTS, VOCABULARY_SIZE)
