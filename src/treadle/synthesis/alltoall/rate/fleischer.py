"""A combinatorial approximation scheme for the maximum concurrent flow: a baseline for the solvers.

Shortest paths are filled while each link's length grows exponentially with its load, so that later paths
avoid it; the average is a flow, the lengths bound it. Source: Garg and Koenemann (FOCS 1998), Fleischer
(2000), Karakostas.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from treadle.arrays import Float64Array
from treadle.errors import ScheduleError
from treadle.math.graphs import shortest_tree
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.rate.certificate import RateResult, certified, rounded_certificate
from treadle.synthesis.alltoall.rate.flow import ConcurrentFlow, check_flow
from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance, check_reachable, flow_instance
from treadle.synthesis.alltoall.routes.path_sets import out_links
from treadle.topologies.topology import Topology

_FIRST_STEP = 0.5
_SMALLEST = 1e-3


def fleischer_rate(
    topology: Topology, collective: Collective, *, epsilon: float = 0.05, time_limit_s: float | None = None
) -> RateResult:
    """Approximate F by routing on shortest paths under lengths that grow with the load.

    Parameters
    ----------
    topology : Topology
        Any fabric; every node forwards.
    collective : Collective
        An all-to-all.
    epsilon : float
        Optimality gap at which to stop, from 0.001 to below 1.
    time_limit_s : float, optional
        Wall-clock seconds after which to stop with a larger gap (`is_late`).

    Returns
    -------
    RateResult
        With the method "fleischer".

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.
    ScheduleError
        If `epsilon` is out of range.

    Notes
    -----
    A phase routes every source's demands on a tree of shortest paths, as much at a time as the tightest link
    can take, and multiplies the length of each link by 1 + step * load / capacity each time. The average of
    the phases is a flow that delivers everything; the lengths bound F. Sources: Garg and Koenemann (FOCS
    1998); Fleischer, Approximating fractional multicommodity flow independent of the number of commodities
    (SIAM J. Discrete Math. 13, 2000); Karakostas, Faster approximation schemes for fractional multicommodity
    flow problems (ACM TALG 4, 2008): all demands of a source together. Departures: the scheme ends when the
    sides are close, not after the proved number of phases, log(m) / step^2; after that many phases the step
    is halved, the lengths are kept, and the average starts again.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> fabric = ring(5)
    >>> result = fleischer_rate(fabric, on_all_ranks(fabric, CollectiveKind.ALLTOALL), epsilon=0.05)
    >>> 0.95 / 3 <= result.rate <= 1 / 3 + 1e-9 <= float(result.upper) + 2e-9
    True
    """
    if not _SMALLEST <= epsilon < 1:
        raise ScheduleError(f"fleischer: epsilon {epsilon}, expected from {_SMALLEST} to below 1")
    began = time.monotonic()
    instance = flow_instance(topology, collective)
    check_reachable(instance)
    out = out_links(topology, range(topology.n_links))
    certificate = rounded_certificate(np.ones(topology.n_links))
    upper = float(certificate.pair_rate_bound(topology, collective))
    capacity = topology.bandwidths / upper  # so that all demands fill about one unit of time
    length = np.where(topology.tails == topology.heads, 0.0, 1 / capacity)
    rate, best = 0.0, np.zeros((instance.n_sources, topology.n_links))
    step, is_late = max(_FIRST_STEP, epsilon), False
    while 1 - rate / upper > epsilon and not is_late:
        flow = np.zeros_like(best)
        for phase in range(1, int(np.ceil(np.log(topology.n_links + 1) / step**2)) + 1):
            length = _route_demands(instance, out, length, capacity.tolist(), step, flow)
            reached = phase / float((flow.sum(axis=0) / topology.bandwidths).max())
            if reached > rate:
                rate, best = reached, flow / phase
            better = rounded_certificate(length)
            proved = float(better.pair_rate_bound(topology, collective))
            if proved < upper:
                upper, certificate = proved, better
            is_late = time_limit_s is not None and time.monotonic() - began > time_limit_s
            if 1 - rate / upper <= epsilon or is_late:
                break
        step /= 2
        is_late = is_late or step < epsilon / 16  # never seen; proved for a third
    is_late = is_late and 1 - rate / upper > epsilon
    by_source = np.zeros((collective.n_ranks, topology.n_links))
    by_source[instance.senders] = best
    checked = ConcurrentFlow(by_source)
    rate = check_flow(topology, collective, checked)
    return certified(topology, collective, rate, certificate, checked, "fleischer", is_late=is_late)


def _route_demands(
    instance: FlowInstance,
    out: Sequence[Sequence[tuple[int, int]]],
    lengths: Float64Array,
    capacity: Sequence[float],
    step: float,
    flow: Float64Array,
) -> Float64Array:
    """Route all demands once, add them to `flow`, and return the new lengths of the links, at most 1."""
    length, tails = lengths.tolist(), instance.topology.tails.tolist()
    for row, source in enumerate(instance.sources.tolist()):
        left = instance.demands[row].astype(np.float64)
        while left.any():
            into, order = shortest_tree(out, length, source)
            carried: dict[int, float] = {}
            through = left.tolist()
            for node in reversed(order[1:]):
                if through[node]:
                    link = into[node]
                    carried[link] = through[node]
                    through[tails[link]] += through[node]
            part = min(1.0, *(capacity[link] / load for link, load in carried.items()))
            for link, load in carried.items():
                flow[row, link] += part * load
                length[link] *= 1 + step * part * load / capacity[link]
            left = left * (1 - part) if part < 1 else np.zeros_like(left)
    found: Float64Array = np.array(length)
    found /= found.max()
    return found
