"""Whether pairs of ranks that two messages serve too late cannot all be served by one each before a time."""

from __future__ import annotations

from fractions import Fraction

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.size_bounds.checked_fabric import CheckedFabric, least_prices
from treadle.simulation.size_bounds.size_certificate import DirectCertificate

_Facts = tuple[int, int, list[int], Fraction]

_SERVED = (
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALLREDUCE,
    CollectiveKind.ALLTOALL,
)


class DirectCheck:
    """Distances of a fabric whose links all join ranks and are of one class, found once."""

    def __init__(self, fabric: CheckedFabric, collective: Collective) -> None:
        topology = fabric.topology
        self._cost, self._hops = fabric.of_one_class()
        if not all(topology.is_compute):
            raise ScheduleError("size bound: switches may serve several pairs by one message")
        exchanges = collective.kind is CollectiveKind.ALLTOALL
        even = exchanges or len(set(collective.shard_weights)) == 1
        if collective.kind not in _SERVED or collective.groups or not even:
            raise ScheduleError(f"size bound: pairs of {collective.kind} are not counted")
        self._found: dict[DirectCertificate, _Facts] = {}
        self._collective = collective
        arcs = [(tail, head, latency) for tail, head, latency, _ in self._hops]
        self._way = least_prices(arcs, [[node] for node in range(topology.n_nodes)])

    def check(self, witness: DirectCertificate, claimed: Fraction, size_bytes: int) -> None:
        """Raise ScheduleError if the pairs may all be served before the claimed ns."""
        if witness not in self._found:
            self._found[witness] = self._pairs(witness)
        many, two_ns, pauses, fastest = self._found[witness]
        if two_ns < claimed:
            raise ScheduleError(f"size bound: two messages serve a pair after {two_ns} ns, before {claimed}")
        kind, cost = self._collective.kind, self._cost
        each = Fraction(size_bytes)
        if kind is not CollectiveKind.ALLREDUCE:
            each = each / self._collective.n_ranks if kind is not CollectiveKind.ALLTOALL else Fraction(0)
        held = many * (cost.occupancy_ns + each * 10**9 / fastest)
        free = sum((max(Fraction(0), claimed - pause) for pause in pauses), Fraction(0))
        if free > held:
            raise ScheduleError(f"size bound: {many} pairs may have their messages before {claimed} ns")

    def _pairs(self, witness: DirectCertificate) -> _Facts:
        """How many; what two messages take at least; how long links hold none; the fastest link."""
        n, nodes, cost = self._collective.n_ranks, self._collective.ranks, self._cost
        if not 0 <= witness.source < n:
            raise ScheduleError(f"size bound: rank {witness.source} of {n}")
        start = cost.occupancy_ns + cost.alpha_ns
        node = nodes[witness.source]
        way = self._way[node]
        exchanges = self._collective.kind is CollectiveKind.ALLTOALL
        demands = self._collective.pair_demands.between if exchanges else None
        targets = [
            nodes[target]
            for target in range(n)
            if target != witness.source
            and nodes[target] in way
            and way[nodes[target]] + start >= witness.least_ns
            and (demands is None or demands[witness.source, target])
        ]
        if not targets:
            raise ScheduleError(f"size bound: no pair is {witness.least_ns} ns apart")
        two_ns = 2**62
        for target in targets:
            for middle, first in way.items():
                if middle not in (node, target) and target in self._way[middle]:
                    two_ns = min(two_ns, first + self._way[middle][target] + 2 * start)
        pauses, fastest = [], Fraction(0)
        for tail, head, latency, rate in self._hops:
            if tail == node:
                rest = min(self._way[head].get(target, 2**62) for target in targets)
                pauses.append(latency + rest + cost.alpha_ns)
                fastest = max(fastest, rate)
        return len(targets), two_ns, pauses, fastest
