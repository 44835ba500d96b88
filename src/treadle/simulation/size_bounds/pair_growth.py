"""How soon all that ranks know together can have grown to everything: rounds and bytes in one account.

`reach` follows what one rank has, as if its messages weighed nothing. Here all pairs of a rank and of
somebody's data that it knows are counted. A message adds no more pairs than its sender knows, and no more
than its bytes can hold: in an allgather a shard for each, in an allreduce at best the whole sum of N ranks,
and of what its sender alone contributes no more than its bytes are of the vector. Such rates are concave in
what a rank knows, so that on average no more is added than if all knew equally much.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.size_bounds.message_terms import FAR_NS, MessageTerms, boxes_of, is_near
from treadle.simulation.size_bounds.reach import reach_certificate
from treadle.simulation.size_bounds.size_certificate import GrowthCertificate, GrowthClass, ReachClass

_KINDS = (CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE)
_MOST_STEPS = 2500
"""Beyond them latencies hardly count."""
_GRID = 2
"""Steps of the check in one step here: what holds on a grid holds on all finer ones."""
_ROUNDING = 1 + 1e-7


def growth_certificate(terms: MessageTerms, collective: Collective) -> GrowthCertificate | None:
    """The figures of a fabric and a collective; None where they prove nothing."""
    topology = terms.topology
    if (
        collective.kind not in _KINDS
        or collective.groups is not None
        or len(set(collective.shard_weights)) > 1
        or set(collective.ranks) != set(topology.compute_nodes.tolist())
    ):
        return None
    reach = reach_certificate(terms, collective)
    if reach is None or reach.far is None or reach.far.copies or reach.count != collective.n_ranks:
        return None
    near = is_near(terms)
    able = topology.multicast | topology.aggregation
    at_able = terms.carries & (able[topology.tails] | able[topology.heads])
    if bool((at_able & ~near).any()):
        return None
    rates = terms.rates()
    box = boxes_of(terms)
    has_ranks = np.isin(box, box[topology.compute_nodes])
    leaving = terms.carries & ~near & has_ranks[topology.tails]
    inside = None
    if reach.near is not None:
        inside = _class(terms, reach.near, near, rates, copies=bool((at_able & near).any()))
    # bytes leave boxes until the rest of their way is left, which must not be shorter than all of it
    beyond = [one for one in terms.classes if one in terms.link_class[leaving]]
    rest = int(terms.latency_ns[leaving].min(initial=FAR_NS)) + terms.least_of("alpha_ns", beyond)
    counts = rest >= reach.far.delay_ns
    found = GrowthCertificate(
        reach.box_ranks,
        inside,
        _class(terms, reach.far, terms.carries, rates),
        sum(int(rates[link]) for link in np.flatnonzero(leaving).tolist()) if counts else None,
    )
    return found if found.step_ns else None


def _class(
    terms: MessageTerms,
    figures: ReachClass,
    first: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    rates: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    *,
    copies: bool = False,
) -> GrowthClass:
    """Rates of the links by which ranks send, the fastest first: of each place the fastest of all ranks."""
    most: list[int] = []
    for node in terms.topology.compute_nodes.tolist():
        own = sorted(rates[first & (terms.topology.tails == node)].tolist(), reverse=True)
        most += [0] * (len(own) - len(most))
        most[: len(own)] = [max(pair) for pair in zip(most, own, strict=False)]
    return GrowthClass(figures.gap_ns, figures.delay_ns, tuple(most), copies)


def growth_time_ns(
    witness: GrowthCertificate, collective: Collective, size_bytes: int, above_ns: float
) -> int:
    """A time before which not all can be known, ns; 0 if it is not above another or is far away.

    Notes
    -----
    Goes by steps of a grid. What is known at the end of a step is taken for what is known all along it, and
    delays are rounded down to steps.
    """
    step = _GRID * witness.step_ns
    if above_ns > _MOST_STEPS * step:
        return 0
    n, near, far = collective.n_ranks, witness.near, witness.far
    sums = collective.kind is CollectiveKind.ALLREDUCE
    known, told_far = [1.0], [1.0]
    grown_near, grown_far = [0.0], [0.0]  # integrals of rates up to each step
    leaving = witness.leaving_bytes_per_s
    cap = float("inf") if leaving is None else leaving * 1e-9 / size_bytes
    for place in range(1, _MOST_STEPS + 1):
        at = place - far.delay_ns // step
        here = 1 + (grown_far[at] if at > 0 else 0.0)
        inside = 0.0
        if near is not None:
            begun = place - (near.gap_ns + near.delay_ns) // step
            inside = (witness.box_ranks - 1) * told_far[begun] if begun >= 0 else 0.0
            at = place - near.delay_ns // step
            if not near.copies:
                inside = min(inside, grown_near[at] if at > 0 else 0.0)
            rate = _rate(near, known_to(here + inside, n), n, size_bytes, sums=sums)
            grown_near.append(grown_near[-1] + step * rate * _ROUNDING)
        everything = known_to(here + inside, n)
        if everything >= n:
            return (place - 1) * step
        known.append(everything)
        told_far.append(here)
        rate = _rate(far, everything, n, size_bytes, sums=sums, cap=cap)
        grown_far.append(grown_far[-1] + step * rate * _ROUNDING)
    return _MOST_STEPS * step


def known_to(many: float, n: int) -> float:
    """No rank knows more than all."""
    return min(many, float(n))


def _rate(
    figures: GrowthClass, known: float, n: int, size_bytes: int, *, sums: bool, cap: float = float("inf")
) -> float:
    """Pairs that messages add per ns and rank at most, where a rank knows so much."""
    if not sums:
        return min(cap, _full(figures.rates, figures.gap_ns, known, size_bytes / n))
    raw = min(cap / n, _full(figures.rates, figures.gap_ns, 1.0, size_bytes))
    return raw + min(cap, _full(figures.rates, figures.gap_ns, known - 1, size_bytes / n))


def _full(rates: Sequence[int], gap_ns: int, pairs: float, bytes_each: float) -> float:
    """Pairs per ns over all links in messages of so many of them."""
    if pairs <= 0:
        return 0.0
    return sum(pairs / (gap_ns + pairs * bytes_each * 1e9 / rate) for rate in rates)
