"""Path-based multi-commodity flow (21)-(24): the best split of every pair over given paths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.path_master import PathMaster, weighted
from treadle.synthesis.alltoall.routes.path_sets import (
    Float64Array,
    PathSet,
    WeightedPaths,
    check_paths,
    demanded_pairs,
)
from treadle.synthesis.trees.allreduce.exact_lp import solve_exactly
from treadle.topologies.topology import Topology

_EXACT_ROWS = 1500
"""Largest program, in rows, whose basis is solved in rationals."""


@dataclass(frozen=True, eq=False)
class PathMcfResult:
    """The best routing over a path set.

    Parameters
    ----------
    rate : float
        F, bytes/s per unit of demand, by the loads in float64.
    exact : Fraction, optional
        F exactly, primal and dual checked; None for big programs or where a basis is not optimal exactly.
    routing : WeightedPaths
        A basic solution: few paths carry anything.
    exact_weights : tuple of Fraction, optional
        Of the routing's paths, in units of demand.
    lengths : array of float64, shape (m,)
        Dual of each link; bandwidths times lengths add up to 1.
    """

    rate: float
    exact: Fraction | None
    routing: WeightedPaths
    exact_weights: tuple[Fraction, ...] | None
    lengths: Float64Array


def path_mcf(topology: Topology, collective: Collective, paths: PathSet) -> PathMcfResult:
    """Solve (21)-(24) over `paths`.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    paths : PathSet
        At least one path for every demanded pair, none for others: see `disjoint_paths`, `bounded_paths`.

    Raises
    ------
    InfeasibleError
        If a pair has no path.
    ScheduleError
        If a path joins ranks without demand.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.synthesis.alltoall.routes.disjoint_paths import disjoint_paths
    >>> from treadle.topologies import ring
    >>> fabric = ring(4)
    >>> everyone = on_all_ranks(fabric, CollectiveKind.ALLTOALL)
    >>> path_mcf(fabric, everyone, disjoint_paths(fabric, everyone)).exact
    Fraction(1, 2)
    """
    pair = check_paths(collective, paths)
    _, _, demand = demanded_pairs(collective)
    master = PathMaster(topology, collective)
    master.add(paths, pair)
    by_hops = np.lexsort((paths.hops, pair))
    master.start_from(by_hops[np.searchsorted(pair[by_hops], np.arange(master.n_pairs))])
    solution = master.solve()
    routing = weighted(paths, pair, solution.weights, demand)
    exact = None
    if master.n_pairs + master.n_links <= _EXACT_ROWS:
        exact = _exact_vertex(topology, master, paths, demand)
    rate, exact_weights = None, None
    if exact is not None:
        rate, shares = exact
        used = np.array([share > 0 for share in shares])
        exact_weights = tuple(shares[p] * int(demand[pair[p]]) for p in np.flatnonzero(used).tolist())
        routing = WeightedPaths(paths.take(used), np.array([float(weight) for weight in exact_weights]))
    return PathMcfResult(routing.rate(topology), rate, routing, exact_weights, solution.lengths)


def _exact_vertex(
    topology: Topology, master: PathMaster, paths: PathSet, demand: Int64Array
) -> tuple[Fraction, list[Fraction]] | None:
    """F and every path's share, from the basis in rationals; None unless primal and dual prove each other."""
    basic_columns, basic_rows = master.basis()
    columns, rows = np.flatnonzero(basic_columns).tolist(), np.flatnonzero(~basic_rows).tolist()
    if len(columns) != len(rows):
        return None
    n = master.n_pairs
    place = {row: position for position, row in enumerate(rows)}
    transposed: list[dict[int, int]] = []
    for column in columns:
        if column == 0:
            entries = {n + link: -b for link, b in enumerate(topology.bandwidths.tolist())}
        else:
            weight = int(demand[master.pair[column - 1]])
            entries = {n + link: weight for link in paths.links_of(column - 1).tolist()}
            entries[int(master.pair[column - 1])] = 1
        transposed.append({place[row]: a for row, a in entries.items() if row in place})
    matrix: list[dict[int, int]] = [{} for _ in rows]
    for position, entries in enumerate(transposed):
        for row, a in entries.items():
            matrix[row][position] = a
    primal = solve_exactly(matrix, [int(row < n) for row in rows])
    dual = solve_exactly(transposed, [int(column == 0) for column in columns])
    if primal is None or dual is None or 0 not in columns:
        return None
    time = primal[columns.index(0)]
    shares = [Fraction(0)] * master.n_columns
    for column, value in zip(columns, primal, strict=True):
        if column:
            shares[column - 1] = value
    lengths = [-dual[place[n + link]] if n + link in place else Fraction(0) for link in range(master.n_links)]
    if not _is_optimal(topology, master, paths, demand, (time, shares, lengths)):
        return None
    return 1 / time, shares


def _is_optimal(
    topology: Topology,
    master: PathMaster,
    paths: PathSet,
    demand: Int64Array,
    claim: tuple[Fraction, Sequence[Fraction], Sequence[Fraction]],
) -> bool:
    """Exact proof: shares add up and load no link beyond T; the lengths need at least T."""
    time, shares, lengths = claim
    if min(shares) < 0 or min(lengths) < 0:
        return False
    total = [Fraction(0)] * master.n_pairs
    load = [Fraction(0)] * master.n_links
    shortest: list[Fraction | None] = [None] * master.n_pairs
    for path, pair in enumerate(master.pair.tolist()):
        links = paths.links_of(path).tolist()
        total[pair] += shares[path]
        if shares[path]:
            for link in links:
                load[link] += shares[path] * int(demand[pair])
        length = sum((lengths[link] for link in links), Fraction(0))
        best = shortest[pair]
        shortest[pair] = length if best is None else min(best, length)
    bandwidths = topology.bandwidths.tolist()
    if any(share != 1 for share in total):
        return False
    if any(carried > time * b for carried, b in zip(load, bandwidths, strict=True)):
        return False
    volume = sum((b * length for b, length in zip(bandwidths, lengths, strict=True)), Fraction(0))
    needed = sum((w * (d or 0) for w, d in zip(demand.tolist(), shortest, strict=True)), Fraction(0))
    return volume > 0 and needed / volume == time
