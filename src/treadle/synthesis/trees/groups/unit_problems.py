"""Trees of one group in one direction, in whole units and in a numbering that depends on structure alone.

Groups of a mesh are mostly images of each other under some symmetry of the fabric, and so are their shares.
Members are numbered in their group's order and the nodes between them by colour refinement: colours spread
from the members along arcs with their units until they tell nodes apart; nodes that look alike to the end are
told apart by choice, one by one. Two problems that come out equal are the same up to the numbers of nodes
and links, whatever the colours were worth: equality is compared, hashes only order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import gcd

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, positions_of
from treadle.errors import InfeasibleError, ScheduleError
from treadle.math.symmetry import hashed
from treadle.synthesis.trees.groups.group_optimum import GroupAllocation
from treadle.synthesis.trees.instance import UNIT_LIMIT
from treadle.topologies.topology import MAX_BANDWIDTH, Topology

_CHOICES = 64
"""Nodes that are told apart by choice; later ones by their number in the fabric."""

_Colours = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class LinkUnits:
    """How many unit trees some links are to hold.

    Parameters
    ----------
    links, units : arrays of int64, shape (k,)
        Links of the fabric; units are positive.
    """

    links: Int64Array
    units: Int64Array


@dataclass(frozen=True, eq=False)
class UnitAllocation:
    """Shares of one group in whole unit trees, as few as make every number whole.

    Parameters
    ----------
    roots : array of int64, length of the group
        Unit trees at each member.
    families : tuple of LinkUnits
        Of each direction of data.
    """

    roots: Int64Array
    families: tuple[LinkUnits, ...]


def unit_allocation(name: str, shares: Sequence[GroupAllocation]) -> UnitAllocation:
    """Shares in the fewest unit trees.

    Parameters
    ----------
    name : str
        Of the group, for messages.
    shares : sequence of GroupAllocation
        Of each direction of data, with equal roots over one denominator.

    Raises
    ------
    InfeasibleError
        If these are more than forests can count.
    """
    roots = shares[0].roots
    if any((one.roots, one.denominator) != (roots, shares[0].denominator) for one in shares):
        raise ScheduleError(f"{name}: expected the same roots in both directions")
    if not any(roots):
        raise InfeasibleError(f"{name}: its shares carry no data")
    divisor = _unit(shares)
    trees = sum(roots) // divisor
    if any(
        max(one.bandwidths) // divisor > MAX_BANDWIDTH or sum(one.bandwidths) // divisor + trees >= UNIT_LIMIT
        for one in shares
    ):
        raise InfeasibleError(
            f"{name}: its exact optimum takes {trees} unit trees, too many to count; round the bandwidths of "
            f"the fabric, say to whole GB/s"
        )
    return UnitAllocation(
        np.array([rate // divisor for rate in roots], dtype=np.int64),
        tuple(
            LinkUnits(one.links, np.array([held // divisor for held in one.bandwidths], dtype=np.int64))
            for one in shares
        ),
    )


def count_units(shares: Sequence[GroupAllocation]) -> int:
    """Unit trees that a group's shares of each direction take."""
    return sum(shares[0].roots) // _unit(shares)


def _unit(shares: Sequence[GroupAllocation]) -> int:
    """The greatest bandwidth that all shares are multiples of."""
    return gcd(*shares[0].roots, *chain.from_iterable(set(one.bandwidths) for one in shares))


@dataclass(frozen=True, eq=False)
class UnitProblem:
    """Out-trees to be packed into arcs that hold whole numbers of them.

    Parameters
    ----------
    roots : array of int64, length of the group
        Unit trees at each member; members are the nodes 0, 1, ...
    nodes : array of int64
        Number of each node in the fabric.
    tails, heads, units : arrays of int64, shape (k,)
        Sorted. Of in-trees the arcs are turned round.
    links : array of int64, shape (k,)
        Number of each arc in the fabric.
    """

    roots: Int64Array
    nodes: Int64Array
    tails: Int64Array
    heads: Int64Array
    units: Int64Array
    links: Int64Array

    @property
    def key(self) -> tuple[bytes, ...]:
        """Equal for problems that differ in the numbers of nodes and links only."""
        parts = (self.roots, self.tails, self.heads, self.units)
        return tuple(part.tobytes() for part in parts)

    def fabric(self, topology: Topology, name: str) -> Topology:
        """Its arcs as a fabric whose bandwidths count trees; nodes between members are switches."""
        return Topology(
            name=name,
            node_names=tuple(topology.node_names[node] for node in self.nodes.tolist()),
            is_compute=np.arange(len(self.nodes)) < len(self.roots),
            tails=self.tails.astype(np.int32),
            heads=self.heads.astype(np.int32),
            bandwidths=self.units,
        )


def unit_problem(
    topology: Topology,
    members: Sequence[int],
    roots: Int64Array,
    share: LinkUnits,
    *,
    outward: bool,
) -> UnitProblem:
    """Number a group's nodes and arcs.

    Parameters
    ----------
    topology : Topology
    members : sequence of int
        Node of each member.
    roots : array of int64
        Unit trees at each.
    share : LinkUnits
    outward : bool
        Out-trees; else in-trees.
    """
    links, units = share.links, share.units
    tails, heads = topology.tails[links].astype(np.int64), topology.heads[links].astype(np.int64)
    if not outward:
        tails, heads = heads, tails
    first = np.array(members, dtype=np.int64)
    relays = np.setdiff1d(np.concatenate([tails, heads]), first)
    number = positions_of(topology.n_nodes, np.concatenate([first, relays]))
    order = _relay_order(len(first), len(relays), number[tails], number[heads], units)
    nodes = np.concatenate([first, relays[order]])
    number[nodes] = np.arange(len(nodes))
    sort = np.lexsort((links, units, number[heads], number[tails]))
    columns = (number[tails], number[heads], units, links)
    return UnitProblem(roots, nodes, *(column[sort] for column in columns))


def _relay_order(
    n_members: int, n_relays: int, tails: Int64Array, heads: Int64Array, units: Int64Array
) -> Int64Array:
    """The relays in an order that their arcs give; they are numbered after the members."""
    weights = hashed(units.astype(np.uint64))
    colours = np.zeros(n_members + n_relays, dtype=np.uint64)
    colours[:n_members] = hashed(np.arange(1, n_members + 1, dtype=np.uint64))
    found = 0
    for choice in range(_CHOICES + 1):
        colours, found = _spread(colours, n_members, found, (tails, heads, weights))
        if found == n_relays or choice == _CHOICES:
            break
        _, where, counts = np.unique(colours[n_members:], return_index=True, return_counts=True)
        chosen = n_members + where[np.flatnonzero(counts > 1)[:1]]
        # unlike what others of its class got before
        colours[chosen] = hashed(colours[chosen] ^ np.uint64(choice + 1))
        found += 1
    order: Int64Array = np.argsort(colours[n_members:], kind="stable")
    return order


def _spread(
    colours: _Colours, n_members: int, found: int, arcs: tuple[Int64Array, Int64Array, _Colours]
) -> tuple[_Colours, int]:
    """Let every node look at its neighbours until no more relays are told apart; and how many then are."""
    tails, heads, weights = arcs
    while True:
        seen = colours.copy()
        # sums wrap, and do not depend on the order of arcs
        np.add.at(seen, tails, hashed(colours[heads] ^ weights))
        np.add.at(seen, heads, hashed(~(colours[tails] ^ weights)))
        seen = hashed(seen)
        distinct = len(np.unique(seen[n_members:]))
        if distinct <= found:
            return colours, found
        colours, found = seen, distinct
