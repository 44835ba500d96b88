"""A certified all-to-all rate: a flow from below, link lengths from above.

Any flow that delivers all demands with loads L proves F >= 1 / max(L / b). Any lengths l prove F <= sum(b l)
/ sum(w dist): each unit of data uses up at least its distance. By duality both meet at the optimum. Source:
docs/how-it-works/all-to-all.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from treadle.arrays import Float64Array, Int64Array
from treadle.brief import brief
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.rate.flow import ConcurrentFlow
from treadle.topologies.topology import Topology

if TYPE_CHECKING:
    from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance
    from treadle.synthesis.alltoall.rate.flow_symmetry import FlowSymmetry

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
        Lower side: rate of the flow, bytes/s per unit of demand.
    upper : Fraction
        Upper side, exact: the bound that `certificate` proves.
    exact : Fraction, optional
        F if both sides meet exactly.
    loads : array of float64, shape (m,)
        Load of each link in `flow`.
    stored_flow : ConcurrentFlow or callable
        `flow`, or a function that computes it on demand, since it may be large.
    certificate : FlowDualCertificate
    method : str
        Name of the method.
    seconds : float
        CPU seconds.
    is_late : bool
        Whether time or iterations ran out before the requested gap was reached.

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
    loads: Float64Array
    stored_flow: ConcurrentFlow | Callable[[], Float64Array]
    certificate: FlowDualCertificate
    method: str
    seconds: float = 0.0
    is_late: bool = False

    @cached_property
    def flow(self) -> ConcurrentFlow:
        """A flow that reaches `rate`."""
        stored = self.stored_flow
        return ConcurrentFlow(stored()) if callable(stored) else stored

    @property
    def gap(self) -> float:
        """Optimality gap of `rate`, relative to the upper side."""
        return 0.0 if self.exact is not None else max(0.0, 1 - self.rate / float(self.upper))

    @property
    def algbw(self) -> float:
        """Certified algbw, bytes/s: size over time, where size is the largest per-rank buffer."""
        return self.rate * self.collective.pair_demands.buffer_units

    def binding_links(self) -> Int64Array:
        """Return the bottleneck links: those with positive length that are full, or nearly so."""
        priced = np.flatnonzero(self.certificate.lengths > self._least_length)
        fullness = self.rate * self.loads[priced] / self.topology.bandwidths[priced]
        found: Int64Array = priced[fullness >= 1 - max(_BINDING, 2 * self.gap)]
        return found

    def binding_hosts(self) -> Int64Array:
        """Return the nodes whose injection caps have a positive length: they limit the rate as links do."""
        hosts = np.flatnonzero(self.topology.injection_bytes_per_s)
        if not len(self.certificate.hosts):
            return hosts[:0]
        found: Int64Array = hosts[(self.certificate.hosts > self._least_length).any(axis=1)]
        return found

    @property
    def _least_length(self) -> float:
        certificate = self.certificate
        return 1e-6 * float(max(certificate.lengths.max(initial=0), certificate.hosts.max(initial=0)))


def rounded_certificate(lengths: Float64Array) -> FlowDualCertificate:
    """Round lengths to integers in proportion: small ones if they are right to 1e-6, else up to 2**30.

    Parameters
    ----------
    lengths : array of float64, shape (m,)
        Not negative, not all 0.

    Examples
    --------
    >>> rounded_certificate(np.array([0.1, 0.3, 0.0])).lengths.tolist()
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
    rate: float,
    certificate: FlowDualCertificate,
    flow: ConcurrentFlow,
    method: str,
    *,
    is_late: bool = False,
) -> RateResult:
    """Return a flow's rate with the bound that link lengths prove."""
    upper = certificate.pair_rate_bound(topology, collective)
    return RateResult(
        topology, collective, rate, upper, None, flow.loads, flow, certificate, method, is_late=is_late
    )


def certified_orbits(
    instance: FlowInstance,
    symmetry: FlowSymmetry,
    loads: Float64Array,
    delivered: float,
    lengths: Float64Array,
    stored_flow: Callable[[], Float64Array],
    method: str,
    *,
    is_late: bool,
) -> RateResult:
    """Certify the flows of one sender per orbit by their loads, and the lengths of the instance's links.

    Parameters
    ----------
    instance, symmetry
    loads : array of float64, shape (m,)
        Loads of all senders, equal within orbits of links.
    delivered : float
        Least fraction of a demand that the flows deliver: the rate is reduced to it.
    lengths : array of float64, shape (k,)
    stored_flow, method, is_late
        Fields of the result.
    """
    topology, collective = instance.topology, instance.collective
    by_link = np.zeros(topology.n_links)
    by_link[instance.links] = lengths
    certificate = rounded_certificate(by_link)
    upper = certificate.pair_rate_bound(topology, collective, automorphisms=symmetry.node_maps)
    rate = min(delivered / float((loads / topology.bandwidths).max()), float(upper))
    return RateResult(
        topology, collective, rate, upper, None, loads, stored_flow, certificate, method, is_late=is_late
    )
