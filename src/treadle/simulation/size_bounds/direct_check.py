"""Checks of direct and relayed messages: fabrics whose links all join ranks and are of one class.

A direct certificate holds if two messages reach each of its pairs too late, and links cannot carry a message
for each pair. A relayed certificate holds if chains of at most two messages take more of the links than a
time leaves. For it, each rank in turn counts with the most that it could save: for each choice of the ranks
to which it sends a sum of a byte, every other rank has sent to it before or not, whichever is better. No
saving is missed, because these choices are independent of each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from math import lcm

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.size_bounds.checked_fabric import Check, CheckedFabric, carried, least_prices
from treadle.simulation.size_bounds.size_certificate import DirectCertificate, RelayedCertificate

_Ranks = Counter[tuple[int, Fraction]]
"""Number of ranks by latency of the path, ns, and link time of a byte on it, ns."""

_Side = frozenset[tuple[tuple[int, int], int]]
"""The same, link times in units of `scale`."""

_DIRECT = (
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALLREDUCE,
    CollectiveKind.ALLTOALL,
)
_MOST_CLASSES = 12
_BEYOND = 2**80
"""Price of an unreachable node, above every sum of latencies or scaled link times."""


def direct_check(fabric: CheckedFabric, collective: Collective) -> Check:
    """Check that links cannot carry a message of its own for each pair that two messages reach too late."""
    cost, hops = fabric.of_one_class()
    kind, n, nodes = collective.kind, collective.n_ranks, collective.ranks
    exchanges = kind is CollectiveKind.ALLTOALL
    if not all(fabric.topology.is_compute):
        raise ScheduleError("size bound: a message through a switch may reach several pairs")
    even = exchanges or len(set(collective.shard_weights)) == 1
    if kind not in _DIRECT or collective.groups or not even:
        raise ScheduleError(f"size bound: pairs of {kind} are not counted")
    # bytes of an all-to-all are not counted
    part = Fraction(0) if exchanges else Fraction(1, 1 if kind is CollectiveKind.ALLREDUCE else n)
    way = least_prices([hop[:3] for hop in hops], [[node] for node in range(fabric.topology.n_nodes)])
    start = cost.occupancy_ns + cost.alpha_ns

    @cache
    def pairs_of(certificate: DirectCertificate) -> tuple[int, int, list[tuple[int, int]], int]:
        """Return the number of pairs, the shortest time of two messages, links by idle time, the top rate."""
        if not 0 <= certificate.source < n:
            raise ScheduleError(f"size bound: rank {certificate.source} of {n}")
        node = nodes[certificate.source]
        demands = collective.pair_demands.between if exchanges else None
        targets = [
            nodes[target]
            for target in range(n)
            if target != certificate.source
            and way[node].get(nodes[target], -_BEYOND) + start >= certificate.least_ns
            and (demands is None or demands[certificate.source, target])
        ]
        if not targets:
            raise ScheduleError(f"size bound: no pair is {certificate.least_ns} ns apart")
        two_ns = min(
            (
                first + way[middle][target] + 2 * start
                for target in targets
                for middle, first in way[node].items()
                if middle not in (node, target) and target in way[middle]
            ),
            default=_BEYOND,
        )
        leaving = [hop for hop in hops if hop[0] == node]
        pauses = [
            (latency + min(way[head].get(target, _BEYOND) for target in targets) + cost.alpha_ns, 1)
            for _, head, latency, _ in leaving
        ]
        return len(targets), two_ns, pauses, max(rate for *_, rate in leaving)

    def check(certificate: DirectCertificate, claimed: Fraction, size_bytes: int) -> None:
        many, two_ns, pauses, fastest = pairs_of(certificate)
        if two_ns < claimed:
            raise ScheduleError(f"size bound: two messages reach a pair after {two_ns} ns, before {claimed}")
        if carried(pauses, claimed) > many * (cost.occupancy_ns + part * size_bytes * 10**9 / fastest):
            raise ScheduleError(f"size bound: {many} pairs may have their messages before {claimed} ns")

    return check


def relayed_check(fabric: CheckedFabric, collective: Collective) -> Check:
    """Check that links cannot carry the chains of at most two messages before the claimed time."""
    cost, hops = fabric.of_one_class()
    n, start = fabric.topology.n_nodes, cost.occupancy_ns + cost.alpha_ns
    if not all(fabric.topology.is_compute) or sorted(collective.ranks) != list(range(n)):
        raise ScheduleError("size bound: switches or forwarders may do what is counted of ranks")
    if collective.kind is not CollectiveKind.ALLREDUCE or collective.groups:
        raise ScheduleError(f"size bound: contributions to {collective.kind} are not counted")

    def least(prices: Sequence[int]) -> list[list[int]]:
        """Return the least price from every node to every node."""
        arcs = [(tail, head, price) for (tail, head, *_), price in zip(hops, prices, strict=True)]
        rows = least_prices(arcs, [[node] for node in range(n)])
        return [[row.get(node, _BEYOND) for node in range(n)] for row in rows]

    latency = least([hop[2] for hop in hops])
    scale = lcm(*(hop[3] for hop in hops))  # makes the link times of a byte integers
    price = least([scale // hop[3] for hop in hops])
    sides: Counter[tuple[_Side, _Side]] = Counter()  # many nodes have the same neighbourhood
    for node in range(n):
        others = [other for other in range(n) if other != node]
        senders = Counter((latency[other][node], price[other][node]) for other in others)
        receivers = Counter((latency[node][other], price[node][other]) for other in others)
        sides[frozenset(senders.items()), frozenset(receivers.items())] += 1
    around = [
        (_in_ns(before, scale), _in_ns(after, scale), count) for (before, after), count in sides.items()
    ]

    def check(certificate: RelayedCertificate, claimed: Fraction, size_bytes: int) -> None:
        price_ns = certificate.worth_ns
        if 3 * (start + min(hop[2] for hop in hops)) < claimed:
            raise ScheduleError(f"size bound: three messages may end before {claimed} ns")
        if price_ns < 0:
            raise ScheduleError(
                f"size bound: a contribution has the price {price_ns} ns, expected none or more"
            )
        each = Fraction(cost.occupancy_ns, size_bytes)
        saved = sum(
            count * _most_saved(senders, receivers, price_ns, claimed - start, each, start)
            for senders, receivers, count in around
        )
        needed = (price_ns * n * (n - 1) - saved) * size_bytes
        if carried(((hop[2] + cost.alpha_ns, 1) for hop in hops), claimed) > needed:
            raise ScheduleError(f"size bound: links may have carried all by {claimed} ns")

    return check


def _in_ns(side: _Side, scale: int) -> _Ranks:
    return Counter({(way, Fraction(price * 10**9, scale)): many for (way, price), many in side})


def _most_saved(
    senders: _Ranks, receivers: _Ranks, price_ns: Fraction, left: Fraction, each: Fraction, start: int
) -> Fraction:
    """Return the most that a rank's messages of a byte bring, less the link time that they take.

    Parameters
    ----------
    senders, receivers : Counter
    price_ns : Fraction
        Price of a contribution, ns.
    left : Fraction
        Time after the gap and alpha of a single message until the claimed time, ns.
    each : Fraction
        Occupancy of a message's first link, divided by its bytes, ns.
    start : int
        Gap and alpha, ns.
    """
    reached = [(way, price, many) for (way, price), many in receivers.items() if way < left]
    if len(reached) > _MOST_CLASSES:
        raise ScheduleError(f"size bound: ranks at {len(reached)} distances, at most {_MOST_CLASSES}")
    best = Fraction(0)
    for chosen in product((False, True), repeat=len(reached)):
        taken = [one for one, is_taken in zip(reached, chosen, strict=True) if is_taken]
        total = sum((many * (price_ns - price - each) for _, price, many in taken), Fraction(0))
        for (way, price), many in senders.items():
            helped = sum(count for other, _, count in taken if way + other + start < left)
            total += many * max(Fraction(0), price_ns * helped - price - each)
        best = max(best, total)
    return best
