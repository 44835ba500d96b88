"""Forests packed into given shares of every link, through a packer of rooted trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice

import numpy as np

from treadle.arrays import Int64Array, mask_of, positions_of
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork
from treadle.synthesis.trees.tree_parts import in_largest_unit, schedule_of
from treadle.topologies.topology import MAX_BANDWIDTH, Topology

Packer = Callable[[Topology, Collective, Sequence[int]], Forest]
"""pack(fabric, collective, r): r(v) trees at each rank of a fabric whose bandwidths count trees; out-trees
for an allgather, in-trees for a reduce-scatter. `treadle.synthesis.trees.pack_forest` is one."""


@dataclass(frozen=True)
class LinkAllocation:
    """Capacities that in-trees and out-trees may use.

    Parameters
    ----------
    root_rates : sequence of Fraction, length N
    broadcast, reduce : sequence of Fraction, length m
        Bandwidth of each pair; all in units of `PairNetwork.unit`.
    parts : sequence of Fraction
        Further rates that must be integral numbers of trees.
    """

    root_rates: Sequence[Fraction]
    broadcast: Sequence[Fraction]
    reduce: Sequence[Fraction]
    parts: Sequence[Fraction] = ()


@dataclass(frozen=True)
class IntegralAllocation:
    """Shares in unit trees, per physical link.

    Parameters
    ----------
    roots : sequence of int, length N
        Trees at each rank.
    broadcast, reduce : sequence of int, length n_links
        Trees that each link is to hold.
    """

    roots: Sequence[int]
    broadcast: Sequence[int]
    reduce: Sequence[int]

    @property
    def n_trees(self) -> int:
        """All roots together."""
        return sum(self.roots)


def integral_allocation(
    topology: Topology, network: PairNetwork, shares: LinkAllocation
) -> IntegralAllocation:
    """Return the fewest unit trees of one size in which allocations are integral on every link."""
    divide = _in_proportion if shares.parts else _by_width
    broadcast, reduce = divide(topology, network, (shares.broadcast, shares.reduce))
    units = iter(in_largest_unit([*shares.root_rates, *broadcast, *reduce, *shares.parts]))
    parts = (shares.root_rates, broadcast, reduce)
    return IntegralAllocation(*(list(islice(units, len(part))) for part in parts))


def pack_allocation(
    topology: Topology, collective: Collective, shares: IntegralAllocation, pack: Packer
) -> ForestSchedule:
    """Pack in-trees and out-trees into their shares of the links, balanced at switches and forwarders.

    Raises
    ------
    ScheduleError
        If capacities are too large.
    InfeasibleError
        From `pack`, if the shares do not hold the trees.
    """
    if max(*shares.broadcast, *shares.reduce) > MAX_BANDWIDTH:
        raise ScheduleError("allreduce: the exact schedule needs more than 2**50 trees on one link")
    sides = (CollectiveKind.ALLGATHER, shares.broadcast), (CollectiveKind.REDUCE_SCATTER, shares.reduce)
    forests = (_pack(topology, replace(collective, kind=k), own, shares.roots, pack) for k, own in sides)
    return schedule_of(CollectiveKind.ALLREDUCE, *forests)


def _in_proportion(
    topology: Topology, network: PairNetwork, families: Sequence[Sequence[Fraction]]
) -> list[list[Fraction]]:
    """Divide shares among parallel links in proportion to bandwidth, like in-network operations."""
    shares = [[Fraction(0)] * topology.n_links for _ in families]
    for members, total, *pairs in zip(network.links, network.capacity, *families, strict=True):
        for e in members:
            width = Fraction(int(topology.bandwidths[e]), total * network.unit)
            for share, pair in zip(shares, pairs, strict=True):
                share[e] = pair * width
    return shares


def _by_width(
    topology: Topology, network: PairNetwork, families: Sequence[Sequence[Fraction]]
) -> list[list[Fraction]]:
    """Divide shares among parallel links, the widest first, equal ones evenly.

    Proportions of bandwidths that differ would cut the data into very many trees.
    """
    shares = [[Fraction(0)] * topology.n_links for _ in families]
    for members, *pairs in zip(network.links, *families, strict=True):
        left = list(pairs)
        widths = [int(topology.bandwidths[e]) // network.unit for e in members]
        for width in sorted(set(widths), reverse=True):
            equal = [e for e, own in zip(members, widths, strict=True) if own == width]
            free = Fraction(width * len(equal))
            for number, share in enumerate(shares):
                taken = min(left[number], free)
                left[number] -= taken
                free -= taken
                for e in equal:
                    share[e] = taken / len(equal)
    return shares


def _pack(
    topology: Topology, collective: Collective, capacities: Sequence[int], roots: Sequence[int], pack: Packer
) -> Forest:
    """Pack into the links that have capacity, and number their links as `topology` does."""
    units = np.array(capacities, dtype=np.int64)
    links: Int64Array = np.flatnonzero(units > 0)
    # switches without any capacity are left out: the constructor of fabrics rejects them
    linked = mask_of(topology.n_nodes, np.concatenate([topology.tails[links], topology.heads[links]]))
    nodes = np.flatnonzero(topology.is_compute | linked)
    number = positions_of(topology.n_nodes, nodes, dtype=np.int32)
    fabric = Topology(
        name=f"shares of {topology.name}",
        node_names=tuple(topology.node_names[v] for v in nodes),
        is_compute=topology.is_compute[nodes],
        tails=number[topology.tails[links]],
        heads=number[topology.heads[links]],
        bandwidths=units[links],
    )
    moved = replace(
        collective,
        ranks=tuple(int(number[v]) for v in collective.ranks),
        forwarders=tuple(int(number[v]) for v in collective.forwarders),
    )
    forest = pack(fabric, moved, roots)
    return forest.with_links(links.astype(np.int32).__getitem__)
