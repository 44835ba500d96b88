"""DOR: dimension-ordered routing on meshes, tori and hypercubes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.baselines.grids import GridFabric, find_grid
from treadle.synthesis.alltoall.routes.path_sets import demanded_pairs, path_set, routes_of
from treadle.synthesis.alltoall.routes.virtual_channels import with_layers
from treadle.topologies.topology import Topology

_MAX_HOPS = 2**26


def dor_routes(topology: Topology, collective: Collective) -> RouteSchedule:
    """One axis after another, in layers without deadlock; `dimension_order`."""
    return with_layers(topology, dimension_order(topology, collective))


def dimension_order(topology: Topology, collective: Collective) -> RouteSchedule:
    """Correct one coordinate after another, the last axis first, each the shorter way round.

    Parameters
    ----------
    topology : Topology
        A mesh, torus or hypercube (axes may mix), nodes in row-major order.
    collective : Collective
        An all-to-all.

    Returns
    -------
    RouteSchedule
        All in layer 0. Half of a pair's data takes each way round where both are equally far: with h such
        axes a pair has 2**h paths.

    Raises
    ------
    ScheduleError
        If the fabric is not such a grid.

    Notes
    -----
    Optimal on tori and meshes of equal sides. Source: Dally and Seitz, Deadlock-free message routing in
    multiprocessor interconnection networks (IEEE TC 36, 1987), who also change the channel where a ring
    closes; a path here has one layer, so rings of 4 nodes and more need several (see `lash_layers`).

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.catalogue.graphs import torus
    >>> fabric = torus(8, 8)
    >>> dimension_order(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL))
    <RouteSchedule: 64 ranks, 4 chunks, 5120 paths, 23040 hops, 1 layers>
    """
    grid = find_grid(topology, "dor")
    source, target, demand = demanded_pairs(collective)
    ranks = np.array(collective.ranks)
    begin, end = ranks[source], ranks[target]
    sides = np.array(grid.sides)[:, None]
    closed: BoolArray = np.array(grid.wraps)[:, None]
    # steps up along each axis, negative on open ones
    ahead = grid.places[:, end] - grid.places[:, begin]
    ahead = np.where(closed, ahead % sides, ahead)
    tied = closed & (2 * ahead == sides)
    # steps along each axis, signed; a tie goes up here and down in the other half
    signed = np.where(closed & (2 * ahead > sides), ahead - sides, ahead)
    if float(np.abs(signed).sum() * 2.0 ** int(tied.sum(axis=0).max(initial=0))) > _MAX_HOPS:
        raise ScheduleError(
            f"dor: the routes of {topology.name} have over {_MAX_HOPS} links in all; use fewer ranks"
        )
    halves = np.flatnonzero(tied.any(axis=1)).tolist()
    chunks = 2 ** len(halves)
    pair = np.arange(len(source))
    for axis in halves:
        twice = tied[axis, pair]
        flipped = signed[:, twice].copy()
        flipped[axis] *= -1
        signed = np.concatenate([signed, flipped], axis=1)
        pair = np.concatenate([pair, pair[twice]])
    shares = np.left_shift(1, tied[:, pair].sum(axis=0))
    rows = _rows(grid, begin[pair], signed)
    by_pair = np.argsort(pair, kind="stable")  # path_set keeps the order within a pair
    paths = path_set(source[pair[by_pair]], target[pair[by_pair]], rows[by_pair])
    units = (demand[pair] * chunks // shares)[by_pair]
    return routes_of(collective, paths, units, chunks)


def _rows(grid: GridFabric, begin: NDArray[np.integer], signed: Int64Array) -> NDArray[np.int64]:
    """Links of the walks, the last axis first, padded by -1."""
    strides = np.ones(grid.n_axes, dtype=np.int64)
    for axis in range(grid.n_axes - 1, 0, -1):
        strides[axis - 1] = strides[axis] * grid.sides[axis]
    longest = int(np.abs(signed).sum(axis=0).max(initial=0))
    rows = np.full((len(begin), longest), -1, dtype=np.int64)
    node, walked = begin.astype(np.int64), np.zeros(len(begin), dtype=np.int64)
    for axis in reversed(range(grid.n_axes)):
        left = signed[axis].copy()
        while left.any():
            row = np.flatnonzero(left)
            way = np.sign(left[row])
            at = node[row]
            rows[row, walked[row]] = np.where(way > 0, grid.up[axis, at], grid.down[axis, at])
            place = grid.places[axis, at]
            node[row] = at + ((place + way) % grid.sides[axis] - place) * strides[axis]
            walked[row] += 1
            left[row] -= way
    return rows
