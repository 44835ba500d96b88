"""Facts of a direct-connect fabric: distances, bounds, breadth-first schedules, symmetry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError, TopologyError
from treadle.finder.designing.fabric_values import DistanceFacts, FabricFacts, FactLimits, SizeBounds
from treadle.inputs.fabrics_and_plans import FabricLike, as_fabric
from treadle.inputs.problem import resolve_topology
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.bfb import BfbValue, bfb_reduce_scatter_value, bfb_value, orbit_value
from treadle.synthesis.steps.bfb.in_links import MAX_NODES
from treadle.topologies import (
    CayleyGraph,
    Topology,
    all_to_all_limit,
    has_switches,
    has_uniform_links,
    intersection_array,
    is_regular,
    least_mean_distance,
    moore_steps,
    unreachable_pair,
)
from treadle.topologies.catalogue.cayley import cayley_graph_of
from treadle.topologies.distances import distance_distribution
from treadle.topologies.isomorphism import (
    UndecidedError,
    is_reverse_symmetric,
    is_vertex_transitive,
)


def describe_fabric(topology: FabricLike, *, limits: FactLimits | None = None) -> FabricFacts:
    """Distances, bounds, breadth-first schedules and symmetries of a fabric, as far as they apply.

    Parameters
    ----------
    topology : Topology, str, Path, networkx.Graph, plan or result
        Any fabric; most facts are about direct-connect ones.
    limits : FactLimits, optional
        Beyond them a fact is left out and `omissions` says so.

    Returns
    -------
    FabricFacts

    Notes
    -----
    Chapter 3 and appendix A of the dissertation: Moore optimality is definition 10, bandwidth optimality
    definition 8, reverse-symmetry definition 6, the breadth-first values are those of section 3.6.

    Examples
    --------
    >>> import treadle
    >>> facts = treadle.planning.describe_fabric("torus:3,3")
    >>> facts.degree, facts.diameter, facts.bounds.steps, facts.allgather.t_b
    (4, 2, 2, Fraction(8, 9))
    >>> facts.is_vertex_transitive, str(facts.intersection_array)
    (True, '{4,2;1,2}')
    """
    topology = resolve_topology(as_fabric(topology, "describe_fabric: topology"))
    limits = limits or FactLimits()
    omissions: list[str] = []
    n = len(topology.compute_nodes)
    connected = unreachable_pair(topology) is None
    rows = _rows(topology, n, limits) if connected and n <= limits.distance_nodes else None
    facts = FabricFacts(n_ranks=n, is_direct=not has_switches(topology))
    if not facts.is_direct:
        distances = _distances(topology, rows, None, limits, omissions) if connected else None
        return replace(facts, distances=distances, omissions=tuple(omissions))
    cayley = _cayley(topology)
    transitive = _transitivity(topology, cayley, rows, limits, omissions)
    facts = replace(
        facts,
        is_bidirectional=_is_bidirectional(topology),
        degrees=_degrees(topology),
        bounds=_bounds(topology),
        distances=_distances(topology, rows, transitive, limits, omissions) if connected else None,
        is_vertex_transitive=transitive,
    )
    if connected and topology.n_nodes > 1:
        facts = _with_breadth_first(facts, topology, cayley, limits, omissions)
        facts = _with_regularity(facts, topology, limits, omissions)
    facts = _with_reversal(facts, topology, limits, omissions)
    return replace(facts, omissions=tuple(omissions))


def _rows(topology: Topology, sources: int, limits: FactLimits) -> Int64Array | None:
    """Ranks at each distance from all ranks or from the first one; None if that takes too long."""
    hops = _hops_from_first(topology)
    if -(-sources // 64) * topology.n_links * hops > limits.distance_work:
        return None
    return distance_distribution(topology, sources=None if sources > 1 else [0])


def _hops_from_first(topology: Topology) -> int:
    """Largest distance from the first compute node, in time linear in links: the diameter's order."""
    order = np.argsort(topology.tails, kind="stable")
    starts = np.searchsorted(topology.tails[order], np.arange(topology.n_nodes + 1)).tolist()
    ends = topology.heads[order].tolist()
    level = topology.compute_nodes[:1].tolist()
    found = set(level)
    hops = -1
    while level:
        hops += 1
        reached = {end for node in level for end in ends[starts[node] : starts[node + 1]]}
        level = list(reached - found)
        found |= reached
    return hops


def _degrees(topology: Topology) -> tuple[int, int]:
    counts = [np.bincount(ends, minlength=topology.n_nodes) for ends in (topology.tails, topology.heads)]
    return int(min(count.min() for count in counts)), int(max(count.max() for count in counts))


def _bounds(topology: Topology) -> SizeBounds | None:
    n, d = topology.n_nodes, _degrees(topology)[0]
    if n < 2 or not d or not is_regular(topology):
        return None
    two_way = _is_bidirectional(topology)
    if two_way and d == 1 and n > 2:
        return None  # pairs of nodes that are not connected to others
    bidirectional = None if d == 1 and n > 2 else moore_steps(n, d, bidirectional=True)
    rate = int(topology.bandwidths[0]) if has_uniform_links(topology) else None
    return SizeBounds(
        steps=moore_steps(n, d),
        steps_bidirectional=bidirectional,
        mean_distance=least_mean_distance(n, d, bidirectional=two_way),
        t_b=Fraction(n - 1, n),
        pair_rate=None if rate is None else rate * all_to_all_limit(n, d, bidirectional=two_way),
    )


def _is_bidirectional(topology: Topology) -> bool:
    """Whether every link has an opposite one of its own with the same bandwidth and latency."""
    tails, heads, rates, delays = topology.tails, topology.heads, topology.bandwidths, topology.latencies_ns
    forward = np.lexsort((delays, rates, heads, tails))
    backward = np.lexsort((delays, rates, tails, heads))
    pairs = ((tails, heads), (heads, tails), (rates, rates), (delays, delays))
    return all(np.array_equal(one[forward], other[backward]) for one, other in pairs)


def _cayley(topology: Topology) -> CayleyGraph | None:
    """The Cayley digraph that a fabric with equal links and hosts is."""
    keys = ("bandwidths", "latencies_ns", "injection_bytes_per_s")
    if any(len(np.unique(getattr(topology, key))) > 1 for key in keys):
        return None
    return cayley_graph_of(topology)


def _transitivity(
    topology: Topology,
    cayley: CayleyGraph | None,
    rows: Int64Array | None,
    limits: FactLimits,
    omissions: list[str],
) -> bool | None:
    if cayley is not None:
        return True
    if not is_regular(topology) or (rows is not None and not _is_alike(rows)):
        return False
    return _decided("vertex-transitive", is_vertex_transitive, topology, limits, omissions)


def _decided(
    name: str,
    find: Callable[..., bool],
    topology: Topology,
    limits: FactLimits,
    omissions: list[str],
) -> bool | None:
    """Whether a fabric has a symmetry; None, with an omission, where that takes too long."""
    if topology.n_links > limits.symmetry_links:
        omissions.append(f"{name}: {topology.n_links} links, at most {limits.symmetry_links}")
        return None
    try:
        return find(topology, work_limit=limits.symmetry_work)
    except UndecidedError:
        omissions.append(f"{name}: undecided within the work limit")
        return None


def _with_reversal(
    facts: FabricFacts, topology: Topology, limits: FactLimits, omissions: list[str]
) -> FabricFacts:
    """Whether the fabric is its own transpose: by the values of both first, since these may differ."""
    if facts.is_bidirectional:
        return replace(facts, is_reverse_symmetric=True)
    gather, scatter = facts.allgather, facts.reduce_scatter
    if gather is not None and scatter is not None and gather.loads != scatter.loads:
        return replace(facts, is_reverse_symmetric=False)
    found = _decided("reverse-symmetric", is_reverse_symmetric, topology, limits, omissions)
    return replace(facts, is_reverse_symmetric=found)


def _is_alike(rows: Int64Array) -> bool:
    return bool((rows == rows[0]).all())


def _distances(
    topology: Topology,
    rows: Int64Array | None,
    transitive: bool | None,
    limits: FactLimits,
    omissions: list[str],
) -> DistanceFacts | None:
    n = len(topology.compute_nodes)
    if rows is None and transitive:
        rows = _rows(topology, 1, limits)
    if rows is None:
        omissions.append(f"distances: {n} nodes and {topology.n_links} links are too many to search")
        return None
    alike = _is_alike(rows)
    pairs = tuple(int(count) * (n // len(rows)) for count in rows.sum(axis=0))
    total = sum(distance * count for distance, count in enumerate(pairs))
    capacity = int(topology.egress_bytes_per_s().sum())
    return DistanceFacts(pairs, alike, Fraction(capacity, total) if total else None)


def _with_breadth_first(
    facts: FabricFacts,
    topology: Topology,
    cayley: CayleyGraph | None,
    limits: FactLimits,
    omissions: list[str],
) -> FabricFacts:
    work = topology.n_nodes * topology.n_links
    if topology.injection_bytes_per_s.any():
        omissions.append("breadth-first broadcast: hosts have injection caps, which it does not know")
    elif cayley is not None:
        try:
            return replace(
                facts,
                allgather=_orbit(topology, cayley, Direction.BROADCAST),
                reduce_scatter=_orbit(topology, cayley, Direction.REDUCE),
            )
        except ScheduleError as refusal:
            omissions.append(f"breadth-first broadcast: {refusal}")
    elif topology.n_nodes > MAX_NODES:
        omissions.append(f"breadth-first broadcast: {topology.n_nodes} nodes, at most {MAX_NODES}")
    elif (most := int(np.bincount(topology.heads).max(initial=0))) > limits.breadth_first_degree:
        omissions.append(
            f"breadth-first broadcast: {most} links into a node, at most {limits.breadth_first_degree}"
        )
    elif work > limits.breadth_first_pairs:
        omissions.append(
            f"breadth-first broadcast: {work:.1e} pairs of nodes and links, at most "
            f"{limits.breadth_first_pairs:.1e} are gone through"
        )
    else:
        gather = bfb_value(topology)
        # A bidirectional fabric is its own transpose.
        scatter = gather if facts.is_bidirectional else bfb_reduce_scatter_value(topology)
        return replace(facts, allgather=gather, reduce_scatter=scatter)
    return facts


def _orbit(topology: Topology, cayley: CayleyGraph, direction: Direction) -> BfbValue:
    rate = int(topology.bandwidths[0])
    value = orbit_value(cayley, direction=direction)
    return replace(value, unit_bandwidth=rate, node_bandwidth=rate * cayley.degree)


def _with_regularity(
    facts: FabricFacts, topology: Topology, limits: FactLimits, omissions: list[str]
) -> FabricFacts:
    if facts.degree is None or not facts.is_bidirectional:
        return replace(facts, is_distance_regular=False)
    if facts.distances is not None and not facts.distances.is_alike:
        return replace(facts, is_distance_regular=False)
    if topology.n_nodes * topology.n_links > limits.regularity_pairs:
        omissions.append(f"distance-regular: not tried on {topology.n_nodes} nodes of degree {facts.degree}")
        return facts
    try:
        return replace(facts, is_distance_regular=True, intersection_array=intersection_array(topology))
    except TopologyError:
        return replace(facts, is_distance_regular=False)
