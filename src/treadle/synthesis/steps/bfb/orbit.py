"""Breadth-first broadcast on Cayley graphs: what one node receives stands for what all nodes receive.

Multiplication from the left moves any node to any other and keeps links, so the sends into node 0, the
identity, moved by every element, are a schedule; it is as good as the best one, because the balancing
problems of all nodes are the same.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import prod

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, offsets_of
from treadle.engine import core
from treadle.errors import ScheduleError
from treadle.schedules.steps.steps import MAX_CHUNKS
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.core_values.step_values import Sends, StepRatios
from treadle.synthesis.steps.bfb.breadth_first import chunk_count, step_chunks
from treadle.synthesis.steps.bfb.in_links import OK, TRANSFORM_LIMIT
from treadle.synthesis.steps.bfb.orbit_schedule import OrbitSchedule
from treadle.synthesis.steps.bfb.value import BfbValue
from treadle.topologies.catalogue.cayley import CayleyGraph, cayley_graph
from treadle.topologies.limits import check_count


def torus_graph(*dims: int) -> CayleyGraph:
    """The torus (a hypercube, if all dimensions are 2) as a Cayley graph: steps of +1 and -1 per dimension.

    Node numbers are those of `treadle.topologies.catalogue.graphs.torus`, link numbers are not.
    """
    dims = tuple(dim for dim in dims if dim != 1) or (1,)
    strides = [prod(dims[i + 1 :]) for i in range(len(dims))]
    steps = [
        (1,) if dim == 2 else (dim - 1, 1)  # one link joins the two nodes of a dimension of size 2
        for dim in dims
    ]
    generators = [step * stride for row, stride in zip(steps, strides, strict=True) for step in row]
    return _abelian(dims, generators)


def circulant_graph(n: int, *offsets: int) -> CayleyGraph:
    """The circulant graph C(n, {a_1, ..., a_k}) of Definition 18 as a Cayley graph of Z_n."""
    check_count("circulant_graph", "n", n, least=2)
    return _abelian((n,), [sign * offset % n for offset in offsets for sign in (-1, 1)])


def _abelian(moduli: tuple[int, ...], generators: list[int]) -> CayleyGraph:
    word = "x".join(str(modulus) for modulus in moduli)
    return cayley_graph(f'abelian_cayley("{word}", {", ".join(str(s) for s in generators)})')


def orbit_value(graph: CayleyGraph, *, direction: Direction = Direction.BROADCAST) -> BfbValue:
    """Cost of the best allgather (BROADCAST) or reduce-scatter (REDUCE) of `bfb_orbit`, on unit links.

    Examples
    --------
    >>> orbit_value(circulant_graph(15, 1, 4, 5)).loads
    (Fraction(1, 1), Fraction(3, 2))
    """
    return _value(graph, _distance_rows(graph, _tails(graph, direction)))


def bfb_orbit(graph: CayleyGraph, *, direction: Direction = Direction.BROADCAST) -> OrbitSchedule:
    """Breadth-first-broadcast schedule of a Cayley graph, kept by one orbit.

    Parameters
    ----------
    graph : CayleyGraph
    direction : Direction
        BROADCAST for allgather; REDUCE for reduce-scatter, the allgather of the transpose run backwards.

    Returns
    -------
    OrbitSchedule
        With the T_B of `orbit_value` and the fewest chunks (see `chunk_count`).

    Raises
    ------
    ScheduleError
        If more than 2**24 chunks are needed.

    Notes
    -----
    Time and memory O(N d): N = 10^5 takes a fraction of a second.
    """
    rows = _distance_rows(graph, _tails(graph, direction))
    value = _value(graph, rows)
    chunks = chunk_count(value)
    if chunks > MAX_CHUNKS:
        raise ScheduleError(f"{graph.expression}: needs {chunks} chunks per shard, at most {MAX_CHUNKS}")
    capacity = np.array(step_chunks(value, chunks), dtype=np.int64)
    status, found, _ = core.bfb_orbit_split(rows, capacity, chunks)
    assert status == OK, status
    schedule = OrbitSchedule(graph, Direction.BROADCAST, chunks, *Sends(*found))
    return _backwards(schedule) if direction is Direction.REDUCE else schedule


def _backwards(schedule: OrbitSchedule) -> OrbitSchedule:
    """The same sends in the opposite order of steps."""
    spans = [
        np.arange(schedule.step_offset[step], schedule.step_offset[step + 1])
        for step in reversed(range(schedule.n_steps))
    ]
    order = np.concatenate(spans)
    return replace(
        schedule,
        direction=Direction.REDUCE,
        step_offset=offsets_of(np.diff(schedule.step_offset)[::-1]),
        source=schedule.source[order],
        generator=schedule.generator[order],
        low=schedule.low[order],
        high=schedule.high[order],
    )


def _tails(graph: CayleyGraph, direction: Direction) -> Int64Array:
    """Tails of the links into node 0: the generators; on the transposed graph, their inverses."""
    generators = np.array(graph.generators, dtype=np.int64)
    return generators if direction is Direction.BROADCAST else graph.group.inverse(generators)


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


def _value(graph: CayleyGraph, rows: NDArray[np.uint16]) -> BfbValue:
    weight = np.ones(graph.degree, dtype=np.int64)
    status, found, _ = core.bfb_orbit_loads(rows, weight, TRANSFORM_LIMIT)
    assert status == OK, status
    of = StepRatios(*found)
    ratios = zip(of.numerator.tolist(), of.denominator.tolist(), strict=True)
    return BfbValue(
        n_ranks=graph.n_nodes,
        loads=tuple(Fraction(top, bottom) for top, bottom in ratios),
        worst=tuple(of.worst.tolist()),
        unit_bandwidth=1,
        node_bandwidth=graph.degree,
    )
