"""Recognising meshes and tori by their links."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective
from treadle.synthesis.scheduler import unsupported_reason
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported


@dataclass(frozen=True, eq=False)
class GridFabric:
    """Nodes in row-major order, joined to their neighbours along each axis.

    Parameters
    ----------
    sides : tuple of int
        Each at least 2.
    wraps : tuple of bool
        Whether an axis closes; never for sides of 2, whose two nodes have one link each way.
    places : array of int64, shape (axes, n)
        Coordinates of every node.
    up, down : arrays of int32, shape (axes, n)
        Link out of each node along each axis, -1 at the end of an open one.
    """

    sides: tuple[int, ...]
    wraps: tuple[bool, ...]
    places: Int64Array
    up: Int32Array
    down: Int32Array

    @property
    def n_axes(self) -> int:
        """Number of dimensions."""
        return len(self.sides)


def mesh_torus_or_hypercube(topology: Topology, _: Collective) -> Unsupported | None:
    """Just the links of a grid, nodes in row-major order."""
    return unsupported_reason(find_grid, topology, "grid")


def find_grid(topology: Topology, name: str) -> GridFabric:
    """The mesh, torus or hypercube that a fabric is.

    Parameters
    ----------
    topology : Topology
        Nodes in row-major order (last axis fastest), links in any order; axes may wrap or not.
    name : str
        Of the algorithm, for the message.

    Raises
    ------
    ScheduleError
        If it has switches, or its links are not just those of a grid.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import mesh, torus
    >>> find_grid(torus(4, 3), "dor").sides, find_grid(mesh(4, 3), "dor").wraps
    ((4, 3), (False, False))
    """
    n = topology.n_nodes
    carries = np.flatnonzero(topology.tails != topology.heads)
    present = topology.tails[carries].astype(np.int64) * n + topology.heads[carries]
    order = np.argsort(present)
    if topology.is_compute.all():
        near = set(topology.heads[carries][topology.tails[carries] == 0].tolist())
        for sides, wraps in _shapes(near, 1, n):
            grid = _grid(sides, wraps, present[order], carries[order])
            if grid is not None:
                return grid
    raise ScheduleError(
        f"{name}: {topology.name} is no mesh, torus or hypercube in row-major order without parallel links"
    )


def _shapes(near: set[int], stride: int, n: int) -> Iterator[tuple[tuple[int, ...], tuple[bool, ...]]]:
    """Sides and wraps that explain the neighbours of node 0 from `stride` up, the first axis first."""
    if stride == n:
        if not near:
            yield (), ()
        return
    if stride not in near:
        return
    for after in (*near, n):
        side = after // stride
        if after % stride or side < 2 or n % after:
            continue
        back = (side - 1) * stride
        for wraps in (True, False):
            if wraps and (side < 3 or back not in near):
                continue
            rest = near - {stride} - ({back} if wraps else set())
            for sides, closed in _shapes(rest, after, n):
                yield (*sides, side), (*closed, wraps)


def _grid(
    sides: tuple[int, ...], wraps: tuple[bool, ...], present: Int64Array, links: Int64Array
) -> GridFabric | None:
    """The grid of this shape if its arcs are just those present (sorted, as tail * n + head)."""
    n = prod(sides)
    places = np.array(np.unravel_index(np.arange(n), sides), dtype=np.int64).reshape(len(sides), n)
    out = np.full((2, len(sides), n), -1, dtype=np.int32)
    total = 0
    for axis, (side, closed) in enumerate(zip(sides, wraps, strict=True)):
        for turn, way in enumerate((1, -1)):
            moved = places.copy()
            moved[axis] += way
            inside = np.full(n, True) if closed else (moved[axis] >= 0) & (moved[axis] < side)
            moved[axis] %= side
            heads = np.ravel_multi_index(tuple(moved), sides)
            wanted = (np.arange(n) * n + heads)[inside]
            where = np.minimum(np.searchsorted(present, wanted), len(present) - 1)
            if np.any(present[where] != wanted):
                return None
            out[turn, axis, inside] = links[where]
            total += len(wanted)
    return GridFabric(sides, wraps, places, out[0], out[1]) if total == len(present) else None
