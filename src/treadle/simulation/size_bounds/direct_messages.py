"""Bounds for fabrics whose links all join ranks and are of one class: direct and relayed messages.

Direct: a pair of ranks may be so far apart that two messages one after another end later than the time to be
proved. Then no data is joined between them, not even sums: the pair has a message of its own, with all of its
bytes. The messages of one rank hold its outgoing links one after another.

Relayed: before the time at which three messages one after another end, every contribution to a byte of an
allreduce reaches a rank by one message or by two, of which the second brings a sum. The sum holds only
contributions of ranks that are near enough to have sent them before, and each message of a byte takes that
byte of all links of its path. This gives the link time that all contributions need. If the time allows longer
paths, one sum reaches more ranks, so several times are tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from treadle.arrays import BoolArray
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.size_bounds.distance import receives_from
from treadle.simulation.size_bounds.message_terms import FAR_NS, MessageTerms, time_to_carry
from treadle.simulation.size_bounds.size_certificate import DirectCertificate, RelayedCertificate
from treadle.topologies.distances import distance_matrix

_DIRECT = (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE)
_MOST_NODES = 128
_MOST_SOURCES = 16
_MOST_CLASSES, _MOST_TYPES = 10, 16
_BEYOND_NS = 10**15

_Class = tuple[int, Fraction, int]
"""Ranks at one distance from another: latency of the path, ns; link time of a byte, ns; number of ranks."""
_Around = tuple[tuple[_Class, ...], tuple[_Class, ...]]
"""Classes of the ranks from which and to which a rank may have messages."""
_Point = tuple[int, Fraction]
"""Contributions that a rank's messages of a byte bring, and the link time that they and those before take."""


def _has_one_class(terms: MessageTerms) -> bool:
    topology = terms.topology
    return len(terms.classes) == 1 and bool(topology.is_compute.all()) and topology.n_nodes <= _MOST_NODES


@dataclass(frozen=True)
class DirectPairs:
    """Pairs of a certificate, and values that do not depend on the size.

    Parameters
    ----------
    two_ns : int
        The shortest time of two messages for any of the pairs.
    free_ns : tuple of int
        Time at the beginning and the end for which each link of the source holds none of the messages.
    held_ns : int
        Time for which the messages hold the links in total, without bytes.
    held_per_byte : Fraction
        ns for each byte of the buffer.
    """

    certificate: DirectCertificate
    two_ns: int
    free_ns: tuple[int, ...]
    held_ns: int
    held_per_byte: Fraction

    def time_ns(self, size_bytes: int) -> Fraction:
        """Return the time before which not all pairs have their messages, ns."""
        windows = [(free, 1) for free in sorted(self.free_ns)]
        held = self.held_ns + self.held_per_byte * size_bytes
        return min(Fraction(self.two_ns), time_to_carry(windows, held))


def direct_pairs(terms: MessageTerms, collective: Collective) -> Iterator[DirectPairs]:
    """Yield pairs that may give a bound: those of some ranks, at least so far apart."""
    kind, nodes, n = collective.kind, np.array(collective.ranks), collective.n_ranks
    exchanges = kind is CollectiveKind.ALLTOALL
    if collective.groups is not None or not (exchanges or kind in _DIRECT) or not _has_one_class(terms):
        return
    if not exchanges and len(set(collective.shard_weights)) > 1:
        return
    ways = terms.least_latencies(np.eye(terms.topology.n_nodes, dtype=np.bool_))
    gap, alpha = (terms.least_of(one, terms.classes) for one in ("occupancy_ns", "alpha_ns"))
    one = np.minimum(ways + gap + alpha, FAR_NS)
    lone = one + np.where(np.eye(len(one), dtype=np.bool_), FAR_NS, 0)  # no rank sends to itself
    two = np.array([(lone[node][:, None] + lone).min(axis=0) for node in nodes.tolist()])[:, nodes]
    between = one[np.ix_(nodes, nodes)]
    wanted = receives_from(collective, [*range(n)]) & (between < FAR_NS)
    # bytes of an all-to-all are not counted
    part = Fraction(0) if exchanges else Fraction(1, 1 if kind is CollectiveKind.ALLREDUCE else n)
    rates = terms.rates
    for least in np.unique(between[wanted]).tolist():
        far: BoolArray = wanted & (between >= least)
        for source in range(0, n, -(-n // _MOST_SOURCES)):
            many = int(far[source].sum())
            if many:
                links = np.flatnonzero(terms.carries & (terms.topology.tails == nodes[source]))
                after = ways[:, nodes[far[source]]].min(axis=1)
                free = after[terms.topology.heads[links]] + terms.latency_ns[links] + alpha
                yield DirectPairs(
                    DirectCertificate(source, least),
                    int(two[source, far[source]].min()),
                    tuple(free.tolist()),
                    many * gap,
                    many * part * Fraction(10**9, int(rates[links].max())),
                )


@dataclass(frozen=True)
class RelayedMessages:
    """Values of a fabric that do not depend on the size.

    Parameters
    ----------
    around : Counter
        Number of ranks by neighbourhood.
    n_ranks : int
    start_ns, occupancy_ns : int
        g + alpha, and g.
    three_ns : int
        The shortest time of three messages one after another.
    pauses_ns : tuple of (int, int)
        Time for which links carry nothing at the end, ascending, and the number of links.
    """

    around: Counter[_Around]
    n_ranks: int
    start_ns: int
    occupancy_ns: int
    three_ns: int
    pauses_ns: tuple[tuple[int, int], ...]

    def proof(self, size_bytes: int) -> tuple[Fraction, RelayedCertificate]:
        """Return the latest time that can be proved at a size, seconds, and its certificate."""
        # times from which one message may come from farther, or two
        near = {self.start_ns + one[0] for _, targets in self.around for one in targets}
        near |= {
            2 * self.start_ns + one[0] + other[0]
            for sources, targets in self.around
            for one in sources
            for other in targets
        }
        best, price_ns = Fraction(-1), Fraction(0)
        for limit in [*sorted(one for one in near if one < self.three_ns), self.three_ns]:
            if limit > best:
                price, needed = self._needed(limit, size_bytes)
                time = min(Fraction(limit), time_to_carry(self.pauses_ns, needed * size_bytes))
                if time > best:
                    best, price_ns = time, price
        return best / 10**9, RelayedCertificate(price_ns)

    def _needed(self, limit: int, size_bytes: int) -> tuple[Fraction, Fraction]:
        """Return the best price of a contribution, and the link time of a byte, ns, before a limit."""
        extra = Fraction(self.occupancy_ns, size_bytes)
        hulls = [(_hull(self._points(one, limit, extra)), many) for one, many in self.around.items()]
        slopes = {
            (after[1] - before[1]) / (after[0] - before[0])
            for hull, _ in hulls
            for before, after in pairwise(hull)
        }
        pairs = self.n_ranks * (self.n_ranks - 1)

        def needed(price: Fraction) -> Fraction:
            saved = sum(
                many * max(price * brought - taken for brought, taken in hull) for hull, many in hulls
            )
            return price * pairs - saved

        # Beyond the last slope everything possible is brought. If that is not all, no link time suffices.
        slopes.add(max(slopes, default=Fraction(0)) + _BEYOND_NS)
        found = max(slopes, key=needed)
        return found, needed(found)

    def _points(self, around: _Around, limit: int, extra: Fraction) -> Iterator[_Point]:
        """Yield contributions for a byte at least cost: from the nearest ranks, to the cheapest ones."""
        sources, targets = around
        for count in range(len(sources) + 1):
            brought, taken = 0, sum((many * (cost + extra) for _, cost, many in sources[:count]), Fraction(0))
            yield brought, taken
            offers = []
            for latency, cost, many in targets:
                if latency + self.start_ns < limit:
                    left = limit - latency - 2 * self.start_ns
                    held = 1 + sum(ranks for first, _, ranks in sources[:count] if first < left)
                    offers.append(((cost + extra) / held, held * many, (cost + extra) * many))
            for _, contributions, cost in sorted(offers):
                brought, taken = brought + contributions, taken + cost
                yield brought, taken


def _hull(points: Iterator[_Point]) -> list[_Point]:
    """Return the lower convex hull, from no contribution on."""
    found: list[_Point] = []
    for point in sorted(points):
        if found and point[0] == found[-1][0]:
            continue
        while len(found) > 1:
            one, middle = found[-2:]
            # below the line of its neighbours
            if (middle[1] - one[1]) * (point[0] - one[0]) < (point[1] - one[1]) * (middle[0] - one[0]):
                break
            found.pop()
        found.append(point)
    return found


def relayed_messages(terms: MessageTerms, collective: Collective) -> RelayedMessages | None:
    """Return the values for the proof; None with switches, several classes, or other collectives."""
    is_allreduce = collective.kind is CollectiveKind.ALLREDUCE and collective.groups is None
    if not is_allreduce or not _has_one_class(terms) or collective.n_ranks != terms.topology.n_nodes:
        return None
    around = _neighbourhoods(terms)
    if around is None:
        return None
    gap, alpha = (terms.least_of(one, terms.classes) for one in ("occupancy_ns", "alpha_ns"))
    latencies = terms.latency_ns[terms.carries]
    return RelayedMessages(
        around,
        collective.n_ranks,
        gap + alpha,
        gap,
        3 * (gap + alpha + int(latencies.min())),
        tuple(sorted(Counter((latencies + alpha).tolist()).items())),
    )


def _neighbourhoods(terms: MessageTerms) -> Counter[_Around] | None:
    """Return the ranks around each rank, by latency and by link time; None if many differ."""
    latency = terms.least_latencies(np.eye(terms.topology.n_nodes, dtype=np.bool_))
    rates = terms.rates[terms.carries]
    if rates.min() != rates.max() or latency.max() >= FAR_NS:
        return None
    hops = distance_matrix(terms.topology)
    each = Fraction(10**9, int(rates[0]))
    found: Counter[_Around] = Counter()
    for node in range(len(latency)):
        sides = []
        for ways, steps in ((latency[:, node], hops[:, node]), (latency[node], hops[node])):
            classes_of = Counter(zip(ways.tolist(), steps.tolist(), strict=True))
            classes_of.pop((0, 0))
            classes = tuple((way, each * step, many) for (way, step), many in sorted(classes_of.items()))
            costs = [cost for _, cost, _ in classes]
            # the nearest ranks send first only if they are also the cheapest
            if len(classes) > _MOST_CLASSES or costs != sorted(costs):
                return None
            sides.append(classes)
        found[sides[0], sides[1]] += 1
        if len(found) > _MOST_TYPES:
            return None
    return found
