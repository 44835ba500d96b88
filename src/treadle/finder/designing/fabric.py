"""Facts of a direct-connect fabric: distances, bounds, breadth-first schedules, symmetry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError, TopologyError
from treadle.finder.designing.fabric_values import DistanceFacts, FabricFacts, FactLimits, SizeBounds
from treadle.inputs.fabrics_and_plans import FabricLike, as_fabric
from treadle.inputs.problem import resolve_topology
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.bfb import bfb_reduce_scatter_value, bfb_value, orbit_value
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
    """Compute distances, bounds, breadth-first schedules and symmetries of a fabric, as far as they apply.

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
    n = len(topology.compute_nodes)
    connected = unreachable_pair(topology) is None
    rows = _rows(topology, n, limits) if connected and n <= limits.distance_nodes else None
    facts = FabricFacts(n_ranks=n, is_direct=not has_switches(topology))
    keys = ("bandwidths", "latencies_ns", "injection_bytes_per_s")
    is_uniform = all(len(np.unique(getattr(topology, key))) <= 1 for key in keys)
    cayley = cayley_graph_of(topology) if facts.is_direct and is_uniform else None
    case = _Case(topology, limits, cayley)
    if not facts.is_direct:
        distances = _distances(case, rows, None) if connected else None
        return replace(facts, distances=distances, omissions=tuple(case.omissions))
    transitive: bool | None = cayley is not None
    if not transitive and is_regular(topology) and (rows is None or _is_alike(rows)):
        transitive = _decided("vertex-transitive", is_vertex_transitive, case)
    facts = replace(
        facts,
        is_bidirectional=_is_bidirectional(topology),
        degrees=_degrees(topology),
        bounds=_bounds(topology),
        distances=_distances(case, rows, transitive) if connected else None,
        is_vertex_transitive=transitive,
    )
    if connected and topology.n_nodes > 1:
        facts = _with_breadth_first(facts, case)
        facts = _with_regularity(facts, case)
    facts = _with_reversal(facts, case)
    return replace(facts, omissions=tuple(case.omissions))


@dataclass(frozen=True)
class _Case:
    """A fabric, the Cayley digraph that it is, the limits on work, and the facts that they leave out."""

    topology: Topology
    limits: FactLimits
    cayley: CayleyGraph | None
    omissions: list[str] = field(default_factory=list)


def _rows(topology: Topology, sources: int, limits: FactLimits) -> Int64Array | None:
    """Count ranks at each distance from all ranks or from the first one; None if that takes too long."""
    hops = _hops_from_first(topology)
    if -(-sources // 64) * topology.n_links * hops > limits.distance_work:
        return None
    return distance_distribution(topology, sources=None if sources > 1 else [0])


def _hops_from_first(topology: Topology) -> int:
    """Return the largest distance from the first compute node, in time linear in the links."""
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


def _decided(name: str, find: Callable[..., bool], case: _Case) -> bool | None:
    """Whether a fabric has a symmetry; None, with an omission, where that takes too long."""
    n_links, most = case.topology.n_links, case.limits.symmetry_links
    if n_links > most:
        case.omissions.append(f"{name}: {n_links} links, at most {most}")
        return None
    try:
        return find(case.topology, work_limit=case.limits.symmetry_work)
    except UndecidedError:
        case.omissions.append(f"{name}: undecided within the work limit")
        return None


def _with_reversal(facts: FabricFacts, case: _Case) -> FabricFacts:
    """Add whether the fabric is its own transpose: not if the costs of both directions differ."""
    if facts.is_bidirectional:
        return replace(facts, is_reverse_symmetric=True)
    gather, scatter = facts.allgather, facts.reduce_scatter
    if gather is not None and scatter is not None and gather.loads != scatter.loads:
        return replace(facts, is_reverse_symmetric=False)
    found = _decided("reverse-symmetric", is_reverse_symmetric, case)
    return replace(facts, is_reverse_symmetric=found)


def _is_alike(rows: Int64Array) -> bool:
    return bool((rows == rows[0]).all())


def _distances(case: _Case, rows: Int64Array | None, transitive: bool | None) -> DistanceFacts | None:
    topology = case.topology
    n = len(topology.compute_nodes)
    if rows is None and transitive:
        rows = _rows(topology, 1, case.limits)
    if rows is None:
        case.omissions.append(f"distances: {n} nodes and {topology.n_links} links are too many to search")
        return None
    pairs = tuple(int(count) * (n // len(rows)) for count in rows.sum(axis=0))
    total = sum(distance * count for distance, count in enumerate(pairs))
    capacity = int(topology.egress_bytes_per_s().sum())
    return DistanceFacts(pairs, _is_alike(rows), Fraction(capacity, total) if total else None)


def _with_breadth_first(facts: FabricFacts, case: _Case) -> FabricFacts:
    topology, cayley, limits = case.topology, case.cayley, case.limits
    work, most = topology.n_nodes * topology.n_links, int(np.bincount(topology.heads).max(initial=0))
    if topology.injection_bytes_per_s.any():
        reason = "hosts have injection caps, which it does not know"
    elif cayley is not None:
        try:
            rate = int(topology.bandwidths[0])
            gather, scatter = (
                replace(
                    orbit_value(cayley, direction=direction),
                    unit_bandwidth=rate,
                    node_bandwidth=rate * cayley.degree,
                )
                for direction in (Direction.BROADCAST, Direction.REDUCE)
            )
            return replace(facts, allgather=gather, reduce_scatter=scatter)
        except ScheduleError as error:
            reason = str(error)
    elif topology.n_nodes > MAX_NODES:
        reason = f"{topology.n_nodes} nodes, at most {MAX_NODES}"
    elif most > limits.breadth_first_degree:
        reason = f"{most} links into a node, at most {limits.breadth_first_degree}"
    elif work > limits.breadth_first_pairs:
        pairs = limits.breadth_first_pairs
        reason = f"{work:.1e} pairs of nodes and links, at most {pairs:.1e} are gone through"
    else:
        gather = bfb_value(topology)
        # A bidirectional fabric is its own transpose.
        scatter = gather if facts.is_bidirectional else bfb_reduce_scatter_value(topology)
        return replace(facts, allgather=gather, reduce_scatter=scatter)
    case.omissions.append(f"breadth-first broadcast: {reason}")
    return facts


def _with_regularity(facts: FabricFacts, case: _Case) -> FabricFacts:
    topology = case.topology
    is_uneven = facts.distances is not None and not facts.distances.is_alike
    if facts.degree is None or not facts.is_bidirectional or is_uneven:
        return replace(facts, is_distance_regular=False)
    if topology.n_nodes * topology.n_links > case.limits.regularity_pairs:
        size = f"{topology.n_nodes} nodes of degree {facts.degree}"
        case.omissions.append(f"distance-regular: not tried on {size}")
        return facts
    try:
        return replace(facts, is_distance_regular=True, intersection_array=intersection_array(topology))
    except TopologyError:
        return replace(facts, is_distance_regular=False)
