"""Sizes of models against what authors and published weights say; FLOPs against independent counts."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.errors import TreadleError
from treadle.training.models.model_layer import WorkKind
from treadle.training.models.zoo import MODELS, zoo_model

PUBLISHED = {
    # Elements in the published weights (safetensors metadata of the model hub), without buffers of positions.
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "gemma-2-2b": 2_614_341_888,
    "gemma-2-9b": 9_241_705_984,
    "gemma-2-27b": 27_227_128_320,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "qwen3-235b-a22b": 235_093_634_560,
    "deepseek-v3": 671_026_404_352,
}
ROUNDED = {
    # Billions as papers print them: Switch Transformers, table 9; dissertation, 3.8.4 and 4.6.4.
    "switch-base-256": 14.7,
    "switch-xxl": 395,
    "switch-c": 1571,
    "llama-3-119b": 119,
}
ACTIVE = {"mixtral-8x7b": 12_879_925_248, "qwen3-235b-a22b": 22_190_763_520, "deepseek-v3": 37_552_282_624}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_parameters_are_those_of_published_weights(name: str) -> None:
    model = zoo_model(name)
    assert model.parameters == PUBLISHED[name]
    assert model.active_parameters == ACTIVE.get(name, PUBLISHED[name])


@pytest.mark.parametrize("name", sorted(ROUNDED))
def test_parameters_are_those_of_papers(name: str) -> None:
    digits = 1 if ROUNDED[name] < 100 else 0
    assert round(zoo_model(name).parameters / 1e9, digits) == ROUNDED[name]


@pytest.mark.parametrize("name", sorted(set(PUBLISHED) | set(ROUNDED)))
def test_products_are_two_flops_for_each_weight_that_a_token_meets(name: str) -> None:
    """Weights of norms, biases, positions and (unless tied) the embedding take part in no product."""
    model = zoo_model(name)
    for layer in model.layers:
        products = [work for work in layer.works if work.kind is WorkKind.MATMUL and not work.expert]
        weights = [weight for weight in layer.weights if not weight.expert and weight.split]
        if layer.shares or not products:
            continue
        met = sum(work.weight_elements for work in products)
        assert sum(work.flops for work in products) == 2 * met
        # The rest of what tensor parallelism cuts are biases, and T5's tables of relative positions.
        whole = sum(weight.elements for weight in layer.weights if not weight.expert)
        assert 0.99 * whole < met <= whole
        assert met >= 0.99 * sum(weight.elements for weight in weights)
        experts = [work for work in layer.works if work.kind is WorkKind.MATMUL and work.expert]
        share = Fraction(layer.top_k, layer.experts or 1)
        assert sum(work.flops for work in experts) == 2 * share * layer.expert_parameters


@pytest.mark.parametrize("name", ["llama-2-7b", "llama-3-8b", "llama-3-405b", "llama-2-70b"])
def test_step_flops_are_six_per_parameter_and_attention(name: str) -> None:
    """6 N + 12 L H Q T per token (Chowdhery et al. 2022, appendix B), N without embedding and norms."""
    model, tokens = zoo_model(name), 4096
    head, block = model.layer("head"), model.layer("block 0")
    blocks = len(model.layers) - 2
    norms = sum(weight.elements for weight in block.weights if "norm" in weight.name) * blocks
    hidden = head.boundary_elements
    products = model.parameters - model.layer("embedding").parameters - norms - hidden
    expected = 6 * products + 12 * blocks * hidden * tokens  # heads x head dimension = hidden in these
    assert model.step_flops({"": tokens}, causal_in_full=True) == expected * tokens
    assert model.step_flops({"": tokens}) == (expected - 6 * blocks * hidden * tokens) * tokens


def test_switch_flops_of_a_sequence() -> None:
    """The Switch paper prints 124B and 890B FLOPs a sequence, of 512 + 114 tokens; not what counts.

    Everything counted, ours are 15% and 23% above; without routers, and without making keys and values for
    cross attention from all 512 tokens of the encoder, 3% above and 1% below.
    """
    for name, printed, whole, part in (
        ("switch-base-256", 124e9, 1.155, 1.03),
        ("switch-c", 890e9, 1.23, 0.993),
    ):
        model, tokens = zoo_model(name), {"encoder": 512, "decoder": 114}
        left_out = sum(
            tokens[work.stream or layer.stream] * work.flops
            for layer in model.layers
            for work in layer.works
            if work.name == "router" or work.stream
        )
        flops = model.forward_flops(tokens)
        assert float(flops) / printed == pytest.approx(whole, abs=0.005)
        assert float(flops - left_out) / printed == pytest.approx(part, abs=0.005)


def test_gemma_windows_every_other_block() -> None:
    model = zoo_model("gemma-2-2b")
    windows = [layer.cache_window for layer in model.layers if layer.name.startswith("block")]
    assert windows == [4096, 0] * 13
    near, far = (model.layer(f"block {index}").forward_flops({"": 8192}) for index in (0, 1))
    scores = 4 * 8 * 256
    assert far - near == 8192 * scores * (8192 // 2 - (4096 - 4096 // 4))
    near, far = (model.layer(f"block {index}").forward_flops({"": 4096}) for index in (0, 1))
    assert far == near


def test_where_experts_are() -> None:
    def which(name: str, stream: str) -> list[int]:
        blocks = [one for one in zoo_model(name).layers if one.name.startswith(f"{stream} ")]
        return [
            index for index, layer in enumerate(one for one in blocks if one.kv_elements) if layer.experts
        ]

    assert which("switch-base-256", "encoder") == which("switch-base-256", "decoder") == [1, 3, 5, 7, 9, 11]
    assert which("switch-c", "encoder") == which("switch-c", "decoder") == list(range(15))
    assert which("deepseek-v3", "block") == list(range(3, 61))
    assert which("qwen3-235b-a22b", "block") == list(range(94))
    layer = zoo_model("deepseek-v3").layer("block 3")
    assert (layer.routed_elements, layer.exchanges) == (8 * 7168, 2)


def test_a_latent_costs_more_to_decode() -> None:
    """DeepSeek-V3: 2 x 128 heads x (576 + 512) per cached token, where unfolded keys take 2 x 128 x 320."""
    (scores,) = [work for work in zoo_model("deepseek-v3").layer("block 9").works if work.attended]
    assert (scores.flops_per_cached, scores.flops_per_context) == (278_528, 81_920)


def test_caches() -> None:
    """Per token: 2 x 8 x 128 elements of Llama-3 blocks; DeepSeek-V3's 70 kB over all blocks in bf16."""
    assert zoo_model("llama-3-8b").layer("block 7").cache_elements == 2048
    assert 2 * sum(layer.cache_elements for layer in zoo_model("deepseek-v3").layers) == 70_272


def test_unknown_names_list_what_there_is() -> None:
    assert zoo_model("Llama 3 8B") == zoo_model("llama-3-8b")
    with pytest.raises(
        TreadleError, match=r"unknown model 'lama-3-8b'; did you mean llama-3-8b.*config.json"
    ):
        zoo_model("lama-3-8b")


MADE_FOR = {
    "switch": (512, "Fedus"), "gpt2": (1024, "Radford"), "gemma-2": (8192, "Gemma"),
    "llama-2": (4096, "Touvron"), "llama-3": (8192, "Llama Team"), "mixtral": (32_768, "Jiang"),
    "qwen3": (40_960, "Qwen"), "deepseek-v3": (163_840, "DeepSeek-AI"),
}  # fmt: skip
"""By the beginning of a name: tokens of a sequence, and who published its dimensions."""


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_model_has_a_source_and_its_longest_sequence(name: str) -> None:
    model = zoo_model(name)
    assert model.source
    assert model.name == name
    tokens, authors = next((told for word, told in MADE_FOR.items() if name.startswith(word)), (0, ""))
    assert model.max_tokens == tokens
    assert (model.unit == "token") == bool(tokens)
    assert model.source.startswith(authors)
