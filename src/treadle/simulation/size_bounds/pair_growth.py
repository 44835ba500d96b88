"""The earliest time at which all data can be known everywhere: rounds of messages and their bytes together.

`reach` follows the data of one rank, as if its messages had no bytes. Here all pairs are counted: a rank, and
a rank whose data it has. A message adds no more pairs than its sender has, and no more than fit into its
bytes: in an allgather a shard for each pair, in an allreduce at best the entire sum of N ranks, and of its
sender's own contribution no more than its share of the vector. Such rates are concave in the pairs that a
rank has, so on average no more are added than if all ranks had equally many.
"""

from __future__ import annotations

from itertools import zip_longest

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.size_bounds.message_terms import (
    FAR_NS,
    MessageTerms,
    boxes_of,
    is_near,
    is_symmetric,
)
from treadle.simulation.size_bounds.reach import reach_witness
from treadle.simulation.size_bounds.size_witness import GrowthClass, GrowthWitness, ReachClass

_KINDS = (CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE)
_MOST_STEPS = 2500
"""Later, latencies hardly count."""
_GRID = 2
"""Steps of the check in one step here: a bound on a grid is valid on all finer ones."""
_ROUNDING = 1 + 1e-7


def growth_witness(terms: MessageTerms, collective: Collective) -> GrowthWitness | None:
    """Return the certificate of a fabric and a collective; None if it proves nothing."""
    if collective.kind not in _KINDS or not is_symmetric(terms, collective):
        return None
    reach = reach_witness(terms, collective)
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
        inside = _class(terms, reach.near, near, rates, copies=bool((at_able & near).any()))
    # bytes leave boxes until only the rest of their path is left, which must not be shorter than all of it
    beyond = [one for one in terms.classes if one in terms.link_class[leaving]]
    rest = int(terms.latency_ns[leaving].min(initial=FAR_NS)) + terms.least_of("alpha_ns", beyond)
    found = GrowthWitness(
        reach.box_ranks,
        inside,
        _class(terms, reach.far, terms.carries, rates),
        sum(rates[leaving].tolist()) if rest >= reach.far.delay_ns else None,
    )
    return found if found.step_ns else None


def _class(
    terms: MessageTerms, costs: ReachClass, first: BoolArray, rates: Int64Array, *, copies: bool = False
) -> GrowthClass:
    """Return the costs with the rates of a rank's links: the fastest of all ranks, the second fastest, ..."""
    own = [
        sorted(rates[first & (terms.topology.tails == node)].tolist(), reverse=True)
        for node in terms.topology.compute_nodes.tolist()
    ]
    return GrowthClass(costs.gap_ns, costs.delay_ns, tuple(map(max, zip_longest(*own, fillvalue=0))), copies)


def growth_time_ns(
    certificate: GrowthWitness, collective: Collective, size_bytes: int, above_ns: float
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
