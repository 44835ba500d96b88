"""Parameters of published configurations against what their authors say, and what each key changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from places import FOREIGN_SAMPLES
from treadle.errors import FormatError, TreadleError
from treadle.parallelism.evaluation.node_work import operations
from treadle.parallelism.graph.blocks.transformer_graph import model_graph
from treadle.parallelism.graph.compute_graph import Phase
from treadle.parallelism.problem.operator_work import flops_of
from treadle.training.models.config_json import read_config
from treadle.training.models.model_layer import ModelLayer
from treadle.training.models.training_model import TrainingModel

Config = dict[str, Any]
GEMMA_3 = "Gemma Team 2025 (Gemma 3), table 1: without the encoder of images"
NEMOTRON_H = "NVIDIA 2025 (Nemotron-H), table 1; weights of 8B, 9B and 12B"
MAMBA_2 = "state-spaces' weights on the model hub"
# Attention and feed-forward halves of Nemotron-H 47B and 56B, 8B, Nano 9B v2, Nano 30B-A3B, Super 120B-A12B.
H56 = "M-M-M-M*-" + 9 * "M-M-M-M-M*-" + "M-M-M-M-M-"
H47 = "M-M-M-M-M-M-M-M-M*-M-M-M-M-M-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-M-M---MM---M-M*-M-M-M-M-M-"
H8 = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"
H9 = "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-"
NANO = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
SUPER = "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME"


def decoder(kind: str, *numbers: int, **more: Any) -> Config:
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
    return {"model_type": kind, **dict(zip(names, numbers, strict=True)), **more}


def gpt_oss(layers: int, experts: int) -> Config:
    return decoder("gpt_oss", 2880, 2880, layers, 64, 201_088, num_local_experts=experts)


def wrapped(kind: str, **text: Any) -> Config:
    return {"model_type": kind, "text_config": text, "vision_config": {"hidden_size": 1152}}


def nemotron(pattern: str, hidden: int, inner: int, heads: int, **more: Any) -> Config:
    sizes = (hidden, inner, len(pattern), heads, 131_072)
    return decoder("nemotron_h", *sizes, hybrid_override_pattern=pattern, head_dim=128, **more)


def mamba_2(hidden: int, layers: int) -> Config:
    return {
        "d_model": hidden, "d_intermediate": 0, "n_layer": layers, "vocab_size": 50_277,
        "ssm_cfg": {"layer": "Mamba2"}, "attn_layer_idx": [], "attn_cfg": {}, "rms_norm": True,
        "pad_vocab_size_multiple": 16, "tie_embeddings": True,
    }  # fmt: skip


def glm(*sizes: int, **more: Any) -> Config:
    return decoder("glm4_moe", *sizes, 151_552, head_dim=128, attention_bias=True, **more)


OWN_STATES = {"mamba_num_heads": 256, "ssm_state_size": 256}
NANO_EXPERTS = {
    "n_routed_experts": 128, "num_experts_per_tok": 6, "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712, "mamba_num_heads": 64, "num_key_value_heads": 2,
}  # fmt: skip
SUPER_EXPERTS = {
    "n_routed_experts": 512, "num_experts_per_tok": 22, "moe_intermediate_size": 2688,
    "moe_latent_size": 1024, "moe_shared_expert_intermediate_size": 5376, "num_key_value_heads": 2,
}  # fmt: skip
PUBLISHED: dict[str, tuple[Config, float, float, str]] = {
    # Configuration, billions of parameters and, where experts are, of active ones; source.
    "gpt-oss-20b": (gpt_oss(24, 32), 20.91, 4.19, "OpenAI 2025 (gpt-oss model card), table 1"),
    "gpt-oss-120b": (gpt_oss(36, 128), 116.83, 5.71, "OpenAI 2025 (gpt-oss model card), table 1"),
    "gemma-3-270m": (
        decoder("gemma3_text", 640, 2048, 18, 4, 262_144, num_key_value_heads=1), .268, 0, "its weights"
    ),
    "gemma-3-1b": (
        decoder("gemma3_text", 1152, 6912, 26, 4, 262_144, num_key_value_heads=1), .99989, 0, "its weights"
    ),
    "gemma-3-4b": (
        wrapped("gemma3", hidden_size=2560, intermediate_size=10_240, num_hidden_layers=34), 3.884, 0, GEMMA_3
    ),
    "gemma-3-12b": (
        wrapped("gemma3", hidden_size=3840, intermediate_size=15_360, num_hidden_layers=48,
                num_attention_heads=16, num_key_value_heads=8), 11.771, 0, GEMMA_3
    ),
    "gemma-3-27b": (
        wrapped("gemma3", hidden_size=5376, intermediate_size=21_504, num_hidden_layers=62, head_dim=128,
                num_attention_heads=32, num_key_value_heads=16), 27.016, 0, GEMMA_3
    ),
    "phi-3-mini": (decoder("phi3", 3072, 8192, 32, 32, 32_064), 3.82108, 0, "its weights"),
    "phi-4": (
        decoder("phi3", 5120, 17_920, 40, 40, 100_352, num_key_value_heads=10), 14.6595, 0, "its weights"
    ),
    "phi-4-mini": (
        decoder("phi3", 3072, 8192, 32, 24, 200_064, num_key_value_heads=8, tie_word_embeddings=True),
        3.836, 0, "its weights",
    ),
    "olmo-2-7b": (decoder("olmo2", 4096, 11_008, 32, 32, 100_352), 7.2986, 0, "its weights"),
    "olmo-2-13b": (decoder("olmo2", 5120, 13_824, 40, 40, 100_352), 13.7162, 0, "its weights"),
    "olmo-2-32b": (
        decoder("olmo2", 5120, 27_648, 64, 40, 100_352, num_key_value_heads=8), 32.2343, 0, "its weights"
    ),
    "olmoe-1b-7b": (
        decoder("olmoe", 2048, 1024, 16, 16, 50_304), 6.9192, 1.2819, "Muennighoff et al. 2024 (OLMoE)"
    ),
    "kimi-k2": (
        decoder("kimi_k2", 7168, 18_432, 61, 64, 163_840, n_routed_experts=384, num_experts_per_tok=8,
                moe_intermediate_size=2048, n_shared_experts=1, first_k_dense_replace=1, q_lora_rank=1536,
                kv_lora_rank=512, qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128),
        1030, 32.6, "Kimi Team 2025 (Kimi K2), table 2",
    ),
    "llama-4-scout": (wrapped("llama4"), 107.77, 17.17, "its weights, without the encoder of images"),
    "llama-4-maverick": (
        wrapped("llama4", num_local_experts=128, interleave_moe_layer_step=2, use_qk_norm=False),
        400.71, 17.18, "its weights, without the encoder of images",
    ),
    "glm-4.5": (
        glm(5120, 12_288, 92, 96, moe_intermediate_size=1536, n_routed_experts=160, use_qk_norm=True,
            first_k_dense_replace=3), 355, 33.6, "Zhipu 2025 (GLM-4.5), table 1; active with both tables"
    ),
    "glm-4.5-air": (glm(4096, 10_944, 46, 96), 106, 13.4, "Zhipu 2025 (GLM-4.5), table 1; as above"),
    "mamba2-130m": (mamba_2(768, 24), .12899, 0, MAMBA_2),
    "mamba2-370m": (mamba_2(1024, 48), .36835, 0, MAMBA_2),
    "mamba2-780m": (mamba_2(1536, 48), .78016, 0, MAMBA_2),
    "mamba2-1.3b": (mamba_2(2048, 48), 1.34376, 0, MAMBA_2),
    "mamba2-2.7b": (mamba_2(2560, 64), 2.7026, 0, MAMBA_2),
    "mamba-codestral-7b": (
        {"model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 64, "vocab_size": 32_768},
        7.2854, 0, "its weights",
    ),
    "nemotron-h-8b": (nemotron(H8, 4096, 21_504, 32), 8.1, 0, NEMOTRON_H),
    "nemotron-h-47b": (nemotron(H47, 8192, 30_720, 64, **OWN_STATES), 46.8, 0, NEMOTRON_H),
    "nemotron-h-56b": (nemotron(H56, 8192, 32_768, 64, **OWN_STATES), 56, 0, NEMOTRON_H),
    "nemotron-nano-9b-v2": (nemotron(H9, 4480, 15_680, 40, mamba_head_dim=80), 8.8882, 0, NEMOTRON_H),
    "nemotron-3-nano": (nemotron(NANO, 2688, 1856, 32, **NANO_EXPERTS), 31.58, 3.58, "NVIDIA 2025, table 1"),
    "nemotron-3-super": (nemotron(SUPER, 4096, 2688, 32, **SUPER_EXPERTS), 120.6, 12.7, "NVIDIA 2026"),
}  # fmt: skip
SMALL = decoder("", 24, 40, 6, 4, 50, num_key_value_heads=2, head_dim=6)


def read(config: Config) -> TrainingModel:
    return read_config(json.dumps(config))


def small_config(kind: str, **more: Any) -> Config:
    return {**SMALL, **more, "model_type": kind}


def small(kind: str, **more: Any) -> TrainingModel:
    return read(small_config(kind, **more))


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_that_authors_publish(name: str) -> None:
    config, parameters, active, _ = PUBLISHED[name]
    model = read(config)
    assert model.parameters / 1e9 == pytest.approx(parameters, rel=0.01)
    assert model.active_parameters / 1e9 == pytest.approx(active or parameters, rel=0.01)


@pytest.mark.parametrize(
    ("name", "active"), [("gpt-oss-20b", 3.61), ("gpt-oss-120b", 5.13), ("nemotron-3-nano", 3.2)]
)
def test_active_parameters_without_the_embedding(name: str, active: float) -> None:
    model = read(PUBLISHED[name][0])
    assert (model.active_parameters - model.embedding_parameters) / 1e9 == pytest.approx(active, rel=0.01)


@pytest.mark.parametrize(
    ("file", "billions"),
    [
        ("h03_gptoss20b.json", 20.91),
        ("h06_gemma3_1b.json", 0.9999),
        ("h09_phi4.json", 14.66),
        ("h11_olmo2_7b.json", 7.30),
        ("h14_kimi_k2.json", 1030),
    ],
)
def test_published_files(file: str, billions: float) -> None:
    path = FOREIGN_SAMPLES / "cases" / file
    if not path.is_file():
        pytest.skip("no samples beside the checkout")
    assert read_config(path.read_text()).parameters / 1e9 == pytest.approx(billions, rel=0.01)


def weights(layer: ModelLayer) -> dict[str, int]:
    return {weight.name: weight.elements for weight in layer.weights}


def test_graphs_have_no_state_space_layers() -> None:
    model = read(PUBLISHED["mamba2-130m"][0])
    words = "mamba2: a model graph has no operators for state-space layers; use treadle train"
    with pytest.raises(TreadleError, match=words):
        model_graph(model, batch=1, sequence=16)


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("gemma3_text", {}),
        ("glm4_moe", {"n_routed_experts": 4, "num_experts_per_tok": 2}),
        ("gpt_oss", {"num_local_experts": 8}),
        ("llama4_text", {"interleave_moe_layer_step": 2, "attention_chunk_size": 16}),
        ("olmo2", {}),
        ("olmoe", {"num_experts": 8, "num_experts_per_tok": 2}),
        ("phi3", {"sliding_window": 7}),
    ],
)
def test_graphs_have_the_same_parameters(kind: str, more: Config) -> None:
    """But for sinks, which a graph leaves out; and scores are counted within the same windows."""
    model = small(kind, **more)
    graph = model_graph(model, batch=2, sequence=64)
    sinks = sum(weights(layer).get("sinks", 0) for layer in model.layers)
    assert graph.parameters == model.parameters - sinks
    for count in (flops_of, operations):
        flops = sum(
            part.repeats * count(part.graph, node)
            for part in graph.parts
            for node in part.graph.nodes
            if node.phase is Phase.FORWARD
        )
        assert flops == pytest.approx(float(2 * model.forward_flops({"": 64})), rel=1e-12)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (small_config("gemma3_text", layer_types=["none"]), "layer_types: expected a list of full"),
        (small_config("gemma3_text", layer_types=[["a"]]), "layer_types: expected a list of full"),
        (small_config("gemma3_text", layer_types=["full_attention"]), "expected 6, one a layer, found 1"),
        (small_config("llama4_text", moe_layers=[2]), "moe_layers: llama4_text is supported only with"),
        (small_config("nemotron_h"), "hybrid_override_pattern: expected M"),
        (small_config("nemotron_h", hybrid_override_pattern="M*"), "each of num_hidden_layers, found 'M"),
        (small_config("mamba2"), "num_heads x head_dim: expected expand x hidden_size, 48"),
        ({**mamba_2(8, 2), "ssm_cfg": {}}, "layer: mamba_ssm is supported only with Mamba2, found 'Mamba1'"),
        ({**mamba_2(8, 2), "attn_layer_idx": [1]}, "attn_layer_idx: mamba_ssm is supported only with"),
        ({**mamba_2(8, 2), "d_model": None}, "of mamba_ssm, these keys are missing: d_model"),
        ({"model_type": "x", "text_config": {"hidden_size": 1}}, "unknown model_type 'x_text'"),
    ],
)
def test_what_is_not_understood(config: Config, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        read(config)
