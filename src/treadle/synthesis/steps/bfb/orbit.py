"""Breadth-first broadcast on Cayley graphs: what one node receives stands for what all nodes receive.

Multiplication from the left moves any node to any other and keeps links, so the balancing problems of all
nodes are that of node 0, the identity: its loads are those of the best schedule of the whole graph. Time and
memory O(N d): N = 10^5 takes a fraction of a second.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.engine import core
from treadle.errors import ScheduleError
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.core_values.step_values import StepRatios
from treadle.synthesis.steps.bfb.in_links import OK, TRANSFORM_LIMIT
from treadle.synthesis.steps.bfb.value import BfbValue, value_from
from treadle.topologies.catalogue.cayley import CayleyGraph


def orbit_value(graph: CayleyGraph, *, direction: Direction = Direction.BROADCAST) -> BfbValue:
    """Cost of the best breadth-first-broadcast allgather (BROADCAST) or reduce-scatter (REDUCE), unit links.

    Parameters
    ----------
    graph : CayleyGraph
    direction : Direction
        A reduce-scatter is the allgather of the transpose run backwards.

    Raises
    ------
    ScheduleError
        If the diameter is beyond 65,534.

    Examples
    --------
    >>> from treadle.topologies.catalogue.cayley import cayley_graph
    >>> orbit_value(cayley_graph('abelian_cayley("15", 1, 14, 4, 11, 5, 10)')).loads
    (Fraction(1, 1), Fraction(3, 2))
    """
    # tails of the links into node 0: the generators; on the transposed graph, their inverses
    tails = np.array(graph.generators, dtype=np.int64)
    if direction is not Direction.BROADCAST:
        tails = graph.group.inverse(tails)
    rows, weight = _distance_rows(graph, tails), np.ones(graph.degree, dtype=np.int64)
    status, found, _ = core.bfb_orbit_loads(rows, weight, TRANSFORM_LIMIT)
    assert status == OK, status
    return value_from(StepRatios(*found), graph.n_nodes, 1, graph.degree)


def _distance_rows(graph: CayleyGraph, tails: Int64Array) -> NDArray[np.uint16]:
    """Distances from every node to node 0, then to each of the tails, shape (d + 1, N)."""
    n, nodes = graph.n_nodes, np.arange(graph.n_nodes)
    distance = np.full(n, np.iinfo(np.uint16).max, dtype=np.uint16)
    frontier, step = np.zeros(1, dtype=np.int64), 0
    while frontier.size:
        if step == np.iinfo(np.uint16).max:
            raise ScheduleError(f"{graph.expression}: a diameter beyond 65,534 steps; expected fewer")
        distance[frontier] = step
        step += 1
        # The tails of the links into x are x s.
        reached = np.unique(graph.group.multiply(frontier[:, None], tails))
        frontier = reached[distance[reached] == np.iinfo(np.uint16).max]
    # d(v, s) = d(inverse(s) v, 0).
    moved = graph.group.multiply(graph.group.inverse(tails)[:, None], nodes)
    rows: NDArray[np.uint16] = np.ascontiguousarray(np.concatenate([distance[None, :], distance[moved]]))
    return rows
