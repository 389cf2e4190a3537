"""Make a tiny random hybrid model: `make_model.py TOKENIZER_JSON FOLDER [--model NAME]`.

Runs under the engine's own interpreter, which has torch and transformers, and reads nothing from
a network. The same tokenizer gives the same bytes: every random number comes from a seed below.
The model says nothing sensible and need not: the question is whether equal requests get equal
logits, and that needs real arithmetic, not a trained mind.

Architecture: Qwen3-Next, three layers with a recurrent state for one with attention (the hybrid
kind whose prefix cache is under test) and one layer for multi-token prediction (MTP).

Three of them: in `tiny-hybrid` the MTP head is random as the rest, and none of its drafts is ever
accepted; in `tiny-hybrid-agreeing` most of them are. `tiny-hybrid-deep` has twice the layers, and
the sizes of a model with which a GPU was seen to show the effect at the article's own lengths.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

SEED = 0
MTP_SEED = 7
"""A seed of its own: a change of the MTP head leaves the rest of the model as it was."""

HIDDEN_SIZE = 512
"""The smallest at which a processor with AMX was seen to compute other bits for a row when other
rows are beside it. Processors without AMX never do (seen for AVX-512, 8 to 1024 rows); there the
effect comes from the recurrent layers, which work in tiles of 64 tokens counted from where a
chunk begins: on every processor a chunk that begins elsewhere gives other bits."""

INITIALIZER_STD = 0.08
"""Wide enough that the logits depend on the whole prompt; 0.02, the usual, makes them nearly
flat."""

EMBEDDING_GAIN = 400.0
"""Of `tiny-hybrid-agreeing`. Makes the last token's embedding, 0.08 wide, outweigh what the layers
add to it, 8 wide together: the next token then follows mostly from the last one, as it also does
in the MTP head, which is handed the same embedding as wide. Measured at 400 on the CPU: 54 % of
the drafts accepted; at 32 none. The larger, the less of the prompt is left in the logits."""

SIZES: dict[str, Any] = {
    "hidden_size": HIDDEN_SIZE,
    "intermediate_size": 2 * HIDDEN_SIZE,
    "num_hidden_layers": 4,
    "layer_types": ["linear_attention"] * 3 + ["full_attention"],
    # Plain MLPs in the middle, mixtures of experts around them.
    "mlp_only_layers": [1, 2],
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
    "linear_conv_kernel_dim": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 128,
    "shared_expert_intermediate_size": 128,
    "max_position_embeddings": 32768,
    "initializer_range": INITIALIZER_STD,
    "tie_word_embeddings": False,
}

DEEP_SIZES: dict[str, Any] = SIZES | {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 8,
    "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 2,
    "mlp_only_layers": [],
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "num_experts": 8,
}

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""ChatML, the form that the Qwen family uses."""


def main() -> None:
    """Write a folder that vLLM can serve: weights, configuration, tokenizer, chat template."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizer", type=Path, help="a tokenizer.json")
    parser.add_argument("folder", type=Path, help="made if it is missing")
    parser.add_argument(
        "--model",
        choices=["tiny-hybrid", "tiny-hybrid-agreeing", "tiny-hybrid-deep"],
        default="tiny-hybrid",
    )
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)

    tokenizer = Tokenizer.from_file(str(arguments.tokenizer))
    config = Qwen3NextConfig(
        vocab_size=tokenizer.get_vocab_size(),
        eos_token_id=tokenizer.token_to_id("<|im_end|>"),
        pad_token_id=tokenizer.token_to_id("<|endoftext|>"),
        bos_token_id=None,  # nothing is put before a prompt: its tokens are those that were sent
        **(DEEP_SIZES if arguments.model == "tiny-hybrid-deep" else SIZES),
    )
    weights = random_weights(config)
    if arguments.model == "tiny-hybrid-agreeing":
        make_drafts_agree(weights)
    weights_file = arguments.folder / "model.safetensors"
    save_file(weights, weights_file, metadata={"format": "pt"})
    weights_file.chmod(0o644)  # safetensors leaves it to its owner alone; a container has others
    write_configuration(config, arguments.folder)
    write_tokenizer(arguments.tokenizer, arguments.folder)


def random_weights(config: Qwen3NextConfig) -> dict[str, torch.Tensor]:
    """Initialise the model as transformers does, and an MTP head in the image of its last layer."""
    torch.manual_seed(SEED)
    model = Qwen3NextForCausalLM(config).to(torch.bfloat16)
    weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    generator = torch.Generator().manual_seed(MTP_SEED)

    def random(*shape: int) -> torch.Tensor:
        return (torch.randn(*shape, generator=generator) * INITIALIZER_STD).to(torch.bfloat16)

    attention_layer = f"model.layers.{config.num_hidden_layers - 1}."
    for name in [name for name in weights if name.startswith(attention_layer)]:
        tensor = weights[name]
        # Vectors are the gains of norms: drawn at random they would damp the head.
        drawn = tensor.clone() if tensor.ndim == 1 else random(*tensor.shape)
        weights["mtp.layers.0." + name.removeprefix(attention_layer)] = drawn
    weights["mtp.fc.weight"] = random(config.hidden_size, 2 * config.hidden_size)
    for norm in ("norm", "pre_fc_norm_hidden", "pre_fc_norm_embedding"):
        # Zero is the neutral gain: this architecture's norms multiply by 1 + weight.
        weights[f"mtp.{norm}.weight"] = torch.zeros(config.hidden_size, dtype=torch.bfloat16)
    return weights


def make_drafts_agree(weights: dict[str, torch.Tensor]) -> None:
    """Let the target and its MTP head both follow the last token's embedding."""
    embeddings = weights["model.embed_tokens.weight"]
    width = EMBEDDING_GAIN * INITIALIZER_STD
    embeddings *= EMBEDDING_GAIN
    # The head's input is the normed embedding (as wide as 1) beside the target's hidden state.
    hidden_size = embeddings.shape[1]
    of_embedding = width * torch.eye(hidden_size, dtype=torch.bfloat16)
    weights["mtp.fc.weight"] = torch.cat([of_embedding, torch.zeros_like(of_embedding)], dim=1)


def write_configuration(config: Qwen3NextConfig, folder: Path) -> None:
    """Write config.json with what vLLM looks for: the architecture, the type, the MTP layer."""
    content = json.loads(config.to_json_string(use_diff=False))
    content |= {
        "architectures": [Qwen3NextForCausalLM.__name__],
        "dtype": "bfloat16",
        "num_nextn_predict_layers": 1,
    }
    write_json(folder / "config.json", content)
    write_json(
        folder / "generation_config.json",
        {"eos_token_id": config.eos_token_id, "pad_token_id": config.pad_token_id},
    )


def write_tokenizer(tokenizer_file: Path, folder: Path) -> None:
    """Copy the tokenizer, and tell transformers how to load it and how a chat is written."""
    shutil.copyfile(tokenizer_file, folder / "tokenizer.json")
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
            "clean_up_tokenization_spaces": False,
            "model_max_length": SIZES["max_position_embeddings"],
            "chat_template": CHAT_TEMPLATE,
        },
    )


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write one of the small files, readable for a person."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
