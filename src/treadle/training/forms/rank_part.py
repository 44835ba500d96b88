"""A rank's share of a step: its tokens in a micro-batch, and its elements of each layer, in bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from treadle.errors import ScheduleError
from treadle.training.forms.axes import ParallelLayout
from treadle.training.models.model_layer import ModelLayer, Weight
from treadle.training.training_options import TrainingOptions


@dataclass(frozen=True)
class RankPart:
    """One rank's part of a step.

    Parameters
    ----------
    layout : ParallelLayout
    options : TrainingOptions
    sequences : int
        Sequences in a micro-batch of a replica.
    tokens : mapping of str to int
        Tokens of an entire sequence, by stream.
    """

    layout: ParallelLayout
    options: TrainingOptions
    sequences: int
    tokens: Mapping[str, int]

    @property
    def reshards(self) -> bool:
        """Whether sharded weights are gathered again for the backward pass."""
        chosen = self.options.reshard_after_forward
        return self.layout.size("pp") == 1 if chosen is None else chosen

    def state_axes(self, *, expert: bool) -> tuple[str, ...]:
        """Return the axes along which the optimizer's state is sharded."""
        shard = self.layout.shard_axes(expert=expert)
        return shard if shard or not self.options.zero else self.layout.replica_axes(expert=expert)

    def rank_tokens(self, stream: str) -> Fraction:
        """Return the tokens of a rank in a micro-batch; all ranks of tensor parallelism have the same."""
        return Fraction(self.sequences * self.tokens[stream], self.layout.size("cp"))

    def activation_bytes(self, layer: ModelLayer, elements: int | Fraction) -> int:
        """Return the bytes of this number of elements for each token of a rank."""
        return ceil(elements * self.rank_tokens(layer.stream) * self.options.element_bytes)

    def elements(self, weight: Weight) -> Fraction:
        """Return the elements of a gathered weight on one rank."""
        cut = self.layout.size(*(("tp",) if weight.split else ()), *(("ep",) if weight.expert else ()))
        return Fraction(weight.elements, cut)

    def layer_elements(self, layer: ModelLayer, *, expert: bool) -> Fraction:
        """Return the elements of the layer's gathered weights (of experts, or the others) on one rank."""
        own = [weight for weight in layer.weights if weight.expert == expert]
        return sum((self.elements(weight) for weight in own), Fraction(0))

    def held_elements(self, layer: ModelLayer) -> Fraction:
        """Return the elements that a rank holds between steps: with sharded weights, its shards."""
        return self._sharded(layer, self.layout.shard_axes)

    def updated_elements(self, layer: ModelLayer) -> Fraction:
        """Return the elements that a rank's optimizer updates; with ZeRO, a part of those that it holds."""
        return self._sharded(layer, self.state_axes)

    def _sharded(self, layer: ModelLayer, axes: Callable[..., tuple[str, ...]]) -> Fraction:
        dense, experts = (
            self.layer_elements(layer, expert=one) / self.layout.size(*axes(expert=one))
            for one in (False, True)
        )
        return dense + experts


def rank_part(
    layout: ParallelLayout, options: TrainingOptions, sequences: int, tokens: Mapping[str, int]
) -> RankPart:
    """Return a rank's share of the sequences of a step on all ranks.

    Raises ScheduleError unless replicas and micro-batches divide the sequences, and cp the tokens.
    """
    parts = layout.replicas * options.micro_batches
    if sequences < 1 or sequences % parts:
        raise ScheduleError(
            f"batch of {sequences}: expected a multiple of {parts} ({layout.replicas} replicas of mesh "
            f"{layout.mesh.notation} x {options.micro_batches} micro-batches)"
        )
    for stream, number in tokens.items():
        if number < 1 or number % layout.size("cp"):
            raise ScheduleError(
                f"sequences of {number} tokens{f' ({stream})' if stream else ''}: expected a multiple of cp, "
                f"{layout.size('cp')}"
            )
    return RankPart(layout, options, sequences // parts, tokens)
