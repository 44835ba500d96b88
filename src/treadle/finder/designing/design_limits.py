"""Lower bounds for all fabrics of a size and degree."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from treadle.finder.workload import Network
from treadle.topologies.moore import all_to_all_limit, bandwidth_optimum, least_mean_distance, moore_steps


@dataclass(frozen=True)
class DesignLimits:
    """Lower bounds for all fabrics of this size.

    Parameters
    ----------
    steps : int
        Moore optimality (Definition 10).
    t_b : Fraction
        In M/B (Theorem 4).
    mean_distance, pair_rate : Fraction
        Of the ideal distance distribution; the rate in link bandwidths.
    allreduce_s : float
    alltoall_s : float
        Bandwidth only.
    """

    steps: int
    t_b: Fraction
    mean_distance: Fraction
    pair_rate: Fraction
    allreduce_s: float
    alltoall_s: float


def design_limits(nodes: int, degree: int, bidirectional: bool, network: Network, shown: int) -> DesignLimits:
    """Compute Moore's bounds on a network, with times for `shown` bytes."""
    steps = moore_steps(nodes, degree, bidirectional=bidirectional)
    t_b = bandwidth_optimum(nodes)
    rate = all_to_all_limit(nodes, degree, bidirectional=bidirectional)
    transfer = shown / network.bandwidth_bytes_per_s
    reduction = network.gamma_s_per_byte * shown
    return DesignLimits(
        steps=steps,
        t_b=t_b,
        mean_distance=least_mean_distance(nodes, degree, bidirectional=bidirectional),
        pair_rate=rate,
        allreduce_s=2 * steps * network.alpha_s + float(t_b) * (2 * transfer + reduction),
        alltoall_s=transfer * degree / (nodes * float(rate)),
    )
