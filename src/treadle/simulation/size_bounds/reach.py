"""How soon data of one rank can be known to many (LogP): each rank that knows tells others, one by one.

Karp, Sahay, Santos and Schauser, "Optimal broadcast and summation in the LogP model" (SPAA 1993), here with
two kinds of messages. The count is of ranks that may know at a time at most; nobody is told twice.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.costs.cost_model import LinkClass
from treadle.simulation.costs.link_classes import CLASSES
from treadle.simulation.size_bounds.message_terms import FAR_NS, MessageTerms, boxes_of, is_near
from treadle.simulation.size_bounds.size_certificate import ReachCertificate, ReachClass

_BOX = CLASSES.index(LinkClass.BOX)


def reach_certificate(terms: MessageTerms, collective: Collective) -> ReachCertificate | None:
    """The counts of a fabric and a collective; None where nobody has to tell anybody, or nothing holds."""
    source, count = _most_to_tell(collective)
    if count < 2 or terms.is_blurred:
        return None
    near, far = is_near(terms), terms.carries & ~is_near(terms)
    topology = terms.topology
    box_ranks = max(np.bincount(boxes_of(terms)[topology.compute_nodes]).tolist()) if near.any() else 1
    beyond = [one for one in terms.classes if one != _BOX]
    return ReachCertificate(
        source,
        count,
        box_ranks,
        _class(terms, (_BOX,), near, near) if box_ranks > 1 else None,
        _class(terms, beyond, terms.carries, far) if far.any() else None,
    )


def _most_to_tell(collective: Collective) -> tuple[int, int]:
    """A rank whose data as many need as anybody's, and how many know in the end, that rank included."""
    kind, n = collective.kind, collective.n_ranks
    if kind is CollectiveKind.ALLTOALL:
        if collective.pair_demands.is_uniform:
            return 0, n
        counts = (collective.pair_demands.between > 0).sum(axis=1).tolist()
        source = max(range(n), key=lambda rank: counts[rank])
        return source, counts[source] + 1
    if collective.groups is not None:
        if kind is CollectiveKind.REDUCE:
            return 0, 1
        return collective.groups[0][collective.root or 0], collective.group_size
    weights = collective.shard_weights
    holders = [rank for rank in range(n) if weights[rank]]
    if kind is CollectiveKind.REDUCE:
        return 0, 1
    if kind is CollectiveKind.REDUCE_SCATTER:
        source = 0 if len(holders) == n or not weights[0] else weights.index(0) if 0 in weights else 0
        return source, len(holders) + (weights[source] == 0)
    return holders[0], n


def _class(
    terms: MessageTerms,
    classes: list[int] | tuple[int, ...],
    first: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    needed: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
) -> ReachClass:
    """Messages that begin on links of `first` and have one of `needed`."""
    topology = terms.topology
    leaving = np.bincount(topology.tails[first], minlength=topology.n_nodes)
    links = int(leaving[topology.compute_nodes].max())
    shortest = max(shortest_ns(terms, first), int(terms.latency_ns[needed].min()))
    return ReachClass(
        terms.least_of("occupancy_ns", classes),
        shortest + terms.least_of("alpha_ns", classes),
        links,
        bool(terms.copies.intersection(classes)),
    )


def shortest_ns(terms: MessageTerms, among: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> int:
    """Least latency from a rank to another over these links: one, or the first and the last."""
    topology, latency = terms.topology, terms.latency_ns
    leaves, enters = topology.is_compute[topology.tails] & among, topology.is_compute[topology.heads] & among
    direct = latency[leaves & enters].min(initial=FAR_NS)
    out, into = latency[leaves & ~enters].min(initial=FAR_NS), latency[enters & ~leaves].min(initial=FAR_NS)
    return int(min(direct, out + into))


def reach_time_ns(witness: ReachCertificate) -> int:
    """When `count` ranks may know at the earliest, nanoseconds after the first message could begin.

    Each rank that knows sends near messages to its box, until all there may know, and far messages to boxes
    that know nothing yet: over all links, without a pause. In truth messages share links, and boxes end.
    """
    near, far, box_ranks = witness.near, witness.far, witness.box_ranks
    floods = far is not None and (far.copies or not far.gap_ns)
    everywhere = far.gap_ns + far.delay_ns if far is not None and floods else FAR_NS
    known = [1]
    events: list[tuple[int, int]] = []  # of a box: its number; of a far message: -1
    total, now = 1, 0
    at_once = near is not None and (near.copies or not near.gap_ns)

    def begin(time: int, box: int) -> None:
        if near is not None and known[box] < box_ranks:
            heappush(events, (time + near.gap_ns + near.delay_ns, box))
        if far is not None and everywhere == FAR_NS:
            heappush(events, (time + far.gap_ns + far.delay_ns, -1))

    begin(0, 0)
    while total < witness.count:
        if not events:
            return everywhere
        now, box = heappop(events)
        if now >= everywhere:
            return everywhere
        if box < 0:
            assert far is not None
            for _ in range(far.links):
                known.append(1)
                begin(now, len(known) - 1)
            total += far.links
            heappush(events, (now + far.gap_ns, -1))
            continue
        assert near is not None
        told = min(box_ranks - known[box], box_ranks if at_once else near.links)
        known[box] += told
        total += told
        for _ in range(told):
            begin(now, box)
        if known[box] < box_ranks:
            heappush(events, (now + near.gap_ns, box))
    return now
