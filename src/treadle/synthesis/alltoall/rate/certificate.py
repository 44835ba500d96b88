"""A certified all-to-all rate: a flow from below, link lengths from above.

Any flow that delivers all demands with loads L proves F >= 1 / max(L / b). Any lengths l prove F <= sum(b l)
/ sum(w dist): each unit of data uses up at least its distance. By duality both meet at the optimum. Source:
docs/algorithms/alltoall.md, "Two certificates".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from treadle.arrays import Int64Array
from treadle.brief import brief
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.rate.flow import ConcurrentFlow
from treadle.synthesis.alltoall.rate.flow_instance import FloatArray
from treadle.topologies.topology import Topology

_FINEST = 2**30
_COARSE = (1, 2, 3, 4, 5, 6, 8, 10, 12)
_NEAR = 1e-6
_BINDING = 1e-3


@brief("collective", "topology", "rate", "upper", "method", "seconds", "is_late")
@dataclass(frozen=True, eq=False)
class RateResult:
    """The optimum of an all-to-all between two certified sides.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    rate : float
        Lower side: what the flow reaches, bytes/s per unit of demand.
    upper : Fraction
        Upper side, exact: what `witness` proves.
    exact : Fraction, optional
        F where both sides are known to meet exactly.
    loads : array of float64, shape (m,)
        What each link carries in `flow`.
    stored_flow : ConcurrentFlow or callable
        `flow`, or a function of a module that computes it when it is wanted, since it may be large.
    witness : FlowDualCertificate
    method : str
        What found it.
    seconds : float
        CPU seconds.
    is_late : bool
        Time or iterations ran out before the wanted gap was reached.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.bound("torus:3,3", "alltoall").rate
    >>> found.exact, found.upper, found.method
    (Fraction(1, 3), Fraction(1, 3), 'exact columns')
    >>> float(found.loads.max())
    3.0
    """

    topology: Topology
    collective: Collective
    rate: float
    upper: Fraction
    exact: Fraction | None
    loads: FloatArray
    stored_flow: ConcurrentFlow | Callable[[], FloatArray]
    witness: FlowDualCertificate
    method: str
    seconds: float
    is_late: bool = False

    @cached_property
    def flow(self) -> ConcurrentFlow:
        """A flow that reaches `rate`."""
        stored = self.stored_flow
        return ConcurrentFlow(stored()) if callable(stored) else stored

    @property
    def gap(self) -> float:
        """How far the optimum may be above `rate`, as a share of the upper side."""
        return 0.0 if self.exact is not None else max(0.0, 1 - self.rate / float(self.upper))

    @property
    def algbw(self) -> float:
        """Certified algbw, bytes/s: size over time, where size is the largest per-rank buffer."""
        return self.rate * self.collective.pair_demands.buffer_units

    def binding_links(self) -> Int64Array:
        """Links that have a length and are full, or as good as full: those that set the rate."""
        priced = np.flatnonzero(self.witness.lengths > self._least_length)
        fullness = self.rate * self.loads[priced] / self.topology.bandwidths[priced]
        found: Int64Array = priced[fullness >= 1 - max(_BINDING, 2 * self.gap)]
        return found

    def binding_hosts(self) -> Int64Array:
        """Nodes whose injection caps have a length: those set the rate, besides the links."""
        hosts = np.flatnonzero(self.topology.injection_bytes_per_s)
        if not len(self.witness.hosts):
            return hosts[:0]
        found: Int64Array = hosts[(self.witness.hosts > self._least_length).any(axis=1)]
        return found

    @property
    def _least_length(self) -> float:
        witness = self.witness
        return 1e-6 * float(max(witness.lengths.max(initial=0), witness.hosts.max(initial=0)))


def rounded_certificate(lengths: FloatArray) -> FlowDualCertificate:
    """Lengths as integers in proportion: small ones where that is true to 1e-6, else up to 2**30.

    Parameters
    ----------
    lengths : array of float64, shape (m,)
        Not negative, not all 0.

    Examples
    --------
    >>> rounded_witness(np.array([0.1, 0.3, 0.0])).lengths.tolist()
    [1, 3, 0]
    """
    shares = np.maximum(lengths, 0) / lengths.max()
    for top in _COARSE:
        whole = np.rint(shares * top)
        if np.abs(shares * top - whole).max() <= _NEAR:
            return FlowDualCertificate(whole.astype(np.int64))
    return FlowDualCertificate(np.rint(shares * _FINEST).astype(np.int64))


def certified(
    topology: Topology,
    collective: Collective,
    sides: tuple[float, FlowDualCertificate],
    flow: ConcurrentFlow,
    method: str,
    seconds: float,
    *,
    is_late: bool = False,
) -> RateResult:
    """A flow's rate and a bound that lengths prove."""
    rate, witness = sides
    upper = witness.pair_rate_bound(topology, collective)
    return RateResult(
        topology, collective, rate, upper, None, flow.loads, flow, witness, method, seconds, is_late
    )
