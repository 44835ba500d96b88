"""Whether a bound at a size holds: computed anew from its witnesses, the fabric and the costs.

Shares no code with what finds bounds but the values: witnesses, costs, and which class a link is of. Here
distances are relaxed node by node, ways to know are counted by the moments at which they begin, and a
crossing is tried at the very time that is claimed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from treadle.errors import ScheduleError
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.costs.cost_model import Protocol
from treadle.simulation.costs.link_classes import CLASSES
from treadle.simulation.size_bounds.checked_fabric import CheckedFabric
from treadle.simulation.size_bounds.direct_check import DirectCheck
from treadle.simulation.size_bounds.growth_check import check_growth_values, most_pairs
from treadle.simulation.size_bounds.relayed_check import RelayedCheck
from treadle.simulation.size_bounds.size_certificate import (
    CrossingCertificate,
    DirectCertificate,
    GatheredCertificate,
    GrowthCertificate,
    PairCertificate,
    ReachCertificate,
    RelayedCertificate,
    SizeBound,
)
from treadle.topologies.topology import Topology


def check_size_bounds(
    topology: Topology,
    collective: Collective,
    protocols: Sequence[Protocol],
    bounds: Sequence[SizeBound],
) -> None:
    """Raise ScheduleError unless no schedule ends sooner than the bounds say.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    protocols : sequence of Protocol
        What messages may cost. A bound is of the one that it names; of a single protocol whatever it says.
    bounds : sequence of SizeBound
    """
    checks = {protocol.name: _Check(topology, collective, protocol) for protocol in protocols}
    seen: set[tuple[str, int]] = set()
    for bound in bounds:
        check = next(iter(checks.values())) if len(checks) == 1 else checks.get(bound.protocol)
        if check is None or not bound.proofs:
            raise ScheduleError(f"size bound: protocol {bound.protocol!r} of {', '.join(checks)}, no proof")
        if max(proof.time for proof in bound.proofs) != bound.time:
            raise ScheduleError("size bound: its first proof is not the latest")
        for proof in bound.proofs:
            claimed = proof.time * 10**9 - check.protocol.launch_ns
            if isinstance(proof.witness, PairCertificate | ReachCertificate):
                if (bound.protocol, id(proof)) in seen:  # one object serves all sizes
                    continue
                seen.add((bound.protocol, id(proof)))
            check.kinds[type(proof.witness)](proof.witness, claimed, bound.size_bytes)


class _Check(CheckedFabric):
    """A fabric, with what has been found out of the witnesses."""

    def __init__(self, topology: Topology, collective: Collective, protocol: Protocol) -> None:
        super().__init__(topology, protocol)
        self.collective = collective
        self._found: dict[int, list[tuple[int, Fraction]]] = {}
        self._pairs: DirectCheck | None = None
        self._relays: RelayedCheck | None = None
        self._windows: dict[GatheredCertificate, tuple[Fraction, list[tuple[int, int]]]] = {}
        self._growths: set[int] = set()  # witnesses whose figures hold
        self.kinds: dict[type, Callable[[Any, Fraction, int], None]] = {
            CrossingCertificate: self.crossing,
            PairCertificate: self.pair,
            ReachCertificate: self.reach,
            GrowthCertificate: self.growth,
            DirectCertificate: self.direct,
            GatheredCertificate: self.gathered,
            RelayedCertificate: self.relayed,
        }

    def pair(self, witness: PairCertificate, claimed: Fraction, _: int) -> None:
        """The target needs the source's data, and nothing brings it there before the claimed ns."""
        source, target = witness.source, witness.target
        if not 0 <= min(source, target) <= max(source, target) < self.collective.n_ranks:
            raise ScheduleError(f"size bound: ranks {source} and {target} of {self.collective.n_ranks}")
        if target not in self._told(source):
            raise ScheduleError(f"size bound: rank {target} needs nothing of rank {source}")
        nodes = self.collective.ranks
        for number in range(1, 2 ** len(CLASSES)):
            kinds = {kind for place, kind in enumerate(CLASSES) if number >> place & 1} & self.known
            way = self.latencies([nodes[source]], kinds).get(nodes[target])
            if way is None:
                continue
            costs = [self.cost(kind) for kind in kinds]
            least = way + max(one.alpha_ns for one in costs) + max(one.occupancy_ns for one in costs)
            if least < claimed:
                raise ScheduleError(
                    f"size bound: rank {target} may know of rank {source} after {least} ns, not {claimed}"
                )

    def _told(self, source: int) -> set[int]:
        """Ranks that need the source's data, itself left out."""
        collective = self.collective
        everybody = set(range(collective.n_ranks))
        place = source
        if collective.groups is not None:
            group = next(one for one in collective.groups if source in one)
            everybody, place = set(group), group.index(source)
        kind = collective.kind
        if kind is CollectiveKind.ALLTOALL:
            row = collective.pair_demands.rows([source])[0].tolist()
            everybody = {rank for rank in everybody if row[rank]}
        elif kind is CollectiveKind.BROADCAST and place != collective.root:
            everybody = set()
        elif kind is CollectiveKind.REDUCE:
            group_ranks = sorted(everybody) if collective.groups is None else list(group)
            everybody = {group_ranks[collective.root or 0]}
        elif collective.weights is not None and kind is CollectiveKind.ALLGATHER:
            everybody = everybody if collective.weights[source] else set()
        elif collective.weights is not None:
            everybody = {rank for rank in everybody if collective.weights[rank]}
        return everybody - {source}

    def reach(self, witness: ReachCertificate, claimed: Fraction, _: int) -> None:
        """So many need the source's data, and fewer can know before the claimed ns."""
        if self.mixes:
            raise ScheduleError("size bound: switches change the class of messages; no count of ranks holds")
        if len(self._told(witness.source)) + 1 < witness.count:
            raise ScheduleError(
                f"size bound: {len(self._told(witness.source))} ranks need data of rank {witness.source}, "
                f"not {witness.count - 1}"
            )
        for kind in self.spreading(witness.box_ranks, witness.near, witness.far):
            self.check_class(*kind)
        known = _most_that_know(witness, claimed)
        if known >= witness.count:
            raise ScheduleError(f"size bound: {known} ranks may know before {claimed} ns")

    def direct(self, witness: DirectCertificate, claimed: Fraction, size_bytes: int) -> None:
        """Not all of the witness's pairs can have a message of their own before the claimed ns."""
        if self._pairs is None:
            self._pairs = DirectCheck(self, self.collective)
        self._pairs.check(witness, claimed, size_bytes)

    def relayed(self, witness: RelayedCertificate, claimed: Fraction, size_bytes: int) -> None:
        """Links cannot carry what two messages one after another have to before the claimed ns."""
        if self._relays is None:
            self._relays = RelayedCheck(self, self.collective)
        self._relays.check(witness, claimed, size_bytes)

    def gathered(self, witness: GatheredCertificate, claimed: Fraction, size_bytes: int) -> None:
        """By the claimed ns links cannot have carried what leaves the nodes, once gathered or else twice."""
        if witness not in self._windows:
            self._windows[witness] = self._gathered_windows(witness)
        part, windows = self._windows[witness]
        moved = sum((rate * max(Fraction(0), claimed - pause) for pause, rate in windows), Fraction(0))
        if moved > 2 * part * size_bytes * 10**9:
            raise ScheduleError(f"size bound: all that leaves {len(witness.nodes)} nodes may by {claimed} ns")

    def _gathered_windows(self, witness: GatheredCertificate) -> tuple[Fraction, list[tuple[int, int]]]:
        """Part of the buffer that leaves; when a link may carry it, at first and once it is gathered."""
        collective, kind, topology = self.collective, self.collective.kind, self.topology
        ranks, inside = set(topology.compute_nodes.tolist()), set(witness.nodes)
        spans = kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE)
        if not spans or collective.groups or set(collective.ranks) != ranks or self.mixes:
            raise ScheduleError(f"size bound: what leaves nodes of this {kind} is not counted")
        here, there = ranks & inside, ranks - inside
        if len(set(collective.shard_weights)) > 1 or not here or not there:
            raise ScheduleError("size bound: nothing leaves the nodes, or shards differ")
        before, after = self.latencies(here, self.known), self.latencies(there, self.known, backwards=True)
        nearest = self.least_between(ranks)
        costs = [self.cost(one) for one in self.known]
        message = nearest + min(one.occupancy_ns + one.alpha_ns for one in costs)
        extra = message * int(kind.reduces and len(here) > 1)
        extra += message * int(kind.broadcasts and len(there) > 1)
        windows = []
        for number, (tail, head, one, latency) in enumerate(self.links):
            if tail in inside and head not in inside:
                if any(topology.multicast[[tail, head]]) or any(topology.aggregation[[tail, head]]):
                    raise ScheduleError("size bound: switches copy or add what leaves the nodes")
                pause = before.get(tail, 2**60) + latency + after.get(head, 2**60)
                pause += self.cost(one).occupancy_ns + self.cost(one).alpha_ns
                windows += [(pause, self.rate(number)), (pause + extra, self.rate(number))]
        shares = {CollectiveKind.ALLGATHER: len(here), CollectiveKind.REDUCE_SCATTER: len(there)}
        return Fraction(shares.get(kind, len(ranks)), len(ranks)), windows

    def growth(self, witness: GrowthCertificate, claimed: Fraction, size_bytes: int) -> None:
        """Ranks cannot know all before the claimed ns."""
        if id(witness) not in self._growths:
            check_growth_values(self, self.collective, witness)
            self._growths.add(id(witness))
        n, sums = self.collective.n_ranks, self.collective.kind is CollectiveKind.ALLREDUCE
        if most_pairs(witness, n, size_bytes, claimed, sums=sums) >= n:
            raise ScheduleError(f"size bound: all ranks may know everything before {claimed} ns")

    def crossing(self, witness: CrossingCertificate, claimed: Fraction, size_bytes: int) -> None:
        """By the claimed ns no more than the buffer has crossed."""
        moved = sum(
            (worth * max(Fraction(0), claimed - idle) for idle, worth in self._worths(witness)), Fraction(0)
        )
        if moved > size_bytes * 10**9:
            raise ScheduleError(
                f"size bound: by {claimed} ns {float(moved / 10**9)} bytes may have crossed, not {size_bytes}"
            )

    def _worths(self, witness: CrossingCertificate) -> list[tuple[int, Fraction]]:
        """Idle time of links, ns, and the bytes of the buffer that they move a second after it."""
        known = self._found.get(id(witness.witness))
        if known is not None:
            return known
        idle = self._idle(witness)
        whole = witness.witness.bound(self.topology, self.collective)
        alike: dict[tuple[int, int, Fraction], list[int]] = {}
        for number, (tail, head, kind, _) in enumerate(self.links):
            if tail != head:
                key = (idle[number], int(self.topology.bandwidths[number]), self.data_fraction(number, kind))
                alike.setdefault(key, []).append(number)
        found, counted = [], Fraction(0)
        for (pause, own, share), numbers in alike.items():
            bandwidths = self.topology.bandwidths.copy()
            bandwidths[numbers] = other = own // 3 + 1 if own > 1 else 3  # never more than a link may have
            with_other = witness.witness.bound(replace(self.topology, bandwidths=bandwidths), self.collective)
            worth = (with_other - whole) * own / (other - own)
            counted += worth
            found.append((pause, share * worth))
        if counted != whole:  # the rest is of hosts' ports
            most = max(self.protocol.of(kind).efficiency for kind in self.known)
            found.append((min(idle.values()), (whole - counted) * most))
        self._found[id(witness.witness)] = found
        return found

    def _idle(self, witness: CrossingCertificate) -> Mapping[int, int]:
        """For how long each link carries nothing that crosses."""
        ranks = set(self.topology.compute_nodes.tolist())
        begin, end = ranks, ranks
        if isinstance(witness.witness, BottleneckCut):
            inside = set(witness.witness.nodes)
            begin, end = ranks & inside, ranks - inside
            if self.collective.kind.reduces:
                begin, end = end, begin
        before = self.latencies(begin, self.known)
        after = self.latencies(end, self.known, backwards=True)
        found = {}
        for number, (tail, head, kind, latency) in enumerate(self.links):
            if tail == head:
                continue
            cost = self.cost(kind)
            way = before.get(tail, 2**60) + latency + after.get(head, 2**60)
            found[number] = min(2**60, way + cost.occupancy_ns + cost.alpha_ns)
        return found


def _most_that_know(witness: ReachCertificate, claimed: Fraction) -> int:
    """How many ranks may know strictly before the claimed ns, up to `count`.

    Boxes are counted by the moment at which their first rank knows; all that begin then go the same way.
    """
    own = _within_box(witness, claimed)
    begun: Counter[int] = Counter({0: 1})
    total, done = 0, -1
    far = witness.far
    while total < witness.count:
        later = [moment for moment in begun if moment > done]
        if not later:
            return total
        done = min(later)
        for after, ranks in own.items():
            if done + after >= claimed:
                continue
            many = begun[done] * ranks
            total += many
            if far is None:
                continue
            arrival = done + after + far.gap_ns + far.delay_ns
            if arrival < claimed and (far.copies or not far.gap_ns):
                return witness.count
            sent = 0
            while far.gap_ns and arrival < claimed and sent < witness.count:
                begun[arrival] += many * far.links
                arrival, sent = arrival + far.gap_ns, sent + far.links
    return total


def _within_box(witness: ReachCertificate, claimed: Fraction) -> Counter[int]:
    """How many ranks of a box come to know how long after its first, while others sleep."""
    near, left = witness.near, witness.box_ranks - 1
    own: Counter[int] = Counter({0: 1})
    if near is None:
        return own
    if near.copies or not near.gap_ns:
        own[near.gap_ns + near.delay_ns] += left
        return own
    arrivals: Counter[int] = Counter()
    moment, tellers = 0, 1
    while left and moment < claimed:
        arrival = moment + near.gap_ns + near.delay_ns
        for _ in range(left):
            if arrival >= claimed:
                break
            arrivals[arrival] += tellers * near.links
            arrival += near.gap_ns
        if not arrivals:
            break
        moment = min(arrivals)
        tellers = min(left, arrivals.pop(moment))
        own[moment] += tellers
        left -= tellers
    return own
