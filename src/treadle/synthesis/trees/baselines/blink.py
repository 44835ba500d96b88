"""Blink with switch removal: an optimal packing of trees from a single root."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.synthesis.trees.baselines.blink_gather import Packer, gathered_through
from treadle.synthesis.trees.baselines.embedding import check_supported, compose
from treadle.synthesis.trees.optimality import optimum
from treadle.synthesis.trees.pipeline import synthesise
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.topologies.topology import Topology


def blink(topology: Topology, collective: Collective, *, pack: Packer | None = None) -> ForestSchedule:
    """Reduce to one root and broadcast from it, each along a maximum packing of spanning trees.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Where it has no root the rank is taken that reduces and broadcasts fastest, the lowest of several.
    pack : callable, optional
        Default: `pack_from_root`.

    Returns
    -------
    ForestSchedule

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached, or a switch has unequal ingress and egress.

    Notes
    -----
    The packing attains Edmonds's bound, the least maximum flow from the root to another rank, over switches
    as well: Wang et al., Blink (MLSys 2020), with ForestColl's switch removal as in section 4.6.2 of the
    dissertation ("Blink+Switch"). Blink itself approximates the packing by multiplicative weights.

    An allgather is the allreduce without the sum, as Blink suggests: up the in-trees to the root, then down
    the out-trees to all (`blink_gather`). A reduce-scatter is that of the transposed fabric, backwards.
    """
    check_supported("blink", topology, collective, SPANNING_KINDS)
    root = best_root(topology, collective) if collective.root is None else collective.root
    chosen = pack or pack_from_root
    if collective.kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER):
        return compose(
            topology, collective, lambda fabric, _: gathered_through(fabric, collective, root, chosen)
        )

    def build(fabric: Topology, _: Collective) -> Forest:
        broadcast = replace(collective, kind=CollectiveKind.BROADCAST, root=root)
        return chosen(fabric, broadcast)

    return compose(topology, collective, build)


def pack_from_root(topology: Topology, broadcast: Collective) -> Forest:
    """The exact optimum of a broadcast, by ForestColl's pipeline with a single root."""
    found = synthesise(topology, broadcast, budget=TreeBudget(exact=True)).trees.broadcast
    assert found is not None, "a broadcast has out-trees"
    return found


def best_root(topology: Topology, collective: Collective) -> int:
    """The rank whose reduce and broadcast, one with the other, are fastest; the lowest of equals."""

    def seconds_per_byte(rank: int) -> Fraction:
        rates = (
            optimum(topology, replace(collective, kind=kind, root=rank, weights=None)).rate
            for kind in (CollectiveKind.REDUCE, CollectiveKind.BROADCAST)
        )
        return sum((1 / rate for rate in rates), Fraction(0))

    return min(range(collective.n_ranks), key=seconds_per_byte)
