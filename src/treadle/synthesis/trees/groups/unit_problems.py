"""Trees of one group in one direction, in whole units and in a numbering that depends on structure alone.

Groups of a mesh are mostly images of each other under some symmetry of the fabric, and so are their shares.
Members are numbered in their group's order and the nodes between them by colour refinement: colours spread
from the members along arcs with their units until they separate nodes; nodes that stay equal to the end are
separated by choice, one by one. Two problems with equal results are the same up to the numbers of nodes
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
"""Nodes that are separated by choice; later ones by their number in the fabric."""

_Colours = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class LinkUnits:
    """Numbers of unit trees that links have to hold.

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
    held = [share.bandwidths // divisor for share in shares]
    if any(units.max() > MAX_BANDWIDTH or units.sum() + trees >= UNIT_LIMIT for units in held):
        raise InfeasibleError(
            f"{name}: its exact optimum takes {trees} unit trees, too many to count; round the bandwidths of "
            f"the fabric, say to whole GB/s"
        )
    families = zip(shares, held, strict=True)
    return UnitAllocation(
        np.array([rate // divisor for rate in roots], dtype=np.int64),
        tuple(LinkUnits(share.links, units.astype(np.int64)) for share, units in families),
    )


def count_units(shares: Sequence[GroupAllocation]) -> int:
    """Return the number of unit trees that fill a group's shares."""
    return sum(shares[0].roots) // _unit(shares)


def _unit(shares: Sequence[GroupAllocation]) -> int:
    """Return the greatest bandwidth of which all shares are multiples."""
    return gcd(*shares[0].roots, *chain.from_iterable(set(one.bandwidths) for one in shares))


@dataclass(frozen=True, eq=False)
class UnitProblem:
    """Out-trees to be packed into arcs that hold integral numbers of them.

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
        return tuple(part.tobytes() for part in (self.roots, self.tails, self.heads, self.units))

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
    topology: Topology, members: Sequence[int], roots: Int64Array, share: LinkUnits, *, outward: bool
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
    """Return the relays in an order that depends on their arcs; they are numbered after the members."""
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
        # different from earlier choices in its class
        colours[chosen] = hashed(colours[chosen] ^ np.uint64(choice + 1))
        found += 1
    order: Int64Array = np.argsort(colours[n_members:], kind="stable")
    return order


def _spread(
    colours: _Colours, n_members: int, found: int, arcs: tuple[Int64Array, Int64Array, _Colours]
) -> tuple[_Colours, int]:
    """Refine by neighbours until no more relays are separated; return how many are."""
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
