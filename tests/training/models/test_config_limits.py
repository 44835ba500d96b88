"""What configurations and tables leave out, and numbers at their limits."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from treadle.errors import FormatError, TreadleError
from treadle.training.models import config_json, layer_table
from treadle.training.models.attention import Heads, LatentHeads
from treadle.training.models.config_json import read_config
from treadle.training.models.feed_forward import Experts
from treadle.training.models.layer_table import read_layer_table, read_model
from treadle.training.models.model_layer import Attended, ModelLayer, Saved, Weight, Work, WorkKind
from treadle.training.models.training_model import TrainingModel
from treadle.training.models.transformer_shape import BlockKind, TransformerShape
from treadle.training.models.zoo import zoo_model

SMALL = {
    "hidden_size": 24,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "vocab_size": 50,
}


def shape(kind: str, **more: Any) -> TransformerShape:
    found = read_config(json.dumps({"model_type": kind, **more})).shape
    assert found is not None
    return found


def test_decoders_by_default() -> None:
    assert shape("llama", **SMALL) == TransformerShape("llama", 24, 40, 50, 3, Heads(6, 6, 4))
    own = shape(
        "llama", **SMALL, num_key_value_heads=3, head_dim=5, attention_bias=True, tie_word_embeddings=True
    )
    assert own.attention == Heads(6, 3, 5, has_bias=True, output_bias=True)
    assert (own.is_tied, own.has_bias, own.max_tokens, own.windows) == (True, False, 0, ())
    assert shape("llama", **SMALL, mlp_bias=True).has_bias
    assert shape("mistral", **SMALL, sliding_window=7, max_position_embeddings=9) == TransformerShape(
        "mistral", 24, 40, 50, 3, Heads(6, 6, 4), windows=(7,), max_tokens=9
    )
    assert shape("qwen2", **SMALL) == TransformerShape("qwen2", 24, 40, 50, 3, Heads(6, 6, 4, has_bias=True))
    assert shape("qwen3", **SMALL) == TransformerShape("qwen3", 24, 40, 50, 3, Heads(6, 6, 4, has_norms=True))
    biased = shape("qwen3", **SMALL, attention_bias=True).attention
    assert biased == Heads(6, 6, 4, has_bias=True, output_bias=True, has_norms=True)
    assert shape("gemma", **SMALL) == TransformerShape("gemma", 24, 40, 50, 3, Heads(6, 6, 4), is_tied=True)
    assert not shape("gemma", **SMALL, tie_word_embeddings=False).is_tied
    assert shape("gemma2", **SMALL) == TransformerShape(
        "gemma2", 24, 40, 50, 3, Heads(6, 6, 4), is_tied=True, norms_per_block=4, windows=(4096, 0)
    )
    assert shape("gemma2", **SMALL, sliding_window=5).windows == (5, 0)


def test_experts_by_default() -> None:
    mixed = shape("mixtral", **SMALL, num_local_experts=8, num_experts_per_tok=2, sliding_window=3)
    assert (mixed.experts, mixed.windows, mixed.expert_every) == (Experts(8, 2, 40), (3,), 1)
    own = {"num_experts": 8, "num_experts_per_tok": 8, "moe_intermediate_size": 5}
    third = shape("qwen3_moe", **SMALL, **own, decoder_sparse_step=2)
    assert (third.experts, third.expert_every) == (Experts(8, 8, 5), 2)
    second = shape("qwen2_moe", **SMALL, **own, shared_expert_intermediate_size=7)
    assert (second.experts, second.expert_every) == (
        Experts(8, 8, 5, shared_feed_forward=7, shared_gate=True),
        1,
    )
    latent = {
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 5,
        "kv_lora_rank": 9,
        "qk_nope_head_dim": 10,
        "qk_rope_head_dim": 11,
        "v_head_dim": 12,
    }
    deep = shape("deepseek_v2", **SMALL, **latent)
    assert (deep.attention, deep.experts, deep.first_dense) == (
        LatentHeads(6, 0, 9, 10, 11, 12),
        Experts(4, 2, 5),
        0,
    )
    more = shape("deepseek_v3", **SMALL, **latent, q_lora_rank=8, n_shared_experts=3, first_k_dense_replace=2)
    assert (more.attention, more.experts, more.first_dense) == (
        LatentHeads(6, 8, 9, 10, 11, 12),
        Experts(4, 2, 5, shared_feed_forward=15),
        2,
    )


def test_older_kinds_by_default() -> None:
    gpt = {"n_embd": 24, "n_head": 6, "n_layer": 3, "vocab_size": 50}
    plain = TransformerShape(
        "gpt2",
        24,
        96,
        50,
        3,
        Heads(6, 6, 4, has_bias=True, output_bias=True),
        is_gated=False,
        is_tied=True,
        has_bias=True,
        norm_has_bias=True,
        positions=1024,
        has_dropout=True,
        max_tokens=1024,
    )
    assert shape("gpt2", **gpt) == plain
    assert shape("gpt2", **gpt, n_inner=7, n_positions=9, tie_word_embeddings=False) == replace(
        plain, feed_forward=7, positions=9, max_tokens=9, is_tied=False
    )
    t5 = {"d_model": 24, "d_ff": 40, "d_kv": 5, "num_heads": 6, "num_layers": 4, "vocab_size": 50}
    both = TransformerShape(
        "t5",
        24,
        40,
        50,
        4,
        Heads(6, 6, 5),
        encoder_layers=4,
        is_gated=False,
        is_tied=True,
        position_buckets=32,
        max_tokens=512,
    )
    assert shape("t5", **t5) == both
    changed = {"num_decoder_layers": 2, "relative_attention_num_buckets": 3, "n_positions": 7}
    assert shape("t5", **t5, **changed, feed_forward_proj="gated-silu", tie_word_embeddings=False) == replace(
        both, layers=2, position_buckets=3, max_tokens=7, is_gated=True, is_tied=False
    )
    switch = shape(
        "switch_transformers", **t5, num_experts=8, num_sparse_encoder_layers=2, num_sparse_decoder_layers=2
    )
    assert switch == replace(both, name="switch_transformers", experts=Experts(8, 1, 40), expert_every=2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_size": 2**24 + 1}, "vocab_size: expected an integer from 1 to 16777216, found 16777217"),
        (
            {"num_hidden_layers": 4097},
            "num_hidden_layers: expected an integer from 1 to 4096, found 4097",
        ),
        (
            {"max_position_embeddings": -1},
            "max_position_embeddings: expected an integer from 0 to 16777216, found -1",
        ),
        ({"mlp_bias": 1}, "mlp_bias: expected true or false, found 1"),
        ({"mlp_bias": "x" * 50}, "mlp_bias: expected true or false, found '" + "x" * 39),
        ({"num_attention_heads": 5}, "5 heads do not divide hidden_size 24; head_dim is missing"),
        ({"num_key_value_heads": 4}, "num_key_value_heads 4 does not divide 6 heads"),
        ({"vocab_size": [1]}, "vocab_size: expected an integer from 1 to 16777216, found a list"),
    ],
)
def test_numbers_beyond_their_limits(change: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=f"^config.json: {re.escape(message)}$"):
        read_config(json.dumps({"model_type": "llama", **SMALL, **change}))


def test_numbers_at_their_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shape("llama", **{**SMALL, "vocab_size": 2**24, "max_position_embeddings": 0}).vocabulary == 2**24
    assert shape("llama", **{**SMALL, "num_attention_heads": 5, "head_dim": 3}).attention == Heads(5, 5, 3)
    assert shape("llama", **{**SMALL, "hidden_size": 3, "num_attention_heads": 3}).attention == Heads(3, 3, 1)
    text = json.dumps({"model_type": "llama", **SMALL})
    monkeypatch.setattr(config_json, "MAX_CONFIG_BYTES", len(text))
    assert read_config(text).name == "llama"
    assert read_config(text, name="own").source == "config.json of a llama model"
    message = f"config.json: expected at most {len(text)} bytes, found {len(text) + 1}"
    with pytest.raises(FormatError, match=f"^{message}$"):
        read_config(text + " ")


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("gemma", {"attention_bias": True}, "attention_bias: gemma is supported only with False, found True"),
        (
            "qwen2",
            {"use_sliding_window": True},
            "use_sliding_window: qwen2 is supported only with False, found True",
        ),
        (
            "qwen3_moe",
            {"num_experts": 4, "num_experts_per_tok": 5, "moe_intermediate_size": 1},
            "a token cannot visit 5 of 4 experts",
        ),
        (
            "qwen3_moe",
            {"num_experts": 4},
            "of qwen3_moe, these keys are missing: num_experts_per_tok, moe_intermediate_size",
        ),
    ],
)
def test_what_is_not_understood(kind: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=f"^config.json: {re.escape(message)}$"):
        read_config(json.dumps({"model_type": kind, **SMALL, **change}))


def test_kinds_of_blocks() -> None:
    plain = TransformerShape("x", 1, 1, 1, 9, Heads(1, 1, 1), windows=(5, 0, 0), first_dense=2)
    assert [plain.block_kind(n).window for n in range(7)] == [5, 0, 0, 5, 0, 0, 5]
    assert not any(plain.block_kind(n).has_experts for n in range(9))
    mixed = replace(plain, experts=Experts(2, 1, 1), expert_every=3)
    assert [n for n in range(12) if mixed.block_kind(n).has_experts] == [4, 7, 10]
    assert mixed.block_kind(0) == BlockKind(has_experts=False, window=5)
    every = replace(mixed, expert_every=1)
    assert [n for n in range(5) if every.block_kind(n).has_experts] == [2, 3, 4]


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("gpt2-xl", 1024),
        ("gemma-2-9b", 8192),
        ("llama-2-7b", 4096),
        ("llama-3-405b", 8192),
        ("mixtral-8x7b", 32_768),
        ("qwen3-235b-a22b", 40_960),
        ("deepseek-v3", 163_840),
        ("switch-xxl", 512),
        ("resnet-50", 0),
        ("dlrm", 0),
    ],
)
def test_sequences_that_models_were_made_for(name: str, tokens: int) -> None:
    assert zoo_model(name).max_tokens == tokens


HEADER = (
    "layer,parameters,flops,flops_per_context,moved_elements,output_elements,saved_elements,reductions,experts,top_k,"
    "expert_parameters,expert_flops,routed_elements"
)


def test_a_row_with_all_columns() -> None:
    model = read_layer_table(f"{HEADER}\n a , 2,3,4,5,6,7,1,8,2,9,10,11\nb,0,13,,,,,,,,,,\n", name="own")
    first, second = model.layers
    assert first == ModelLayer(
        "a",
        weights=(Weight("weights", 2), Weight("experts", 9, expert=True)),
        works=(
            Work("work", WorkKind.MATMUL, flops=3, moved_elements=5, weight_elements=2),
            Work("scores", WorkKind.ATTENTION, flops_per_context=4, attended=Attended()),
            Work("experts", WorkKind.MATMUL, flops=10, weight_elements=9, expert=True),
        ),
        saved=(Saved("saved", 7),),
        boundary_elements=6,
        reductions=1,
        experts=8,
        top_k=2,
        routed_elements=11,
        exchanges=2,
    )
    assert second == ModelLayer("b", works=(Work("work", WorkKind.MATMUL, flops=13),))
    assert (model.name, model.unit, model.source) == ("own", "token", "a table of layers")
    assert read_model(f"{HEADER}\nb,0,13,,,,,,,,,,\n").name == "table"
    assert read_layer_table(f"{HEADER}\nb,0,13,,,,,,2,2,1,,1\n").layers[0].top_k == 2


@pytest.mark.parametrize("cells", ["3,2,1,,", "3,,1,,1", "3,2,,,1", ",1,,,", "3,4,1,,1"])
def test_experts_need_all_of_their_columns(cells: str) -> None:
    message = (
        "layer table: line 2: experts, top_k (at most as many), expert_parameters and routed_elements: "
        "expected all of them, or none"
    )
    with pytest.raises(FormatError, match=f"^{re.escape(message)}$"):
        read_layer_table(f"{HEADER}\nb,0,13,,,,,,{cells}\n")


def test_tables_at_their_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    row = f"layer,parameters,flops\nx,{'9' * 18},1\n"
    assert read_layer_table(row).parameters == 10**18 - 1
    monkeypatch.setattr(layer_table, "MAX_TABLE_BYTES", len(row))
    read_layer_table(row)
    with pytest.raises(
        FormatError, match=f"^layer table: expected at most {len(row)} bytes, found {len(row) + 1}$"
    ):
        read_layer_table(row + "\n")
    monkeypatch.undo()
    monkeypatch.setattr(layer_table, "_MOST_LAYERS", 2)
    assert read_layer_table("layer,parameters,flops\nx,1,1\ny,1,1\n").n_layers == 2
    with pytest.raises(FormatError, match=r"^layer table: expected at most 2 layers$"):
        read_layer_table("layer,parameters,flops\nx,1,1\ny,1,1\nz,1,1\n")


def test_shares_are_of_layers_with_weights() -> None:
    table = ModelLayer("table", weights=(Weight("w", 3),))
    head = ModelLayer("head", shares="table")
    assert TrainingModel("m", (table, head)).layer("head") is head
    for layers in ((head,), (replace(table, weights=()), head)):
        with pytest.raises(TreadleError, match=r"^model m: head shares a weight of table, which is missing$"):
            TrainingModel("m", layers)
    with pytest.raises(TreadleError, match=r"^model m: no layer 'tail'$"):
        TrainingModel("m", (table,)).layer("tail")
    for exchanges in (0, 1, 2):
        ModelLayer("l", routed_elements=int(exchanges > 0), exchanges=exchanges)
    with pytest.raises(TreadleError, match=r"must be given together$"):
        ModelLayer("l", exchanges=1)
    with pytest.raises(TreadleError, match=r"must be given together$"):
        ModelLayer("l", experts=2)
    with pytest.raises(
        TreadleError, match=r"^work w: flops_per_context and attended must be given together$"
    ):
        Work("w", WorkKind.ATTENTION, attended=Attended())
