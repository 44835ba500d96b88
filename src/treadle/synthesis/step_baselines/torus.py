"""The traditional multi-port torus algorithm."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective
from treadle.schedules.forest import Direction
from treadle.schedules.step_transforms import combine
from treadle.schedules.steps import Steps, StepSchedule, steps_from_sends
from treadle.synthesis.step_baselines.both_ways import both_ways
from treadle.topologies.topology import Topology


def traditional_torus(topology: Topology, collective: Collective) -> StepSchedule:
    """Ring allgathers along one dimension after another, on all ports: one part of each shard per port.

    Raises
    ------
    ScheduleError
        If the graph is not a torus of the catalogue (nodes in row-major order, sides of at least 3).

    Notes
    -----
    Part r starts with dimension r and goes on to r + 1, ..., half of it each way round. T_L is the sum of
    (side - 1); bandwidth-optimal for equal sides, else parts meet on the same links (section 3.6.2). Source:
    Sack and Gropp, Collective algorithms for multiported torus networks (ACM TOPC 1, 2015), as cited there.
    """
    return both_ways("traditional-torus", topology, collective, _allgather)


def _allgather(topology: Topology) -> Steps:
    dims = _sides(topology)
    out = _links(topology, dims)
    sends = [_part(dims, out, first, way) for first in range(len(dims)) for way in (1, -1)]
    parts = [steps_from_sends(Direction.BROADCAST, topology.n_nodes, 1, list(part)) for part in sends]
    return combine(parts)


def _part(
    dims: tuple[int, ...], out: dict[tuple[int, int], Int64Array], first: int, way: int
) -> tuple[Int64Array, ...]:
    """Shard, link, step, low and high of one part: phase j runs along dimension first + j."""
    n = int(np.prod(dims))
    place = np.array(np.unravel_index(np.arange(n), dims))
    columns: list[list[Int64Array]] = [[], [], []]
    start = 0
    done: list[int] = []
    for phase in range(len(dims)):
        axis = (first + phase) % len(dims)
        for step in range(dims[axis] - 1):
            # what came from `step` nodes back along the axis, with all that it gathered in earlier phases
            for held in _held(dims, done):
                origin = place.copy()
                origin[axis] = (origin[axis] - way * step) % dims[axis]
                for q, shift in zip(done, held, strict=True):
                    origin[q] = (origin[q] + shift) % dims[q]
                columns[0].append(np.ravel_multi_index(tuple(origin), dims).astype(np.int64))
                columns[1].append(out[axis, way])
                columns[2].append(np.full(n, start + step))
        start += dims[axis] - 1
        done.append(axis)
    shard, link, step_column = (np.concatenate(column) for column in columns)
    return shard, link, step_column, np.zeros_like(shard), np.ones_like(shard)


def _held(dims: tuple[int, ...], done: list[int]) -> list[tuple[int, ...]]:
    """Every combination of shifts along the dimensions that are done."""
    shifts: list[tuple[int, ...]] = [()]
    for axis in done:
        shifts = [(*prefix, shift) for prefix in shifts for shift in range(dims[axis])]
    return shifts


def _sides(topology: Topology) -> tuple[int, ...]:
    """Sides of the torus, from the coordinates in its nodes' names."""
    try:
        places = [tuple(int(part) for part in name[1:].split("_")) for name in topology.node_names]
        dims = tuple(max(column) + 1 for column in zip(*places, strict=True))
    except (ValueError, TypeError):
        dims = ()
    if len(dims) < 1 or min(dims, default=0) < 3 or int(np.prod(dims)) != topology.n_nodes:
        raise ScheduleError(
            f"traditional-torus: {topology.name} is no torus of the catalogue with sides of at least 3; "
            f"use bfb"
        )
    return dims


def _links(topology: Topology, dims: tuple[int, ...]) -> dict[tuple[int, int], Int64Array]:
    """The link out of each node along each axis, up and down."""
    n = topology.n_nodes
    numbers = {
        (int(u), int(v)): e for e, (u, v) in enumerate(zip(topology.tails, topology.heads, strict=True))
    }
    found: dict[tuple[int, int], Int64Array] = {}
    place = np.array(np.unravel_index(np.arange(n), dims))
    for axis in range(len(dims)):
        for way in (1, -1):
            moved = place.copy()
            moved[axis] = (moved[axis] + way) % dims[axis]
            heads = np.ravel_multi_index(tuple(moved), dims)
            try:
                links = [numbers[u, int(v)] for u, v in enumerate(heads)]
            except KeyError:
                raise ScheduleError(f"traditional-torus: {topology.name} is no torus; use bfb") from None
            found[axis, way] = np.array(links, dtype=np.int64)
    return found
