"""Path-based multi-commodity flow (21)-(24): the best split of every pair over given paths."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import Float64Array, Int64Array
from treadle.math.exact import LinearProgram, optimality_gap, vertex_of
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.path_sets import PathSet, WeightedPaths, check_paths, demanded_pairs
from treadle.synthesis.alltoall.routes.restricted_master import PathRestrictedMaster, weighted
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
    master = PathRestrictedMaster(topology, collective)
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
    topology: Topology, master: PathRestrictedMaster, paths: PathSet, demand: Int64Array
) -> tuple[Fraction, list[Fraction]] | None:
    """F and every path's share, from the basis in rationals; None unless primal and dual prove each other."""
    n = master.n_pairs
    rows: list[dict[int, int]] = [{} for _ in range(n)]
    rows += [{0: -bandwidth} for bandwidth in topology.bandwidths.tolist()]
    for path, pair in enumerate(master.pair.tolist()):
        rows[pair][path + 1] = 1
        for link in paths.links_of(path).tolist():
            rows[n + link][path + 1] = int(demand[pair])
    is_pair = [row < n for row in range(len(rows))]
    program = LinearProgram(rows, [*map(int, is_pair)], is_pair, [-1] + [0] * master.n_columns)
    none = [0.0] * len(program.costs), [0.0] * len(rows)
    vertex = vertex_of(program, master.basis(), none)
    if vertex is None or not vertex.primal[0] or not optimality_gap(program, vertex).is_none:
        return None
    return 1 / vertex.primal[0], list(vertex.primal[1:])
