"""ILP-disjoint and ILP-shortest: one path for every pair so that the busiest link is least busy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array
from treadle.context import context
from treadle.errors import ScheduleError
from treadle.math.lp import OPTIMAL, Program
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.schedules.link_times import slowest
from treadle.synthesis.alltoall.baselines.layered import with_layers
from treadle.synthesis.alltoall.baselines.path_choice import PathChoice
from treadle.synthesis.alltoall.routes.disjoint_paths import bounded_paths, disjoint_paths
from treadle.synthesis.alltoall.routes.path_sets import PathSet, check_paths, demanded_pairs, single_routes
from treadle.topologies.topology import Topology

TIME_LIMIT_S = 10.0
"""Default limit of the integer program."""

MAX_PROGRAM = 2**21
"""Most entries of the program's matrix; beyond, local search has to do."""


@dataclass(frozen=True)
class SinglePathResult:
    """Single paths and how near to the best of their kind they are.

    Parameters
    ----------
    schedule : RouteSchedule
        All in layer 0.
    time : Fraction
        Largest load over bandwidth of a link, seconds per unit of demand.
    bound : float
        No choice among the candidates is faster: what the program proved in time, or at least the hops of
        shortest paths over the bandwidth of all links.
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
    """The best of link-disjoint paths, in layers without deadlock; `ilp_disjoint`."""
    found = ilp_disjoint(topology, collective, time_limit_s=_seconds(), seed=seed)
    return with_layers(topology, found.schedule)


def shortest_routes(topology: Topology, collective: Collective, *, seed: int = 0) -> RouteSchedule:
    """The best of shortest paths, in layers without deadlock; `ilp_shortest`."""
    found = ilp_shortest(topology, collective, time_limit_s=_seconds(), seed=seed)
    return with_layers(topology, found.schedule)


def _seconds() -> float:
    """For the integer program: local search alone if there are none left."""
    left = context().seconds_left
    return TIME_LIMIT_S if left is None else min(TIME_LIMIT_S, left)


def ilp_disjoint(
    topology: Topology, collective: Collective, *, time_limit_s: float = TIME_LIMIT_S, seed: int = 0
) -> SinglePathResult:
    """The best single paths among a largest set of link-disjoint paths for each pair.

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
    topology: Topology,
    collective: Collective,
    *,
    most: int = 64,
    time_limit_s: float = TIME_LIMIT_S,
    seed: int = 0,
) -> SinglePathResult:
    """The best single paths among the shortest ones.

    Parameters
    ----------
    topology, collective
    most : int
        Candidates a pair.
    time_limit_s : float
        Wall-clock seconds of the integer program.
    seed : int
        Of the local search, and of the choice where there are more candidates.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.
    """
    candidates = bounded_paths(topology, collective, most=most, seed=seed)
    return best_single_paths(topology, collective, candidates, time_limit_s=time_limit_s, seed=seed)


def best_single_paths(
    topology: Topology,
    collective: Collective,
    paths: PathSet,
    *,
    time_limit_s: float = TIME_LIMIT_S,
    seed: int = 0,
) -> SinglePathResult:
    """One of the given paths for every pair, by local search and then by HiGHS.

    Parameters
    ----------
    topology, collective
    paths : PathSet
        At least one for every demanded pair, none for others.
    time_limit_s : float
        Wall-clock seconds of the integer program; 0 leaves it out.
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
    choice = PathChoice(topology, paths, pair, demand)
    choice.improve(seed)
    # every unit of demand takes up as many links as its ranks are apart
    hops = FlowDualCertificate(np.ones(topology.n_links, dtype=np.int64))
    bound, is_late = float(1 / hops.pair_rate_bound(topology, collective)), True
    chosen, time = choice.chosen, _time(topology, paths, choice.chosen, demand)
    if len(paths.links) + paths.n_paths <= MAX_PROGRAM and time_limit_s > 0:
        better, proved, is_late = _improved(topology, paths, pair, demand, choice, time_limit_s)
        bound = max(bound, proved)
        faster = _time(topology, paths, better, demand)
        if faster < time:
            chosen, time = better, faster
    routes = single_routes(collective, paths.take(chosen))
    return SinglePathResult(routes, time, bound, is_late and bound < float(time))


def _improved(
    topology: Topology,
    paths: PathSet,
    pair: Int64Array,
    demand: Int64Array,
    choice: PathChoice,
    limit_s: float,
) -> tuple[Int64Array, float, bool]:
    """A path of each pair by HiGHS, a lower bound on the time, and whether the limit ended the search."""
    n, m, count = len(demand), topology.n_links, paths.n_paths
    is_even = len(set(topology.bandwidths.tolist())) == 1
    # T counts units of demand over the widest link: an integer where links are equal, and never so small
    # that the solver's absolute tolerances end the search
    unit = float(topology.bandwidths.max())
    lp = Program(mip_rel_gap=0.0)
    lp.empty_rows(np.repeat([1.0, -np.inf], [n, m]), np.repeat([1.0, 0.0], [n, m]))
    lp.column(1.0, np.arange(n, n + m), -topology.bandwidths / unit)
    lp.columns(pair, paths.offset[:-1], n + paths.links, demand[pair[paths.owner]], upper=1.0)
    lp.make_integer(0 if is_even else 1, count + 1)
    if is_even:
        lp.set_options(mip_abs_gap=0.999)  # no integer is left between
    values = np.zeros(count + 1)
    values[0] = float(choice.time.max()) * unit
    values[choice.chosen + 1] = 1
    lp.suggest(values)
    lp.set_options(time_limit=limit_s)
    is_late = lp.run() != OPTIMAL
    bound = lp.integer_bound if math.isfinite(lp.integer_bound) else 0.0
    if is_even:
        bound = math.ceil(bound - 1e-6)
    found, best = lp.solution()[0], choice.chosen
    if len(found) == count + 1:
        # the largest value of each pair
        best = np.lexsort((-found[1:], pair))[np.searchsorted(pair, np.arange(n))]
    return best, max(0.0, bound / unit), is_late


def _time(topology: Topology, paths: PathSet, chosen: Int64Array, demand: Int64Array) -> Fraction:
    load = np.zeros(topology.n_links, dtype=np.int64)
    kept = paths.take(chosen)  # a path a pair, in the order of pairs
    np.add.at(load, kept.links, np.repeat(demand, kept.hops))
    return slowest(load, topology.bandwidths)
