"""Dual certificate of a bound for concurrent groups of ranks: link lengths that make all trees long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import cycle
from math import gcd
from operator import add
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Int32Array, Int64Array, distinct_few, exact_sum
from treadle.brief import brief
from treadle.errors import FormatError, ScheduleError
from treadle.math.graphs import components, reached
from treadle.schedules.collective import Collective, check_declared
from treadle.schedules.trees.allreduce_certificate import common_scale, read_rational
from treadle.topologies.topology import Topology

UInt64Array = NDArray[np.uint64]

_MAX_BITS = 125
"""Most bits of the sum of all lengths, as integers without a common divisor, times the ranks of a group."""

MAX_LENGTHS = 2**23
"""Most lengths in a file: as many as the largest fabric of the catalogue has links."""

_UNREACHABLE, _TOO_LARGE = 3, 1
"""Status codes of the core."""


@brief("lengths")
@dataclass(frozen=True)
class GroupDualCertificate:
    """Link lengths l for which the shortest trees of all groups are long.

    Parameters
    ----------
    lengths : tuple of Fraction, length m
        Not negative.

    Notes
    -----
    A unit of a tree flow of group g that is rooted at v is an arborescence of g's ranks whose edges are paths
    through switches and other nodes that forward for g (`Collective.member`). Its links are at least as
    long as MSA_g(v), the minimum spanning arborescence from v under shortest-path distances; so if all groups
    move data at rate T with shares w(v) / W at each root,
    ``T * (sum over g and v of w(v) * MSA_g(v)) <= W * (sum over links of b(e) * l(e))``.
    In an allreduce the weight of a root is arbitrary, and a unit is an in-tree and an out-tree of one root:
    the minimum of their sums over the roots replaces the weighted sum. Tight by duality of linear programs,
    since flows of trees decompose into single trees (Edmonds 1973, arborescence packing).

    Switches are assumed to forward only: without groups, the lengths prove no bound for a collective with
    in-network multicast (or aggregation). Self-loops carry nothing.

    The arborescences are found in the core (`src/core/trees/arborescences.cpp`), exactly, in integers.
    """

    kind: ClassVar[str] = "group-lengths"

    lengths: tuple[Fraction, ...]

    def bound(self, topology: Topology, collective: Collective) -> Fraction:
        """Return the upper bound on algbw of every group, bytes/s; ScheduleError if there is none."""
        check_declared(topology, collective)
        _check_kind(topology, collective)
        lengths = self._integers(topology, collective.group_size)
        total = tree_cost(topology, collective, lengths)
        if not total:
            raise ScheduleError(
                "group length certificate: the trees of all groups have length 0, which proves nothing"
            )
        carries = topology.tails != topology.heads
        return Fraction(lengths.volume(np.where(carries, topology.bandwidths, 0))) / total

    @classmethod
    def of_classes(
        cls, values: Sequence[Fraction], of_link: NDArray[np.signedinteger]
    ) -> GroupDualCertificate:
        """Return the certificate with few different lengths, given by their rising values."""
        found = cls(tuple(np.array(values, dtype=object)[of_link]))
        found.__dict__["_by_value"] = list(values), of_link
        return found

    @cached_property
    def _by_value(self) -> tuple[list[Fraction], NDArray[np.signedinteger]]:
        """Different lengths, rising, and the index of that of each link."""
        # by identity first, since hashes of fractions take long
        ids = np.fromiter(map(id, self.lengths), dtype=np.int64, count=len(self.lengths))
        different, of_link = distinct_few(ids)
        known = {id(length): length for length in self.lengths}
        objects = [known[key] for key in different.tolist()]
        values = sorted(set(objects))
        index = {value: number for number, value in enumerate(values)}
        return values, np.array([index[value] for value in objects], dtype=of_link.dtype)[of_link]

    def priced(self) -> Int64Array:
        """Return the links of positive length."""
        values, of_link = self._by_value
        found: Int64Array = np.flatnonzero(np.array([value > 0 for value in values], dtype=bool)[of_link])
        return found

    def _integers(self, topology: Topology, group_size: int) -> LinkLengths:
        """Return the lengths as integers without a common divisor: only their ratios matter."""
        if len(self.lengths) != topology.n_links:
            raise ScheduleError(
                f"group length certificate: {len(self.lengths)} lengths, expected one for each of "
                f"{topology.n_links} links"
            )
        values, of_link = self._by_value
        if any(length < 0 for length in values):
            raise ScheduleError("group length certificate: lengths must not be negative")
        scale = common_scale(values)
        scaled = [int(length * scale) for length in values]
        divisor = gcd(*scaled) or 1
        lengths = LinkLengths([one // divisor for one in scaled], of_link)
        if (lengths.volume(np.ones(len(of_link), dtype=np.int64)) * group_size).bit_length() > _MAX_BITS:
            raise ScheduleError(
                f"group length certificate: the integer lengths of a group sum to more than 2**{_MAX_BITS}; "
                f"use coarser ones"
            )
        return lengths

    def to_json(self) -> dict[str, object]:
        """Return kind, the different lengths as strings ``p/q``, and runs of links of one length."""
        values, of_link = self._by_value
        first = np.flatnonzero(np.diff(of_link, prepend=-1))
        return {
            "kind": self.kind,
            "values": [str(value) for value in values],
            "run_value": of_link[first].tolist(),
            "run_links": np.diff(first, append=len(of_link)).tolist(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> GroupDualCertificate:
        """Read what `to_json` wrote; FormatError if it is anything else."""
        keys = ("values", "run_value", "run_links")
        values, numbers, counts = (value.get(key) for key in keys)
        if set(value) != {"kind", *keys} or not (
            isinstance(values, list) and isinstance(numbers, list) and isinstance(counts, list)
        ):
            raise FormatError(
                f"group length certificate: expected the keys kind, {', '.join(keys)}, three lists"
            )
        known = list(map(read_rational, values))
        if len(numbers) != len(counts) or set(map(type, numbers + counts)) - {int}:
            raise FormatError("group length certificate: run_value and run_links must be as many integers")
        if numbers and not 0 <= min(numbers) <= max(numbers) < len(known):
            raise FormatError(f"group length certificate: run_value must be 0 to {len(known) - 1}")
        if counts and (min(counts) < 1 or sum(counts) > MAX_LENGTHS):
            raise FormatError(
                f"group length certificate: runs of 1 or more links, at most {MAX_LENGTHS} in all"
            )
        return cls(tuple(np.repeat(np.array([known[number] for number in numbers], dtype=object), counts)))


@dataclass(frozen=True, eq=False)
class LinkLengths:
    """Nonnegative integer lengths of links: the different values, and the index of that of each link."""

    values: list[int]
    of_link: NDArray[np.signedinteger]

    @classmethod
    def of(cls, lengths: Sequence[int]) -> LinkLengths:
        """Return the lengths that are given link by link."""
        values = sorted(set(lengths))
        index = {value: number for number, value in enumerate(values)}
        return cls(values, np.array([index[length] for length in lengths], dtype=np.int64))

    def volume(self, bandwidths: Int64Array) -> int:
        """Return the sum of bandwidth times length."""
        used = ((number, value) for number, value in enumerate(self.values) if value)
        return sum(value * exact_sum(bandwidths[self.of_link == number]) for number, value in used)


def tree_cost(topology: Topology, collective: Collective, lengths: LinkLengths) -> Fraction:
    """Return a lower bound on the length of links that a byte of each group's larger buffer needs, summed.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Not an all-to-all. Compute nodes that it does not name are absent.
    lengths : LinkLengths

    Raises
    ------
    ScheduleError
        If the ranks of a group do not reach each other.
    """
    inwards = [False] * collective.kind.broadcasts + [True] * collective.kind.reduces
    if (each := _spanning_length(topology, collective, lengths)) is not None:
        return Fraction(len(inwards) * each)
    costs = [_weights(topology, collective, lengths, inwards=side) for side in inwards]
    size = collective.group_size
    if len(costs) == 2:
        pairs = list(map(add, *costs))
        return Fraction(sum(min(pairs[g : g + size]) for g in range(0, len(pairs), size)))
    # relative amounts of data at the roots of each group that `_weights` returns
    shares = collective.shard_weights if collective.groups is None else (1,) * size
    if collective.root is not None:
        shares = (1,)
    total = sum(share * cost for share, cost in zip(cycle(shares), costs[0], strict=False))
    return Fraction(total, sum(shares))


def _spanning_length(topology: Topology, collective: Collective, lengths: LinkLengths) -> int | None:
    """Return the length of all trees if all nodes are ranks and reach each other over links of one length.

    Every rank but the root has one link into it (in-tree: out of it), so no search is needed.
    """
    n = topology.n_nodes
    if collective.groups is not None or collective.n_ranks < n or len(lengths.values) != 1:
        return None
    for ends in ((topology.tails, topology.heads), (topology.heads, topology.tails)):
        if not reached(n, *ends, 0).all():
            return None
    return lengths.values[0] * (n - 1)


def _check_kind(topology: Topology, collective: Collective) -> None:
    """Raise ScheduleError for a collective that arborescences do not bound."""
    kind = collective.kind
    if not (kind.broadcasts or kind.reduces):
        raise ScheduleError(f"group length certificate: it bounds collectives with trees, not {kind}")
    able = (kind.broadcasts and topology.multicast.any()) or (kind.reduces and topology.aggregation.any())
    if able and collective.groups is None:
        raise ScheduleError(
            "group length certificate: invalid with in-network multicast or aggregation; expected a cut"
        )


def _weights(topology: Topology, collective: Collective, lengths: LinkLengths, *, inwards: bool) -> list[int]:
    """Return lengths of shortest arborescences from (`inwards`: to) each rank, or the root, of all groups."""
    from treadle import _core  # most commands evaluate no certificate

    groups = collective.groups or (tuple(range(collective.n_ranks)),)
    nodes = np.array(collective.ranks, dtype=np.int32)
    passing = ~topology.is_compute
    passing[list(collective.forwarders)] = True
    if collective.ranks_forward:
        passing[:] = True  # also ranks of the group itself: a path through one is as short as two edges
    ends = topology.tails, topology.heads
    members, index = nodes[np.array(groups, dtype=np.int64).ravel()], None
    size, root = collective.group_size, collective.root
    if collective.groups is None:
        name = _merged(topology, lengths, passing, nodes)
        ends = name[ends[0]], name[ends[1]]
        merged = np.unique(name[members])
        index = np.searchsorted(merged, name[members])
        members, size = merged.astype(np.int32), len(merged)
        passing[merged] = False  # a path through a rank is as short as two edges
        if size == 1:
            return [0] * (1 if root is not None else collective.group_size)
        root = None if root is None else int(index[root])
    tails, heads = (ends[1], ends[0]) if inwards else ends
    status, group, (high, low) = _core.group_arborescences(
        tails,
        heads,
        tuple(half[lengths.of_link] for half in _halves(lengths.values)),
        passing.astype(np.int32),
        members,
        size,
        -1 if root is None else root,
        np.zeros(3, dtype=np.int64),
    )
    if status == _UNREACHABLE:
        raise ScheduleError(f"group length certificate: ranks of group {group} do not reach each other")
    if status == _TOO_LARGE:
        raise ScheduleError(
            f"group length certificate: group {group} with {size} different ranks is too large for a "
            f"table of distances"
        )
    costs = [(top << 64) + bottom for top, bottom in zip(high.tolist(), low.tolist(), strict=True)]
    return costs if index is None or root is not None else [costs[number] for number in index.tolist()]


def _merged(topology: Topology, lengths: LinkLengths, passing: BoolArray, ranks: Int32Array) -> Int32Array:
    """Return for each node the first of the nodes that are joined to it at length 0 in both directions.

    For a single group, nodes at length 0 from each other are one node to an arborescence, as its trees may
    pass through ranks. So few nodes remain if only links between boxes have a length.
    """
    is_member = passing.copy()
    is_member[ranks] = True
    free = np.array([not length for length in lengths.values], dtype=bool)[lengths.of_link]
    free &= is_member[topology.tails] & is_member[topology.heads]
    n, tails, heads = topology.n_nodes, topology.tails[free].astype(np.int64), topology.heads[free]
    return components(n, *np.divmod(np.intersect1d(tails * n + heads, heads.astype(np.int64) * n + tails), n))


def _halves(values: list[int]) -> tuple[Int64Array, UInt64Array]:
    """Return integers of up to 127 bits in the form of the core: value = high * 2**64 + low."""
    high = np.array([value >> 64 for value in values], dtype=np.int64)
    return high, np.array([value & (2**64 - 1) for value in values], dtype=np.uint64)
