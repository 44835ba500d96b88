"""The traditional multi-port torus algorithm."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective
from treadle.schedules.steps.step_transforms import combine
from treadle.schedules.steps.steps import Steps, StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.alltoall.baselines.grids import GridFabric, find_grid
from treadle.synthesis.scheduler import unsupported_reason
from treadle.synthesis.steps.baselines.bidirectional import both_directions, check_sends
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

_NAME = "traditional-torus"


def torus_in_row_major_order(topology: Topology, _: Collective) -> Unsupported | None:
    """Just the links of a torus."""
    return unsupported_reason(_grid, topology)


def traditional_torus(topology: Topology, collective: Collective) -> StepSchedule:
    """Ring allgathers along one dimension after another, on all ports: one part of each shard per port.

    Parameters
    ----------
    topology : Topology
        A torus, nodes in row-major order, links in any order; a side of 2 is one link, as in the catalogue.
    collective : Collective
        Allgather, reduce-scatter or allreduce on all nodes.

    Raises
    ------
    ScheduleError
        If the links are not just those of such a torus.

    Notes
    -----
    Part r starts with dimension r and goes on to r + 1, ..., half of it each way round. T_L is the sum of
    (side - 1); bandwidth-optimal for equal sides above 2, else parts meet on the same links (section 3.6.2).
    A side of 2 has one port for both ways round, so two parts share its links. Source: Sack and Gropp,
    Collective algorithms for multiported torus networks (ACM TOPC 1, 2015), as cited there.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies import parse
    >>> fabric = parse("torus(3, 4)")
    >>> traditional_torus(fabric, on_all_ranks(fabric, CollectiveKind.ALLGATHER)).n_steps
    5
    """
    return both_directions(_NAME, topology, collective, _allgather)


def _allgather(topology: Topology) -> Steps:
    grid = _grid(topology)
    check_sends(_NAME, topology, 2 * grid.n_axes)
    sends = [_part(grid, first, way) for first in range(grid.n_axes) for way in (1, -1)]
    return combine([steps_from_sends(Direction.BROADCAST, topology.n_nodes, 1, part) for part in sends])


def _part(grid: GridFabric, first: int, way: int) -> list[Int64Array]:
    """Shard, link, step, low and high of one part: phase j runs along dimension first + j."""
    # [node, i]: what a node holds when a phase begins
    held = np.arange(grid.places.shape[1])[:, None]
    shards, links, steps = [], [], []
    start = 0
    for phase in range(grid.n_axes):
        axis = (first + phase) % grid.n_axes
        up, down = grid.up[axis].astype(np.int64), grid.down[axis].astype(np.int64)
        ahead, other = (up, down) if way > 0 else (down, up)
        out = np.where(ahead < 0, other, ahead)  # a side of 2 has one link out of each node
        moved = grid.places.copy()
        moved[axis] = (moved[axis] - way) % grid.sides[axis]
        back = np.ravel_multi_index(tuple(moved), grid.sides)
        gathered = [held]
        for step in range(grid.sides[axis] - 1):
            # pass on what came from `step` nodes back, then learn what the neighbour back passed on
            moving = gathered[-1]
            shards.append(moving.ravel())
            links.append(np.repeat(out, moving.shape[1]))
            steps.append(np.full(moving.size, start + step))
            gathered.append(moving[back])
        held = np.concatenate(gathered, axis=1)
        start += grid.sides[axis] - 1
    shard = np.concatenate(shards)
    return [shard, np.concatenate(links), np.concatenate(steps), np.zeros_like(shard), np.ones_like(shard)]


def torus_sides(topology: Topology) -> tuple[int, ...]:
    """Sides of the torus that the fabric is; ScheduleError if it is none."""
    return _grid(topology).sides


def _grid(topology: Topology) -> GridFabric:
    grid: GridFabric | None = None
    has_loops = bool((topology.tails == topology.heads).any())
    with suppress(ScheduleError):
        grid = find_grid(topology, _NAME)
    if grid is None or has_loops or not all(np.array(grid.wraps) | (np.array(grid.sides) == 2)):
        raise ScheduleError(f"{_NAME}: {topology.name} is not a torus in row-major order; use bfb")
    return grid
