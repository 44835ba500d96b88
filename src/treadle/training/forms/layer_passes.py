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
    """Seconds of a layer on one rank, with separate attention and experts.

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
        """Seconds of both passes."""
        return sum(chain(self.dense, self.attention, self.expert))


def layer_seconds(times: ComputeTimes, layer: ModelLayer, local: LocalWork) -> LayerSeconds:
    """Return the seconds of a layer with a rank's part of a micro-batch."""
    found = layer_times(times, layer, local)
    attention = (found.attention_forward_s, found.attention_backward_s)
    dense = (found.forward_s - attention[0], found.backward_s - attention[1])
    return LayerSeconds(dense, attention, (found.expert_forward_s, found.expert_backward_s))


@dataclass(frozen=True)
class Communication:
    """A collective, or a send to the next rank if `kind` is None, along axes of the mesh."""

    kind: CollectiveKind | None
    axes: tuple[str, ...]
    size_bytes: int


@dataclass(frozen=True)
class LayerAction:
    """A computation, a communication, or both concurrently; the next action waits for both."""

    seconds: Seconds = 0
    exchange: Communication | None = None
    is_recomputed: bool = False


@dataclass(frozen=True)
class LayerPart:
    """Actions of a layer or a part of it with a micro-batch; backward, its parts run from last to first."""

    forward: tuple[LayerAction, ...] = ()
    backward: tuple[LayerAction, ...] = ()


def computing(seconds: tuple[Seconds, Seconds]) -> LayerPart:
    """Return a part that only computes, for the given (forward, backward) seconds."""
    return LayerPart((LayerAction(seconds[0]),), (LayerAction(seconds[1]),))


def passes_of(parts: Iterable[LayerPart]) -> LayerPart:
    """Return the passes of a layer, from its parts in order of the forward pass."""
    listed = list(parts)
    return LayerPart(
        tuple(chain.from_iterable(part.forward for part in listed)),
        tuple(chain.from_iterable(part.backward for part in reversed(listed))),
    )
