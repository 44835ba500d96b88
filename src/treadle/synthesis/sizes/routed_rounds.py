"""Rounds of exchanges over ways that pass other ranks: direct, and on tori Swing's and Trivance's.

What passes a rank is not stored there, so that a message over h links costs one start and h hops. Tori are
walked one level of distances after another, the axes in turn, and from the largest distance down, so that
the large messages are near; each axis begins with a part of its own of every shard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.collective import Collective
from treadle.schedules.steps.step_transforms import reverse
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.scheduler import Need, equal_shards
from treadle.synthesis.sizes.exchanges import Round, direct, on_axis, sends_of
from treadle.synthesis.sizes.shortest_paths import steps_over_paths
from treadle.synthesis.sizes.spanning_exchanges import few_ranks
from treadle.synthesis.steps.baselines.bidirectional import WHOLE_FABRIC
from treadle.synthesis.steps.baselines.torus import torus_in_row_major_order, torus_sides
from treadle.synthesis.steps.bfb.breadth_first import both_phases
from treadle.synthesis.trees.baselines.embedding import GATHERING, check_supported
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

TORUS_NEEDS = (few_ranks, *WHOLE_FABRIC, torus_in_row_major_order)


def sides_are_powers_of_two(topology: Topology, _: Collective) -> Unsupported | None:
    """Options for a torus: partners on an axis come in pairs at every level."""
    sides = torus_sides(topology)
    if all(side & (side - 1) == 0 for side in sides):
        return None
    return Unsupported(
        f"expected sides that are powers of two, found {', '.join(map(str, sides))}; use trivance"
    )


def routed_direct(topology: Topology, collective: Collective) -> StepSchedule:
    """Every rank sends its shard to every other, over ways that pass other ranks; a reduction adds up there.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Allgather, reduce-scatter or allreduce of equal shards.

    Raises
    ------
    InfeasibleError
        If a rank does not reach another.
    """
    return _scheduled("routed-direct", topology, collective, (), lambda: [direct(collective.n_ranks)])


def swing(topology: Topology, collective: Collective) -> StepSchedule:
    """Pairs at distances 1, 1, 3, 5, 11, ... to either side in turn, on the axes of a torus.

    Parameters
    ----------
    topology : Topology
        A torus in row major order with sides that are powers of two.
    collective : Collective
        Allgather, reduce-scatter or allreduce on all nodes in order.

    Notes
    -----
    A part of each shard for every axis to begin with, and for either way round.
    """
    return _scheduled(
        "swing",
        topology,
        collective,
        (*TORUS_NEEDS, sides_are_powers_of_two),
        lambda: [rounds for way in (1, -1) for rounds in _on_torus(topology, partial(_swinging, way=way))],
    )


def trivance(topology: Topology, collective: Collective) -> StepSchedule:
    """Both neighbours at distances ..., 9, 3, 1 on the axes of a torus of any sides.

    Parameters
    ----------
    topology : Topology
        A torus in row major order.
    collective : Collective
        Allgather, reduce-scatter or allreduce on all nodes in order.

    Notes
    -----
    On an axis a rank trebles what it has at every distance, so that log3 of the side is enough. Where the
    side is not a power of three, a rank gets what both sides would bring from one of them.
    """
    return _scheduled("trivance", topology, collective, TORUS_NEEDS, lambda: _on_torus(topology, _trebling))


def _swinging(side: int, *, way: int) -> list[Round]:
    """Rounds of an axis, the largest distance first."""
    ranks = np.arange(side)
    turns = np.where(ranks % 2, -way, way)
    distances = [(1 - (-2) ** (level + 1)) // 3 for level in range(side.bit_length() - 1)]
    return [((ranks + turns * distance) % side)[None] for distance in reversed(distances)]


def _trebling(side: int) -> list[Round]:
    """Rounds of an axis, the largest distance first."""
    ranks, distances = np.arange(side), [1]
    while 3 * distances[-1] < side:
        distances.append(3 * distances[-1])
    both = [{distance % side, -distance % side} for distance in reversed(distances)]
    return [np.stack([(ranks + move) % side for move in sorted(moves)]) for moves in both]


def _on_torus(topology: Topology, way: Callable[[int], list[Round]]) -> list[list[Round]]:
    """Rounds of the whole torus for each axis that goes first: level by level, the axes in turn."""
    sides = torus_sides(topology)
    of_axis = [
        [on_axis(sides, axis, one) for one in way(side)] for axis, side in enumerate(sides) if side > 1
    ]
    longest = max(map(len, of_axis), default=0)
    parts = []
    for first in range(len(of_axis)):
        turned = of_axis[first:] + of_axis[:first]
        # axes of fewer levels come in later, so that all end with their nearest
        late = [[None] * (longest - len(rounds)) + rounds for rounds in turned]
        parts.append([one for level in zip(*late, strict=True) for one in level if one is not None])
    return parts


def _scheduled(
    name: str,
    topology: Topology,
    collective: Collective,
    requirements: Sequence[Need],
    rounds: Callable[[], list[list[Round]]],
) -> StepSchedule:
    """The collective by rounds for each part of a shard, and backwards on the fabric turned round."""
    check_supported(name, topology, collective, GATHERING, (few_ranks, equal_shards, *requirements))
    parts = [sends_of(one, collective.n_ranks) for one in rounds()]
    homes: list[Int64Array] = [np.arange(collective.n_ranks)]

    def spread(fabric: Topology) -> Steps:
        return steps_over_paths(fabric, collective, Direction.BROADCAST, parts, homes)

    return both_phases(topology, collective.kind, spread, reverse)
