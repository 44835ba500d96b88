"""ILP-disjoint and ILP-shortest: one path for every pair so that the busiest link is least busy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array, mask_of, sums_of
from treadle.context import context
from treadle.errors import ScheduleError
from treadle.math.lp import OPTIMAL, Program
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.schedules.link_times import slowest
from treadle.synthesis.alltoall.routes.chunk_moves import move_chunks
from treadle.synthesis.alltoall.routes.disjoint_paths import bounded_paths, disjoint_paths
from treadle.synthesis.alltoall.routes.path_sets import PathSet, check_paths, demanded_pairs, single_routes
from treadle.synthesis.alltoall.routes.virtual_channels import with_layers
from treadle.topologies.topology import Topology

TIME_LIMIT_S = 10.0
"""Default limit of the integer program."""

MAX_PROGRAM = 2**21
"""Most entries of the program's matrix; larger programs are left to local search."""

_MOST_CANDIDATES = 64
_PASSES = 8
_STEEPNESS = 8.0
"""2, 4, 8 and 16 in turn came to the same loads in three times the time on 27 and 64 nodes."""


@dataclass(frozen=True)
class SinglePathResult:
    """Single paths, with a bound on the best choice among the candidates.

    Parameters
    ----------
    schedule : RouteSchedule
        All in layer 0.
    time : Fraction
        Largest load over bandwidth of a link, seconds per unit of demand.
    bound : float
        Lower bound on the time of any choice among the candidates: that of the integer program, or the hops
        of shortest paths over the bandwidth of all links.
    is_late : bool
        The time limit ended the search.
    """

    schedule: RouteSchedule
    time: Fraction
    bound: float
    is_late: bool

    @property
    def gap(self) -> float:
        """Optimality gap of `time`."""
        return max(0.0, 1 - self.bound / float(self.time))


def disjoint_routes(topology: Topology, collective: Collective, *, seed: int = 0) -> RouteSchedule:
    """Return the best of link-disjoint paths, in layers without deadlock; see `ilp_disjoint`."""
    found = ilp_disjoint(topology, collective, time_limit_s=_seconds(), seed=seed)
    return with_layers(topology, found.schedule)


def shortest_routes(topology: Topology, collective: Collective, *, seed: int = 0) -> RouteSchedule:
    """Return the best of shortest paths, in layers without deadlock; see `ilp_shortest`."""
    found = ilp_shortest(topology, collective, time_limit_s=_seconds(), seed=seed)
    return with_layers(topology, found.schedule)


def _seconds() -> float:
    """Return the time limit of the integer program; 0 leaves only the local search."""
    left = context().seconds_left
    return TIME_LIMIT_S if left is None else min(TIME_LIMIT_S, left)


def ilp_disjoint(
    topology: Topology, collective: Collective, *, time_limit_s: float = TIME_LIMIT_S, seed: int = 0
) -> SinglePathResult:
    """Choose the best single paths among a largest set of link-disjoint paths for each pair.

    Parameters
    ----------
    topology, collective
    time_limit_s : float
        Wall-clock seconds of the integer program.
    seed : int
        Of the local search that comes first.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.catalogue.graphs import complete_bipartite
    >>> fabric = complete_bipartite(4, 4)
    >>> ilp_disjoint(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL)).time
    Fraction(3, 1)
    """
    candidates = disjoint_paths(topology, collective)
    return best_single_paths(topology, collective, candidates, time_limit_s=time_limit_s, seed=seed)


def ilp_shortest(
    topology: Topology, collective: Collective, *, time_limit_s: float = TIME_LIMIT_S, seed: int = 0
) -> SinglePathResult:
    """Choose the best single paths among the shortest ones, at most 64 a pair.

    Parameters
    ----------
    topology, collective
    time_limit_s : float
        Wall-clock seconds of the integer program.
    seed : int
        Of the local search, and of the choice where there are more candidates.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.
    """
    candidates = bounded_paths(topology, collective, most=_MOST_CANDIDATES, seed=seed)
    return best_single_paths(topology, collective, candidates, time_limit_s=time_limit_s, seed=seed)


def best_single_paths(
    topology: Topology,
    collective: Collective,
    paths: PathSet,
    *,
    time_limit_s: float = TIME_LIMIT_S,
    seed: int = 0,
) -> SinglePathResult:
    """Choose one of the given paths for every pair, by local search and then by HiGHS.

    Parameters
    ----------
    topology, collective
    paths : PathSet
        At least one for every demanded pair, none for others.
    time_limit_s : float
        Wall-clock seconds of the integer program; 0 skips it.
    seed : int

    Returns
    -------
    SinglePathResult

    Raises
    ------
    InfeasibleError
        If a pair has no path.
    ScheduleError
        If a path joins ranks without demand, or the time limit is negative.

    Notes
    -----
    Minimise T: sum of x_p over each pair's paths is 1, sum of w x_p over the paths across each link at most
    its bandwidth times T, x binary; T is an integer too where all links are equal, which closes most gaps at
    the root. Source: the all-to-all paper, section 5.2.
    """
    if not time_limit_s >= 0:
        raise ScheduleError(f"ilp: time limit {time_limit_s} s, expected at least 0")
    pair = check_paths(collective, paths)
    _, _, demand = demanded_pairs(collective)
    chosen = choose_paths(paths, pair, demand, topology.bandwidths, seed)
    time = _time(topology, paths, chosen, demand)
    # Every unit of demand uses at least as many links as the distance of its ranks.
    hops = FlowDualCertificate(np.ones(topology.n_links, dtype=np.int64))
    bound, is_late = float(1 / hops.pair_rate_bound(topology, collective)), True
    if len(paths.links) + paths.n_paths <= MAX_PROGRAM and time_limit_s > 0:
        better, proved, is_late = _improved(topology, paths, pair, demand, chosen, float(time), time_limit_s)
        bound = max(bound, proved)
        faster = _time(topology, paths, better, demand)
        if faster < time:
            chosen, time = better, faster
    routes = single_routes(collective, paths.take(chosen))
    return SinglePathResult(routes, time, bound, is_late and bound < float(time))


def choose_paths(
    paths: PathSet, pair: Int64Array, demand: Int64Array, bandwidths: Int64Array, seed: int
) -> Int64Array:
    """Choose a path for every pair by local search, shown as its number among `paths`.

    Passes over all pairs in random order move each to the path where powers of the times grow least. Then
    pairs leave the busiest link while that reduces its load.
    """
    rng, width = np.random.default_rng(seed), bandwidths.astype(np.float64)
    links = [paths.links_of(path) for path in range(paths.n_paths)]
    first = np.searchsorted(pair, np.arange(len(demand) + 1)).tolist()
    chosen: Int64Array = np.array(first[:-1], dtype=np.int64)
    load: Int64Array = np.zeros(len(width), dtype=np.int64)
    for number, path in enumerate(chosen.tolist()):
        load[links[path]] += demand[number]
    for _ in range(_PASSES):
        before = chosen.copy()
        for number in rng.permutation(len(chosen)).tolist():
            low, high, old, amount = first[number], first[number + 1], chosen[number], demand[number]
            if high == low + 1:
                continue
            load[links[old]] -= amount
            own = paths.links[paths.offset[low] : paths.offset[high]]
            price = ((load[own] + amount) / width[own]) ** _STEEPNESS - (load[own] / width[own]) ** _STEEPNESS
            costs = np.add.reduceat(price, paths.offset[low:high] - paths.offset[low])
            best = low + int(np.argmin(costs))
            if costs[old - low] > costs[best - low] * (1 + 1e-12):
                chosen[number] = best
            load[links[chosen[number]]] += amount
        if np.array_equal(before, chosen):
            break
    units = mask_of(paths.n_paths, chosen).astype(np.int64)
    return np.flatnonzero(move_chunks(paths, pair, units, bandwidths, demand[pair]))


def _improved(
    topology: Topology,
    paths: PathSet,
    pair: Int64Array,
    demand: Int64Array,
    chosen: Int64Array,
    time: float,
    limit_s: float,
) -> tuple[Int64Array, float, bool]:
    """Return a path of each pair by HiGHS, a lower bound on the time, and whether the limit ended the search.

    It begins from the chosen paths, which take `time`.
    """
    n, m, count = len(demand), topology.n_links, paths.n_paths
    is_even = len(set(topology.bandwidths.tolist())) == 1
    # T counts units of demand over the widest link: an integer where links are equal, and never so small
    # that the solver's absolute tolerances end the search.
    unit = float(topology.bandwidths.max())
    lp = Program(mip_rel_gap=0.0)
    lp.empty_rows(np.repeat([1.0, -np.inf], [n, m]), np.repeat([1.0, 0.0], [n, m]))
    lp.column(1.0, np.arange(n, n + m), -topology.bandwidths / unit)
    lp.columns(pair, paths.offset[:-1], n + paths.links, demand[pair[paths.owner]], upper=1.0)
    lp.make_integer(0 if is_even else 1, count + 1)
    if is_even:
        lp.set_options(mip_abs_gap=0.999)  # no integer is left between
    values = np.zeros(count + 1)
    values[0], values[chosen + 1] = time * unit, 1
    lp.suggest(values)
    lp.set_options(time_limit=limit_s)
    is_late = lp.run() != OPTIMAL
    bound = lp.integer_bound if math.isfinite(lp.integer_bound) else 0.0
    if is_even:
        bound = math.ceil(bound - 1e-6)
    found = lp.solution()[0]
    if len(found) == count + 1:
        # The largest value of each pair.
        chosen = np.lexsort((-found[1:], pair))[np.searchsorted(pair, np.arange(n))]
    return chosen, max(0.0, bound / unit), is_late


def _time(topology: Topology, paths: PathSet, chosen: Int64Array, demand: Int64Array) -> Fraction:
    kept = paths.take(chosen)  # a path per pair, in the order of pairs
    load = sums_of(topology.n_links, kept.links, np.repeat(demand, kept.hops))
    return slowest(load, topology.bandwidths)
