"""The optimal rate of an all-to-all, by the method that suits the instance.

The maximum concurrent flow. Small fabrics, and those where symmetry leaves one source, are solved exactly;
all others by a first-order method that stops on the gap between a flow and link lengths, two certificates
that can be recomputed without it. Source: Shahrokhi and Matula (JACM 37, 1990); Basu et al., section 3.1;
docs/how-it-works/all-to-all.md.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import partial

import numpy as np

from treadle.arrays import Float64Array, Int32Array
from treadle.context import Context, context, under
from treadle.errors import ScheduleError
from treadle.math.graphs import components
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.rate.certificate import RateResult, rounded_certificate
from treadle.synthesis.alltoall.rate.exact_columns import ExactRate
from treadle.synthesis.alltoall.rate.exact_rate import solve_exactly, suitable_symmetry
from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance, flow_instance
from treadle.synthesis.alltoall.rate.flow_symmetry import FlowSymmetry, known_symmetry
from treadle.synthesis.alltoall.rate.host_caps import folded, limited_by_hosts, unfolded, without_caps
from treadle.synthesis.alltoall.rate.pdhg import MOST_CELLS, pdhg_rate
from treadle.synthesis.alltoall.rate.priced_routing import priced_rate
from treadle.synthesis.alltoall.rate.spreading import even_loads, spread_flow
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.host_bottleneck import with_host_bottleneck

EXACT_PAIRS = 1_200
"""Pairs with demand up to which the exact optimum of a fabric without symmetry is sought."""

EXACT_LINKS = 1_000
"""Links likewise."""

_HARDLY = 0.01
"""Share of the greatest length: shorter links do not keep the sides of a cut apart."""


def optimal_rate(
    topology: Topology,
    collective: Collective,
    *,
    gap: float = 1e-3,
    time_limit_s: float | None = None,
    start: RateResult | None = None,
    cards_forward: bool = False,
) -> RateResult:
    """Compute F, the largest rate at which all pairs' data flow concurrently, with two certificates.

    Parameters
    ----------
    topology : Topology
        Any fabric; every node forwards.
    collective : Collective
        An all-to-all.
    gap : float
        Optimality gap at which to stop, from 0 to below 1.
    time_limit_s : float, optional
        Seconds after which to stop with the gap that is left (`is_late`).
    start : RateResult, optional
        A previous result on a similar fabric, such as one that has since lost links.
    cards_forward : bool
        Whether network cards forward by themselves, so that only a host's own data counts against its
        injection cap. By default all data that it sends, receives and forwards counts.

    Raises
    ------
    ScheduleError
        If the collective is not an all-to-all on the fabric, or the gap is out of range.
    InfeasibleError
        If a rank has data for one that it cannot reach.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies import parse
    >>> cube = parse("hypercube(3)")
    >>> optimal_rate(cube, on_all_ranks(cube, CollectiveKind.ALLTOALL)).upper
    Fraction(1, 4)
    """
    if not (math.isfinite(gap) and 0 <= gap < 1):
        raise ScheduleError(f"gap {gap}: expected a number from 0 to below 1, such as 0.001")
    began = time.process_time()
    if not topology.injection_bytes_per_s.any():
        found = _rate_of_links(topology, collective, gap, time_limit_s, start)
    elif cards_forward:
        free = _rate_of_links(without_caps(topology), collective, gap, time_limit_s, start)
        found = limited_by_hosts(free, topology)
    else:
        earlier = None if start is None else unfolded(start)
        whole = _rate_of_links(with_host_bottleneck(topology), collective, gap, time_limit_s, earlier)
        found = folded(whole, topology)
    return replace(found, seconds=time.process_time() - began)


def _rate_of_links(
    topology: Topology,
    collective: Collective,
    gap: float,
    time_limit_s: float | None,
    start: RateResult | None,
) -> RateResult:
    """Compute the rate of a fabric without injection caps."""
    clock = time.monotonic()
    instance = flow_instance(topology, collective)
    symmetry = known_symmetry(instance)
    # A search takes a third of a second on a thousand nodes. It adds little to automorphisms that the name
    # suggests, except on fabrics of boxes, whose names suggest rotations only.
    has_boxes = not topology.is_compute.all()
    if symmetry.n_sources > 1 and (symmetry.is_trivial or has_boxes or _is_small(instance, symmetry)):
        symmetry = suitable_symmetry(instance)
    if _is_small(instance, symmetry):
        # Exact arithmetic may take long before it fails; the first-order method needs time as well.
        half = Context(context().progress, None if time_limit_s is None else clock + time_limit_s / 2)
        with under(half):
            found = solve_exactly(instance, symmetry)
        if found is not None:
            return _exact_result(instance, found)
    left = None if time_limit_s is None else time_limit_s - (time.monotonic() - clock)
    start = start if symmetry.is_trivial else None  # one sender's flow loads links less evenly than all do
    if symmetry.n_sources * len(instance.links) > MOST_CELLS:
        result = priced_rate(instance, symmetry, gap=gap, time_limit_s=left)
    else:
        result = pdhg_rate(instance, symmetry, gap=gap, time_limit_s=left, start=start)
    return _bounded_by_cut(instance, result) if result.gap else result


def _bounded_by_cut(instance: FlowInstance, result: RateResult) -> RateResult:
    """Tighten the bound by cuts around single nodes, and around nodes that only short links separate.

    First-order methods approach the lengths of such a cut, but rarely reach them.
    """
    n = instance.topology.n_nodes
    lengths = result.certificate.lengths[instance.links]
    joined = lengths <= lengths.max(initial=0) * _HARDLY
    together = components(n, instance.tails[joined], instance.heads[joined])
    best, certificate = float(result.upper), None
    for part in (np.arange(n, dtype=np.int32), together):
        tails, heads = part[instance.tails], part[instance.heads]
        crosses = tails != heads
        for ends, demands in zip((tails, heads), _demands_of_parts(instance, part), strict=True):
            capacity = np.bincount(ends[crosses], weights=instance.bandwidths[crosses], minlength=n)
            rates = np.divide(capacity, demands, out=np.full(n, np.inf), where=demands > 0)
            place = int(rates.argmin())
            if rates[place] < best:
                best = float(rates[place])
                crossing = np.zeros(instance.topology.n_links)
                crossing[instance.links[crosses & (ends == place)]] = 1
                certificate = rounded_certificate(crossing)
    if certificate is None:
        return result
    upper = certificate.pair_rate_bound(instance.topology, instance.collective)
    return replace(result, upper=upper, certificate=certificate, rate=min(result.rate, float(upper)))


def _demands_of_parts(instance: FlowInstance, part: Int32Array) -> tuple[Float64Array, Float64Array]:
    """Return the demands out of and into each part; a part is named by one of its nodes."""
    n, demands = instance.topology.n_nodes, instance.collective.pair_demands
    if demands.is_uniform:
        count = np.bincount(part[instance.sources], minlength=n)
        each = demands.matrix[0, 0] * count * (instance.n_sources - count)
        return each.astype(np.float64), each.astype(np.float64)
    between: Float64Array = np.zeros((n, n))
    np.add.at(between, (part[instance.sources][:, None], part[None, :]), instance.demands)
    np.fill_diagonal(between, 0)
    return between.sum(axis=1), between.sum(axis=0)


def _is_small(instance: FlowInstance, symmetry: FlowSymmetry) -> bool:
    """Whether exact arithmetic takes about a second."""
    pairs, links = instance.collective.pair_demands.n_pairs, len(instance.links)
    return symmetry.n_sources == 1 or (pairs <= EXACT_PAIRS and links <= EXACT_LINKS)


def _exact_result(instance: FlowInstance, found: ExactRate) -> RateResult:
    """Convert an exact optimum, whose flows are checked in integers, after checking its lengths."""
    topology = instance.topology
    proved = found.certificate.pair_rate_bound(
        topology, instance.collective, automorphisms=found.symmetry.node_maps
    )
    assert proved == found.rate
    flows = np.zeros((len(found.units), topology.n_links))
    for row, flow in enumerate(found.units):
        for link, amount in flow.items():
            flows[row, link] = amount / found.denominator
    return RateResult(
        topology=topology,
        collective=instance.collective,
        rate=float(found.rate),
        upper=found.rate,
        exact=found.rate,
        loads=even_loads(instance, found.symmetry, flows),
        stored_flow=partial(spread_flow, instance, found.symmetry, flows),
        certificate=found.certificate,
        method="exact columns",
    )
