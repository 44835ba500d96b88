"""The earliest time at which data can be known: of one rank by many (reach), or of all ranks by all (growth).

Reach (LogP): each rank that has the data sends it to others in turn, as if messages had no bytes. Counts the
ranks that can have the data at a time at most; no rank gets it twice. Karp, Sahay, Santos and Schauser,
"Optimal broadcast and summation in the LogP model" (SPAA 1993), here with two kinds of messages.

Growth: all pairs are counted, a rank and a rank whose data it has, by rounds of messages and their bytes
together. A message adds no more pairs than its sender has, and no more than fit into its bytes: in an
allgather a shard for each pair, in an allreduce at best the entire sum of N ranks, and of its sender's own
contribution no more than its share of the vector. Such rates are concave in the pairs that a rank has, so on
average no more are added than if all ranks had equally many.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import zip_longest

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.size_bounds.message_terms import (
    BOX,
    FAR_NS,
    MessageTerms,
    boxes_of,
    is_near,
    is_symmetric,
)
from treadle.simulation.size_bounds.size_certificate import (
    GrowthCertificate,
    GrowthClass,
    ReachCertificate,
    ReachClass,
)

_KINDS = (CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE)
_MOST_STEPS = 2500
"""Later, latencies hardly count."""
_GRID = 2
"""Steps of the check in one step here: a bound on a grid is valid on all finer ones."""
_ROUNDING = 1 + 1e-7


def reach_certificate(terms: MessageTerms, collective: Collective) -> ReachCertificate | None:
    """Return the certificate; None if no rank has to send to another, or no count is valid."""
    source, count = _widest_source(collective)
    if count < 2 or terms.is_blurred:
        return None
    near = is_near(terms)
    far = terms.carries & ~near
    box_ranks = max(np.bincount(boxes_of(terms)[terms.topology.compute_nodes]).tolist()) if near.any() else 1
    beyond = [one for one in terms.classes if one != BOX]
    return ReachCertificate(
        source,
        count,
        box_ranks,
        _reach_class(terms, (BOX,), near, near) if box_ranks > 1 else None,
        _reach_class(terms, beyond, terms.carries, far) if far.any() else None,
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


def _reach_class(
    terms: MessageTerms, classes: Sequence[int], first: BoolArray, needed: BoolArray
) -> ReachClass:
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


def reach_time_ns(certificate: ReachCertificate) -> int:
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


def growth_certificate(terms: MessageTerms, collective: Collective) -> GrowthCertificate | None:
    """Return the certificate of a fabric and a collective; None if it proves nothing."""
    if collective.kind not in _KINDS or not is_symmetric(terms, collective):
        return None
    reach = reach_certificate(terms, collective)
    if reach is None or reach.far is None or reach.far.copies or reach.count != collective.n_ranks:
        return None
    topology, near = terms.topology, is_near(terms)
    able = topology.multicast | topology.aggregation
    at_able = terms.carries & (able[topology.tails] | able[topology.heads])
    if bool((at_able & ~near).any()):
        return None
    rates, box = terms.rates, boxes_of(terms)
    leaving = terms.carries & ~near & np.isin(box, box[topology.compute_nodes])[topology.tails]
    inside = None
    if reach.near is not None:
        inside = _growth_class(terms, reach.near, near, rates, copies=bool((at_able & near).any()))
    # bytes leave boxes until only the rest of their path is left, which must not be shorter than all of it
    beyond = [one for one in terms.classes if one in terms.link_class[leaving]]
    rest = int(terms.latency_ns[leaving].min(initial=FAR_NS)) + terms.least_of("alpha_ns", beyond)
    found = GrowthCertificate(
        reach.box_ranks,
        inside,
        _growth_class(terms, reach.far, terms.carries, rates),
        sum(rates[leaving].tolist()) if rest >= reach.far.delay_ns else None,
    )
    return found if found.step_ns else None


def _growth_class(
    terms: MessageTerms, costs: ReachClass, first: BoolArray, rates: Int64Array, *, copies: bool = False
) -> GrowthClass:
    """Return the costs with the rates of a rank's links: the fastest of all ranks, the second fastest, ..."""
    own = [
        sorted(rates[first & (terms.topology.tails == node)].tolist(), reverse=True)
        for node in terms.topology.compute_nodes.tolist()
    ]
    return GrowthClass(costs.gap_ns, costs.delay_ns, tuple(map(max, zip_longest(*own, fillvalue=0))), copies)


def growth_time_ns(
    certificate: GrowthCertificate, collective: Collective, size_bytes: int, above_ns: float
) -> int:
    """Return a time before which not all data can be known, ns; 0 if it is below another or far away.

    Goes by steps of a grid: the pairs at the end of a step count from its beginning, and delays are rounded
    down to steps.
    """
    step = _GRID * certificate.step_ns
    if above_ns > _MOST_STEPS * step:
        return 0
    n, near, far = collective.n_ranks, certificate.near, certificate.far
    sums = collective.kind is CollectiveKind.ALLREDUCE
    via_far = [1.0]
    grown_near, grown_far = [0.0], [0.0]  # integrals of rates up to each step
    leaving = certificate.leaving_bytes_per_s
    cap = float("inf") if leaving is None else leaving * 1e-9 / size_bytes
    for place in range(1, _MOST_STEPS + 1):
        here = 1 + grown_far[max(0, place - far.delay_ns // step)]
        inside = 0.0
        if near is not None:
            begun = place - (near.gap_ns + near.delay_ns) // step
            inside = (certificate.box_ranks - 1) * via_far[begun] if begun >= 0 else 0.0
            if not near.copies:
                inside = min(inside, grown_near[max(0, place - near.delay_ns // step)])
        everything = min(here + inside, float(n))
        if everything >= n:
            return (place - 1) * step
        via_far.append(here)
        if near is not None:
            rate = _rate(near, everything, n, size_bytes, sums=sums)
            grown_near.append(grown_near[-1] + step * rate * _ROUNDING)
        rate = _rate(far, everything, n, size_bytes, sums=sums, cap=cap)
        grown_far.append(grown_far[-1] + step * rate * _ROUNDING)
    return _MOST_STEPS * step


def _rate(
    costs: GrowthClass, pairs: float, n: int, size_bytes: int, *, sums: bool, cap: float = float("inf")
) -> float:
    """Return the pairs that a rank's messages add per ns at most, if it has `pairs`."""

    def over_all_links(pairs: float, bytes_each: float) -> float:
        return sum(pairs / (costs.gap_ns + pairs * bytes_each * 1e9 / rate) for rate in costs.rates)

    if not sums:
        return min(cap, over_all_links(pairs, size_bytes / n))
    raw = min(cap / n, over_all_links(1.0, size_bytes))
    return raw + min(cap, over_all_links(pairs - 1, size_bytes / n)) if pairs > 1 else raw
