"""Models from the ``config.json`` that is published with weights: dimensions only, no library of models.

Each supported ``model_type`` has a function that computes a `TransformerShape` from its keys, with the
defaults of that format's library. Unsupported values raise an error, so that no wrong model results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from treadle.errors import FormatError
from treadle.input_files import parse_json
from treadle.spelling import unknown
from treadle.training.models.attention import Heads, LatentHeads
from treadle.training.models.feed_forward import Experts
from treadle.training.models.state_space import StateSpace
from treadle.training.models.training_model import TrainingModel
from treadle.training.models.transformer import transformer
from treadle.training.models.transformer_shape import TransformerShape

MAX_CONFIG_BYTES = 2**20
_MOST = 2**24
"""Largest width, vocabulary or length."""
_MOST_LAYERS = 4096
_Item = TypeVar("_Item")


class _Config:
    """Keys of a configuration, read one by one; missing keys are collected for a single message."""

    def __init__(self, table: Mapping[str, Any], kind: str) -> None:
        self.table = table
        self.kind = kind
        self.missing: list[str] = []

    def count(self, name: str, default: int | None = None, *, least: int = 1, most: int = _MOST) -> int:
        """Return an integer in its range; `default` replaces a missing key or null."""
        value = self.table.get(name)
        if value is None:
            self.missing += [name] if default is None else []
            return least if default is None else default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise _fault(f"{name}: expected an integer from {least} to {most}, found {_shown(value)}")
        return value

    def is_set(self, name: str, default: bool = False) -> bool:
        """Return a boolean."""
        value = self.table.get(name, default)
        if not isinstance(value, bool):
            raise _fault(f"{name}: expected true or false, found {_shown(value)}")
        return value

    def expect(self, name: str, expected: object) -> None:
        """Raise unless a key has the only supported value, or is absent."""
        if (found := self.table.get(name, expected)) != expected:
            raise _fault(f"{name}: {self.kind} is supported only with {expected}, found {_shown(found)}")

    def layers(self, name: str = "num_hidden_layers", default: int | None = None) -> int:
        """Return the number of blocks."""
        return self.count(name, default, most=_MOST_LAYERS)

    def listed(self, name: str, known: Mapping[Any, _Item]) -> list[_Item]:
        """Return the meanings of the entries of a list; empty if it is absent."""
        value = self.table.get(name) or []
        entries = value if isinstance(value, list) else [None]
        if not all(isinstance(one, str | int) and one in known for one in entries):
            raise _fault(f"{name}: expected a list of {', '.join(map(str, known))}")
        return [known[one] for one in entries]

    def windows(self, window: int, *, full_every: int) -> tuple[int, ...]:
        """Return the window of each block: by `layer_types`, or all tokens in every `full_every`-th block."""
        known = {"full_attention": 0, "sliding_attention": window, "chunked_attention": window}
        listed = self.listed("layer_types", known) or self.listed("no_rope_layers", {1: window, 0: 0})
        if listed and len(listed) != (count := self.layers()):
            raise _fault(f"layer_types: expected {count}, one a layer, found {len(listed)}")
        return tuple(listed) or (window,) * (full_every - 1) + (0,)

    def check(self) -> None:
        """Raise FormatError if keys are missing."""
        if self.missing:
            missing = ", ".join(dict.fromkeys(self.missing))
            raise _fault(f"of {self.kind}, these keys are missing: {missing}")

    def heads(self, *, bias: bool = False, output_bias: bool = False, **more: bool) -> Heads:
        """Return the attention by the keys that most formats share."""
        hidden, heads = self.count("hidden_size"), self.count("num_attention_heads")
        head_dim = self.count("head_dim", max(hidden // heads, 1))
        kv_heads = self.count("num_key_value_heads", heads)
        if self.table.get("head_dim") is None and hidden % heads and not self.missing:
            raise _fault(f"{heads} heads do not divide hidden_size {hidden}; head_dim is missing")
        if heads % kv_heads:
            raise _fault(f"num_key_value_heads {kv_heads} does not divide {heads} heads")
        return Heads(heads, kv_heads, head_dim, has_bias=bias, output_bias=output_bias, **more)

    def state_space(self, heads: str, head_dim: str, state: str) -> StateSpace:
        """Return Mamba-2 by the keys that its formats share, and these."""
        names = (heads, head_dim, state, "n_groups", "conv_kernel", "chunk_size")
        n_heads, width, n_states, groups, kernel, chunk = map(self.count, names)
        biases = self.is_set("use_bias"), self.is_set("use_conv_bias", True)
        return StateSpace(n_heads, width, n_states, groups, kernel, chunk, *biases)


def _fault(text: str) -> FormatError:
    return FormatError(f"config.json: {text}")


def _shown(value: object) -> str:
    """Format a value of the file, short and on one line."""
    return ascii(value)[:40] if not isinstance(value, dict | list) else f"a {type(value).__name__}"


def _decoder(config: _Config, heads: Heads | LatentHeads, **more: Any) -> TransformerShape:
    """Return a decoder by the keys that decoders share; `more` adds fields or replaces them."""
    fields: dict[str, Any] = {
        "name": config.kind,
        "hidden": config.count("hidden_size"),
        "feed_forward": config.count("intermediate_size", more.get("feed_forward")),
        "vocabulary": config.count("vocab_size"),
        "layers": config.layers(default=more.get("layers")),
        "attention": heads,
        "is_tied": config.is_set("tie_word_embeddings"),
        "max_tokens": config.count("max_position_embeddings", 0, least=0),
    }
    return TransformerShape(**fields | more)


def _llama(config: _Config) -> TransformerShape:
    bias = config.is_set("attention_bias")
    return _decoder(config, config.heads(bias=bias, output_bias=bias), has_bias=config.is_set("mlp_bias"))


def _mistral(config: _Config, **more: Any) -> TransformerShape:
    return _decoder(config, config.heads(), windows=(config.count("sliding_window", 0),), **more)


def _olmo(config: _Config, **more: Any) -> TransformerShape:
    bias = config.is_set("attention_bias")
    return _decoder(config, config.heads(bias=bias, output_bias=bias, has_wide_norms=True), **more)


def _experts(config: _Config, experts: str, width: str, **more: Any) -> Experts:
    return Experts(config.count(experts), config.count("num_experts_per_tok"), config.count(width), **more)


def _qwen(config: _Config, *, norms: bool = False, **more: Any) -> TransformerShape:
    config.expect("use_sliding_window", False)
    bias = config.is_set("attention_bias") if norms else True
    heads = config.heads(bias=bias, output_bias=bias and norms, has_norms=norms)
    return _decoder(config, heads, **more)


def _qwen_moe(config: _Config, *, is_third: bool) -> TransformerShape:
    shared = 0 if is_third else config.count("shared_expert_intermediate_size")
    config.expect("mlp_only_layers", [])
    more = {"shared_feed_forward": shared, "shared_gate": not is_third}
    experts = _experts(config, "num_experts", "moe_intermediate_size", **more)
    every = config.count("decoder_sparse_step", 1)
    return _qwen(config, norms=is_third, experts=experts, expert_every=every)


def _gemma(config: _Config, *, norms: bool = False, **more: Any) -> TransformerShape:
    config.expect("attention_bias", False)
    heads = config.heads(has_norms=norms)
    return _decoder(config, heads, is_tied=config.is_set("tie_word_embeddings", True), **more)


def _windowed_gemma(config: _Config, *, every: int, norms: bool = False) -> TransformerShape:
    every = config.count("sliding_window_pattern", config.count("_sliding_window_pattern", every))
    windows = config.windows(config.count("sliding_window", 4096), full_every=every)
    return _gemma(config, norms=norms, norms_per_block=4, windows=windows)


def _gpt_oss(config: _Config) -> TransformerShape:
    bias = config.is_set("attention_bias", True)
    return _decoder(
        config,
        config.heads(bias=bias, output_bias=bias, has_sinks=True),
        experts=_experts(config, "num_local_experts", "intermediate_size", has_bias=True),
        windows=config.windows(config.count("sliding_window", 0), full_every=2),
    )


def _llama4(config: _Config) -> TransformerShape:
    bias, every = config.is_set("attention_bias"), config.count("interleave_moe_layer_step")
    config.expect("moe_layers", list(range(every - 1, config.layers(), every)))
    chunk, interval = config.count("attention_chunk_size", 0), config.count("no_rope_layer_interval")
    width = config.count("intermediate_size")
    return _decoder(
        config,
        config.heads(bias=bias, output_bias=bias),
        feed_forward=config.count("intermediate_size_mlp"),
        experts=_experts(config, "num_local_experts", "intermediate_size", shared_feed_forward=width),
        expert_every=every,
        windows=config.windows(chunk, full_every=interval),
        has_chunks=True,
    )


def _shared_experts(config: _Config) -> dict[str, Any]:
    """Return fields of experts of which some are shared, after a number of dense blocks."""
    name = "moe_intermediate_size"
    shared = config.count(name) * config.count("n_shared_experts", 0, least=0)
    experts = _experts(config, "n_routed_experts", name, shared_feed_forward=shared)
    return {"experts": experts, "first_dense": config.count("first_k_dense_replace", 0, least=0)}


def _glm4_moe(config: _Config) -> TransformerShape:
    heads = config.heads(bias=config.is_set("attention_bias"), has_norms=config.is_set("use_qk_norm"))
    return _decoder(config, heads, **_shared_experts(config))


_HALVES = {
    **dict.fromkeys(("mamba", "linear_attention"), "M"),
    **dict.fromkeys(("attention", "full_attention"), "*"),
    "mlp": "-",
    "moe": "E",
}
"""Symbols of a pattern by entries of ``layers_block_type``."""


def _nemotron_h(config: _Config) -> TransformerShape:
    config.expect("sliding_window", None)
    halves = config.listed("layers_block_type", _HALVES)
    found = config.table.get("hybrid_override_pattern") or "".join(halves)
    pattern = found if isinstance(found, str) and set(found) <= set("M*-E") else ""
    if not pattern or config.layers(default=len(pattern)) != len(pattern):
        wanted = "M, *, - or E for each of num_hidden_layers"
        raise _fault(f"hybrid_override_pattern: expected {wanted}, found {_shown(found)}")
    bias = config.is_set("attention_bias")
    head_dim = config.count("head_dim", config.count("attention_head_dim", 128))
    n_shared, width = config.count("n_shared_experts", 1, least=0), "moe_shared_expert_intermediate_size"
    shared = config.count(width) * n_shared
    more = {"shared_feed_forward": shared, "latent": config.count("moe_latent_size", 0)}
    experts = _experts(config, "n_routed_experts", "moe_intermediate_size", **more)
    return _decoder(
        config,
        replace(config.heads(bias=bias, output_bias=bias), head_dim=head_dim),
        layers=len(pattern),
        is_gated=False,
        has_bias=config.is_set("mlp_bias"),
        pattern=pattern,
        state_space=config.state_space("mamba_num_heads", "mamba_head_dim", "ssm_state_size"),
        experts=experts if "E" in pattern else None,
    )


def _mamba2(config: _Config) -> TransformerShape:
    space = config.state_space("num_heads", "head_dim", "state_size")
    inner = config.count("expand") * config.count("hidden_size")
    if space.inner != inner:
        raise _fault(f"num_heads x head_dim: expected expand x hidden_size, {inner}")
    heads = Heads(space.heads, space.heads, space.head_dim)
    return _decoder(config, heads, feed_forward=0, pattern="M" * config.layers(), state_space=space)


def _from_mamba_ssm(table: Mapping[str, Any]) -> dict[str, Any]:
    """Convert keys of the library mamba_ssm, whose configurations name no type, to those of ``mamba2``."""
    config = _Config({"layer": "Mamba1", **table, **table["ssm_cfg"]}, "mamba_ssm")
    for name, expected in (("layer", "Mamba2"), ("d_intermediate", 0), ("attn_layer_idx", [])):
        config.expect(name, expected)
    hidden, expand, head_dim = config.count("d_model"), config.count("expand", 2), config.count("headdim", 64)
    words, multiple = config.count("vocab_size"), config.count("pad_vocab_size_multiple", 8)
    found = {
        "model_type": "mamba2",
        "hidden_size": hidden,
        "num_hidden_layers": config.layers("n_layer"),
        "vocab_size": -(-words // multiple) * multiple,
        "expand": expand,
        "head_dim": head_dim,
        "num_heads": expand * hidden // head_dim,
        "state_size": config.count("d_state", 128),
        "n_groups": config.count("ngroups", 1),
        "conv_kernel": config.count("d_conv", 4),
        "chunk_size": config.count("chunk_size", 256),
        "tie_word_embeddings": config.is_set("tie_embeddings", True),
    }
    config.check()
    return found


def _deepseek(config: _Config) -> TransformerShape:
    config.expect("moe_layer_freq", 1)
    config.expect("attention_bias", False)
    heads, query_rank = config.count("num_attention_heads"), config.count("q_lora_rank", 0)
    sizes = map(config.count, ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    return _decoder(config, LatentHeads(heads, query_rank, *sizes), **_shared_experts(config))


def _gpt2(config: _Config) -> TransformerShape:
    config.expect("add_cross_attention", False)
    hidden, heads = config.count("n_embd"), config.count("n_head")
    if hidden % heads:
        raise _fault(f"n_head {heads} does not divide n_embd {hidden}")
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
        raise _fault(f"num_sparse_encoder_layers {sparse} does not divide num_layers {layers}")
    return _t5(config, experts=experts, expert_every=max(layers // sparse, 1))


CONFIG_READERS: Mapping[str, Callable[[_Config], TransformerShape]] = MappingProxyType(
    {
        "deepseek_v2": _deepseek,
        "deepseek_v3": _deepseek,
        "gemma": _gemma,
        "gemma2": partial(_windowed_gemma, every=2),
        "gemma3_text": partial(_windowed_gemma, every=6, norms=True),
        "glm4_moe": _glm4_moe,
        "gpt2": _gpt2,
        "gpt_oss": _gpt_oss,
        "kimi_k2": _deepseek,
        "llama": _llama,
        "llama4_text": _llama4,
        "mamba2": _mamba2,
        "mistral": _mistral,
        "mixtral": lambda c: _mistral(c, experts=_experts(c, "num_local_experts", "intermediate_size")),
        "nemotron_h": _nemotron_h,
        "olmo2": partial(_olmo, norms_follow=True),
        "olmoe": lambda c: _olmo(c, experts=_experts(c, "num_experts", "intermediate_size")),
        "phi3": _mistral,
        "qwen2": _qwen,
        "qwen2_moe": partial(_qwen_moe, is_third=False),
        "qwen3": partial(_qwen, norms=True),
        "qwen3_moe": partial(_qwen_moe, is_third=True),
        "switch_transformers": _switch,
        "t5": _t5,
    }
)
"""Readers by ``model_type``."""
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "deepseek_v3": {"first_k_dense_replace": 3, "n_shared_experts": 1, "q_lora_rank": 1536},
    "gemma3_text": {
        "vocab_size": 262_208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
        "max_position_embeddings": 131_072,
    },
    "glm4_moe": {
        "num_key_value_heads": 8, "n_routed_experts": 128, "num_experts_per_tok": 8,
        "moe_intermediate_size": 1408, "n_shared_experts": 1, "first_k_dense_replace": 1,
        "max_position_embeddings": 131_072,
    },
    "gpt_oss": {
        "num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128, "num_experts_per_tok": 4,
        "max_position_embeddings": 131_072,
    },
    "llama4_text": {
        "vocab_size": 202_048, "hidden_size": 5120, "intermediate_size": 8192,
        "intermediate_size_mlp": 16_384, "num_hidden_layers": 48, "num_attention_heads": 40,
        "num_key_value_heads": 8, "head_dim": 128, "num_local_experts": 16, "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 1, "no_rope_layer_interval": 4, "attention_chunk_size": 8192,
        "max_position_embeddings": 131_072,
    },
    "mamba2": {
        "num_heads": 128, "head_dim": 64, "state_size": 128, "expand": 2, "n_groups": 8, "conv_kernel": 4,
        "chunk_size": 256,
    },
    "nemotron_h": {
        "num_key_value_heads": 8, "mamba_num_heads": 128, "mamba_head_dim": 64, "ssm_state_size": 128,
        "n_groups": 8, "conv_kernel": 4, "chunk_size": 128, "n_routed_experts": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 7688, "moe_shared_expert_intermediate_size": 7688,
        "max_position_embeddings": 4096,
    },
    "olmo2": {"max_position_embeddings": 2048},
    "olmoe": {"num_experts": 64, "num_experts_per_tok": 8, "max_position_embeddings": 4096},
    "phi3": {"max_position_embeddings": 4096},
}  # fmt: skip
"""Values that the library transformers uses for absent keys; a ``text_config`` omits equal values."""


def read_config(text: str, *, name: str = "") -> TrainingModel:
    """Return the model that a ``config.json`` describes.

    Parameters
    ----------
    text : str
        At most `MAX_CONFIG_BYTES`.
    name : str
        Name in reports; default its ``model_type``.

    Raises
    ------
    FormatError
        If the JSON is malformed, its type is unsupported, keys are missing, or numbers are out of range.

    Examples
    --------
    >>> keys = '"n_embd": 768, "n_head": 12, "n_layer": 12, "vocab_size": 50257'
    >>> read_config('{"model_type": "gpt2", ' + keys + "}").parameters
    124439808
    """
    if len(text) > MAX_CONFIG_BYTES:
        raise _fault(f"expected at most {MAX_CONFIG_BYTES} bytes, found {len(text)}")
    table = parse_json(text, source="config.json")
    if not isinstance(table, dict):
        raise _fault(f"expected an object, found {_shown(table)}")
    source = "config.json"
    if "model_type" not in table and isinstance(table.get("ssm_cfg"), dict):
        table = _from_mamba_ssm(table)
    elif isinstance(inner := table.get("text_config"), dict):
        source = "text part of the config.json"
        table = {"model_type": f"{table.get('model_type')}_text", **inner}
    kind = table.get("model_type")
    if kind is None:
        raise _fault(f"model_type is missing; supported are {', '.join(CONFIG_READERS)}")
    if not isinstance(kind, str) or kind not in CONFIG_READERS:
        raise _fault(unknown("model_type", _shown(kind).strip("'"), CONFIG_READERS))
    config = _Config({**_DEFAULTS.get(kind, {}), **table}, kind)
    shape = CONFIG_READERS[kind](config)
    config.check()
    if shape.experts is not None and shape.experts.top_k > shape.experts.experts:
        raise _fault(f"a token cannot visit {shape.experts.top_k} of {shape.experts.experts} experts")
    model = transformer(shape)
    return replace(model, name=name or kind, source=f"{source} of a {kind} model")
