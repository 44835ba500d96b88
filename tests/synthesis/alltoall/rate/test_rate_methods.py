"""Published methods for an all-to-all's rate: certified from both sides, never beyond the exact optimum."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.planning import TimeLimitError, bound
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.flow import check_flow
from treadle.synthesis.alltoall.rate.methods import RateMethod, cut_certificate, rate_by
from treadle.synthesis.alltoall.rate.rate import optimal_rate
from treadle.topologies import parse
from treadle.topologies.topology import Topology

FABRICS = [
    "torus(3,3)",
    "generalized_kautz(3, 14)",
    "dgx_a100:1",
    'ring(6, bandwidth="6B/s")',
    "ring(5) with caps",
]
PROGRAMS = [RateMethod.LINK_MCF, RateMethod.DECOMPOSED_MCF]


def fabric(name: str) -> Topology:
    if name.endswith("with caps"):
        plain = parse('ring(5, bandwidth="7B/s")')
        return replace(plain, injection_bytes_per_s=np.array([0, 9, 0, 11, 0]))
    return parse(name)


def problem(name: str) -> tuple[Topology, Collective]:
    topology = fabric(name)
    collective = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    if name == "torus(3,3)":  # unequal demands, and a pair without any
        matrix = np.random.default_rng(3).integers(0, 4, size=(9, 9))
        collective = replace(collective, demands=Demands(matrix))
    return topology, collective


@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("method", [*PROGRAMS, RateMethod.FLEISCHER])
def test_both_sides_are_certified(name: str, method: RateMethod) -> None:
    topology, collective = problem(name)
    best = optimal_rate(topology, collective)
    assert best.exact is not None
    found = rate_by(topology, collective, method, gap=0.05)
    assert found.method == method
    assert found.upper == found.certificate.pair_rate_bound(topology, collective) >= best.exact
    assert found.rate <= float(best.exact) * (1 + 1e-9)
    assert found.gap <= (1e-6 if method in PROGRAMS else 0.05)
    if not topology.injection_bytes_per_s.any():
        assert check_flow(topology, collective, found.flow) == found.rate


@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("method", [RateMethod.CUT, RateMethod.BISECTION])
def test_cuts_bound_from_above(name: str, method: RateMethod) -> None:
    topology, collective = problem(name)
    best = optimal_rate(topology, collective).exact
    assert best is not None
    upper = cut_certificate(topology, collective, method, seed=0).pair_rate_bound(topology, collective)
    assert upper >= best
    if name.startswith("ring(6"):  # three ranks a side, two links across
        assert upper == best == Fraction(2 * 6, 9)


def test_the_api_says_what_a_method_is_not_for() -> None:
    assert bound("ring:6", "alltoall", method="cut").algbw == bound("ring:6", "alltoall").algbw
    assert not bound("ring:6", "alltoall", method="cut").bound.is_tight
    found = bound("ring:6", "alltoall", method="fleischer", gap=0.2).rate
    assert found is not None
    assert 0 < found.gap <= 0.2
    with pytest.raises(ScheduleError, match="expected at most 200000"):
        bound("hypercube:7", "alltoall", method="link-mcf")
    with pytest.raises(TimeLimitError):
        bound("torus:5,5", "alltoall", method="decomposed-mcf", time_limit_s=0)
