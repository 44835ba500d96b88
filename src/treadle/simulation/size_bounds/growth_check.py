"""Whether all that ranks know can have grown to everything before a time: counted anew, in whole numbers.

Knows of how it was found only the value. Pairs are counted in units of 2**-40 and rounded up.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.costs.cost_model import LinkClass
from treadle.simulation.size_bounds.checked_fabric import CheckedFabric, Link
from treadle.simulation.size_bounds.size_certificate import GrowthCertificate, GrowthClass, ReachClass

_UNIT = 2**40


def most_pairs(
    witness: GrowthCertificate, n_ranks: int, size_bytes: int, claimed_ns: Fraction, *, sums: bool
) -> Fraction:
    """Pairs of a rank and of somebody's data that it knows, of each rank on average, at most, at a time.

    Parameters
    ----------
    witness : GrowthCertificate
    n_ranks : int
    size_bytes : int
    claimed_ns : Fraction
        Rounded up to a step.
    sums : bool
        Of an allreduce; else of an allgather.
    """
    step = witness.step_ns
    last = -(-claimed_ns.numerator // (claimed_ns.denominator * step))
    far, near = witness.far, witness.near
    over_far = _adds(far, n_ranks, size_bytes, sums=sums, leaving=witness.leaving_bytes_per_s)
    over_near = None if near is None else _adds(near, n_ranks, size_bytes, sums=sums)
    far_sums, near_sums, told = [0], [0], [_UNIT]  # the first two: of all steps before
    most = n_ranks * _UNIT
    everything = _UNIT
    for place in range(1, last + 1):
        told.append(_UNIT + far_sums[max(0, place - far.delay_ns // step)])
        within = 0
        if near is not None:
            first = place - (near.gap_ns + near.delay_ns) // step
            within = (witness.box_ranks - 1) * told[first] if first >= 0 else 0
            if not near.copies:
                within = min(within, near_sums[max(0, place - near.delay_ns // step)])
        everything = min(most, told[-1] + within)
        if everything == most:
            break
        far_sums.append(far_sums[-1] + step * over_far(everything))
        if over_near is not None:
            near_sums.append(near_sums[-1] + step * over_near(everything))
    return Fraction(everything, _UNIT)


def _adds(
    figures: GrowthClass, n: int, size_bytes: int, *, sums: bool, leaving: int | None = None
) -> Callable[[int], int]:
    """Units that a rank's messages add per ns at most, by what it knows, in units; rounded up."""
    giga = 10**9

    def at_most(pairs: int, unit_bytes: int, among: int) -> int:
        """Over all links, in messages of `pairs`, each of which takes `unit_bytes` / `among`."""
        total = 0
        for rate in figures.rates:
            # pairs / (gap + pairs bytes / rate): above and below times rate, `among` and the unit
            above = pairs * rate * among * _UNIT
            below = figures.gap_ns * rate * among * _UNIT + pairs * unit_bytes * giga
            total += -(-above // below) if above else 0
        if leaving is not None:  # all ranks' bytes over all links that leave boxes
            total = min(total, -(-leaving * among * _UNIT // (unit_bytes * n * giga)))
        return total

    if not sums:
        return lambda known: at_most(known, size_bytes, n)
    raw = at_most(_UNIT, size_bytes, 1)
    return lambda known: raw + at_most(known - _UNIT, size_bytes, n)


def check_growth_values(fabric: CheckedFabric, collective: Collective, witness: GrowthCertificate) -> None:
    """Raise ScheduleError unless the collective is one that is counted, and messages are no better.

    Parameters
    ----------
    fabric : CheckedFabric
    collective : Collective
    witness : GrowthCertificate
    """
    counted = collective.kind in (CollectiveKind.ALLREDUCE, CollectiveKind.ALLGATHER)
    everybody = set(collective.ranks) == set(fabric.topology.compute_nodes.tolist())
    alike = len(set(collective.shard_weights)) == 1
    if not (counted and everybody and alike) or collective.groups or fabric.mixes or witness.step_ns < 1:
        raise ScheduleError(f"size bound: what ranks of this {collective.kind} know is not counted")
    for kind in fabric.spreading(witness.box_ranks, witness.near, witness.far):
        _check_class(fabric, *kind)
    if witness.leaving_bytes_per_s is not None:
        _check_leaving(fabric, collective, witness.far, witness.leaving_bytes_per_s)


def _check_leaving(fabric: CheckedFabric, collective: Collective, far: GrowthClass, bytes_per_s: int) -> None:
    """No more bytes leave boxes, nor later than the whole delay before their end."""
    box = fabric.boxes()
    ranked = {box[node] for node in collective.ranks}
    leaving = 0
    for number, (tail, head, kind, latency) in enumerate(fabric.links):
        if tail != head and kind is not LinkClass.BOX and box[tail] in ranked:
            leaving += fabric.rate(number)
            if latency + fabric.cost(kind).alpha_ns < far.delay_ns:
                raise ScheduleError(
                    f"size bound: bytes may leave boxes less than {far.delay_ns} ns before the end"
                )
    if bytes_per_s < leaving:
        raise ScheduleError(f"size bound: {leaving} bytes/s may leave boxes, not {bytes_per_s}")


def _check_class(
    fabric: CheckedFabric, name: str, figures: GrowthClass | None, first: list[Link], needed: list[Link]
) -> None:
    """Messages that begin on some links, and need one of others, are no better."""
    if not needed:
        return
    if figures is None:
        raise ScheduleError(f"size bound: there are {name} messages, the witness has none")
    topology = fabric.topology
    able = topology.multicast | topology.aggregation
    copies = any(able[tail] or able[head] for tail, head, _, _ in needed)
    if copies and (name == "far" or not figures.copies):
        raise ScheduleError(f"size bound: switches copy or add {name} messages")
    plain = ReachClass(figures.gap_ns, figures.delay_ns, len(figures.rates), copies=True)
    fabric.check_class(name, plain, first, needed)
    chosen = set(first)
    rates: dict[int, list[int]] = {}
    for number, link in enumerate(fabric.links):
        if link in chosen and topology.is_compute[link[0]]:
            rates.setdefault(link[0], []).append(fabric.rate(number))
    for own in rates.values():
        own.sort(reverse=True)
        if any(rate > most for rate, most in zip(own, figures.rates, strict=False)):
            raise ScheduleError(f"size bound: first links of {name} messages are faster than {figures}")
