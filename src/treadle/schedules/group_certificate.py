"""Witness of a bound for groups of ranks that communicate at once: link lengths that make all trees long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd
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
"""Of the sum of all lengths, as integers without a common divisor, times the ranks of a group."""

MAX_LENGTHS = 2**23
"""Most lengths in a file: as many as the largest fabric of the catalogue has links."""

_STUCK, _TOO_LARGE = 3, 1


@brief("lengths")
@dataclass(frozen=True)
class GroupDualCertificate:
    """Link lengths l that make the cheapest trees of all groups long.

    Parameters
    ----------
    lengths : tuple of Fraction, length m
        Not negative.

    Notes
    -----
    A unit of a tree flow of group g that is rooted at v is an arborescence of g's ranks whose edges are paths
    through switches and what else may pass data on for g (`Collective.member`). Its links are at least as
    long as MSA_g(v), the minimum spanning arborescence from v under shortest-path distances; so if all groups
    move data at rate T with shares w(v) / W at each root,
    ``T * (sum over g and v of w(v) * MSA_g(v)) <= W * (sum over links of b(e) * l(e))``.
    In an allreduce the share of a root is free, and a unit is an in-tree and an out-tree of one root: the
    least of their sums over the roots stands in place of the weighted sum. Tight by duality of linear
    programs, since flows of trees decompose into single trees (Edmonds 1973, arborescence packing).

    Switches are taken to pass data on and no more: without groups a fabric whose switches copy (or add) for
    the collective has no bound by these lengths. What a self-loop could carry does not count.

    The arborescences are found in the core (`src/core/trees/arborescences.cpp`), exactly, in integers.
    """

    kind: ClassVar[str] = "group-lengths"

    lengths: tuple[Fraction, ...]

    def bound(self, topology: Topology, collective: Collective) -> Fraction:
        """The upper bound on algbw of every group, bytes/s; ScheduleError if the lengths prove none."""
        check_declared(topology, collective)
        _check_kind(topology, collective)
        lengths = self._integers(topology, collective.group_size)
        total = tree_cost(topology, collective, lengths)
        if not total:
            raise ScheduleError(
                "group length witness: the groups are joined at length 0, which proves nothing"
            )
        carries = topology.tails != topology.heads
        return Fraction(lengths.volume(np.where(carries, topology.bandwidths, 0))) / total

    @classmethod
    def of_classes(
        cls, values: Sequence[Fraction], of_link: NDArray[np.signedinteger]
    ) -> GroupDualCertificate:
        """Lengths that are equal within few classes of links, by their rising values."""
        found = cls(tuple(np.array(values, dtype=object)[of_link]))
        found.__dict__["_by_value"] = list(values), of_link
        return found

    @cached_property
    def _by_value(self) -> tuple[list[Fraction], NDArray[np.signedinteger]]:
        """The different lengths, rising, and which each link has."""
        # by identity first, since hashes of fractions take long
        ids = np.fromiter(map(id, self.lengths), dtype=np.int64, count=len(self.lengths))
        different, of_link = distinct_few(ids)
        known = {id(length): length for length in self.lengths}
        objects = [known[one] for one in different.tolist()]
        values = sorted(set(objects))
        place = {value: number for number, value in enumerate(values)}
        return values, np.array([place[one] for one in objects], dtype=of_link.dtype)[of_link]

    def priced(self) -> Int64Array:
        """Links of positive length."""
        values, of_link = self._by_value
        found: Int64Array = np.flatnonzero(np.array([value > 0 for value in values], dtype=bool)[of_link])
        return found

    def _integers(self, topology: Topology, group_size: int) -> LinkLengths:
        """The lengths as integers without a common divisor: only their ratios matter."""
        if len(self.lengths) != topology.n_links:
            raise ScheduleError(
                f"group length witness: {len(self.lengths)} lengths, expected one for each of "
                f"{topology.n_links} links"
            )
        values, of_link = self._by_value
        if any(length < 0 for length in values):
            raise ScheduleError("group length witness: lengths must not be negative")
        scale = common_scale(values)
        scaled = [int(length * scale) for length in values]
        divisor = gcd(*scaled) or 1
        lengths = LinkLengths([one // divisor for one in scaled], of_link)
        if (lengths.volume(np.ones(len(of_link), dtype=np.int64)) * group_size).bit_length() > _MAX_BITS:
            raise ScheduleError(
                f"group length witness: as integers the lengths add up to more than 2**{_MAX_BITS} over the "
                f"ranks of a group; give coarser ones"
            )
        return lengths

    def to_json(self) -> dict[str, object]:
        """Kind, the different lengths as strings ``p/q``, and runs of links of one length."""
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
        lists = [value.get(key) for key in keys]
        if set(value) != {"kind", *keys} or not all(isinstance(one, list) for one in lists):
            raise FormatError(f"group length witness: expected the keys kind, {', '.join(keys)}, three lists")
        values, numbers, counts = lists
        assert isinstance(values, list)
        assert isinstance(numbers, list)
        assert isinstance(counts, list)
        known = [read_rational(one) for one in values]
        if len(numbers) != len(counts) or set(map(type, numbers + counts)) - {int}:
            raise FormatError("group length witness: run_value and run_links must be as many integers")
        if numbers and not 0 <= min(numbers) <= max(numbers) < len(known):
            raise FormatError(f"group length witness: run_value must be 0 to {len(known) - 1}")
        if counts and (min(counts) < 1 or sum(counts) > MAX_LENGTHS):
            raise FormatError(f"group length witness: runs of 1 or more links, at most {MAX_LENGTHS} in all")
        return cls(
            tuple(known[number] for number, count in zip(numbers, counts, strict=True) for _ in range(count))
        )


@dataclass(frozen=True, eq=False)
class LinkLengths:
    """Lengths of links as integers, not negative: the different ones, and which each link has."""

    values: list[int]
    of_link: NDArray[np.signedinteger]

    @classmethod
    def of(cls, lengths: Sequence[int]) -> LinkLengths:
        """Return the lengths of each link in turn."""
        values = sorted(set(lengths))
        place = {value: number for number, value in enumerate(values)}
        return cls(values, np.array([place[one] for one in lengths], dtype=np.int64))

    def volume(self, bandwidths: Int64Array) -> int:
        """Sum of bandwidth times length."""
        used = ((number, value) for number, value in enumerate(self.values) if value)
        return sum(value * exact_sum(bandwidths[self.of_link == number]) for number, value in used)


def tree_cost(topology: Topology, collective: Collective, lengths: LinkLengths) -> Fraction:
    """Length of the links that a byte of each group's larger buffer needs at least, all groups together.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Not an all-to-all. Compute nodes that it does not name are absent.
    lengths : LinkLengths

    Raises
    ------
    ScheduleError
        If a group's ranks do not reach each other.
    """
    ways = [collective.kind.broadcasts, collective.kind.reduces]
    if (each := _spanning_length(topology, collective, lengths)) is not None:
        return Fraction(sum(ways) * each)
    out, into = (
        _weights(topology, collective, lengths, inwards=inwards) if needed else None
        for inwards, needed in zip((False, True), ways, strict=True)
    )
    size = collective.group_size
    if out is not None and into is not None:
        pairs = [one + other for one, other in zip(out, into, strict=True)]
        return Fraction(sum(min(pairs[g : g + size]) for g in range(0, len(pairs), size)))
    found = out if out is not None else into
    assert found is not None
    shares = _shares(collective)
    total = sum(w * found[g + v] for g in range(0, len(found), len(shares)) for v, w in enumerate(shares))
    return Fraction(total, sum(shares))


def _spanning_length(topology: Topology, collective: Collective, lengths: LinkLengths) -> int | None:
    """Length of any tree that spans all nodes, where all are ranks, all links as long, and all nodes joined.

    Every rank but the root has one link into it (of an in-tree: out of it), so no search is needed.
    """
    n = topology.n_nodes
    if collective.groups is not None or collective.n_ranks < n or len(lengths.values) != 1:
        return None
    for ends in ((topology.tails, topology.heads), (topology.heads, topology.tails)):
        if not reached(n, *ends, 0).all():
            return None
    return lengths.values[0] * (n - 1)


def _check_kind(topology: Topology, collective: Collective) -> None:
    """Refuse what arborescences do not bound."""
    kind = collective.kind
    if not (kind.broadcasts or kind.reduces):
        raise ScheduleError(f"group length witness: it bounds collectives of trees, not {kind}")
    able = (kind.broadcasts and topology.multicast.any()) or (kind.reduces and topology.aggregation.any())
    if able and collective.groups is None:
        raise ScheduleError(
            "group length witness: switches copy or add, and it bounds what ranks alone do; expected a cut"
        )


def _shares(collective: Collective) -> tuple[int, ...]:
    """Relative amount of data at each root, of those that `_weights` tells."""
    if collective.root is not None:
        return (1,)
    return (1,) * collective.group_size if collective.groups is not None else collective.shard_weights


def _weights(topology: Topology, collective: Collective, lengths: LinkLengths, *, inwards: bool) -> list[int]:
    """Cheapest arborescence of each group from (`inwards`: to) each of its ranks, or its root only."""
    from treadle import _core  # most commands weigh nothing

    groups = collective.groups or (tuple(range(collective.n_ranks)),)
    nodes = np.array(collective.ranks, dtype=np.int32)
    passing = ~topology.is_compute
    passing[list(collective.forwarders)] = True
    if collective.ranks_forward:
        passing[:] = True  # ranks of the group, too: a path through one is as good as two edges
    ends = topology.tails, topology.heads
    members, place = nodes[np.array(groups, dtype=np.int64).ravel()], None
    size, root = collective.group_size, collective.root
    if collective.groups is None:
        name = _merged(topology, lengths, passing, nodes)
        ends = name[ends[0]], name[ends[1]]
        merged = np.unique(name[members])
        place = np.searchsorted(merged, name[members])
        members, size = merged.astype(np.int32), len(merged)
        passing[merged] = False  # a path through a rank is as good as two edges
        if size == 1:
            return [0] * (1 if root is not None else collective.group_size)
        root = None if root is None else int(place[root])
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
    if status == _STUCK:
        raise ScheduleError(
            f"group length witness: ranks of group {group} do not reach each other, so there is no bound"
        )
    if status == _TOO_LARGE:
        raise ScheduleError(
            f"group length witness: group {group} is too large for a table of its distances; "
            f"{size} ranks that differ"
        )
    found = [(one << 64) + other for one, other in zip(high.tolist(), low.tolist(), strict=True)]
    return found if place is None or root is not None else [found[number] for number in place.tolist()]


def _merged(topology: Topology, lengths: LinkLengths, passing: BoolArray, ranks: Int32Array) -> Int32Array:
    """For each node the first of those that are joined to it at length 0, there and back.

    Of one group: what is at length 0 of each other is one place to an arborescence, as its trees may pass
    through ranks; so boxes are few and alike where only the links between them have a length.
    """
    there = passing.copy()
    there[ranks] = True
    free = np.array([not length for length in lengths.values], dtype=bool)[lengths.of_link]
    free &= there[topology.tails] & there[topology.heads]
    n = topology.n_nodes
    ways = topology.tails[free].astype(np.int64) * n + topology.heads[free]
    back = topology.heads[free].astype(np.int64) * n + topology.tails[free]
    back.sort()
    place = np.minimum(np.searchsorted(back, ways), max(len(back) - 1, 0))
    return components(n, *np.divmod(ways[back[place] == ways], n))


def _halves(values: list[int]) -> tuple[Int64Array, UInt64Array]:
    """Integers of up to 127 bits as the core takes them: value = high * 2**64 + low."""
    high = np.array([value >> 64 for value in values], dtype=np.int64)
    return high, np.array([value & (2**64 - 1) for value in values], dtype=np.uint64)
