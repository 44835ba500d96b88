"""Backward passes as drawn, executed, against PyTorch's of the forward passes that they are derived from."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from parallelism.graph.blocks.operators_in_torch import drawn_and_true  # noqa: E402
from treadle.errors import TreadleError  # noqa: E402
from treadle.parallelism.graph.blocks.forward import Forward  # noqa: E402
from treadle.parallelism.graph.blocks.gradients import joint_graph  # noqa: E402
from treadle.parallelism.graph.blocks.transformer_graph import model_graph  # noqa: E402
from treadle.parallelism.graph.compute_graph import Source  # noqa: E402
from treadle.training.models.config_json import read_config  # noqa: E402

SHARED = {
    "hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 17, "head_dim": 6,
}  # fmt: skip
CONFIGS = {
    "llama": SHARED | {"attention_bias": True, "mlp_bias": True},
    "mistral": SHARED | {"num_key_value_heads": 4, "sliding_window": 3},
    "gemma2": SHARED | {"sliding_window": 4},
    "qwen3": SHARED | {"attention_bias": False},
    "gpt2": {"n_embd": 12, "n_head": 3, "n_layer": 1, "vocab_size": 17, "n_positions": 9},
    "mixtral": SHARED | {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen2_moe": SHARED
    | {
        "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 5,
        "shared_expert_intermediate_size": 7,
    },
    "deepseek_v3": SHARED
    | {
        "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 5, "n_shared_experts": 1,
        "q_lora_rank": 5, "kv_lora_rank": 4, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 3,
        "first_k_dense_replace": 1,
    },
    "gemma3_text": SHARED | {"sliding_window": 3},
    "glm4_moe": SHARED
    | {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 5, "use_qk_norm": True},
    "gpt_oss": SHARED | {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 3},
    "llama4_text": SHARED
    | {
        "num_local_experts": 4, "num_experts_per_tok": 2, "interleave_moe_layer_step": 2,
        "intermediate_size_mlp": 9, "attention_chunk_size": 3,
    },
    "olmo2": SHARED,
    "olmoe": SHARED | {"num_experts": 4, "num_experts_per_tok": 2},
}  # fmt: skip


@pytest.mark.parametrize("kind", CONFIGS)
def test_gradients_are_those_of_pytorch(kind: str) -> None:
    model = model_graph(read_config(json.dumps({"model_type": kind, **CONFIGS[kind]})), batch=2, sequence=8)
    for part in model.parts:
        leaves = part.leaves or next(iter(part.graph.tangents))
        found = drawn_and_true(part.graph, leaves)
        assert set(part.parameters) <= set(found)
        assert (part.enters is not None) == ("x" in found)
        for path, (drawn, true) in found.items():
            torch.testing.assert_close(drawn, true, rtol=1e-9, atol=1e-9, msg=lambda m, p=path: f"{p}: {m}")
            # of a bias of keys: a shift of all scores of a query
            is_nothing = path.endswith("attention.wk.bias") and kind == "gpt2"
            assert (true.abs().max() > 1e-6) != is_nothing, path


def test_an_operator_without_a_gradient_is_named() -> None:
    forward = Forward({"b": 2, "h": 4})
    x = forward.placeholder("x", "bh", Source.INPUT)
    y = forward.pointwise("y", "bh->bh", (x,), operator="mystery")
    with pytest.raises(TreadleError, match="no gradient is known of the operator 'mystery'"):
        joint_graph(forward, leaves=y, entered=x)
