"""Edge splitting: a switch-free logical graph of equal throughput, with the physical paths of its arcs.

Replacing units u -> w and w -> t by u -> t lowers d+(S) only for sets with u, t on one side and w on the
other. A level of switches is split together by an even pairing of ingress with egress; one check of
the cut condition finds the cuts that this violates, which are repaired by changing partners. Where that does
not end, amounts come one by one from Theorem 28, which always ends (Mader; Bang-Jensen, Frank and Jackson
1995). Source: dissertation, Algorithm 3, appendix B.5.2 (Theorems 26 to 28); docs/proofs/forestcoll.md,
"Switch removal". The work is done in `src/core/trees`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array, sums_of
from treadle.engine import core, run_core
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.core_values.tree_values import Arcs, RootedFabric
from treadle.synthesis.runs import run_starts
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.topologies.topology import Topology

_SAFE = 2.0**62
"""Sums below this do not wrap in 64 bits."""


@dataclass(frozen=True)
class LogicalGraph:
    """Arcs between terminals; each carries path segments, in order, whose units sum to its capacity.

    Parameters
    ----------
    tails, heads : arrays of int32, shape (a,)
        Node numbers; one arc at most per pair.
    capacities : array of int64, shape (a,)
    segment_offset : array of int64, shape (a + 1,)
    segment_path, segment_units : arrays of int32, int64
    path_offset, path_links : arrays of int64, int32
        Link numbers of every path, in the instance's direction.
    """

    tails: Int32Array
    heads: Int32Array
    capacities: Int64Array
    segment_offset: Int64Array
    segment_path: Int32Array
    segment_units: Int64Array
    path_offset: Int64Array
    path_links: Int32Array


def check_balance(problem: Instance, capacities: Int64Array) -> None:
    """Raise InfeasibleError naming the first relay whose capacities in and out differ.

    Only relays (switches, forwarders) are split off, so only they need to be balanced.
    """
    node = unbalanced_relay(problem, capacities)
    if node is not None:
        name, sides = problem.topology.node_names[node], _sums(problem, capacities)
        into, out = (side[node] for side in sides[:: -1 if problem.direction is Direction.REDUCE else 1])
        if not problem.topology.is_compute[node]:
            raise InfeasibleError(
                f"{problem.topology.name}: switch {name!r} is not Eulerian: {into} in, {out} out; "
                f"leave the surplus unused (--trim)"
            )
        raise InfeasibleError(
            f"{problem.topology.name}: {name!r}, no rank and a forwarder (--forward), is not Eulerian: "
            f"{into} in, {out} out; leave the surplus unused (--trim), make it a rank, or drop --forward"
        )


def has_balanced_relays(topology: Topology, collective: Collective) -> bool:
    """Whether all switches and forwarders are Eulerian: else the least cut may be more than trees reach."""
    problem = instance_of(topology, collective)
    return unbalanced_relay(problem, problem.bandwidths) is None


def unbalanced_relay(problem: Instance, capacities: Int64Array) -> int | None:
    """Return the first relay with unequal capacity in and out, or None."""
    if float(np.sum(capacities, dtype=float)) < _SAFE:
        # a self-loop counts on both sides
        into, out = (sums_of(problem.n_nodes, ends, capacities) for ends in (problem.heads, problem.tails))
    else:
        into, out = _sums(problem, capacities)
    uneven = problem.relays[(into != out)[problem.relays]]
    return int(uneven[0]) if len(uneven) else None


def _sums(problem: Instance, capacities: Int64Array) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the units into and out of each node, beyond 64 bits too."""
    apart = problem.tails != problem.heads
    units = capacities[apart].astype(object)
    into, out = (
        sums_of(problem.n_nodes, ends[apart], units, object) for ends in (problem.heads, problem.tails)
    )
    return into, out


def remove_switches(
    problem: Instance, capacities: Int64Array, multiplicities: Int64Array, *, mend_limit: int = -1
) -> LogicalGraph:
    """Replace every relay by logical arcs without violating the cut condition.

    Parameters
    ----------
    problem : Instance
    capacities : array of int64, shape (m,)
        Units; the cut condition (d+(S) >= r(S)) must hold for them.
    multiplicities : array of int64, shape (N,)
        r(v) of each terminal.
    mend_limit : int
        Cuts to repair per level before exact splitting takes over; negative: enough for all fabrics known.

    Raises
    ------
    InfeasibleError
        If a relay is not balanced.

    Notes
    -----
    Each level of switches is split by one even pairing that is then checked as a whole; a violated cut is
    repaired by exchanging split partners across it, and where that does not end, amounts come one by one from
    Theorem 28. Self-loops u -> w -> u are dropped when no cut needs them.
    Source: Algorithm 3, Theorems 26-28 (B.5.2).
    """
    if not len(problem.relays):
        # every link is a path, and parallel links share an arc
        links = np.flatnonzero((problem.tails != problem.heads) & (capacities > 0))
        links = links[np.lexsort((problem.heads[links], problem.tails[links]))]
        paths = np.arange(len(links) + 1, dtype=np.int64)
        ends = problem.tails[links], problem.heads[links]
        return logical_graph(*ends, capacities[links], paths[:-1], paths, links.astype(np.int32))
    check_balance(problem, capacities)
    # an unbalanced relay has no splitting that keeps all cuts; ranks may be unbalanced (docs: forestcoll.md)
    fabric = rooted_fabric(problem, capacities, multiplicities)
    status, arcs, _ = run_core(
        "switch removal", lambda control: core.split_switches(fabric, mend_limit, control)
    )
    assert status == 0, f"switch removal ended with status {status}"
    return LogicalGraph(*arcs)


def rooted_fabric(problem: Instance, capacities: Int64Array, multiplicities: Int64Array) -> RootedFabric:
    """Return the instance with these capacities and multiplicities, as the core takes it."""
    arcs = Arcs(problem.tails, problem.heads, np.ascontiguousarray(capacities))
    return RootedFabric(problem.n_nodes, problem.terminals, np.ascontiguousarray(multiplicities), arcs)


def logical_graph(
    tails: Int32Array | Int64Array,
    heads: Int32Array | Int64Array,
    units: Int64Array,
    path: Int64Array,
    path_offset: Int64Array,
    path_links: Int32Array,
) -> LogicalGraph:
    """Return the graph with one arc per pair of ends, whose segments are rows of units on paths."""
    order = np.lexsort((heads, tails))
    tails, heads, units = tails[order].astype(np.int32), heads[order].astype(np.int32), units[order]
    first = np.flatnonzero(run_starts(tails, heads))
    return LogicalGraph(
        tails[first],
        heads[first],
        np.add.reduceat(units, first) if len(first) else units,
        np.append(first, len(order)).astype(np.int64),
        path[order].astype(np.int32),
        units,
        path_offset,
        path_links,
    )
