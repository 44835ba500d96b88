"""Exact throughput optimum and bottleneck cut by discrete Newton on the cut ratio.

The optimum is x* = min over S of B+(S) / w(S) over node sets S that leave out some rank: what S must send
must leave it. Newton's iteration (Dinkelbach): begin with the ratio of some cut, test by flows whether any
cut is violated at this rate, take that cut's ratio, until none is. Every rate is the ratio of a real cut, so
it never falls below x*, and when no cut is violated it equals x*. Source: dissertation, sections 4.4 and
4.5.2, appendix B.5.1 (Theorem 23), whose Algorithm 1 searches by bisection instead;
docs/proofs/forestcoll.md, "Optimality".
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import Int32Array, mask_of, sums_of
from treadle.errors import InfeasibleError
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.collective import Collective
from treadle.synthesis.trees.instance import (
    Instance,
    cut_capacity,
    cut_weight,
    find_violated_cut,
    instance_of,
)
from treadle.topologies.topology import Topology


@dataclass(frozen=True)
class Optimum:
    """The throughput optimum of one direction of a collective.

    Parameters
    ----------
    rate : Fraction
        x*: bandwidth per unit of shard weight, bytes/s.
    algbw : Fraction
        W x*, bytes/s, with W the sum of the weights.
    certificate : BottleneckCut
        A bottleneck cut that attains it.
    """

    rate: Fraction
    algbw: Fraction
    certificate: BottleneckCut


def optimum(topology: Topology, collective: Collective) -> Optimum:
    """Exact x* = min over S of B+(S) / w(S), S leaving out some rank, and a cut that attains it.

    Works for any digraph and any integer bandwidths up to 2**50. For an allreduce this is the optimum of its
    allgather half; see `treadle.synthesis.trees.allreduce`.

    Raises
    ------
    InfeasibleError
        If some rank cannot be reached; names it.

    Notes
    -----
    Newton instead of the binary search of Algorithm 1: the rate falls to the ratio of each violated cut in
    turn, exactly. Sinks that passed stay passed as the rate falls, so one pass over them suffices.
    Source: section 4.4, section 4.5.2, B.5.1 (Theorem 23) of the dissertation, with root weights.
    """
    return instance_optimum(instance_of(topology, collective))


def instance_optimum(problem: Instance) -> Optimum:
    """Return the optimum of a flow problem; see `optimum`."""
    nodes = _first_cut(problem)
    first = 0
    while True:
        capacity = cut_capacity(problem, nodes, problem.bandwidths)
        if capacity == 0:  # a rank is cut off: every rate is violated
            raise InfeasibleError(_unreachable(problem, nodes))
        rate = Fraction(capacity, cut_weight(problem, nodes))
        violated = find_violated_cut(problem, problem.bandwidths, rate=rate, first=first)
        if violated is None:
            break
        # terminals before `first` satisfy this rate, and a lower rate only relaxes the cut condition for them
        first, nodes = violated
    total = int(problem.weights.sum())
    return Optimum(rate, total * rate, BottleneckCut(tuple(int(v) for v in sorted(nodes))))


def reachable_rate(problem: Instance) -> Fraction:
    """Return the optimum's rate; 0 where a rank is cut off."""
    try:
        return instance_optimum(problem).rate
    except InfeasibleError:
        return Fraction(0)


def _first_cut(problem: Instance) -> Int32Array:
    """Return all nodes but the terminal whose ingress is the tightest."""
    enters = problem.tails != problem.heads  # a self-loop crosses no cut
    bandwidths = problem.bandwidths[enters].astype(object)
    ingress = sums_of(problem.n_nodes, problem.heads[enters], bandwidths, dtype=object)
    total = int(problem.weights.sum())
    ratios = [
        (Fraction(ingress[node], total - int(weight)), int(node))
        for node, weight in zip(problem.terminals, problem.weights, strict=True)
        if weight < total
    ]
    return np.delete(np.arange(problem.n_nodes, dtype=np.int32), min(ratios)[1])


def _unreachable(problem: Instance, nodes: Int32Array) -> str:
    inside, names = mask_of(problem.n_nodes, nodes)[problem.terminals], problem.topology.node_names
    source, missed = (
        names[problem.terminals[np.flatnonzero(chosen)[0]]]
        for chosen in (inside & (problem.weights > 0), ~inside)
    )
    word = "reach" if problem.direction == "broadcast" else "be reached from"
    return (
        f"{problem.topology.name}: rank {source!r} cannot {word} rank {missed!r}; connect them or drop a rank"
    )
