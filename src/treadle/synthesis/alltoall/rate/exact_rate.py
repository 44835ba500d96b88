"""The exact optimum of an all-to-all: a rational rate, flows that reach it, and lengths that prove it.

Columns are paths of a master program with a row per orbit of links; the final basis is solved in rationals,
and shortest paths under its exact lengths prove that no column is missing. Source: programs (6)-(9) of Basu
et al. under symmetry; docs/how-it-works/all-to-all.md.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treadle.context import TimeLimitError
from treadle.errors import InfeasibleError, ScheduleError
from treadle.synthesis.alltoall.rate.exact_columns import ExactRate, RateMaster
from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance, check_reachable
from treadle.synthesis.alltoall.rate.flow_symmetry import FlowSymmetry, find_symmetry, known_symmetry
from treadle.topologies.distances import distance_distribution

MAX_PAIRS = 12_000
"""Pairs of a source representative and a target up to which an exact optimum is tried."""

MAX_ROWS = 800
"""Orbits of links, and sources, up to which an exact optimum is tried."""

_MAX_PAIR_ROWS = 3_000
_PAIRS_PER_ORBIT = 24
_MAX_COLUMNS = 20_000
_SEARCH_NODES = 1_024
_MANY = 64


def suitable_symmetry(instance: FlowInstance) -> FlowSymmetry:
    """Return known symmetry, extended by a search if it leaves several sources.

    No search is made if most of many nodes differ in their numbers of nodes at each distance.
    """
    symmetry = known_symmetry(instance)
    if symmetry.n_sources == 1 or instance.topology.n_nodes > _SEARCH_NODES:
        return symmetry
    return symmetry if _has_many_kinds(instance) else find_symmetry(instance)


def _has_many_kinds(instance: FlowInstance) -> bool:
    """Whether most of many ranks differ in their distances, which an automorphism would keep."""
    if instance.n_sources <= _MANY:
        return False
    try:
        kinds = np.unique(distance_distribution(instance.topology), axis=0)
    except InfeasibleError:  # of a pair that need not have a demand
        return False
    return 2 * len(kinds) > instance.n_sources


def solve_exactly(instance: FlowInstance, symmetry: FlowSymmetry) -> ExactRate | None:
    """Compute F exactly, where the instance is small or symmetric enough.

    Parameters
    ----------
    instance : FlowInstance
        Any fabric; every node forwards. Injection caps are left out (`with_host_bottleneck` models them).
    symmetry : FlowSymmetry
        From `suitable_symmetry`.

    Returns
    -------
    ExactRate or None
        None if the instance is too large, the deadline passes, or the numbers get too long.

    Raises
    ------
    InfeasibleError
        If a rank has data for one that it cannot reach.

    Notes
    -----
    The master problem (6)-(9) of the all-to-all paper, reduced to one source per orbit of ranks and one
    capacity per orbit of links, by columns of paths. Link lengths and loads are taken from the final basis
    exactly; shortest paths under the integer lengths prove that no column is missing. General fabrics up to
    about 32 ranks of degree 4; vertex-transitive ones of thousands.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.synthesis.alltoall.rate.flow_instance import flow_instance
    >>> from treadle.topologies.catalogue.graphs import torus
    >>> from treadle.context import UNLIMITED
    >>> cube = torus(3, 3, 3)
    >>> instance = flow_instance(cube, on_all_ranks(cube, CollectiveKind.ALLTOALL))
    >>> solve_exactly(instance, suitable_symmetry(instance)).rate
    Fraction(1, 9)
    """
    check_reachable(instance, symmetry.representatives)
    pairs = int(np.count_nonzero(instance.demand_rows(symmetry.representatives)))
    if pairs > MAX_PAIRS and symmetry.n_sources > 1:
        return None
    if symmetry.n_orbits > MAX_ROWS or symmetry.n_sources > MAX_ROWS:
        return None
    by_pair = pairs <= min(_MAX_PAIR_ROWS, _PAIRS_PER_ORBIT * symmetry.n_orbits) and symmetry.n_sources > 1
    try:
        exact = RateMaster(instance, symmetry, by_pair=by_pair).solve(max_columns=_MAX_COLUMNS)
    except (TimeLimitError, InfeasibleError):
        return None
    if exact is not None:
        check_exact_flow(instance, exact)
    return exact


def check_exact_flow(instance: FlowInstance, exact: ExactRate) -> None:
    """Check in integers that the flows deliver every demand and that some orbit is exactly full at the rate.

    Raises
    ------
    ScheduleError
        If a node does not balance, or the loads do not allow the rate.
    """
    topology, symmetry = instance.topology, exact.symmetry
    tails, heads = topology.tails.tolist(), topology.heads.tolist()
    loads: dict[int, int] = {}
    orbit_of = dict(zip(instance.links.tolist(), symmetry.link_orbit.tolist(), strict=True))
    for row, count, flow in zip(
        symmetry.representatives.tolist(), symmetry.multiplicities.tolist(), exact.units, strict=True
    ):
        kept = [0] * topology.n_nodes
        for link, amount in flow.items():
            if amount < 0:
                raise ScheduleError(f"exact flow: link {topology.link_name(link)} has a negative load")
            kept[tails[link]] -= amount
            kept[heads[link]] += amount
            loads[orbit_of[link]] = loads.get(orbit_of[link], 0) + count * amount
        wanted = instance.demand_rows(np.array([row]))[0].tolist()
        wanted[instance.sources[row]] -= sum(wanted)
        for node, (got, due) in enumerate(zip(kept, wanted, strict=True)):
            if got != due * exact.denominator:
                raise ScheduleError(f"exact flow: node {topology.node_names[node]!r} does not balance")
    capacity = (symmetry.orbit_sizes * symmetry.orbit_bandwidths.astype(object)).tolist()
    slowest = max(Fraction(load, exact.denominator * int(capacity[orbit])) for orbit, load in loads.items())
    if slowest * exact.rate != 1:
        raise ScheduleError(f"exact flow: the loads allow {1 / slowest}, found the rate {exact.rate}")
