"""Models from the ``config.json`` that is published with weights: dimensions only, no library of models.

Each known ``model_type`` has a function that makes a `TransformerShape` of its keys, with the defaults that
the library of that format takes. Whatever is not understood is refused, so that no wrong model comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from treadle.errors import FormatError
from treadle.input_files import parse_json
from treadle.spelling import unknown
from treadle.training.models.attention import Heads, LatentHeads
from treadle.training.models.feed_forward import Experts
from treadle.training.models.training_model import TrainingModel
from treadle.training.models.transformer import transformer
from treadle.training.models.transformer_shape import TransformerShape

MAX_CONFIG_BYTES = 2**20
_MOST = 2**24
"""Of any width, vocabulary or length."""
_MOST_LAYERS = 4096


class _Config:
    """Keys of a configuration, read one by one; what is missing is collected, to be named in one message."""

    def __init__(self, table: Mapping[str, Any], kind: str) -> None:
        self.table = table
        self.kind = kind
        self.missing: list[str] = []

    def count(self, name: str, default: int | None = None, *, least: int = 1, most: int = _MOST) -> int:
        """A whole number in its range; null counts as missing, for which `default` stands in."""
        value = self.table.get(name)
        if value is None:
            self.missing += [name] if default is None else []
            return least if default is None else default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise FormatError(
                f"config.json: {name}: expected a whole number from {least} to {most}, found {_shown(value)}"
            )
        return value

    def is_set(self, name: str, default: bool = False) -> bool:
        """A truth value."""
        value = self.table.get(name, default)
        if not isinstance(value, bool):
            raise FormatError(f"config.json: {name}: expected true or false, found {_shown(value)}")
        return value

    def expect(self, name: str, expected: object) -> None:
        """Refuse a key whose value is not the one that is understood (or absent)."""
        if self.table.get(name, expected) != expected:
            found = _shown(self.table[name])
            raise FormatError(
                f"config.json: {name}: {self.kind} is known with {expected} only, found {found}"
            )

    def layers(self, name: str = "num_hidden_layers", default: int | None = None) -> int:
        """How many blocks."""
        return self.count(name, default, most=_MOST_LAYERS)

    def heads(self, *, bias: bool = False, output_bias: bool = False, norms: bool = False) -> Heads:
        """Attention by the keys that most formats share."""
        hidden, heads = self.count("hidden_size"), self.count("num_attention_heads")
        head_dim = self.count("head_dim", max(hidden // heads, 1))
        kv_heads = self.count("num_key_value_heads", heads)
        if self.table.get("head_dim") is None and hidden % heads and not self.missing:
            raise FormatError(
                f"config.json: {heads} heads do not divide hidden_size {hidden}; head_dim is missing"
            )
        if heads % kv_heads:
            raise FormatError(f"config.json: num_key_value_heads {kv_heads} does not divide {heads} heads")
        return Heads(heads, kv_heads, head_dim, has_bias=bias, output_bias=output_bias, has_norms=norms)


def _shown(value: object) -> str:
    """A value of the file, short and on one line."""
    return ascii(value)[:40] if not isinstance(value, dict | list) else f"a {type(value).__name__}"


def _decoder(config: _Config, heads: Heads | LatentHeads, **more: Any) -> TransformerShape:
    """What decoders share; `more` adds to it, or says otherwise."""
    fields: dict[str, Any] = {
        "name": config.kind,
        "hidden": config.count("hidden_size"),
        "feed_forward": config.count("intermediate_size"),
        "vocabulary": config.count("vocab_size"),
        "layers": config.layers(),
        "attention": heads,
        "is_tied": config.is_set("tie_word_embeddings"),
        "max_tokens": config.count("max_position_embeddings", 0, least=0),
    }
    return TransformerShape(**{**fields, **more})


def _llama(config: _Config) -> TransformerShape:
    bias = config.is_set("attention_bias")
    return _decoder(config, config.heads(bias=bias, output_bias=bias), has_bias=config.is_set("mlp_bias"))


def _mistral(config: _Config) -> TransformerShape:
    return _decoder(config, config.heads(), window=config.count("sliding_window", 0))


def _qwen(config: _Config, *, norms: bool = False, **more: Any) -> TransformerShape:
    config.expect("use_sliding_window", False)
    bias = config.is_set("attention_bias") if norms else True
    heads = config.heads(bias=bias, output_bias=bias and norms, norms=norms)
    return _decoder(config, heads, **more)


def _qwen_moe(config: _Config, *, is_third: bool) -> TransformerShape:
    shared = 0 if is_third else config.count("shared_expert_intermediate_size")
    config.expect("mlp_only_layers", [])
    experts = Experts(
        config.count("num_experts"),
        config.count("num_experts_per_tok"),
        config.count("moe_intermediate_size"),
        shared_feed_forward=shared,
        shared_gate=not is_third,
    )
    every = config.count("decoder_sparse_step", 1)
    return _qwen(config, norms=is_third, experts=experts, expert_every=every)


def _gemma(config: _Config, **more: Any) -> TransformerShape:
    config.expect("attention_bias", False)
    return _decoder(config, config.heads(), is_tied=config.is_set("tie_word_embeddings", True), **more)


def _gemma2(config: _Config) -> TransformerShape:
    window = config.count("sliding_window", 4096)
    return _gemma(config, norms_per_block=4, window=window, window_every=2)


def _mixtral(config: _Config) -> TransformerShape:
    experts = Experts(
        config.count("num_local_experts"),
        config.count("num_experts_per_tok"),
        config.count("intermediate_size"),
    )
    return _decoder(config, config.heads(), experts=experts, window=config.count("sliding_window", 0))


def _deepseek(config: _Config) -> TransformerShape:
    config.expect("moe_layer_freq", 1)
    config.expect("attention_bias", False)
    width = config.count("moe_intermediate_size")
    experts = Experts(
        config.count("n_routed_experts"),
        config.count("num_experts_per_tok"),
        width,
        shared_feed_forward=width * config.count("n_shared_experts", 0, least=0),
    )
    heads = LatentHeads(
        config.count("num_attention_heads"),
        config.count("q_lora_rank", 0),
        config.count("kv_lora_rank"),
        config.count("qk_nope_head_dim"),
        config.count("qk_rope_head_dim"),
        config.count("v_head_dim"),
    )
    first = config.count("first_k_dense_replace", 0, least=0)
    return _decoder(config, heads, experts=experts, first_dense=first)


def _gpt2(config: _Config) -> TransformerShape:
    config.expect("add_cross_attention", False)
    hidden, heads = config.count("n_embd"), config.count("n_head")
    if hidden % heads:
        raise FormatError(f"config.json: n_head {heads} does not divide n_embd {hidden}")
    positions = config.count("n_positions", 1024)
    return TransformerShape(
        config.kind,
        hidden,
        config.count("n_inner", 4 * hidden),
        config.count("vocab_size"),
        config.layers("n_layer"),
        Heads(heads, heads, hidden // heads, has_bias=True, output_bias=True),
        is_gated=False,
        is_tied=config.is_set("tie_word_embeddings", True),
        has_bias=True,
        norm_has_bias=True,
        positions=positions,
        has_dropout=True,
        max_tokens=positions,
    )


def _t5(config: _Config, **more: Any) -> TransformerShape:
    layers = config.layers("num_layers")
    heads = config.count("num_heads")
    feed_forward = config.table.get("feed_forward_proj", "relu")
    return TransformerShape(
        config.kind,
        config.count("d_model"),
        config.count("d_ff"),
        config.count("vocab_size"),
        config.layers("num_decoder_layers", layers),
        Heads(heads, heads, config.count("d_kv")),
        encoder_layers=layers,
        is_gated=isinstance(feed_forward, str) and feed_forward.startswith("gated"),
        is_tied=config.is_set("tie_word_embeddings", True),
        position_buckets=config.count("relative_attention_num_buckets", 32),
        max_tokens=config.count("n_positions", 512),
        **more,
    )


def _switch(config: _Config) -> TransformerShape:
    experts = Experts(config.count("num_experts"), 1, config.count("d_ff"))
    layers = config.layers("num_layers")
    sparse = config.count("num_sparse_encoder_layers")
    config.expect("num_sparse_decoder_layers", config.table.get("num_sparse_encoder_layers"))
    config.expect("num_decoder_layers", layers)
    if not config.missing and layers % sparse:
        raise FormatError(
            f"config.json: num_sparse_encoder_layers {sparse} does not divide num_layers {layers}"
        )
    return _t5(config, experts=experts, expert_every=max(layers // sparse, 1))


CONFIG_READERS: Mapping[str, Callable[[_Config], TransformerShape]] = MappingProxyType(
    {
        "deepseek_v2": _deepseek,
        "deepseek_v3": _deepseek,
        "gemma": _gemma,
        "gemma2": _gemma2,
        "gpt2": _gpt2,
        "llama": _llama,
        "mistral": _mistral,
        "mixtral": _mixtral,
        "qwen2": _qwen,
        "qwen2_moe": partial(_qwen_moe, is_third=False),
        "qwen3": partial(_qwen, norms=True),
        "qwen3_moe": partial(_qwen_moe, is_third=True),
        "switch_transformers": _switch,
        "t5": _t5,
    }
)
"""By ``model_type``."""


def read_config(text: str, *, name: str = "") -> TrainingModel:
    """The model that a ``config.json`` describes.

    Parameters
    ----------
    text : str
        At most `MAX_CONFIG_BYTES`.
    name : str
        For reports; default: its ``model_type``.

    Raises
    ------
    FormatError
        If it is no JSON object, of a type that is not known (lists those that are), lacks keys (named), or
        has numbers that no model has.

    Examples
    --------
    >>> keys = '"n_embd": 768, "n_head": 12, "n_layer": 12, "vocab_size": 50257'
    >>> read_config('{"model_type": "gpt2", ' + keys + "}").parameters
    124439808
    """
    if len(text) > MAX_CONFIG_BYTES:
        raise FormatError(f"config.json: expected at most {MAX_CONFIG_BYTES} bytes, found {len(text)}")
    table = parse_json(text, source="config.json")
    if not isinstance(table, dict):
        raise FormatError(f"config.json: expected an object, found {_shown(table)}")
    kind = table.get("model_type")
    if not isinstance(kind, str) or kind not in CONFIG_READERS:
        if kind is None:
            raise FormatError(f"config.json: model_type is missing; known are {', '.join(CONFIG_READERS)}")
        found = _shown(kind).strip("'")
        raise FormatError(f"config.json: {unknown('model_type', found, CONFIG_READERS)}")
    config = _Config(table, kind)
    shape = CONFIG_READERS[kind](config)
    if config.missing:
        missing = ", ".join(dict.fromkeys(config.missing))
        raise FormatError(f"config.json: of {kind}, these keys are missing: {missing}")
    if shape.experts is not None and shape.experts.top_k > shape.experts.experts:
        raise FormatError(
            f"config.json: a token cannot visit {shape.experts.top_k} of {shape.experts.experts} experts"
        )
    model = transformer(shape)
    return replace(model, name=name or kind, source=f"config.json of a {kind} model")
