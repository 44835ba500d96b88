"""Witnesses of an allreduce bound: link lengths, and combinations of cuts."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import lcm
from typing import ClassVar, TypeVar

import numpy as np

from treadle.arrays import BoolArray
from treadle.errors import FormatError, ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.topologies.topology import Topology

MAX_BRANCHING_SWITCHES = 12
"""A length witness tries every subset of the switches that branch; more of them are refused."""

WeightedCut = tuple[tuple[int, ...], Fraction]
Potential = tuple[int, Fraction]
_T = TypeVar("_T")


@dataclass(frozen=True)
class LengthWitness:
    """Link lengths l that make every pair of trees long.

    Parameters
    ----------
    lengths : tuple of Fraction, length m
        Not negative. Two nodes are as far apart as the shortest link that joins them either way.

    Notes
    -----
    A unit of allreduce uses a reducing and a broadcasting tree. Whatever their root and however their links
    point, their lengths are at least those of the shortest connections St_RE and St_BC of the ranks, so rate
    T needs
    ``T * (St_RE + St_BC) <= sum of b(e) * l(e)``. A connection branches at ranks, and at switches that
    aggregate (reducing) or multicast (broadcasting): without such switches it is a minimum spanning tree
    of the ranks under shortest-path distances. Tight on symmetric fabrics (duality of tree packing, after
    Tutte and Nash-Williams).
    """

    kind: ClassVar[str] = "lengths"

    lengths: tuple[Fraction, ...]

    def bound(self, topology: Topology, collective: Collective) -> Fraction:
        """The upper bound on algbw, bytes/s, that the lengths prove; ScheduleError if they prove none."""
        _check_allreduce(collective)
        if len(self.lengths) != topology.n_links:
            raise ScheduleError(
                f"length witness: {len(self.lengths)} lengths, expected {topology.n_links}, one per link"
            )
        if any(length < 0 for length in self.lengths):
            raise ScheduleError("length witness: lengths must not be negative")
        scale = lcm(*(length.denominator for length in self.lengths))
        lengths = [int(length * scale) for length in self.lengths]
        distance = _pair_lengths(topology, lengths)
        aggregating = _shortest_connection(topology, collective, distance, topology.aggregation)
        multicasting = aggregating
        if not np.array_equal(topology.aggregation, topology.multicast):
            multicasting = _shortest_connection(topology, collective, distance, topology.multicast)
        if not aggregating + multicasting:
            raise ScheduleError("length witness: the ranks are connected at length 0, which proves nothing")
        volume = sum(
            int(bandwidth) * length
            for bandwidth, length, tail, head in zip(
                topology.bandwidths, lengths, topology.tails, topology.heads, strict=True
            )
            if tail != head
        )
        return Fraction(volume, aggregating + multicasting)

    def to_json(self) -> dict[str, object]:
        """Kind and lengths as strings ``p/q``."""
        return {"kind": self.kind, "lengths": [str(length) for length in self.lengths]}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> LengthWitness:
        """Read what `to_json` wrote; FormatError if it is anything else."""
        lengths = value.get("lengths")
        if set(value) != {"kind", "lengths"} or not isinstance(lengths, list):
            raise FormatError("length witness: expected the keys kind and lengths, a list")
        return cls(tuple(_fraction(length) for length in lengths))


@dataclass(frozen=True)
class CutCombinationWitness:
    """Cuts with multipliers and node potentials: a dual solution of the allreduce linear program (B.5).

    Parameters
    ----------
    broadcast_cuts, reduce_cuts : tuple of (nodes, multiplier)
        Node sets S that leave out some rank, each with a multiplier > 0. Broadcasting must carry x(S) out
        of S, reducing must carry x(S) into S, where x(S) is the rate rooted in S.
    broadcast_potentials, reduce_potentials : tuple of (node, potential)
        Only at nodes that pass on what they receive: switches and forwarders, except those that multicast
        (broadcast) or aggregate (reduce).

    Notes
    -----
    With multipliers p and potentials f, link e = (u, v) of the broadcast is worth the sum of p(S) over the S
    that it leaves, plus f(v) - f(u); likewise reducing, with the S that it enters. The link's price is the
    larger worth, or 0. Every possible root lies in sets of total multiplier at least q, so
    ``T * q <= sum of b(e) * price(e)``. Roots are ranks and switches that both multicast and aggregate.
    """

    kind: ClassVar[str] = "cut-combination"

    broadcast_cuts: tuple[WeightedCut, ...]
    reduce_cuts: tuple[WeightedCut, ...]
    broadcast_potentials: tuple[Potential, ...] = ()
    reduce_potentials: tuple[Potential, ...] = ()

    def bound(self, topology: Topology, collective: Collective) -> Fraction:
        """The upper bound on algbw, bytes/s, that the cuts prove; ScheduleError if they prove none."""
        _check_allreduce(collective)
        cuts = (*self.broadcast_cuts, *self.reduce_cuts)
        potentials = (*self.broadcast_potentials, *self.reduce_potentials)
        scale = lcm(*(value.denominator for _, value in (*cuts, *potentials)))
        coverage = np.zeros(topology.n_nodes, dtype=object)
        price = np.zeros(topology.n_links, dtype=object)
        for weighted, values, leaving, branches in (
            (self.broadcast_cuts, self.broadcast_potentials, True, topology.multicast),
            (self.reduce_cuts, self.reduce_potentials, False, topology.aggregation),
        ):
            potential = _potentials(topology, collective, values, branches, scale)
            worth = potential[topology.heads] - potential[topology.tails]
            for nodes, multiplier in weighted:
                inside = _cut(topology, collective, nodes, multiplier)
                coverage[inside] += int(multiplier * scale)
                here, there = inside[topology.tails], inside[topology.heads]
                worth[here & ~there if leaving else ~here & there] += int(multiplier * scale)
            price = np.maximum(price, worth)
        roots = [*collective.ranks, *np.flatnonzero(topology.multicast & topology.aggregation)]
        covered = min(coverage[node] for node in roots)
        if not covered:
            raise ScheduleError("cut combination: some root lies in no set, so nothing is proved")
        carries = topology.tails != topology.heads
        volume = (topology.bandwidths.astype(object) * price)[carries].sum()
        return Fraction(int(volume), int(covered))

    def to_json(self) -> dict[str, object]:
        """Kind, cuts and potentials; multipliers as strings ``p/q``."""
        value: dict[str, object] = {"kind": self.kind}
        for key in ("broadcast_cuts", "reduce_cuts"):
            value[key] = [{"nodes": list(nodes), "multiplier": str(p)} for nodes, p in getattr(self, key)]
        for key in ("broadcast_potentials", "reduce_potentials"):
            value[key] = [{"node": node, "potential": str(f)} for node, f in getattr(self, key)]
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> CutCombinationWitness:
        """Read what `to_json` wrote; FormatError if it is anything else."""
        keys = ("broadcast_cuts", "reduce_cuts", "broadcast_potentials", "reduce_potentials")
        if set(value) != {"kind", *keys}:
            raise FormatError(f"cut combination: expected the keys kind, {', '.join(keys)}")
        return cls(
            _entries(value[keys[0]], "nodes", "multiplier", _nodes),
            _entries(value[keys[1]], "nodes", "multiplier", _nodes),
            _entries(value[keys[2]], "node", "potential", _node),
            _entries(value[keys[3]], "node", "potential", _node),
        )


def _check_allreduce(collective: Collective) -> None:
    if collective.kind is not CollectiveKind.ALLREDUCE:
        raise ScheduleError(f"the witness bounds an allreduce, not {collective.kind}")


def _pair_lengths(topology: Topology, lengths: Sequence[int]) -> dict[tuple[int, int], int]:
    """Shortest length of each pair of joined nodes, in both orders."""
    pairs: dict[tuple[int, int], int] = {}
    for tail, head, length in zip(topology.tails.tolist(), topology.heads.tolist(), lengths, strict=True):
        if tail != head:
            shortest = min(length, pairs.get((tail, head), length))
            pairs[tail, head] = pairs[head, tail] = shortest
    return pairs


def _shortest_connection(
    topology: Topology, collective: Collective, distance: Mapping[tuple[int, int], int], branches: BoolArray
) -> int:
    """Length of the shortest tree on the ranks that branches at ranks and at the switches in `branches`."""
    ranks = frozenset(collective.ranks)
    optional = [int(node) for node in np.flatnonzero(branches) if node not in ranks]
    if len(optional) > MAX_BRANCHING_SWITCHES:
        raise ScheduleError(
            f"length witness: {len(optional)} switches branch, expected at most {MAX_BRANCHING_SWITCHES}"
        )
    neighbours: dict[int, list[tuple[int, int]]] = {node: [] for node in range(topology.n_nodes)}
    for (tail, head), length in distance.items():
        neighbours[tail].append((head, length))
    lengths = [
        _spanning_length(neighbours, ranks | frozenset(chosen))
        for size in range(len(optional) + 1)
        for chosen in combinations(optional, size)
    ]
    shortest = min((length for length in lengths if length is not None), default=None)
    if shortest is None:
        raise ScheduleError("length witness: the ranks are not connected")
    return shortest


def _spanning_length(
    neighbours: Mapping[int, Sequence[tuple[int, int]]], terminals: frozenset[int]
) -> int | None:
    """Length of a minimum spanning tree of `terminals` under path distances (Prim); None if there is none."""
    total, left = 0, set(terminals)
    best: dict[int, int] = {}
    heap = [(0, min(terminals))]
    # A terminal that joins the tree restarts at distance 0, so distances are from the tree, not a source.
    while heap and left:
        far, node = heapq.heappop(heap)
        if far > best.get(node, far):
            continue
        if node in left:
            left.discard(node)
            total += far
            far = 0
            best[node] = 0
        for other, length in neighbours[node]:
            if far + length < best.get(other, far + length + 1):
                best[other] = far + length
                heapq.heappush(heap, (far + length, other))
    return None if left else total


def _cut(
    topology: Topology, collective: Collective, nodes: tuple[int, ...], multiplier: Fraction
) -> BoolArray:
    if any(not 0 <= node < topology.n_nodes for node in nodes):
        raise ScheduleError(f"a cut names a node beyond the {topology.n_nodes} of {topology.name}")
    if multiplier < 0:
        raise ScheduleError("cut combination: multipliers must not be negative")
    inside = np.zeros(topology.n_nodes, dtype=np.bool_)
    inside[list(nodes)] = True
    if all(inside[node] for node in collective.ranks):
        raise ScheduleError("a cut contains every rank, so nothing has to cross it")
    return inside


def _potentials(
    topology: Topology,
    collective: Collective,
    values: Iterable[Potential],
    branches: BoolArray,
    scale: int,
) -> np.ndarray[tuple[int, ...], np.dtype[np.object_]]:
    potential = np.zeros(topology.n_nodes, dtype=object)
    ranks = frozenset(collective.ranks)
    for node, value in values:
        if not 0 <= node < topology.n_nodes or node in ranks or branches[node]:
            raise ScheduleError(f"cut combination: node {node} may have no potential, it can branch")
        potential[node] = int(value * scale)
    return potential


def _entries(
    value: object, name: str, weight: str, read: Callable[[object], _T]
) -> tuple[tuple[_T, Fraction], ...]:
    if not isinstance(value, list):
        raise FormatError("cut combination: expected lists of objects")
    entries = []
    for entry in value:
        if not isinstance(entry, Mapping) or set(entry) != {name, weight}:
            raise FormatError(f"cut combination: expected objects with the keys {name} and {weight}")
        entries.append((read(entry[name]), _fraction(entry[weight])))
    return tuple(entries)


def _node(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise FormatError(f"cut combination: {value!r} is no node index")
    return value


def _nodes(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise FormatError("cut combination: nodes must be a list of node indices")
    return tuple(_node(node) for node in value)


def _fraction(value: object) -> Fraction:
    if not isinstance(value, str) or not re.fullmatch(r"-?[0-9]{1,1000}(/[1-9][0-9]{0,999})?", value):
        raise FormatError(f"witness: {str(value)[:40]!r} is no rational p/q")
    return Fraction(value)
