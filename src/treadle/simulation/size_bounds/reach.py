"""The earliest time at which many ranks can have one rank's data (LogP): each that has it sends it in turn.

Karp, Sahay, Santos and Schauser, "Optimal broadcast and summation in the LogP model" (SPAA 1993), here with
two kinds of messages. Counts the ranks that can have the data at a time at most; no rank gets it twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np

from treadle.arrays import BoolArray
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.size_bounds.message_terms import BOX, FAR_NS, MessageTerms, boxes_of, is_near
from treadle.simulation.size_bounds.size_witness import ReachClass, ReachWitness


def reach_witness(terms: MessageTerms, collective: Collective) -> ReachWitness | None:
    """Return the certificate; None if no rank has to send to another, or no count is valid."""
    source, count = _widest_source(collective)
    if count < 2 or terms.is_blurred:
        return None
    near = is_near(terms)
    far = terms.carries & ~near
    box_ranks = max(np.bincount(boxes_of(terms)[terms.topology.compute_nodes]).tolist()) if near.any() else 1
    beyond = [one for one in terms.classes if one != BOX]
    return ReachWitness(
        source,
        count,
        box_ranks,
        _class(terms, (BOX,), near, near) if box_ranks > 1 else None,
        _class(terms, beyond, terms.carries, far) if far.any() else None,
    )


def _widest_source(collective: Collective) -> tuple[int, int]:
    """Return a rank whose data the most ranks need, and how many have them in the end, itself included."""
    kind, n = collective.kind, collective.n_ranks
    if kind is CollectiveKind.ALLTOALL:
        if collective.pair_demands.is_uniform:
            return 0, n
        counts = (collective.pair_demands.between > 0).sum(axis=1).tolist()
        source = counts.index(max(counts))
        return source, counts[source] + 1
    if kind is CollectiveKind.REDUCE:
        return 0, 1
    if collective.groups is not None:
        return collective.groups[0][collective.root or 0], collective.group_size
    weights = collective.shard_weights
    holders = [rank for rank in range(n) if weights[rank]]
    if kind is CollectiveKind.REDUCE_SCATTER:
        # a rank without a shard contributes to all shards, one with a shard to the others
        source = weights.index(0) if 0 in weights else 0
        return source, len(holders) + (weights[source] == 0)
    return holders[0], n


def _class(terms: MessageTerms, classes: Sequence[int], first: BoolArray, needed: BoolArray) -> ReachClass:
    """Return the costs of messages that begin on links of `first` and use one of `needed`."""
    topology = terms.topology
    leaving = np.bincount(topology.tails[first], minlength=topology.n_nodes)
    shortest = max(shortest_ns(terms, first), int(terms.latency_ns[needed].min()))
    return ReachClass(
        terms.least_of("occupancy_ns", classes),
        shortest + terms.least_of("alpha_ns", classes),
        int(leaving[topology.compute_nodes].max()),
        bool(terms.copies.intersection(classes)),
    )


def shortest_ns(terms: MessageTerms, among: BoolArray) -> int:
    """Return the least latency from a rank to another over these links: one, or the first and the last."""
    topology, latency = terms.topology, terms.latency_ns
    leaves, enters = topology.is_compute[topology.tails] & among, topology.is_compute[topology.heads] & among
    direct = latency[leaves & enters].min(initial=FAR_NS)
    out, into = latency[leaves & ~enters].min(initial=FAR_NS), latency[enters & ~leaves].min(initial=FAR_NS)
    return int(min(direct, out + into))


def reach_time_ns(certificate: ReachWitness) -> int:
    """Return when `count` ranks can have the data at the earliest, ns after the first message could begin.

    Each rank with the data sends near messages to its box until all ranks there may have it, and far messages
    to new boxes, over all its links without a pause. In truth messages share links, and boxes run out.
    """
    near, far, box_ranks = certificate.near, certificate.far, certificate.box_ranks
    floods = far is not None and (far.copies or not far.gap_ns)
    everywhere = far.gap_ns + far.delay_ns if far is not None and floods else FAR_NS
    reached = [1]  # ranks by box
    events: list[tuple[int, int]] = []  # of a box: its number; of a far message: -1
    total, now = 1, 0
    at_once = near is not None and (near.copies or not near.gap_ns)

    def begin(time: int, box: int) -> None:
        if near is not None and reached[box] < box_ranks:
            heappush(events, (time + near.gap_ns + near.delay_ns, box))
        if far is not None and not floods:
            heappush(events, (time + far.gap_ns + far.delay_ns, -1))

    begin(0, 0)
    while total < certificate.count:
        now, box = heappop(events) if events else (everywhere, -1)
        if now >= everywhere:
            return everywhere
        if box < 0:
            assert far is not None
            for _ in range(far.links):
                reached.append(1)
                begin(now, len(reached) - 1)
            total += far.links
            heappush(events, (now + far.gap_ns, -1))
            continue
        assert near is not None
        new = min(box_ranks - reached[box], box_ranks if at_once else near.links)
        reached[box] += new
        total += new
        for _ in range(new):
            begin(now, box)
        if reached[box] < box_ranks:
            heappush(events, (now + near.gap_ns, box))
    return now
