"""A model: its layers in order, and totals over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from treadle.brief import brief
from treadle.errors import TreadleError
from treadle.training.models.model_layer import ModelLayer
from treadle.training.models.transformer_shape import TransformerShape

MOST_DEFAULT_TOKENS = 4096
"""Largest default number of tokens of a sequence: models accept up to a million, but few train with that."""
BACKWARD_PASSES = 2
"""Model FLOPs of the backward pass, in forward passes: gradients of inputs and of weights."""


@brief("name", "n_layers", "parameters")
@dataclass(frozen=True)
class TrainingModel:
    """Layers in order of the forward pass; an encoder's before its decoder's.

    Parameters
    ----------
    name : str
    layers : tuple of ModelLayer
        At least one, with distinct names.
    unit : str
        "token" or "sample".
    max_tokens : int
        Largest number of tokens of a sequence; 0: unlimited or unknown.
    source : str
        Source of the dimensions.
    shape : TransformerShape or None
        The dimensions of a transformer.

    Raises
    ------
    TreadleError
        If names repeat, or a layer shares the weight of a missing one.
    """

    name: str
    layers: tuple[ModelLayer, ...]
    unit: str = "token"
    max_tokens: int = 0
    source: str = ""
    shape: TransformerShape | None = None

    def __post_init__(self) -> None:
        names = [layer.name for layer in self.layers]
        if not names or len(set(names)) < len(names):
            raise TreadleError(f"model {self.name}: expected layers with distinct names, found {len(names)}")
        for layer in self.layers:
            if layer.shares and (layer.shares not in names or not self.layer(layer.shares).weights):
                raise TreadleError(
                    f"model {self.name}: {layer.name} shares a weight of {layer.shares}, which is missing"
                )

    @property
    def n_layers(self) -> int:
        """Number of layers, including embedding and head."""
        return len(self.layers)

    @property
    def default_tokens(self) -> int:
        """Default number of tokens of a sequence: `max_tokens`, at most 4096; 0 if that is unknown."""
        return min(self.max_tokens, MOST_DEFAULT_TOKENS)

    @property
    def parameters(self) -> int:
        """Elements of all weights; a tied embedding counts once."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def active_parameters(self) -> int:
        """Elements of the weights that a token uses."""
        return int(sum(layer.active_parameters for layer in self.layers))

    @property
    def embedding_parameters(self) -> int:
        """Elements of word tables that no head shares; some publishers do not count them as active."""
        shared = {layer.shares for layer in self.layers}
        tables = (layer for layer in self.layers if layer.is_lookup and not layer.experts)
        return sum(layer.parameters for layer in tables if layer.name not in shared)

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams of tokens, in order of their layers."""
        return tuple(dict.fromkeys(layer.stream for layer in self.layers))

    def layer(self, name: str) -> ModelLayer:
        """Return a layer by name."""
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise TreadleError(f"model {self.name}: no layer {name!r}")

    def forward_flops(self, tokens: Mapping[str, int], *, causal_in_full: bool = False) -> Fraction:
        """Return the FLOPs of the forward pass of one sequence.

        `tokens` has the tokens of each stream, {"": 1} for samples; TreadleError if one is missing. With
        `causal_in_full`, masked attention scores count, too.
        """
        if missing := [name for name in self.streams if name not in tokens]:
            raise TreadleError(f"model {self.name}: tokens of the stream {missing[0]!r} are not given")
        return sum(
            (layer.forward_flops(tokens, causal_in_full=causal_in_full) for layer in self.layers), Fraction(0)
        )

    def step_flops(self, tokens: Mapping[str, int], *, causal_in_full: bool = False) -> Fraction:
        """Return the model FLOPs of one sequence, forward and backward, without recomputation (for MFU)."""
        return (1 + BACKWARD_PASSES) * self.forward_flops(tokens, causal_in_full=causal_in_full)
