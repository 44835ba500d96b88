"""Models by name, with the dimensions that their authors publish; tests check the resulting sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from types import MappingProxyType

from treadle.errors import TreadleError
from treadle.spelling import known_name
from treadle.training.models.attention import Heads, LatentHeads
from treadle.training.models.feed_forward import Experts
from treadle.training.models.image_models import IMAGE_MODELS
from treadle.training.models.recommendation import criteo_dlrm
from treadle.training.models.training_model import TrainingModel
from treadle.training.models.transformer import transformer
from treadle.training.models.transformer_shape import TransformerShape

_SWITCH = "Fedus, Zoph, Shazeer 2022 (Switch Transformers), tables 1 and 9"
_LLAMA_2 = "Touvron et al. 2023 (Llama 2) and the configurations published with the weights"
_LLAMA_3 = "Llama Team 2024 (The Llama 3 herd of models), table 3"
_GEMMA_2 = "Gemma Team 2024 (Gemma 2), table 1"


def _switch(
    name: str, hidden: int, inner: int, heads: int, layers: int, experts: int, every: int
) -> TransformerShape:
    return TransformerShape(
        name,
        hidden,
        inner,
        32128,
        layers,
        Heads(heads, heads, 64),
        encoder_layers=layers,
        is_gated=name == "switch-xxl",
        is_tied=True,
        position_buckets=32,
        experts=Experts(experts, 1, inner),
        expert_every=every,
        max_tokens=512,
        source=_SWITCH,
    )


def _gpt2(name: str, hidden: int, heads: int, layers: int) -> TransformerShape:
    return TransformerShape(
        name,
        hidden,
        4 * hidden,
        50257,
        layers,
        Heads(heads, heads, 64, has_bias=True, output_bias=True),
        is_gated=False,
        is_tied=True,
        has_bias=True,
        norm_has_bias=True,
        positions=1024,
        has_dropout=True,
        max_tokens=1024,
        source="Radford et al. 2019, table 2, and the configurations published with the weights",
    )


def _gemma2(name: str, hidden: int, inner: int, layers: int, heads: Heads) -> TransformerShape:
    return TransformerShape(
        name,
        hidden,
        inner,
        256_000,
        layers,
        heads,
        is_tied=True,
        norms_per_block=4,
        windows=(4096, 0),
        max_tokens=8192,
        source=_GEMMA_2,
    )


def _llama(name: str, hidden: int, inner: int, layers: int, heads: int, kv_heads: int) -> TransformerShape:
    is_second = name.startswith("llama-2")
    return TransformerShape(
        name,
        hidden,
        inner,
        32_000 if is_second else 128_256,
        layers,
        Heads(heads, kv_heads, 128),
        max_tokens=4096 if is_second else 8192,
        source=_LLAMA_2 if is_second else _LLAMA_3,
    )


_QWEN3_MOE = TransformerShape(
    "qwen3-235b-a22b",
    4096,
    12288,
    151_936,
    94,
    Heads(64, 4, 128, has_norms=True),
    experts=Experts(128, 8, 1536),
    max_tokens=40_960,
    source="Qwen Team 2025 (Qwen3), table 2, and the configuration published with the weights",
)
_DEEPSEEK_V3 = TransformerShape(
    "deepseek-v3",
    7168,
    18_432,
    129_280,
    61,
    LatentHeads(128, 1536, 512, 128, 64, 128),
    experts=Experts(256, 8, 2048, shared_feed_forward=2048),
    first_dense=3,
    max_tokens=163_840,
    source="DeepSeek-AI 2024 (DeepSeek-V3), section 4.2; without its multi-token prediction module",
)
_MIXTRAL = TransformerShape(
    "mixtral-8x7b",
    4096,
    14_336,
    32_000,
    32,
    Heads(32, 8, 128),
    experts=Experts(8, 2, 14_336),
    max_tokens=32_768,
    source="Jiang et al. 2024 (Mixtral of experts), table 1",
)

_TRANSFORMERS = (
    _switch("switch-base-256", 768, 3072, 12, 12, 256, 2),
    _switch("switch-xxl", 4096, 10_240, 64, 24, 128, 2),
    _switch("switch-c", 2080, 6144, 32, 15, 2048, 1),
    _gpt2("gpt2", 768, 12, 12),
    _gpt2("gpt2-medium", 1024, 16, 24),
    _gpt2("gpt2-large", 1280, 20, 36),
    _gpt2("gpt2-xl", 1600, 25, 48),
    _gemma2("gemma-2-2b", 2304, 9216, 26, Heads(8, 4, 256)),
    _gemma2("gemma-2-9b", 3584, 14_336, 42, Heads(16, 8, 256)),
    _gemma2("gemma-2-27b", 4608, 36_864, 46, Heads(32, 16, 128)),
    _llama("llama-2-7b", 4096, 11_008, 32, 32, 32),
    _llama("llama-2-13b", 5120, 13_824, 40, 40, 40),
    _llama("llama-2-70b", 8192, 28_672, 80, 64, 8),
    _llama("llama-3-8b", 4096, 14_336, 32, 32, 8),
    _llama("llama-3-70b", 8192, 28_672, 80, 64, 8),
    _llama("llama-3-119b", 16_384, 53_248, 36, 128, 8),
    _llama("llama-3-405b", 16_384, 53_248, 126, 128, 8),
    _MIXTRAL,
    _QWEN3_MOE,
    _DEEPSEEK_V3,
)


MODELS: Mapping[str, Callable[[], TrainingModel]] = MappingProxyType(
    {
        **{shape.name: partial(transformer, shape) for shape in _TRANSFORMERS},
        **IMAGE_MODELS,
        "dlrm": criteo_dlrm,
    }
)
"""Builders by name."""


@cache
def zoo_model(name: str) -> TrainingModel:
    """Return the model of a name, ignoring case and separators.

    Raises
    ------
    TreadleError
        For an unknown name; lists all.

    Examples
    --------
    >>> zoo_model("Llama-3-8B").parameters
    8030261248
    """
    more = "; or a config.json, or a table of layers"
    return MODELS[known_name("model", name, MODELS, error=TreadleError, more=more)]()
