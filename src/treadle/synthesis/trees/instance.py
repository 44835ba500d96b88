"""The flow problem behind a collective: terminals with weights in a directed capacitated graph.

One formulation covers all: shards of weight 1 are an allgather, one weight that is not 0 a broadcast, and
reducing collectives are the same on the transpose. The cut condition, d+(S) >= r(S) for every S that leaves
out some rank, holds if and only if every rank can receive all R units from a source that feeds r(v) to each v
(Theorem 23). Source: dissertation, appendix B.5; docs/proofs/forestcoll.md, "Testing condition C".
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, exact_sum, mask_of, sums_of
from treadle.engine import core, run_core
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind, check_membership
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.core_values.integers import Wide
from treadle.synthesis.core_values.tree_values import Arcs, RootedFabric
from treadle.synthesis.trees.packers.shortest_trees import have_shortest_trees, is_dense
from treadle.topologies.topology import Topology

UNIT_LIMIT = 2**61
"""Capacities and multiplicities in units must sum to less than this in the 64-bit stages."""

WIDE_LIMIT = 2**126
"""Both sides of a cut's comparison must be less than this."""

_QUICK = 2**20
"""Terminals times arcs below which cuts are found in milliseconds, without a thread."""


@dataclass(frozen=True)
class Instance:
    """Terminals and arcs, turned so that data leaves the roots.

    Parameters
    ----------
    topology : Topology
        For names in messages; node numbers are its own.
    direction : Direction
        REDUCE: the arcs are the fabric's links turned round, so out-trees here are in-trees there.
    terminals : array of int32, shape (N,)
        Node of each rank.
    weights : array of int64, shape (N,)
        Shard weight w(v) of each rank.
    tails, heads : arrays of int32, shape (m,)
    bandwidths : array of int64, shape (m,)
        Bytes/s.
    """

    topology: Topology
    direction: Direction
    terminals: Int32Array
    weights: Int64Array
    tails: Int32Array
    heads: Int32Array
    bandwidths: Int64Array

    @property
    def n_nodes(self) -> int:
        """Number of nodes, terminals and others."""
        return self.topology.n_nodes

    @property
    def relays(self) -> Int32Array:
        """Nodes that are not terminals: switches and forwarders."""
        return np.flatnonzero(~mask_of(self.n_nodes, self.terminals)).astype(np.int32)


def graph_instance(
    name: str,
    is_compute: BoolArray,
    terminals: Int32Array,
    weights: Int64Array,
    arcs: Arcs,
    direction: Direction = Direction.BROADCAST,
) -> Instance:
    """Return a flow problem on a graph whose capacities may be larger than bandwidths of a fabric."""
    names, ones = tuple(map(str, range(len(is_compute)))), np.ones_like(arcs.capacity)
    topology = Topology(name, names, is_compute, arcs.tail, arcs.head, ones)
    return Instance(topology, direction, terminals, weights, *arcs)


def check_uncapped(topology: Topology) -> None:
    """Raise InfeasibleError if a compute node has an injection cap, which trees cannot express."""
    for node in np.flatnonzero(topology.injection_bytes_per_s):
        raise InfeasibleError(
            f"compute node {topology.node_names[node]!r} has an injection cap, which tree schedules do not "
            f"model; put a switch with links of that bandwidth between the node and its links"
        )


def instance_of(topology: Topology, collective: Collective) -> Instance:
    """Return the flow problem of one direction; an allreduce counts as its allgather half.

    Raises
    ------
    ScheduleError
        If ranks and forwarders are not exactly the compute nodes of the fabric.
    InfeasibleError
        If a compute node has an injection cap, which forests cannot express.
    """
    check_membership(topology, collective)
    check_uncapped(topology)
    is_allreduce, out_trees = collective.kind is CollectiveKind.ALLREDUCE, collective.kind.broadcasts
    weights = (1,) * collective.n_ranks if is_allreduce else collective.shard_weights
    return Instance(
        topology=topology,
        direction=Direction.BROADCAST if out_trees else Direction.REDUCE,
        terminals=np.array(collective.ranks, dtype=np.int32),
        weights=np.array(weights, dtype=np.int64),
        tails=topology.tails if out_trees else topology.heads,
        heads=topology.heads if out_trees else topology.tails,
        bandwidths=topology.bandwidths,
    )


def find_violated_cut(
    problem: Instance,
    capacities: Int64Array,
    *,
    rate: Fraction = Fraction(1),
    multiplicity: int = 1,
    first: int = 0,
) -> tuple[int, Int32Array] | None:
    """Return a node set S that leaves out a terminal and has d+(S) < rate * multiplicity * w(S), or None.

    Parameters
    ----------
    capacities : array of int64, shape (m,)
    rate : Fraction
        Compared without rounding, in 128 bits.
    first : int
        Sink to start from, as returned; earlier ones are known to pass.

    Returns
    -------
    tuple of (sink that fails, nodes of S) or None
        Sinks are counted in an order of their own, which depends on nothing but tails and heads.
        One maximum flow per terminal decides (Theorem 23), each got from the last by moving the sink;
        none if all nodes are terminals, links are many, and trees of shortest paths fit.
    """
    factor = rate.numerator * multiplicity
    largest = rate.denominator * exact_sum(capacities) + factor * exact_sum(problem.weights)
    if largest >= WIDE_LIMIT or rate.denominator >= 2**63:
        raise InfeasibleError(
            f"{problem.topology.name}: bandwidths and weights have too many digits to compare cuts exactly; "
            f"round them, say to whole GB/s"
        )
    arcs = Arcs(problem.tails, problem.heads, capacities)
    fabric = RootedFabric(problem.n_nodes, problem.terminals, problem.weights, arcs)
    is_small = not first and largest < UNIT_LIMIT and len(problem.terminals) == problem.n_nodes

    def search(control: Int64Array) -> tuple[int, Int32Array]:
        if is_small and is_dense(problem.n_nodes, len(problem.tails)):
            # trees of shortest paths prove that no cut is violated, faster than flows
            units = sums_of(problem.n_nodes, problem.terminals, problem.weights * factor)
            scaled = capacities * rate.denominator
            if have_shortest_trees(units, problem.tails, problem.heads, scaled, control):
                return -1, problem.terminals[:0]
        return core.find_violated_cut(fabric, rate.denominator, Wide.of(factor), first, control)

    if len(problem.terminals) * len(problem.tails) < _QUICK:
        failed, nodes = search(np.zeros(3, dtype=np.int64))
    else:
        failed, nodes = run_core("cut search", search)
    return None if failed < 0 else (failed, nodes)


def cut_capacity(problem: Instance, nodes: Int32Array, capacities: Int64Array) -> int:
    """Return d+(S), exact."""
    inside = mask_of(problem.n_nodes, nodes)
    return sum(capacities[inside[problem.tails] & ~inside[problem.heads]].tolist())


def cut_weight(problem: Instance, nodes: Int32Array) -> int:
    """Return w(S)."""
    inside = mask_of(problem.n_nodes, nodes)
    return int(problem.weights[inside[problem.terminals]].sum())


def check_units(capacities: list[int], multiplicities: list[int]) -> None:
    """Raise InfeasibleError when unit capacities are too large for the 64-bit stages."""
    if sum(capacities) + sum(multiplicities) >= UNIT_LIMIT:
        raise InfeasibleError(
            "the schedule needs capacities of 2**61 units or more; limit the trees (--max-trees 10)"
        )
