"""Certificates of an allreduce bound: link lengths, and combinations of cuts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, mask_of
from treadle.brief import brief
from treadle.errors import FormatError, ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.shortest_connection import GroupDemand, group_demands, shortest_connection
from treadle.topologies.topology import Topology

WeightedCut = tuple[tuple[int, ...], Fraction]
Potential = tuple[int, Fraction]
Price = tuple[int, Fraction]

_MAX_SCALE_BITS = 2**13
"""Most bits of a common denominator: one fraction may have 1000 digits, and bounds can still be printed."""


@brief("lengths")
@dataclass(frozen=True)
class DualCertificate:
    """Link lengths l for which every pair of trees is long.

    Parameters
    ----------
    lengths : tuple of Fraction, length m
        Not negative. The distance of two nodes is the length of the shortest link between them in any
        direction.

    Notes
    -----
    A unit of allreduce uses a reducing and a broadcasting tree. For any root and any directions of their
    links, their lengths are at least those of the shortest connections St_RE and St_BC of the ranks, so rate
    T needs ``T * (St_RE + St_BC) <= sum of b(e) * l(e)``. A connection branches at ranks, and at switches
    that aggregate (reducing) or multicast (broadcasting) by themselves. It may also use operations of
    GPU-initiated switches, each as long as the initiator's link and all links of its group together. Without
    any such switch it is a minimum spanning tree of the ranks under shortest-path distances. Tight on
    symmetric fabrics (duality of tree packing, after Tutte and Nash-Williams).
    """

    kind: ClassVar[str] = "lengths"

    lengths: tuple[Fraction, ...]

    def bound(self, topology: Topology, collective: Collective) -> Fraction:
        """Return the upper bound on algbw, bytes/s; ScheduleError if the lengths prove none."""
        _check_allreduce(collective)
        if len(self.lengths) != topology.n_links:
            raise ScheduleError(
                f"length certificate: {len(self.lengths)} lengths, expected {topology.n_links}, one per link"
            )
        if any(length < 0 for length in self.lengths):
            raise ScheduleError("length certificate: lengths must not be negative")
        scale = common_scale(self.lengths)
        lengths = [int(length * scale) for length in self.lengths]
        distance = _pair_lengths(topology, lengths)
        aggregating = shortest_connection(topology, collective, distance, topology.aggregation)
        multicasting = aggregating
        if not np.array_equal(topology.aggregation, topology.multicast):
            multicasting = shortest_connection(topology, collective, distance, topology.multicast)
        if not aggregating + multicasting:
            raise ScheduleError(
                "length certificate: the ranks are connected at length 0, which proves nothing"
            )
        carries = topology.tails != topology.heads
        volume = (topology.bandwidths.astype(object) * lengths)[carries].sum()
        return Fraction(int(volume), aggregating + multicasting)

    def to_json(self) -> dict[str, object]:
        """Return kind and lengths as strings ``p/q``."""
        return {"kind": self.kind, "lengths": [str(length) for length in self.lengths]}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> DualCertificate:
        """Read what `to_json` wrote; FormatError if it is anything else."""
        lengths = value.get("lengths")
        if set(value) != {"kind", "lengths"} or not isinstance(lengths, list):
            raise FormatError("length certificate: expected the keys kind and lengths, a list")
        return cls(tuple(read_rational(length) for length in lengths))


@brief("broadcast_cuts", "reduce_cuts", "prices")
@dataclass(frozen=True)
class CutCombinationCertificate:
    """Cuts with multipliers, and node potentials: a dual solution of the allreduce linear program (B.5).

    Parameters
    ----------
    broadcast_cuts, reduce_cuts : tuple of (nodes, multiplier)
        Node sets S without some rank, each with a multiplier > 0. Broadcasting must carry x(S) out of S,
        reducing must carry x(S) into S, where x(S) is the rate rooted in S.
    broadcast_potentials, reduce_potentials : tuple of (node, potential)
        Only at nodes that forward: switches and forwarders, except those that multicast (broadcast) or
        aggregate (reduce) by themselves.
    prices : tuple of (link, price), optional
        For GPU-initiated switches.

    Notes
    -----
    With multipliers p and potentials f, the value of link e = (u, v) in the broadcast is the sum of p(S) over
    the S that it leaves, plus f(v) - f(u); in the reduction, with the S that it enters. The link's price is
    the larger value, or 0. Every possible root lies in sets of total multiplier at least q, so
    ``T * q <= sum of b(e) * price(e)``. Roots are ranks and switches that both multicast and aggregate.

    The value of an operation of rank r at a GPU-initiated switch is the sum of p(S) over the S that hold r
    but not all ranks at the switch. It must not exceed the prices of the links that the operation crosses;
    `prices` raise those of links for that. Without `prices` such switches count as ones that work by
    themselves: these can do all that the others can, and load no more. With only two ranks at a switch, an
    operation crosses all links that a send crosses, so it need not be checked.
    """

    kind: ClassVar[str] = "cut-combination"

    broadcast_cuts: tuple[WeightedCut, ...]
    reduce_cuts: tuple[WeightedCut, ...]
    broadcast_potentials: tuple[Potential, ...] = ()
    reduce_potentials: tuple[Potential, ...] = ()
    prices: tuple[Price, ...] = ()

    def bound(self, topology: Topology, collective: Collective) -> Fraction:
        """Return the upper bound on algbw, bytes/s; ScheduleError if the cuts prove none."""
        _check_allreduce(collective)
        cuts = (*self.broadcast_cuts, *self.reduce_cuts)
        potentials = (*self.broadcast_potentials, *self.reduce_potentials)
        scale = common_scale(value for _, value in (*cuts, *potentials, *self.prices))
        coverage = np.zeros(topology.n_nodes, dtype=object)
        price = np.zeros(topology.n_links, dtype=object)
        for link, given in self.prices:
            if not 0 <= link < topology.n_links:
                raise ScheduleError(f"cut combination: a price for link {link} of {topology.n_links}")
            if given < 0:
                raise ScheduleError("cut combination: prices must not be negative")
            price[link] = max(price[link], int(given * scale))
        groups = [group for group in group_demands(topology, collective) if len(group.members) > 2]
        ranks, by_itself = frozenset(collective.ranks), topology.turns_round.copy()
        if not self.prices:
            by_itself[[group.switch for group in groups]] = True
        for weighted, values, leaving, branches in (
            (self.broadcast_cuts, self.broadcast_potentials, True, topology.multicast & by_itself),
            (self.reduce_cuts, self.reduce_potentials, False, topology.aggregation & by_itself),
        ):
            potential = np.zeros(topology.n_nodes, dtype=object)
            for node, height in values:
                if not 0 <= node < topology.n_nodes or node in ranks or branches[node]:
                    raise ScheduleError(
                        f"cut combination: node {node} must not have a potential, it can branch"
                    )
                potential[node] = int(height * scale)
            value = potential[topology.heads] - potential[topology.tails]
            for nodes, multiplier in weighted:
                inside = _cut(topology, collective, nodes, multiplier)
                coverage[inside] += int(multiplier * scale)
                here, there = inside[topology.tails], inside[topology.heads]
                value[here & ~there if leaving else ~here & there] += int(multiplier * scale)
            price = np.maximum(price, value)
        if self.prices:
            self._check_operations(topology, groups, price, scale)
        roots = [*collective.ranks, *np.flatnonzero(topology.multicast & topology.aggregation & by_itself)]
        covered = min(coverage[node] for node in roots)
        if not covered:
            raise ScheduleError("cut combination: some root is in no set, so nothing is proved")
        carries = topology.tails != topology.heads
        volume = (topology.bandwidths.astype(object) * price)[carries].sum()
        return Fraction(int(volume), int(covered))

    def _check_operations(
        self, topology: Topology, groups: Sequence[GroupDemand], price: NDArray[np.object_], scale: int
    ) -> None:
        """Raise ScheduleError if the value of an operation exceeds the prices of its links."""
        for switch, members, up, down in groups:
            for weighted, able, calls, others in (
                (self.broadcast_cuts, topology.multicast, up, down),
                (self.reduce_cuts, topology.aggregation, down, up),
            ):
                if not able[switch]:
                    continue
                # the cheapest of parallel links
                cost = {v: min(price[e] for e in links) for v, links in others.items()}
                value = dict.fromkeys(members, 0)
                for nodes, multiplier in weighted:
                    inside = set(nodes).intersection(members)
                    if len(inside) < len(members):
                        for rank in inside:
                            value[rank] += int(multiplier * scale)
                for rank in members:
                    if value[rank] > min(price[e] for e in calls[rank]) + sum(cost.values()):
                        raise ScheduleError(
                            f"cut combination: the value of operations of {topology.node_names[rank]!r} at "
                            f"switch {topology.node_names[switch]!r} exceeds the prices of their links"
                        )

    def to_json(self) -> dict[str, object]:
        """Return kind, cuts, potentials, and prices if there are any; multipliers are strings ``p/q``."""
        value: dict[str, object] = {"kind": self.kind}
        for key, (name, weight) in _JSON_FIELDS.items():
            if key != "prices" or self.prices:
                rows = ((list(what) if name == "nodes" else what, str(by)) for what, by in getattr(self, key))
                value[key] = [{name: what, weight: by} for what, by in rows]
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> CutCombinationCertificate:
        """Read what `to_json` wrote; FormatError if it is anything else."""
        required = [key for key in _JSON_FIELDS if key != "prices"]
        if set(value) - {"prices"} != {"kind", *required}:
            raise FormatError(f"cut combination: expected the keys kind, {', '.join(required)}")
        return cls(**{key: _entries(value.get(key, []), *names) for key, names in _JSON_FIELDS.items()})


_JSON_FIELDS = {
    **dict.fromkeys(("broadcast_cuts", "reduce_cuts"), ("nodes", "multiplier")),
    **dict.fromkeys(("broadcast_potentials", "reduce_potentials"), ("node", "potential")),
    "prices": ("link", "price"),
}
"""Keys of the entries of each field."""


def common_scale(values: Iterable[Fraction]) -> int:
    """Return the least common denominator; ScheduleError if it is so long that it would fill the memory."""
    scale = 1
    for value in values:
        scale = lcm(scale, value.denominator)
        if scale.bit_length() > _MAX_SCALE_BITS:
            raise ScheduleError(
                f"certificate: its fractions have no common denominator below 2**{_MAX_SCALE_BITS}; "
                f"use coarser ones"
            )
    return scale


def _check_allreduce(collective: Collective) -> None:
    if collective.kind is not CollectiveKind.ALLREDUCE:
        raise ScheduleError(f"the certificate bounds an allreduce, not {collective.kind}")


def _pair_lengths(topology: Topology, lengths: Sequence[int]) -> dict[tuple[int, int], int]:
    """Return the smallest length of each pair of joined nodes, in both orders."""
    pairs: dict[tuple[int, int], int] = {}
    for tail, head, length in zip(topology.tails.tolist(), topology.heads.tolist(), lengths, strict=True):
        if tail != head:
            shortest = min(length, pairs.get((tail, head), length))
            pairs[tail, head] = pairs[head, tail] = shortest
    return pairs


def _cut(
    topology: Topology, collective: Collective, nodes: tuple[int, ...], multiplier: Fraction
) -> BoolArray:
    if any(not 0 <= node < topology.n_nodes for node in nodes):
        raise ScheduleError(f"a cut names a node beyond the {topology.n_nodes} of {topology.name}")
    if multiplier < 0:
        raise ScheduleError("cut combination: multipliers must not be negative")
    inside = mask_of(topology.n_nodes, list(nodes))
    if all(inside[node] for node in collective.ranks):
        raise ScheduleError("a cut contains every rank, so nothing has to cross it")
    return inside


def _entries(value: object, name: str, weight: str) -> tuple[tuple[Any, Fraction], ...]:
    if not isinstance(value, list):
        raise FormatError("cut combination: expected lists of objects")
    read = _nodes if name == "nodes" else _node
    entries = []
    for entry in value:
        if not isinstance(entry, Mapping) or set(entry) != {name, weight}:
            raise FormatError(f"cut combination: expected objects with the keys {name} and {weight}")
        entries.append((read(entry[name]), read_rational(entry[weight])))
    return tuple(entries)


def _node(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise FormatError(f"cut combination: {repr(value)[:40]} is not a node index")
    return value


def _nodes(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise FormatError("cut combination: nodes must be a list of node indices")
    return tuple(map(_node, value))


def read_rational(value: object) -> Fraction:
    """Read a rational, ``p`` or ``p/q``, of up to 1000 digits each; FormatError for anything else."""
    if not isinstance(value, str) or not re.fullmatch(r"-?[0-9]{1,1000}(/[1-9][0-9]{0,999})?", value):
        raise FormatError(f"certificate: {str(value)[:40]!r} is not a rational p/q")
    return Fraction(value)
