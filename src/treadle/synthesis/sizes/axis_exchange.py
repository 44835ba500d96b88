"""Allreduces of few bytes on tori: sums are exchanged along one axis after another, in full or in parts.

Along an axis that is exchanged a rank sends its sum to all others there, over ways that pass them, and adds
up what it gets: one message, of all that it has. Along one that is scattered each keeps the sum of a part,
which all gather in the end. Each axis begins with a part of its own of the data, so that all links work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod

import numpy as np

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.scheduler import tried_with
from treadle.synthesis.sizes.exchanges import Messages, joined
from treadle.synthesis.sizes.factor_allreduce import Grid
from treadle.synthesis.sizes.routed_rounds import TORUS_NEEDS
from treadle.synthesis.sizes.shortest_paths import steps_over_paths
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
    check_supported(_NAME, topology, collective, _KINDS, TORUS_NEEDS)
    sides = torus_sides(topology)
    axes = [axis for axis, side in enumerate(sides) if side > 1]
    places = frozenset(range(len(axes)) if exchanged is None else (place - 1 for place in exchanged))
    if not places <= set(range(len(axes))):
        raise ScheduleError(f"{_NAME}: exchanged: expected places from 1 to {len(axes)}")
    if len(places) < len(axes) and len({sides[axis] for axis in axes}) > 1:
        raise ScheduleError(f"{_NAME}: sides {', '.join(map(str, sides))} differ; exchange all")
    parts = [_part(sides, axes[first:] + axes[:first], places) for first in range(len(axes))]
    homes = [np.concatenate(column) for column in zip(*(part.owners() for part in parts), strict=True)]

    def side_by_side(steps: Iterable[Sequence[Messages]]) -> list[Messages]:
        """Steps of all parts, whose shards come one after another."""
        return [
            joined(
                (*ends, shard + number * len(parts[0].shards)) for number, (*ends, shard) in enumerate(ones)
            )
            for ones in zip(*steps, strict=True)
        ]

    reducing = side_by_side(part.reducing() for part in parts)
    gathering = side_by_side(part.gathering() for part in parts)
    return StepSchedule(
        CollectiveKind.ALLREDUCE,
        reduce=steps_over_paths(topology, collective, Direction.REDUCE, [reducing], homes),
        broadcast=steps_over_paths(topology, collective, Direction.BROADCAST, [gathering], homes),
    )


def _part(sides: tuple[int, ...], order: Sequence[int], exchanged: frozenset[int]) -> Grid:
    """A part of the data, which goes along the axes in an order of its own."""
    places = np.stack(np.unravel_index(np.arange(prod(sides)), sides), axis=1)
    radices = tuple(sides[axis] for axis in order)
    kept = [range(1 if place in exchanged else side) for place, side in enumerate(radices)]
    return Grid(
        ranks=np.arange(len(places)),
        digits=places[:, order],
        weights=np.array([prod(sides[axis + 1 :]) for axis in order], dtype=np.int64),
        radices=radices,
        exchanged=exchanged,
        shards=np.array(list(product(*kept)), dtype=np.int64),
        is_torus=True,
    )
