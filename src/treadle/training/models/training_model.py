"""A model: its layers in order, and what is counted over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from treadle.brief import brief
from treadle.errors import TreadleError
from treadle.training.models.model_layer import ModelLayer
from treadle.training.models.transformer_shape import TransformerShape

MOST_DEFAULT_TOKENS = 4096
"""Most tokens of a sequence by default: models take up to a million, which few train with."""
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
        What passes through: "token" or "sample".
    max_tokens : int
        Tokens of a sequence for which it was made; 0: no such limit, or unknown.
    source : str
        Where its dimensions stand.
    shape : TransformerShape or None
        The dimensions themselves, of a transformer.

    Raises
    ------
    TreadleError
        If names repeat, or a layer shares the weight of one that is not there.
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
                    f"model {self.name}: {layer.name} shares a weight of {layer.shares}: no such"
                )

    @property
    def n_layers(self) -> int:
        """Entries of the table, embedding and head included."""
        return len(self.layers)

    @property
    def default_tokens(self) -> int:
        """Tokens of a sequence where none are given: `max_tokens`, at most 4096; 0 if that is unknown."""
        return min(self.max_tokens, MOST_DEFAULT_TOKENS)

    @property
    def parameters(self) -> int:
        """Elements of all weights; a tied embedding counts once."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def active_parameters(self) -> int:
        """Elements of the weights that a token meets."""
        return int(sum(layer.active_parameters for layer in self.layers))

    @property
    def embedding_parameters(self) -> int:
        """Elements of tables of words that no head shares: some publishers do not count them as active."""
        shared = {layer.shares for layer in self.layers}
        tables = (layer for layer in self.layers if layer.is_lookup and not layer.experts)
        return sum(layer.parameters for layer in tables if layer.name not in shared)

    @property
    def streams(self) -> tuple[str, ...]:
        """Names of the streams of tokens, in order of their layers."""
        return tuple(dict.fromkeys(layer.stream for layer in self.layers))

    def layer(self, name: str) -> ModelLayer:
        """The layer of a name."""
        for layer in self.layers:
            if layer.name == name:
                return layer
        raise TreadleError(f"model {self.name}: no layer {name!r}")

    def forward_flops(self, tokens: Mapping[str, int], *, causal_in_full: bool = False) -> Fraction:
        """FLOPs of the forward pass of one sequence.

        Parameters
        ----------
        tokens : mapping of stream to int
            Tokens of the sequence in each of `streams`; of samples: {"": 1}.
        causal_in_full : bool
            Count masked attention scores too.

        Raises
        ------
        TreadleError
            If a stream is missing.
        """
        if missing := [name for name in self.streams if name not in tokens]:
            raise TreadleError(f"model {self.name}: tokens of the stream {missing[0]!r} are not given")
        return sum(
            (layer.forward_flops(tokens, causal_in_full=causal_in_full) for layer in self.layers), Fraction(0)
        )

    def step_flops(self, tokens: Mapping[str, int], *, causal_in_full: bool = False) -> Fraction:
        """Model FLOPs of one sequence, forward and backward, without recomputation: what MFU counts."""
        return (1 + BACKWARD_PASSES) * self.forward_flops(tokens, causal_in_full=causal_in_full)
