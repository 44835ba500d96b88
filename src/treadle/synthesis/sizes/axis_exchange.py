"""Allreduces of few bytes on tori: sums are exchanged along one axis after another, in full or in parts.

Along an axis that is exchanged a rank sends its sum to all others there, over ways that pass them, and adds
up what it gets: one message, of all that it has. Along one that is scattered each keeps the sum of a part,
which all gather in the end. Each axis begins with a part of its own of the data, so that all links work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.scheduler import tried_with
from treadle.synthesis.sizes.exchanges import Messages
from treadle.synthesis.sizes.routed_rounds import TORUS_NEEDS
from treadle.synthesis.sizes.shortest_ways import steps_over_ways
from treadle.synthesis.steps.baselines.torus import torus_sides
from treadle.synthesis.trees.baselines.embedding import check_supported
from treadle.topologies.topology import Topology

_NAME = "axis-exchange"
_KINDS = (CollectiveKind.ALLREDUCE,)


def _trials(topology: Topology, _: Collective) -> Sequence[Mapping[str, object]]:
    """All axes exchanged; with equal sides the last ones only, and none."""
    axes = [side for side in torus_sides(topology) if side > 1]
    places = range(1, len(axes) + 1)
    if len(set(axes)) > 1:
        return [{}]
    return [{}, *({"exchanged": tuple(places[first:])} for first in range(1, len(places) + 1))]


@tried_with(_trials)
def axis_exchange(
    topology: Topology, collective: Collective, *, exchanged: Sequence[int] | None = None
) -> StepSchedule:
    """Sums exchanged along the axes of a torus, one after another.

    Parameters
    ----------
    topology : Topology
        A torus in row major order.
    collective : Collective
        An allreduce on all nodes in order.
    exchanged : sequence of int, optional
        Places, from 1, in the order of the axes, of those that are exchanged in full; default all. The others
        are scattered first and gathered in the end, which wants equal sides.

    Raises
    ------
    ScheduleError
        If it is not one, there is no such place, or sides differ where some are scattered.

    Notes
    -----
    There is a part of the data for each axis to begin with, the others following in turn. The farthest ranks
    of an axis are sent to first.
    """
    check_supported(_NAME, topology, collective, _KINDS)
    for need in TORUS_NEEDS:
        if (refusal := need(topology, collective)) is not None:
            raise ScheduleError(f"{_NAME}: {refusal}")
    sides = torus_sides(topology)
    axes = [axis for axis, side in enumerate(sides) if side > 1]
    places = set(range(len(axes)) if exchanged is None else (place - 1 for place in exchanged))
    if not places <= set(range(len(axes))):
        raise ScheduleError(f"{_NAME}: exchanged: expected places from 1 to {len(axes)}")
    if len(places) < len(axes) and len({sides[axis] for axis in axes}) > 1:
        raise ScheduleError(f"{_NAME}: sides {', '.join(map(str, sides))} differ; exchange all")
    parts = [_Part(sides, axes[first:] + axes[:first], places) for first in range(len(axes))]
    homes = [np.concatenate(column) for column in zip(*(part.homes() for part in parts), strict=True)]
    reducing = _side_by_side([part.reducing() for part in parts], parts)
    gathering = _side_by_side([part.gathering() for part in parts], parts)
    return StepSchedule(
        CollectiveKind.ALLREDUCE,
        reduce=steps_over_ways(topology, collective, Direction.REDUCE, [reducing], homes),
        broadcast=steps_over_ways(topology, collective, Direction.BROADCAST, [gathering], homes),
    )


def _side_by_side(steps: Sequence[Sequence[Messages]], parts: Sequence[_Part]) -> list[Messages]:
    """Steps of all parts, whose shards come one after another."""
    found = []
    for together in zip(*steps, strict=True):
        moved = [
            (sender, target, shard + number * parts[0].n_shards)
            for number, (sender, target, shard) in enumerate(together)
        ]
        sender, target, shard = (np.concatenate(column) for column in zip(*moved, strict=True))
        found.append((sender, target, shard))
    return found


class _Part:
    """One order of the axes: a shard for each place on the scattered ones."""

    def __init__(self, sides: tuple[int, ...], order: Sequence[int], exchanged: set[int]) -> None:
        self._sides, self._order, self._exchanged = sides, order, exchanged
        self._scattered = [axis for place, axis in enumerate(order) if place not in exchanged]
        self._places = np.stack(np.unravel_index(np.arange(prod(sides)), sides), axis=1)
        kept = [sides[axis] for axis in self._scattered]
        self.n_shards = prod(kept)
        self._shards = np.array(list(product(*map(range, kept))), dtype=np.int64).reshape(self.n_shards, -1)

    def homes(self) -> list[Int64Array]:
        """Ranks where each shard is summed, shape (shards,) each."""
        at = [np.flatnonzero(self._holds(shard, len(self._order))) for shard in range(self.n_shards)]
        return [np.array(row, dtype=np.int64) for row in zip(*at, strict=True)]

    def reducing(self) -> list[Messages]:
        """Messages along each axis in order."""
        return [self._along(place, place, scatters=True) for place in range(len(self._order))]

    def gathering(self) -> list[Messages]:
        """Messages along the scattered axes, the last first."""
        places = [place for place in range(len(self._order)) if place not in self._exchanged]
        return [self._along(place, place + 1, scatters=False) for place in places[::-1]]

    def _holds(self, shard: int, past: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Ranks at the shard's place on the scattered axes before `past` in order."""
        held = np.ones(len(self._places), dtype=np.bool_)
        for number, axis in enumerate(self._scattered):
            if self._order.index(axis) < past:
                held &= self._places[:, axis] == self._shards[shard, number]
        return held

    def _along(self, place: int, past: int, *, scatters: bool) -> Messages:
        """From who has a shard to others on an axis: to all, or of sums that are scattered to the one."""
        axis = self._order[place]
        side = self._sides[axis]
        one = scatters and place not in self._exchanged
        parts = []
        for shift in sorted(range(1, side), key=lambda shift: -min(shift, side - shift)):
            theirs = self._places.copy()
            theirs[:, axis] = (theirs[:, axis] + shift) % side
            target = np.ravel_multi_index(tuple(theirs.T), self._sides)
            for shard in range(self.n_shards):
                held = self._holds(shard, past)
                if one:
                    held &= theirs[:, axis] == self._shards[shard, self._scattered.index(axis)]
                sender = np.flatnonzero(held)
                parts.append((sender, target[sender], np.full(len(sender), shard)))
        sender, target, shards = (np.concatenate(column) for column in zip(*parts, strict=True))
        return sender, target, shards
