"""A combinatorial approximation scheme for the maximum concurrent flow: a baseline for the solvers.

Shortest paths are filled while each link's length grows exponentially with its load, so that later paths
avoid it; the average is a flow, the lengths bound it. Source: Garg and Koenemann (FOCS 1998), Fleischer
(2000), Karakostas.
"""

from __future__ import annotations

import time

import numpy as np

from treadle.errors import ScheduleError
from treadle.math.graphs import shortest_tree
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.rate.certificate import RateResult, certified, rounded_certificate
from treadle.synthesis.alltoall.rate.flow import ConcurrentFlow, FloatArray, check_flow
from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance, check_reachable, flow_instance
from treadle.topologies.topology import Topology

_FIRST_STEP = 0.5
_SMALLEST = 1e-3


def fleischer_rate(
    topology: Topology, collective: Collective, *, epsilon: float = 0.05, time_limit_s: float | None = None
) -> RateResult:
    """F to within a share `epsilon`, by routing on shortest paths under lengths that grow with the load.

    Parameters
    ----------
    topology : Topology
        Any fabric; every node forwards.
    collective : Collective
        An all-to-all.
    epsilon : float
        Gap between the two certified sides at which to stop, from 0.001 to below 1.
    time_limit_s : float, optional
        Wall-clock seconds after which to stop with the gap that is left (`is_late`).

    Returns
    -------
    RateResult
        Of method "fleischer".

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
    flow problems (ACM TALG 4, 2008): all demands of a source at once. Departures: the scheme ends when both
    sides are near instead of after the proved number of phases, log(m) / step^2, and steps are halved each
    time that number has passed, lengths kept, averages begun anew.

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
    began, cpu = time.monotonic(), time.process_time()
    scheme = _Scheme(flow_instance(topology, collective))
    step, is_late = max(_FIRST_STEP, epsilon), False
    while scheme.gap > epsilon and not is_late:
        scheme.restart()
        most = int(np.ceil(np.log(topology.n_links + 1) / step**2))
        for _ in range(most):
            scheme.phase(step)
            if scheme.measure() <= epsilon:
                break
            if time_limit_s is not None and time.monotonic() - began > time_limit_s:
                is_late = True
                break
        step /= 2
        is_late = is_late or (scheme.gap > epsilon and step < epsilon / 16)  # never seen; proved for a third
    return scheme.result(is_late, time.process_time() - cpu)


class _Scheme:
    """Lengths, the flow of the phases since the last restart, and the best of both sides so far."""

    def __init__(self, instance: FlowInstance) -> None:
        self._instance = instance
        self._ends = list(zip(instance.tails.tolist(), instance.heads.tolist(), strict=True))
        self._out: list[list[tuple[int, int]]] = [[] for _ in range(instance.topology.n_nodes)]
        for link, (tail, head) in enumerate(self._ends):
            self._out[tail].append((link, head))
        check_reachable(instance)
        self._witness = rounded_certificate(np.ones(instance.topology.n_links))
        self._upper = float(self._witness.pair_rate_bound(instance.topology, instance.collective))
        # demands that fill about one unit of time
        self._capacity = instance.bandwidths / self._upper
        self._length = 1 / self._capacity
        self._flow = np.zeros((instance.n_sources, len(instance.links)))
        self._phases = 0
        self._rate, self._best = 0.0, self._flow

    @property
    def gap(self) -> float:
        """Between the best flow and the best lengths, as far as measured."""
        return 1 - self._rate / self._upper

    def restart(self) -> None:
        """Forget the flow, keep the lengths."""
        self._flow = np.zeros_like(self._flow)
        self._phases = 0

    def phase(self, step: float) -> None:
        """Route all demands once."""
        length = self._length.tolist()
        capacity = self._capacity.tolist()
        for row, source in enumerate(self._instance.sources.tolist()):
            left = self._instance.demands[row].astype(np.float64)
            while left.any():
                into, order = shortest_tree(self._out, length, source)
                carried: dict[int, float] = {}
                through = left.tolist()
                for node in reversed(order[1:]):
                    if through[node]:
                        link = into[node]
                        carried[link] = through[node]
                        through[self._ends[link][0]] += through[node]
                part = min(1.0, *(capacity[link] / load for link, load in carried.items()))
                for link, load in carried.items():
                    self._flow[row, link] += part * load
                    length[link] *= 1 + step * part * load / capacity[link]
                left = left * (1 - part) if part < 1 else np.zeros_like(left)
        self._length = np.array(length)
        self._length /= self._length.max()
        self._phases += 1

    def measure(self) -> float:
        """The gap after this phase's flow and lengths."""
        topology = self._instance.topology
        rate = self._phases / float((self._flow.sum(axis=0) / self._instance.bandwidths).max())
        if rate > self._rate:
            self._rate, self._best = rate, self._flow / self._phases
        lengths = np.zeros(topology.n_links)
        lengths[self._instance.links] = self._length
        witness = rounded_certificate(lengths)
        upper = float(witness.pair_rate_bound(topology, self._instance.collective))
        if upper < self._upper:
            self._upper, self._witness = upper, witness
        return self.gap

    def result(self, is_late: bool, seconds: float) -> RateResult:
        """Both sides, checked anew."""
        instance = self._instance
        topology, collective = instance.topology, instance.collective
        by_source: FloatArray = np.zeros((collective.n_ranks, topology.n_links))
        by_source[np.ix_(instance.senders, instance.links)] = self._best
        flow = ConcurrentFlow(by_source)
        sides = check_flow(topology, collective, flow), self._witness
        return certified(topology, collective, sides, flow, "fleischer", seconds, is_late=is_late)
