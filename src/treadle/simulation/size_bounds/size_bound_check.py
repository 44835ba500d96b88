"""Checks whether bounds at sizes hold, from their certificates, the fabric and the costs alone.

Shares no code with the search for bounds except values: certificates, costs and classes of links. Here
distances are relaxed node by node, spreading is counted by the times at which boxes begin, and a crossing is
evaluated at the claimed time itself. docs/proofs/size-bounds.md has the proofs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations

from treadle.errors import ScheduleError
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.costs.cost_model import Protocol
from treadle.simulation.size_bounds.checked_fabric import FAR, Check, CheckedFabric, carried
from treadle.simulation.size_bounds.direct_check import direct_check, relayed_check
from treadle.simulation.size_bounds.growth_check import growth_check
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
    """Raise ScheduleError unless no schedule ends sooner than the bounds.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    protocols : sequence of Protocol
        Possible costs of messages. A bound names its protocol; with a single protocol, the name is ignored.
    bounds : sequence of SizeBound
    """
    fabrics = {protocol.name: CheckedFabric(topology, protocol) for protocol in protocols}
    checks: dict[tuple[str, type], Check] = {}
    for bound in bounds:
        fabric = next(iter(fabrics.values())) if len(fabrics) == 1 else fabrics.get(bound.protocol)
        if fabric is None or not bound.proofs:
            raise ScheduleError(f"size bound: protocol {bound.protocol!r} of {', '.join(fabrics)}, no proof")
        if max(proof.time for proof in bound.proofs) != bound.time:
            raise ScheduleError("size bound: its first proof is not the latest")
        for proof in bound.proofs:
            key = fabric.protocol.name, type(proof.certificate)
            if key not in checks:
                checks[key] = _CHECKS[key[1]](fabric, collective)
            claimed = proof.time * 10**9 - fabric.protocol.launch_ns
            checks[key](proof.certificate, claimed, bound.size_bytes)


def _pair_check(fabric: CheckedFabric, collective: Collective) -> Check:
    """Check that the target needs the source's data, and that these arrive no sooner than claimed."""

    @cache  # all sizes share the proof
    def check(certificate: PairCertificate, claimed: Fraction) -> None:
        source, target = certificate.source, certificate.target
        if not 0 <= min(source, target) <= max(source, target) < collective.n_ranks:
            raise ScheduleError(f"size bound: ranks {source} and {target} of {collective.n_ranks}")
        if target not in _recipients(collective, source):
            raise ScheduleError(f"size bound: rank {target} needs no data of rank {source}")
        nodes, classes = collective.ranks, sorted(fabric.classes)
        for kinds in (one for k in range(len(classes)) for one in combinations(classes, k + 1)):
            path = fabric.latencies([nodes[source]], kinds).get(nodes[target])
            if path is None:
                continue
            costs = [fabric.cost(kind) for kind in kinds]
            least = path + max(one.alpha_ns for one in costs) + max(one.occupancy_ns for one in costs)
            if least < claimed:
                raise ScheduleError(
                    f"size bound: rank {target} may have rank {source}'s data after {least} ns, not {claimed}"
                )

    return lambda certificate, claimed, _: check(certificate, claimed)


def _recipients(collective: Collective, source: int) -> set[int]:
    """Return the ranks that need the source's data, without the source."""
    kind, weights = collective.kind, collective.weights
    group: Sequence[int] = range(collective.n_ranks)
    if collective.groups is not None:
        group = next(one for one in collective.groups if source in one)
    needed = set(group)
    if kind is CollectiveKind.ALLTOALL:
        row = collective.pair_demands.rows([source])[0].tolist()
        needed = {rank for rank in group if row[rank]}
    elif kind is CollectiveKind.REDUCE:
        needed = {group[collective.root or 0]}
    elif kind is CollectiveKind.BROADCAST:
        needed = needed if source == group[collective.root or 0] else set()
    elif weights is not None and kind is CollectiveKind.ALLGATHER:
        needed = needed if weights[source] else set()
    elif weights is not None:
        needed = {rank for rank in group if weights[rank]}
    return needed - {source}


def _reach_check(fabric: CheckedFabric, collective: Collective) -> Check:
    """Check that `count` ranks need the source's data, and that fewer can have it before the claimed time."""
    if fabric.mixes:
        raise ScheduleError("size bound: switches change the class of messages; no count of ranks holds")

    @cache  # all sizes share the proof
    def check(certificate: ReachCertificate, claimed: Fraction) -> None:
        needing, claimed_count = len(_recipients(collective, certificate.source)) + 1, certificate.count
        if needing < claimed_count:
            raise ScheduleError(
                f"size bound: {needing} ranks need rank {certificate.source}'s data, not {claimed_count}"
            )
        for kind in fabric.spreading(certificate.box_ranks, certificate.near, certificate.far):
            fabric.check_class(*kind)
        reached = _most_reached(certificate, claimed)
        if reached >= certificate.count:
            raise ScheduleError(f"size bound: {reached} ranks may have the data before {claimed} ns")

    return lambda certificate, claimed, _: check(certificate, claimed)


def _most_reached(certificate: ReachCertificate, claimed: Fraction) -> int:
    """Return how many ranks may have the data strictly before the claimed ns, up to `count`.

    Boxes are counted by the time at which their first rank has the data; all that begin then proceed equally.
    """
    own, far = _within_box(certificate, claimed), certificate.far
    begun: Counter[int] = Counter({0: 1})
    total, done = 0, -1
    while total < certificate.count:
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
                return certificate.count
            sent = 0
            while far.gap_ns and arrival < claimed and sent < certificate.count:
                begun[arrival] += many * far.links
                arrival, sent = arrival + far.gap_ns, sent + far.links
    return total


def _within_box(certificate: ReachCertificate, claimed: Fraction) -> Counter[int]:
    """Return how many ranks of a box get the data at each time after its first, from within the box."""
    near, left = certificate.near, certificate.box_ranks - 1
    own: Counter[int] = Counter({0: 1})
    if near is None:
        return own
    if near.copies or not near.gap_ns:
        own[near.gap_ns + near.delay_ns] += left
        return own
    arrivals: Counter[int] = Counter()
    moment, senders = 0, 1
    while left and moment < claimed:
        arrival = moment + near.gap_ns + near.delay_ns
        for _ in range(left):
            if arrival >= claimed:
                break
            arrivals[arrival] += senders * near.links
            arrival += near.gap_ns
        if not arrivals:
            break
        moment = min(arrivals)
        senders = min(left, arrivals.pop(moment))
        own[moment] += senders
        left -= senders
    return own


def _gathered_check(fabric: CheckedFabric, collective: Collective) -> Check:
    """Check that links cannot have carried the data that leaves the nodes: gathered and once, or twice."""
    kind, topology = collective.kind, fabric.topology
    ranks = set(topology.compute_nodes.tolist())
    spans = kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE)
    if not spans or collective.groups or set(collective.ranks) != ranks or fabric.mixes:
        raise ScheduleError(f"size bound: data that leaves nodes of this {kind} is not counted")

    @cache
    def windows_of(certificate: GatheredCertificate) -> tuple[Fraction, list[tuple[int, int]]]:
        """Return the part of the buffer that leaves, and (idle ns, rate) of links, directly and gathered."""
        inside = set(certificate.nodes)
        here, there = ranks & inside, ranks - inside
        if len(set(collective.shard_weights)) > 1 or not here or not there:
            raise ScheduleError("size bound: nothing leaves the nodes, or shards differ")
        idle = _idle_ns(fabric, here, there)
        costs = [fabric.cost(one) for one in fabric.classes]
        message = fabric.least_between(ranks) + min(one.occupancy_ns + one.alpha_ns for one in costs)
        messages = int(kind.reduces and len(here) > 1) + int(kind.broadcasts and len(there) > 1)
        windows = []
        for number, (tail, head, _, _) in enumerate(fabric.links):
            if tail in inside and head not in inside:
                if any(topology.multicast[[tail, head]]) or any(topology.aggregation[[tail, head]]):
                    raise ScheduleError("size bound: switches copy or add the data that leaves the nodes")
                pauses = (idle[number], idle[number] + messages * message)
                windows += [(pause, fabric.rate(number)) for pause in pauses]
        shares = {CollectiveKind.ALLGATHER: len(here), CollectiveKind.REDUCE_SCATTER: len(there)}
        return Fraction(shares.get(kind, len(ranks)), len(ranks)), windows

    def check(certificate: GatheredCertificate, claimed: Fraction, size_bytes: int) -> None:
        part, windows = windows_of(certificate)
        if carried(windows, claimed) > 2 * part * size_bytes * 10**9:
            nodes = len(certificate.nodes)
            raise ScheduleError(f"size bound: all data may have left {nodes} nodes by {claimed} ns")

    return check


def _crossing_check(fabric: CheckedFabric, collective: Collective) -> Check:
    """Check that at most the buffer has crossed by the claimed time."""
    found: dict[int, list[tuple[int, Fraction]]] = {}

    def windows_of(certificate: CrossingCertificate) -> list[tuple[int, Fraction]]:
        """Return pairs: idle time of links, ns, and bytes of the buffer that they then move per second."""
        topology, bound = fabric.topology, certificate.certificate.bound
        begin = end = set(topology.compute_nodes.tolist())
        if isinstance(certificate.certificate, BottleneckCut):
            begin, end = begin & set(certificate.certificate.nodes), end - set(certificate.certificate.nodes)
            if collective.kind.reduces:
                begin, end = end, begin
        idle = _idle_ns(fabric, begin, end)
        total = rest = bound(topology, collective)
        equal_links: dict[tuple[int, int, int], list[int]] = {}
        for number, pause in idle.items():
            key = pause, int(topology.bandwidths[number]), fabric.rate(number)
            equal_links.setdefault(key, []).append(number)
        windows = []
        for (pause, own, rate), numbers in equal_links.items():
            # a bound is linear in bandwidths, so another bandwidth shows how much these links contribute
            bandwidths = topology.bandwidths.copy()
            bandwidths[numbers] = other = own // 3 + 1 if own > 1 else 3  # never above the largest bandwidth
            changed = bound(replace(topology, bandwidths=bandwidths), collective) - total
            part = changed * own / (other - own)
            rest -= part
            windows.append((pause, part * Fraction(rate, own)))
        if rest:  # the contribution of hosts' ports
            most = max(fabric.protocol.of(kind).efficiency for kind in fabric.classes)
            windows.append((min(idle.values()), rest * most))
        return windows

    def check(certificate: CrossingCertificate, claimed: Fraction, size_bytes: int) -> None:
        key = id(certificate.certificate)  # not every certificate is hashable
        if key not in found:
            found[key] = windows_of(certificate)
        moved = carried(found[key], claimed)
        if moved > size_bytes * 10**9:
            raise ScheduleError(
                f"size bound: by {claimed} ns {float(moved / 10**9)} bytes may have crossed, not {size_bytes}"
            )

    return check


def _idle_ns(fabric: CheckedFabric, begin: set[int], end: set[int]) -> dict[int, int]:
    """Return for each link but self-loops how long it carries no data from `begin` to `end`, ns."""
    before = fabric.latencies(begin, fabric.classes)
    after = fabric.latencies(end, fabric.classes, backwards=True)
    found = {}
    for number, (tail, head, kind, latency) in enumerate(fabric.links):
        if tail != head:
            cost = fabric.cost(kind)
            idle_ns = before.get(tail, FAR) + latency + after.get(head, FAR)
            found[number] = min(FAR, idle_ns + cost.occupancy_ns + cost.alpha_ns)
    return found


_CHECKS: Mapping[type, Callable[[CheckedFabric, Collective], Check]] = {
    CrossingCertificate: _crossing_check,
    PairCertificate: _pair_check,
    ReachCertificate: _reach_check,
    GrowthCertificate: growth_check,
    DirectCertificate: direct_check,
    GatheredCertificate: _gathered_check,
    RelayedCertificate: relayed_check,
}
