"""A layer's forward and backward pass on one rank: computations, and communications that block them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from treadle.schedules.collective import CollectiveKind
from treadle.training.compute_times import ComputeTimes, LocalWork, layer_times
from treadle.training.costs import Seconds
from treadle.training.models.model_layer import ModelLayer


@dataclass(frozen=True)
class LayerSeconds:
    """Seconds of a layer on one rank, those of attention and of experts apart from the rest.

    Parameters
    ----------
    dense, attention, expert : tuple of two numbers
        Forward and backward.
    """

    dense: tuple[Seconds, Seconds]
    attention: tuple[Seconds, Seconds] = (0, 0)
    expert: tuple[Seconds, Seconds] = (0, 0)

    @property
    def total_s(self) -> Seconds:
        """Of both passes."""
        return sum(chain(self.dense, self.attention, self.expert))


def layer_seconds(times: ComputeTimes, layer: ModelLayer, local: LocalWork) -> LayerSeconds:
    """Seconds of a layer with a rank's part of a micro-batch."""
    found = layer_times(times, layer, local)
    attention = (found.attention_forward_s, found.attention_backward_s)
    dense = (found.forward_s - attention[0], found.backward_s - attention[1])
    return LayerSeconds(dense, attention, (found.expert_forward_s, found.expert_backward_s))


@dataclass(frozen=True)
class Communication:
    """A collective, or a send to the next rank where `kind` is None, along axes of the mesh."""

    kind: CollectiveKind | None
    axes: tuple[str, ...]
    size_bytes: int


@dataclass(frozen=True)
class LayerAction:
    """Computing for some seconds, or communicating, or both at once; what follows waits for both."""

    seconds: Seconds = 0
    exchange: Communication | None = None
    is_recomputed: bool = False


@dataclass(frozen=True)
class LayerPart:
    """What a layer or a part of it does with a micro-batch; backward its parts run from last to first."""

    forward: tuple[LayerAction, ...] = ()
    backward: tuple[LayerAction, ...] = ()


def computing(seconds: tuple[Seconds, Seconds]) -> LayerPart:
    """A part that only computes."""
    return LayerPart((LayerAction(seconds[0]),), (LayerAction(seconds[1]),))


def passes_of(parts: Iterable[LayerPart]) -> LayerPart:
    """The passes of a layer, from its parts in order of the forward pass."""
    listed = list(parts)
    return LayerPart(
        tuple(chain.from_iterable(part.forward for part in listed)),
        tuple(chain.from_iterable(part.backward for part in reversed(listed))),
    )
