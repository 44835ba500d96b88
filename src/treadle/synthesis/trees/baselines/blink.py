"""Blink with switch removal: an optimal packing of trees from a single root."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from treadle.errors import ScheduleError
from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind
from treadle.schedules.trees.forest import Forest, ForestSchedule, TreeSpec
from treadle.schedules.trees.forest_transforms import equalised, reverse
from treadle.synthesis.trees.baselines.embedding import ForestBuilder, check_supported, compose
from treadle.synthesis.trees.optimality import optimum
from treadle.synthesis.trees.pipeline import synthesise
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.synthesis.trees.tree_parts import single_path_trees
from treadle.topologies.topology import Topology

Packer = Callable[[Topology, Collective], Forest]
"""Packs out-trees for a broadcast from the collective's root."""

_MOST_TREES = 2**18


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
    the out-trees to all (`gathered_through`). A reduce-scatter is that of the transposed fabric, backwards.
    """
    check_supported("blink", topology, collective, SPANNING_KINDS)
    root = best_root(topology, collective) if collective.root is None else collective.root
    chosen = pack or pack_from_root

    def build(fabric: Topology, _: Collective) -> Forest:
        if collective.kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER):
            return gathered_through(fabric, collective, root, chosen)
        return chosen(fabric, replace(collective, kind=CollectiveKind.BROADCAST, root=root))

    return compose(topology, collective, build)


def pack_from_root(topology: Topology, broadcast: Collective) -> Forest:
    """Return the exact optimum of a broadcast, by ForestColl's pipeline with a single root."""
    found = synthesise(topology, broadcast, budget=TreeBudget(exact=True)).trees.broadcast
    assert found is not None, "a broadcast has out-trees"
    return found


def best_root(topology: Topology, collective: Collective) -> int:
    """Return the rank whose reduce and broadcast take the least total time; the lowest of equals."""

    def seconds_per_byte(rank: int) -> Fraction:
        rates = (
            optimum(topology, replace(collective, kind=kind, root=rank, weights=None)).rate
            for kind in (CollectiveKind.REDUCE, CollectiveKind.BROADCAST)
        )
        return sum((1 / rate for rate in rates), Fraction(0))

    return min(range(collective.n_ranks), key=seconds_per_byte)


def gathered_through(topology: Topology, collective: Collective, root: int, pack: Packer) -> Forest:
    """Return the out-trees of an allgather whose shards all pass one rank, as Blink's paper suggests.

    As spanning trees: from every rank a tree that begins with the path up to the root and goes on as that of
    the broadcast, without the edges to ranks that have passed the shard up.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Of it ranks, forwarders and shard weights are read.
    root : int
        The rank.
    pack : Packer

    Raises
    ------
    ScheduleError
        If there would be too many trees.
    """
    broadcast = Collective(
        CollectiveKind.BROADCAST, collective.ranks, root=root, forwarders=collective.forwarders
    )
    back, out = equalised(reverse(pack(topology.transpose(), broadcast)), pack(topology, broadcast))
    builder = ForestBuilder(topology, collective)
    for number, (up, down, units) in enumerate(_pairs(back, out)):
        if (number + 1) * collective.n_ranks > _MOST_TREES:
            raise ScheduleError(f"blink: more than {_MOST_TREES} trees; expected a smaller fabric")
        for rank, weight in enumerate(collective.shard_weights):
            if weight:
                parent, paths = np.array(down.parent, dtype=np.int32), {**down.paths}
                parent[rank], at = -1, rank
                while at != root:
                    above = up.parent[at]
                    parent[above], paths[above] = at, up.paths[at]
                    at = above
                numbers = np.full(len(parent), -1, dtype=np.int32)
                for other in np.flatnonzero(parent >= 0).tolist():
                    ((links, _),) = paths[other]
                    numbers[other] = builder.path_number(tuple(links))
                builder.add_tree(rank, units * weight, parent, numbers)
    return builder.build()


def _pairs(back: Forest, out: Forest) -> Iterator[tuple[TreeSpec, TreeSpec, int]]:
    """Yield in-trees and out-trees of the same units, and the number of units."""
    downs, left = single_path_trees(out), 0
    for up in single_path_trees(back):
        units = up.multiplicity
        while units:
            if not left:
                down = next(downs)
                left = down.multiplicity
            taken = min(units, left)
            yield up, down, taken
            units, left = units - taken, left - taken
