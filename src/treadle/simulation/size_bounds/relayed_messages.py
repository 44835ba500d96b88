"""What an allreduce takes of its links if data come by two messages one after another, over near ranks.

Before a time at which three messages one after another end, every contribution to a byte comes to a rank by
one message or by two, of which the second brings a sum. What a rank's sum holds is limited by who is near
enough to have told it before, and each message of a byte takes that byte of all links of its way. So many
contributions in all take so much of the links. Where the time allows longer ways more ranks are told by one
sum, so that several times are tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.size_bounds.message_terms import FAR_NS, MessageTerms
from treadle.simulation.size_bounds.size_certificate import RelayedCertificate
from treadle.topologies.distances import distance_matrix

_BEYOND_NS = 10**15
_MOST_NODES, _MOST_CLASSES, _MOST_TYPES = 128, 10, 16

_Class = tuple[int, Fraction, int]
"""Ranks that are alike for another: latency of the way in ns, link time in ns for each byte, how many."""
_Around = tuple[tuple[_Class, ...], tuple[_Class, ...]]
"""From whom and to whom a rank may have messages."""
_Point = tuple[int, Fraction]
"""Contributions that messages of a rank bring for a byte, and what they and those before take of links."""


@dataclass(frozen=True)
class RelayedMessages:
    """What is known of a fabric, whatever the size.

    Parameters
    ----------
    around : mapping of tuples to int
        Neighbourhoods that differ, and of how many ranks each is.
    n_ranks : int
    start_ns, occupancy_ns : int
        g + alpha, and g.
    three_ns : int
        The least that three messages one after another take.
    pauses_ns : tuple of (int, int)
        For how long links carry nothing in the end, rising, and how many of them.
    """

    around: Counter[_Around]
    n_ranks: int
    start_ns: int
    occupancy_ns: int
    three_ns: int
    pauses_ns: tuple[tuple[int, int], ...]

    def proof(self, size_bytes: int) -> tuple[Fraction, RelayedCertificate]:
        """The time that can be proved at a size, seconds, and the witness that proves most."""
        best, worth_ns = Fraction(-1), Fraction(0)
        for limit in self._limits():
            end = min(limit, self.three_ns)
            if end > best:
                worth, needed = self._needed(limit, size_bytes)
                time = min(Fraction(end), self._moved_by(needed * size_bytes))
                if time > best:
                    best, worth_ns = time, worth
        return best / 10**9, RelayedCertificate(worth_ns)

    def _limits(self) -> list[int]:
        """Times at which one message may come from farther, or two."""
        sums = {
            2 * self.start_ns + one[0] + other[0]
            for sources, targets in self.around
            for one in sources
            for other in targets
        }
        sums |= {self.start_ns + one[0] for _, targets in self.around for one in targets}
        return [*sorted(one for one in sums if one < self.three_ns), self.three_ns]

    def _needed(self, limit: int, size_bytes: int) -> tuple[Fraction, Fraction]:
        """The best worth of a contribution, and link time in ns for each byte, before a limit."""
        extra = Fraction(self.occupancy_ns, size_bytes)
        hulls = [(_hull(self._points(one, limit, extra)), many) for one, many in self.around.items()]
        slopes = {
            (after[1] - before[1]) / (after[0] - before[0])
            for hull, _ in hulls
            for before, after in pairwise(hull)
        }
        pairs = self.n_ranks * (self.n_ranks - 1)

        def needed(worth: Fraction) -> Fraction:
            saved = sum(
                (many * max(worth * brought - taken for brought, taken in hull) for hull, many in hulls),
                Fraction(0),
            )
            return worth * pairs - saved

        # beyond the last slope all that can be is brought; where that is not enough, no link time is
        slopes.add(max(slopes, default=Fraction(0)) + _BEYOND_NS)
        found = max(slopes, key=needed)
        return found, needed(found)

    def _points(self, around: _Around, limit: int, extra: Fraction) -> list[_Point]:
        """What a rank may bring for a byte, at the least cost: told by the nearest, telling the cheapest."""
        sources, targets = around
        found: list[_Point] = []
        for told in range(len(sources) + 1):
            before = sum((many * (cost + extra) for _, cost, many in sources[:told]), Fraction(0))
            offers = []
            for latency, cost, many in targets:
                if latency + self.start_ns >= limit:
                    continue
                known = 1 + sum(
                    count for first, _, count in sources[:told] if first + latency + 2 * self.start_ns < limit
                )
                offers.append(((cost + extra) / known, known * many, (cost + extra) * many))
            brought, taken = 0, before
            found.append((0, before))
            for _, contributions, cost in sorted(offers):
                brought, taken = brought + contributions, taken + cost
                found.append((brought, taken))
        return found

    def _moved_by(self, needed_ns: Fraction) -> Fraction:
        """When links can have carried so much, ns."""
        idle = links = 0
        time = Fraction(0)
        for pause, many in self.pauses_ns:
            if links and time <= pause:
                break
            idle, links = idle + pause * many, links + many
            time = (needed_ns + idle) / links
        return time


def _hull(points: Sequence[_Point]) -> list[_Point]:
    """Lower convex hull, from nothing brought."""
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
    """What the proof needs; None where it is not made: switches, several classes, other collectives."""
    topology = terms.topology
    if (
        collective.kind is not CollectiveKind.ALLREDUCE
        or collective.groups is not None
        or len(terms.classes) != 1
        or not topology.is_compute.all()
        or collective.n_ranks != topology.n_nodes
        or topology.n_nodes > _MOST_NODES
    ):
        return None
    gap, alpha = (terms.least_of(one, terms.classes) for one in ("occupancy_ns", "alpha_ns"))
    around = _neighbourhoods(terms)
    if around is None:
        return None
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
    """Ranks around each rank, by latency and by link time; None where many differ."""
    latency = terms.least_latencies(np.eye(terms.topology.n_nodes, dtype=np.bool_))
    rates = terms.rates()[terms.carries]
    if rates.min() != rates.max():
        return None
    if latency.max() >= FAR_NS:
        return None
    hops = distance_matrix(terms.topology)
    each = Fraction(10**9, int(rates[0]))
    found: Counter[_Around] = Counter()
    for node in range(len(latency)):
        sides = []
        for ways, steps in ((latency[:, node], hops[:, node]), (latency[node], hops[node])):
            alike = Counter(zip(ways.tolist(), steps.tolist(), strict=True))
            alike.pop((0, 0))
            classes = tuple((way, each * step, many) for (way, step), many in sorted(alike.items()))
            costs = [cost for _, cost, _ in classes]
            # the nearest are told first only if they are the cheapest too
            if len(classes) > _MOST_CLASSES or costs != sorted(costs):
                return None
            sides.append(classes)
        found[sides[0], sides[1]] += 1
        if len(found) > _MOST_TYPES:
            return None
    return found
