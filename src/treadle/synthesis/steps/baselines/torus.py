"""The traditional multi-port torus algorithm."""

from __future__ import annotations

from math import prod

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.refusal import Refusal
from treadle.schedules.collective import Collective
from treadle.schedules.steps.step_transforms import combine
from treadle.schedules.steps.steps import Steps, StepSchedule, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.scheduler import refusal_of
from treadle.synthesis.steps.baselines.both_ways import both_ways, check_sends
from treadle.topologies.topology import Topology

_NAME = "traditional-torus"


def torus_in_row_major_order(topology: Topology, _: Collective) -> Refusal | None:
    """Just the links of a torus."""
    return refusal_of(lambda: _out_links(topology, torus_sides(topology)))


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
    return both_ways(_NAME, topology, collective, _allgather)


def _allgather(topology: Topology) -> Steps:
    dims = torus_sides(topology)
    check_sends(_NAME, topology, 2 * len(dims))
    out = _out_links(topology, dims)
    sends = [_part(dims, out, first, way) for first in range(len(dims)) for way in (1, -1)]
    return combine([steps_from_sends(Direction.BROADCAST, topology.n_nodes, 1, part) for part in sends])


def _part(
    dims: tuple[int, ...], out: dict[tuple[int, int], Int64Array], first: int, way: int
) -> list[Int64Array]:
    """Shard, link, step, low and high of one part: phase j runs along dimension first + j."""
    place = _places(dims)
    # [node, i]: what a node holds when a phase begins
    held = np.arange(prod(dims))[:, None]
    shards, links, steps = [], [], []
    start = 0
    for phase in range(len(dims)):
        axis = (first + phase) % len(dims)
        gathered = [held]
        back = _neighbour(dims, place, axis, -way)
        for step in range(dims[axis] - 1):
            # pass on what came from `step` nodes back, then learn what the neighbour back passed on
            moving = gathered[-1]
            shards.append(moving.ravel())
            links.append(np.repeat(out[axis, way], moving.shape[1]))
            steps.append(np.full(moving.size, start + step))
            gathered.append(moving[back])
        held = np.concatenate(gathered, axis=1)
        start += dims[axis] - 1
    shard = np.concatenate(shards)
    return [shard, np.concatenate(links), np.concatenate(steps), np.zeros_like(shard), np.ones_like(shard)]


def _places(dims: tuple[int, ...]) -> Int64Array:
    """Coordinates of every node, shape (dimensions, N)."""
    return np.array(np.unravel_index(np.arange(prod(dims)), dims), dtype=np.int64)


def _neighbour(dims: tuple[int, ...], place: Int64Array, axis: int, way: int) -> Int64Array:
    moved = place.copy()
    moved[axis] = (moved[axis] + way) % dims[axis]
    nodes: Int64Array = np.ravel_multi_index(tuple(moved), dims).astype(np.int64)
    return nodes


def torus_sides(topology: Topology) -> tuple[int, ...]:
    """Sides of the torus that the links out of node 0 belong to; ScheduleError if there is none."""
    heads = np.sort(topology.heads[topology.tails == 0]).tolist()
    dims = _sides_of(heads, 1, topology.n_nodes)
    if not dims:
        raise _refusal(topology)
    return dims


def _sides_of(heads: list[int], apart: int, n: int) -> tuple[int, ...]:
    """Sides of the dimensions whose neighbours are `apart` or more numbers apart; () if there are none.

    The links of node 0 along a dimension lead to `apart` and to (side - 1) `apart`, which for a side of 2 is
    the same; the next dimension's neighbours are side times as far apart, in the end n.
    """
    if not heads or heads[0] != apart:
        return ()
    sides = [(2, heads[1:])]
    if len(heads) > 1 and heads[1] % apart == 0 and heads[1] > apart:
        sides.append((heads[1] // apart + 1, heads[2:]))
    for side, others in sides:
        if not others and side * apart == n:
            return (side,)
        if longer := _sides_of(others, side * apart, n):
            return (*longer, side)
    return ()


def _out_links(topology: Topology, dims: tuple[int, ...]) -> dict[tuple[int, int], Int64Array]:
    """The link out of each node along each axis, up and down; ScheduleError unless there are just these."""
    n, place = topology.n_nodes, _places(dims)
    ports = [(axis, way) for axis, side in enumerate(dims) for way in (1, -1) if side > 2 or way > 0]
    wanted = np.concatenate([np.arange(n) * n + _neighbour(dims, place, *port) for port in ports])
    present = topology.tails.astype(np.int64) * n + topology.heads
    order = np.argsort(present)
    if not np.array_equal(present[order], np.sort(wanted)):
        raise _refusal(topology)
    links = order[np.searchsorted(present[order], wanted)].reshape(len(ports), n)
    out = dict(zip(ports, links, strict=True))
    return out | {(axis, -1): out[axis, 1] for axis, side in enumerate(dims) if side == 2}


def _refusal(topology: Topology) -> ScheduleError:
    return ScheduleError(f"{_NAME}: {topology.name} is not a torus in row-major order; use bfb")
