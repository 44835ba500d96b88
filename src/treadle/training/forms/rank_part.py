"""A rank's share: its tokens in a micro-batch, its elements of each layer, and the bytes that they are."""

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
    """What one rank has of a step.

    Parameters
    ----------
    layout : ParallelLayout
    options : TrainingOptions
    sequences : int
        Of a micro-batch of a replica.
    tokens : mapping of str to int
        Of a whole sequence, by stream.
    """

    layout: ParallelLayout
    options: TrainingOptions
    sequences: int
    tokens: Mapping[str, int]

    @property
    def reshards(self) -> bool:
        """Sharded weights are gathered again for the backward pass."""
        chosen = self.options.reshard_after_forward
        return self.layout.size("pp") == 1 if chosen is None else chosen

    def state_axes(self, *, expert: bool) -> tuple[str, ...]:
        """Along which the optimizer's state is sharded."""
        shard = self.layout.shard_axes(expert=expert)
        return shard if shard or not self.options.zero else self.layout.replica_axes(expert=expert)

    def rank_tokens(self, stream: str) -> Fraction:
        """Tokens of a micro-batch that a rank has; those of tensor parallelism have the same."""
        return Fraction(self.sequences * self.tokens[stream], self.layout.size("cp"))

    def activation_bytes(self, layer: ModelLayer, elements: int | Fraction) -> int:
        """Of so many elements for each token of a rank."""
        return ceil(elements * self.rank_tokens(layer.stream) * self.options.element_bytes)

    def elements(self, weight: Weight) -> Fraction:
        """Of a weight, once it is gathered, on one rank."""
        cut = self.layout.size(*(("tp",) if weight.split else ()), *(("ep",) if weight.expert else ()))
        return Fraction(weight.elements, cut)

    def layer_elements(self, layer: ModelLayer, *, expert: bool) -> Fraction:
        """Of the layer's weights (of experts, or the others), once gathered, on one rank."""
        own = [weight for weight in layer.weights if weight.expert == expert]
        return sum((self.elements(weight) for weight in own), Fraction(0))

    def held_elements(self, layer: ModelLayer) -> Fraction:
        """That a rank holds between steps: its shards, where weights are sharded."""
        return self._cut(layer, lambda expert: self.layout.shard_axes(expert=expert))

    def updated_elements(self, layer: ModelLayer) -> Fraction:
        """That a rank's optimizer updates: a part of those that it holds, by ZeRO."""
        return self._cut(layer, lambda expert: self.state_axes(expert=expert))

    def _cut(self, layer: ModelLayer, axes: Callable[[bool], tuple[str, ...]]) -> Fraction:
        parts = [
            self.layer_elements(layer, expert=one) / self.layout.size(*axes(one)) for one in (False, True)
        ]
        return sum(parts, Fraction(0))


def rank_part(
    layout: ParallelLayout, options: TrainingOptions, sequences: int, tokens: Mapping[str, int]
) -> RankPart:
    """A rank's share of a global batch.

    Parameters
    ----------
    sequences : int
        Of a step, on all ranks together.

    Raises
    ------
    ScheduleError
        If replicas and micro-batches do not share them equally, or context parallelism a sequence.
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
