"""Check of a growth certificate: not all data can be known everywhere before a claimed time.

Counts again in integers, and shares only the value with the search. A pair is a rank and a rank whose data it
has; pairs are counted in units of 2**-80 and rounded up: a rank may gain less than 2**-40 of a pair per ns.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.simulation.costs.cost_model import LinkClass
from treadle.simulation.size_bounds.checked_fabric import Check, CheckedFabric, Link
from treadle.simulation.size_bounds.size_certificate import GrowthCertificate, GrowthClass, ReachClass

_UNIT = 2**80


def growth_check(fabric: CheckedFabric, collective: Collective) -> Check:
    """Check that messages are no better than claimed, and that pairs are missing at the claimed time."""
    n, kind = collective.n_ranks, collective.kind
    is_counted = kind in (CollectiveKind.ALLREDUCE, CollectiveKind.ALLGATHER)
    on_all_ranks = set(collective.ranks) == set(fabric.topology.compute_nodes.tolist())
    is_even = not collective.groups and len(set(collective.shard_weights)) == 1

    @cache  # all sizes share the certificate
    def check_values(certificate: GrowthCertificate) -> None:
        if not (is_counted and on_all_ranks and is_even) or fabric.mixes or certificate.step_ns < 1:
            raise ScheduleError(f"size bound: growth of data in this {kind} is not counted")
        for message in fabric.spreading(certificate.box_ranks, certificate.near, certificate.far):
            _check_class(fabric, *message)
        if certificate.leaving_bytes_per_s is not None:
            _check_leaving(fabric, collective, certificate.far, certificate.leaving_bytes_per_s)

    def check(certificate: GrowthCertificate, claimed: Fraction, size_bytes: int) -> None:
        check_values(certificate)
        if (
            _most_pairs(certificate, n, size_bytes, claimed, sums=kind is CollectiveKind.ALLREDUCE)
            >= n * _UNIT
        ):
            raise ScheduleError(f"size bound: all ranks may have all data before {claimed} ns")

    return check


def _most_pairs(
    certificate: GrowthCertificate, n: int, size_bytes: int, claimed_ns: Fraction, *, sums: bool
) -> int:
    """Return an upper bound on the pairs of each rank on average, in units, at a time rounded up to a step.

    `sums` is true for an allreduce, false for an allgather.
    """
    step, far, near = certificate.step_ns, certificate.far, certificate.near
    over_far = _adds(far, n, size_bytes, sums=sums, leaving=certificate.leaving_bytes_per_s)
    over_near = None if near is None else _adds(near, n, size_bytes, sums=sums)
    far_sums, near_sums, via_far = [0], [0], [_UNIT]  # the first two are sums over all steps before
    everything = _UNIT
    for place in range(1, 1 - (-claimed_ns // step)):
        via_far.append(_UNIT + far_sums[max(0, place - far.delay_ns // step)])
        within = 0
        if near is not None:
            first = place - (near.gap_ns + near.delay_ns) // step
            within = (certificate.box_ranks - 1) * via_far[first] if first >= 0 else 0
            if not near.copies:
                within = min(within, near_sums[max(0, place - near.delay_ns // step)])
        everything = min(n * _UNIT, via_far[-1] + within)
        if everything == n * _UNIT:
            break
        far_sums.append(far_sums[-1] + step * over_far(everything))
        if over_near is not None:
            near_sums.append(near_sums[-1] + step * over_near(everything))
    return everything


def _adds(
    claimed: GrowthClass, n: int, size_bytes: int, *, sums: bool, leaving: int | None = None
) -> Callable[[int], int]:
    """Return the units that a rank's messages add per ns at most, as a function of the units that it has."""
    giga = 10**9

    def at_most(pairs: int, unit_bytes: int, among: int) -> int:
        """Return the sum over all links for messages of pairs of `unit_bytes` / `among`, rounded up."""
        total = 0
        for rate in claimed.rates:
            # pairs / (gap + pairs bytes / rate), numerator and denominator times rate, `among` and the unit
            above = pairs * rate * among * _UNIT
            below = claimed.gap_ns * rate * among * _UNIT + pairs * unit_bytes * giga
            total += -(-above // below) if above else 0
        if leaving is not None:  # all ranks' bytes over all links that leave boxes
            total = min(total, -(-leaving * among * _UNIT // (unit_bytes * n * giga)))
        return total

    if not sums:
        return lambda known: at_most(known, size_bytes, n)
    raw = at_most(_UNIT, size_bytes, 1)
    return lambda known: raw + at_most(known - _UNIT, size_bytes, n)


def _check_leaving(fabric: CheckedFabric, collective: Collective, far: GrowthClass, bytes_per_s: int) -> None:
    """Raise if more bytes may leave boxes, or any later than the full delay before their end."""
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
    fabric: CheckedFabric, name: str, claimed: GrowthClass | None, first: list[Link], needed: list[Link]
) -> None:
    """Raise if messages that start on `first` and use one of `needed` may be better than is claimed."""
    if claimed is None or not needed:
        fabric.check_class(name, None, first, needed)
        return
    topology = fabric.topology
    able = topology.multicast | topology.aggregation
    copies = any(able[tail] or able[head] for tail, head, _, _ in needed)
    if copies and (name == "far" or not claimed.copies):
        raise ScheduleError(f"size bound: switches copy or add {name} messages")
    plain = ReachClass(claimed.gap_ns, claimed.delay_ns, len(claimed.rates), copies=True)
    fabric.check_class(name, plain, first, needed)
    chosen = set(first)
    rates: dict[int, list[int]] = {}
    for number, link in enumerate(fabric.links):
        if link in chosen and topology.is_compute[link[0]]:
            rates.setdefault(link[0], []).append(fabric.rate(number))
    for own in rates.values():
        own.sort(reverse=True)
        if any(rate > most for rate, most in zip(own, claimed.rates, strict=False)):
            raise ScheduleError(f"size bound: first links of {name} messages are faster than {claimed}")
