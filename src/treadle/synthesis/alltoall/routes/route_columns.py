"""Column generation over all paths: a basic routing at the optimal rate, with few paths per pair.

A basic solution of the path program has at most as many positive columns as rows, which are pairs and links,
so few pairs are split. Source: Ford and Fulkerson (1958); smoothed duals as in Pessoa et al. (2018);
docs/how-it-works/all-to-all.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Float64Array, Int64Array, sums_of
from treadle.context import TimeLimitError, context
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.path_sets import (
    PathFinder,
    PathSet,
    ShortestPaths,
    WeightedPaths,
    check_linked,
    check_reachable,
    demanded_pairs,
    fingerprints,
    merge,
    path_rows,
    path_set,
)
from treadle.synthesis.alltoall.routes.restricted_master import MasterSolution, PathRestrictedMaster, weighted
from treadle.synthesis.runs import first_in_runs
from treadle.topologies.topology import Topology

_POWERS = (4.0, 12.0, 30.0)
"""Exponents of the load in the cost that successive rounds lower."""
_MOST = 1e9
"""Loads, relative to the largest so far, above which costs stay equal, so that powers are finite."""
_BEAT_PAIRS = 2**10
"""Pairs between two checks of the deadline."""

_MAX_ROUNDS = 200
"""Linear programs after which the best routing so far is returned."""

_SPREADS = 40
"""Rounds of spreading before the first linear program."""

_STEEPNESS = 20.0
"""Exponent of a link's length in its relative load while spreading."""

_SPREAD_PATHS = 2
"""Paths per pair that the first linear program gets from spreading."""

_AVERAGING = (1.0, 0.5, 0.15)
"""Weights of the newest lengths in those at which paths are priced; the rest is the average so far."""


@dataclass(frozen=True, eq=False)
class RoutingResult:
    """A routing found by column generation.

    Parameters
    ----------
    rate : float
        F, bytes/s per unit of demand, by the loads in float64.
    bound : float
        Upper bound on F that the link lengths prove.
    routing : WeightedPaths
        Basic: the number of paths is at most the pairs plus the links.
    lengths : array of float64, shape (m,)
        Of the bound; bandwidths times lengths add up to 1.
    rounds : int
        Linear programs solved.
    is_late : bool
        Whether the deadline passed; this is the best routing so far.
    """

    rate: float
    bound: float
    routing: WeightedPaths
    lengths: Float64Array
    rounds: int
    is_late: bool = False

    @property
    def gap(self) -> float:
        """bound / rate - 1."""
        return self.bound / self.rate - 1


def generate_routes(
    topology: Topology,
    collective: Collective,
    *,
    gap: float = 1e-6,
    lengths: Float64Array | None = None,
    finder: PathFinder | None = None,
    cutoff: float = 0.0,
) -> RoutingResult:
    """Route at the optimal rate F over few paths.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    gap : float
        Stop when the bound is within this of the rate.
    lengths : array of float64, shape (m,), optional
        Good initial link lengths, such as the solver of the rate finds.
    finder : PathFinder, optional
        Permits only some paths (see `layered_routes`); the bound is then on these. Default: all paths.
    cutoff : float
        Stop when the bound falls to this rate.

    Raises
    ------
    InfeasibleError
        If some rank cannot be reached.
    TimeLimitError
        If the deadline passes before the first linear program is solved; later, the best routing so
        far is returned.

    Notes
    -----
    After each path LP, shortest paths at the duals of its links are added, and at mixtures of these with
    their average so far, since duals of a vertex oscillate. Any lengths prove F <= sum(b l) / sum(w dist).
    Source: column generation of Ford and Fulkerson (1958) for multi-commodity flow, smoothing as in Pessoa et
    al. (2018).
    """
    check_linked(topology, collective)
    columns = _PathColumns(topology, collective, finder or ShortestPaths(topology, collective))
    columns.add_at(np.ones(topology.n_links) if lengths is None else lengths)
    if lengths is not None:
        columns.add_at(np.ones(topology.n_links))
    if columns.master.resolution.is_wide:
        columns.add_at(1 / columns.master.bandwidth)  # avoids links too narrow to matter
    average = columns.add_spread(_SPREADS)
    if lengths is not None:
        average = columns.in_bytes(lengths)
    bound, _ = columns.price(average)
    best_lengths = average
    solution = columns.solve_first(simplex=bound > cutoff)
    rounds, is_late = 1, False
    while True:
        now = columns.in_bytes(solution.lengths)
        average = average + 0.3 * (now - average)
        added = 0
        for share in _AVERAGING:
            mixed = share * now + (1 - share) * average
            proved, count = columns.price(mixed)
            added += count
            if proved < bound:
                bound, best_lengths = proved, mixed
        rate = columns.rate(solution)
        if bound <= max(rate * (1 + gap), cutoff) or not added or rounds >= _MAX_ROUNDS:
            break
        try:
            context().report("routes", rounds, _MAX_ROUNDS)
            solution = columns.master.solve()
        except TimeLimitError:
            is_late = True
            break
        rounds += 1
    routing = columns.routing(solution)
    return RoutingResult(routing.rate(topology), bound, routing, best_lengths, rounds, is_late)


class _PathColumns:
    """The paths so far and their restricted master."""

    def __init__(self, topology: Topology, collective: Collective, finder: PathFinder) -> None:
        self.topology, self.collective, self.finder = topology, collective, finder
        self.source, self.target, self.demand = demanded_pairs(collective)
        self.target_node = finder.ranks[self.target]
        self.master = PathRestrictedMaster(topology, collective)
        self.sets: list[PathSet] = []
        self.known: NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)

    def add(self, paths: PathSet) -> int:
        """Add columns for the new ones of these paths; return their number."""
        prints = fingerprints(paths.source, paths.target, path_rows(paths))
        fresh = ~np.isin(prints, self.known)
        if not fresh.any():
            return 0
        paths = paths.take(fresh)
        self.known = np.concatenate([self.known, prints[fresh]])
        n = self.collective.n_ranks
        wanted = self.source.astype(np.int64) * n + self.target
        pair = np.searchsorted(wanted, paths.source.astype(np.int64) * n + paths.target)
        self.master.add(paths, pair)
        self.sets.append(paths)
        return paths.n_paths

    def _positive(self, lengths: Float64Array) -> Float64Array:
        """Return the lengths with a little more for every hop, so that ties go to fewer hops."""
        if self.master.resolution.is_wide:  # equal additions would be large on the widest links
            bandwidths = self.topology.bandwidths
            return lengths + 1e-7 * float((lengths * bandwidths).mean()) / bandwidths
        return lengths + 1e-7 * float(lengths.mean())

    def add_at(self, lengths: Float64Array) -> None:
        """Add a shortest path for every pair; InfeasibleError if there is none."""
        found = self.finder.search(self._positive(lengths))
        check_reachable(self.topology, self.collective, found.distance)
        self.add(path_set(self.source, self.target, found.paths(self.source, self.target)))

    def add_spread(self, rounds: int) -> Float64Array:
        """Add shortest paths at lengths that grow steeply with the load of their mixture so far.

        Returns the mean lengths of the later half of the rounds, which are near the best ones.
        """
        bandwidth = self.master.bandwidth
        load, lengths, average = np.zeros(len(bandwidth)), 1 / bandwidth, np.zeros(len(bandwidth))
        kept: list[PathSet] = []
        for number in range(rounds):
            context().report("routes", number, rounds)
            found = self.finder.search(self._positive(lengths))
            paths = path_set(self.source, self.target, found.paths(self.source, self.target))
            if 2 * number >= rounds:
                kept.append(paths)
            one = np.bincount(paths.links, weights=self.master.demand[paths.owner], minlength=len(load))
            load += (one / bandwidth - load) * 2 / (number + 2)
            lengths = np.exp(_STEEPNESS * (load / load.max() - 1)) / bandwidth
            if 2 * number >= rounds:
                average += lengths / float(lengths @ bandwidth)
        self.add(_shortest_few(merge(*kept), average, _SPREAD_PATHS))
        return self.in_bytes(average)

    def in_bytes(self, lengths: Float64Array) -> Float64Array:
        """Scale the master's lengths so that bandwidths times lengths add up to 1."""
        return lengths / float(self.topology.bandwidths @ lengths)

    def price(self, lengths: Float64Array) -> tuple[float, int]:
        """Return the bound that the lengths prove, and the number of new shortest paths."""
        positive = self._positive(lengths)
        found = self.finder.search(positive)
        needed = float(self.demand @ found.distance[self.source, self.target_node])
        proved = float(self.topology.bandwidths @ positive) / needed
        return proved, self.add(path_set(self.source, self.target, found.paths(self.source, self.target)))

    def solve_first(self, *, simplex: bool) -> MasterSolution:
        """Return the first optimum, from one path per pair at a low load; without simplex only that load."""
        paths, place = self._all()
        pair = self.master.pair[place]
        chosen = place[single_paths(paths, pair, self.master.demand, self.master.bandwidth)]
        taken = paths.take(np.sort(np.argsort(place)[chosen]))
        load = np.bincount(
            taken.links, weights=self.master.demand[taken.owner], minlength=self.topology.n_links
        )
        times = load / self.master.bandwidth
        if not simplex:
            weights = np.zeros(self.master.n_columns)
            weights[chosen] = 1.0
            lengths = (times == times.max()).astype(np.float64)
            return MasterSolution(float(times.max()), weights, lengths, self.master.demand)
        self.master.start_from(chosen)
        return self.master.solve()

    def _all(self) -> tuple[PathSet, Int64Array]:
        """Return all columns as one set, and the column of each of its paths."""
        merged = merge(*self.sets)
        order = np.argsort(self.known)
        own = fingerprints(merged.source, merged.target, path_rows(merged))
        return merged, order[np.searchsorted(self.known[order], own)]

    def rate(self, solution: MasterSolution) -> float:
        """F of a solution, bytes/s per unit of demand."""
        return float(self.master.resolution.unit / self.demand.max() / solution.time)

    def routing(self, solution: MasterSolution) -> WeightedPaths:
        """Return the paths that carry data."""
        paths, place = self._all()
        weights = np.zeros(self.master.n_columns)
        weights[: len(solution.weights)] = solution.weights  # newer columns carry nothing
        return weighted(paths, self.master.pair[place], weights[place], self.demand)


def _shortest_few(paths: PathSet, lengths: Float64Array, most: int) -> PathSet:
    """Return a limited number of shortest paths of every pair."""
    length = np.bincount(paths.owner, weights=lengths[paths.links], minlength=paths.n_paths)
    pair = paths.source.astype(np.int64) << 32 | paths.target
    return paths.take(first_in_runs(pair, length, most))


def single_paths(
    paths: PathSet, pair: Int64Array, demand: Float64Array, bandwidth: Float64Array
) -> Int64Array:
    """Choose a path for every pair by local search; return its number among `paths`, shape (pairs,).

    Parameters
    ----------
    paths : PathSet
    pair : array of int64, shape (k,)
        Number of each path's pair, rising from 0 without gaps.
    demand : array of float64, shape (pairs,)
    bandwidth : array of float64, shape (m,)

    Raises
    ------
    TimeLimitError
        If the deadline passes.

    Notes
    -----
    Each pair in turn moves to the path that adds least to the sum of powers of the loads. The exponent grows
    from round to round, which approaches the largest load.
    """
    m = len(bandwidth)
    rows = np.where(path_rows(paths) >= 0, path_rows(paths), m)
    first = np.searchsorted(pair, np.arange(len(demand) + 1)).tolist()
    chosen = np.array(first[:-1])
    width = np.append(bandwidth, np.inf)
    added = demand[pair][:, None] / width[rows]  # of a path to the time of each of its links
    time = sums_of(m + 1, rows[chosen], added[chosen], dtype=float)
    order = np.random.default_rng(0).permutation(len(demand)).tolist()
    for power in _POWERS:
        scale = float(time.max()) or 1.0
        for done, number in enumerate(order):
            if done % _BEAT_PAIRS == 0:
                context().report("single paths", done, len(order))
            low, high = first[number], first[number + 1]
            if high - low == 1:
                continue
            old = chosen[number]
            time[rows[old]] -= added[old]
            near, more = time[rows[low:high]], added[low:high]
            before, after = near / scale, (near + more) / scale
            cost = (np.minimum(after, _MOST) ** power - np.minimum(before, _MOST) ** power).sum(axis=1)
            new = low + int(cost.argmin())
            chosen[number] = new
            time[rows[new]] += added[new]
        np.maximum(time, 0.0, out=time)
    result: Int64Array = chosen.astype(np.int64)
    return result
