"""Whether an allreduce by chains of at most two messages takes more of its links than a time leaves.

Every rank in turn is asked what it could save at most: for each choice of those whom it tells a sum of a
byte, each other rank tells it before or does not, whichever is better. All that can be saved is found so,
since neither choice has anything to do with others of its kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import lcm

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.size_bounds.checked_fabric import CheckedFabric, least_prices
from treadle.simulation.size_bounds.size_certificate import RelayedCertificate

_Others = Counter[tuple[int, Fraction]]
"""How many ranks are so far, in ns of latency, and in ns of links for each byte."""

_MOST_CLASSES = 12
_FAR = 2**80
"""Farther than anything: no way."""


class RelayedCheck:
    """Distances of a fabric whose links all join ranks and are of one class, found once."""

    def __init__(self, fabric: CheckedFabric, collective: Collective) -> None:
        topology = fabric.topology
        self._cost, self._hops = fabric.of_one_class()
        everybody = sorted(collective.ranks) == list(range(topology.n_nodes))
        if not all(topology.is_compute) or not everybody:
            raise ScheduleError("size bound: switches or forwarders may do what is counted of ranks")
        if collective.kind is not CollectiveKind.ALLREDUCE or collective.groups:
            raise ScheduleError(f"size bound: contributions to {collective.kind} are not counted")
        self._n = topology.n_nodes
        late = self._all_ways([latency for _, _, latency, _ in self._hops])
        scale = lcm(*(rate.numerator for *_, rate in self._hops))
        dear = self._all_ways([int(scale / rate) for *_, rate in self._hops])
        unit = Fraction(10**9, scale)
        self._around: Counter[tuple[frozenset[tuple[object, int]], ...]] = Counter()
        self._sides: list[tuple[_Others, _Others]] = []
        for node in range(self._n):
            others = [other for other in range(self._n) if other != node]
            tellers = Counter((late[other][node], dear[other][node]) for other in others)
            told = Counter((late[node][other], dear[node][other]) for other in others)
            key = (frozenset(tellers.items()), frozenset(told.items()))
            if key not in self._around:
                self._sides.append((_in_ns(tellers, unit), _in_ns(told, unit)))
            self._around[key] += 1

    def _all_ways(self, prices: Sequence[int]) -> list[list[int]]:
        """Least price from every node to every node."""
        arcs = [(tail, head, price) for (tail, head, *_), price in zip(self._hops, prices, strict=True)]
        rows = least_prices(arcs, [[node] for node in range(self._n)])
        return [[row.get(node, _FAR) for node in range(self._n)] for row in rows]

    def check(self, witness: RelayedCertificate, claimed: Fraction, size_bytes: int) -> None:
        """Raise ScheduleError if links may carry all before the claimed ns."""
        cost = self._cost
        start, worth = cost.occupancy_ns + cost.alpha_ns, witness.worth_ns
        nearest = min(latency for _, _, latency, _ in self._hops)
        if 3 * (start + nearest) < claimed:
            raise ScheduleError(f"size bound: three messages may end before {claimed} ns")
        if worth < 0:
            raise ScheduleError(f"size bound: a contribution is worth {worth} ns")
        saved = sum(
            (
                many
                * self._most_saved(*sides, worth, claimed - start, Fraction(cost.occupancy_ns, size_bytes))
                for sides, many in zip(self._sides, self._around.values(), strict=True)
            ),
            Fraction(0),
        )
        needed = (worth * self._n * (self._n - 1) - saved) * size_bytes
        free = sum(
            (max(Fraction(0), claimed - latency - cost.alpha_ns) for _, _, latency, _ in self._hops),
            Fraction(0),
        )
        if free > needed:
            raise ScheduleError(f"size bound: links may have carried all by {claimed} ns")

    def _most_saved(
        self, tellers: _Others, told: _Others, worth: Fraction, left: Fraction, each: Fraction
    ) -> Fraction:
        """Worth of all that a rank's messages of a byte bring, less what they and those to it take.

        Parameters
        ----------
        tellers, told : Counter
        worth : Fraction
        left : Fraction
            ns from the end of g and alpha of a single message until the time in question.
        each : Fraction
            ns that a message holds its first link for, shared out over bytes.
        """
        start = self._cost.occupancy_ns + self._cost.alpha_ns
        reached = [(way, price, many) for (way, price), many in told.items() if way < left]
        if len(reached) > _MOST_CLASSES:
            raise ScheduleError(f"size bound: ranks at {len(reached)} distances, at most {_MOST_CLASSES}")
        best = Fraction(0)
        for chosen in product((False, True), repeat=len(reached)):
            taken = [one for one, is_taken in zip(reached, chosen, strict=True) if is_taken]
            total = sum((many * (worth - price - each) for _, price, many in taken), Fraction(0))
            for (way, price), many in tellers.items():
                helped = sum(count for other, _, count in taken if way + other + start < left)
                total += many * max(Fraction(0), worth * helped - price - each)
            best = max(best, total)
        return best


def _in_ns(ranks: Counter[tuple[int, int]], unit: Fraction) -> _Others:
    return Counter({(way, price * unit): many for (way, price), many in ranks.items()})
