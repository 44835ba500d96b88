"""Configurations as they are published: the same layers as in the zoo; and everything that is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from treadle.errors import FormatError
from treadle.training.models.config_json import read_config
from treadle.training.models.zoo import zoo_model


def decoder(kind: str, *numbers: int, **more: Any) -> dict[str, Any]:
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    return {"model_type": kind, **dict(zip(names, numbers, strict=True)), **more}


LLAMA = decoder("llama", 4096, 14336, 32, 32, num_key_value_heads=8, vocab_size=128256, hidden_act="silu")
GEMMA = decoder(
    "gemma2", 2304, 9216, 26, 8, num_key_value_heads=4, head_dim=256, vocab_size=256000, sliding_window=4096
)
QWEN = decoder(
    "qwen3_moe",
    4096,
    12288,
    94,
    64,
    num_key_value_heads=4,
    head_dim=128,
    vocab_size=151936,
    num_experts=128,
    num_experts_per_tok=8,
    moe_intermediate_size=1536,
    decoder_sparse_step=1,
    mlp_only_layers=[],
    sliding_window=None,
    use_sliding_window=False,
    max_position_embeddings=40960,
)
DEEPSEEK = decoder(
    "deepseek_v3",
    7168,
    18432,
    61,
    128,
    num_key_value_heads=128,
    vocab_size=129280,
    n_routed_experts=256,
    num_experts_per_tok=8,
    moe_intermediate_size=2048,
    n_shared_experts=1,
    first_k_dense_replace=3,
    moe_layer_freq=1,
    q_lora_rank=1536,
    kv_lora_rank=512,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    quantization_config={"quant_method": "fp8"},
)
MIXTRAL = decoder(
    "mixtral",
    4096,
    14336,
    32,
    32,
    num_key_value_heads=8,
    vocab_size=32000,
    num_local_experts=8,
    num_experts_per_tok=2,
)
GPT2 = {
    "model_type": "gpt2",
    "n_embd": 1280,
    "n_layer": 36,
    "n_head": 20,
    "n_inner": None,
    "vocab_size": 50257,
}
SWITCH = {
    "model_type": "switch_transformers",
    "d_model": 768,
    "d_ff": 3072,
    "d_kv": 64,
    "num_heads": 12,
    "num_layers": 12,
    "num_decoder_layers": 12,
    "num_sparse_encoder_layers": 6,
    "num_sparse_decoder_layers": 6,
    "num_experts": 256,
    "vocab_size": 32128,
    "feed_forward_proj": "relu",
}


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (LLAMA, "llama-3-8b"),
        (GEMMA, "gemma-2-2b"),
        (QWEN, "qwen3-235b-a22b"),
        (DEEPSEEK, "deepseek-v3"),
        (MIXTRAL, "mixtral-8x7b"),
        (GPT2, "gpt2-large"),
        (SWITCH, "switch-base-256"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_configurations_give_the_layers_of_the_zoo(config: dict[str, Any], name: str) -> None:
    model = read_config(json.dumps(config), name="mine")
    assert model.layers == zoo_model(name).layers
    assert model.name == "mine"


def without(config: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in names}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (without(LLAMA, "model_type"), "model_type is missing; supported are deepseek_v2.*t5"),
        ({**LLAMA, "model_type": "lama"}, "unknown model_type 'lama'; did you mean llama.*mixtral"),
        ({**LLAMA, "model_type": ["llama"]}, "unknown model_type"),
        (without(LLAMA, "vocab_size", "hidden_size"), "these keys are missing: hidden_size, vocab_size"),
        (without(DEEPSEEK, "kv_lora_rank"), "these keys are missing: kv_lora_rank"),
        ({**LLAMA, "hidden_size": "4096"}, "hidden_size: expected an integer.*found '4096'"),
        ({**LLAMA, "hidden_size": 4096.0}, "hidden_size: expected an integer"),
        ({**LLAMA, "hidden_size": True}, "hidden_size: expected an integer"),
        ({**LLAMA, "hidden_size": -1}, "hidden_size: expected an integer from 1"),
        ({**LLAMA, "vocab_size": 10**20}, "vocab_size: expected an integer"),
        ({**LLAMA, "vocab_size": {"a": 1}}, "vocab_size: expected an integer.*found a dict"),
        ({**LLAMA, "num_hidden_layers": 10**6}, "num_hidden_layers: expected an integer from 1 to 4096"),
        ({**LLAMA, "num_attention_heads": 33}, "33 heads do not divide hidden_size 4096"),
        ({**LLAMA, "num_key_value_heads": 5}, "num_key_value_heads 5 does not divide 32 heads"),
        ({**LLAMA, "tie_word_embeddings": "yes"}, "tie_word_embeddings: expected true or false"),
        ({**QWEN, "mlp_only_layers": [1]}, "mlp_only_layers: qwen3_moe is supported only with"),
        ({**QWEN, "num_experts_per_tok": 129}, "cannot visit 129 of 128 experts"),
        ({**DEEPSEEK, "moe_layer_freq": 2}, "moe_layer_freq: deepseek_v3 is supported only with 1, found 2"),
        ({**SWITCH, "num_sparse_decoder_layers": 3}, "num_sparse_decoder_layers: .* only with 6, found 3"),
        ({**SWITCH, "num_sparse_encoder_layers": 5, "num_sparse_decoder_layers": 5}, "5 does not divide"),
        ({**GPT2, "n_head": 7}, "n_head 7 does not divide n_embd 1280"),
        ([1, 2], "expected an object, found a list"),
    ],
)
def test_configurations_that_cannot_be(config: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message) as error:
        read_config(json.dumps(config))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400
