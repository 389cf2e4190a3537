"""Trains the tokenizer of the tiny model on the shipped documents.

A tokenizer that does not know the documents turns them into one unknown token repeated, and
such filler never shows the effect. A byte-level one knows every byte; trained on the documents,
it also spends many different tokens on them.
"""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""Padding, and the two marks of a chat turn, as the Qwen family writes them."""


def train(documents: Sequence[Path], vocabulary_size: int) -> str:
    """Train a byte-level BPE; the same texts in the same order give the same tokenizer.

    Returns:
        The content of a `tokenizer.json`. Any text encodes without an unknown token, and decodes
        to itself.
    """
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = (document.read_text(encoding="utf-8") for document in documents)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer.to_str(pretty=True)
