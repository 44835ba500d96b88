"""Exact all-to-all optima: what is computed, what is refused, what the checks notice."""

from __future__ import annotations

import numpy as np
import pytest

from shortcuts.exact_flows import exact_rate
from treadle import topologies as t
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.flow import ConcurrentFlow, check_flow
from treadle.synthesis.alltoall.rate.mcf_programs import children_mcf, link_mcf, master_mcf

LINK_TOLERANCE = 1e-7


def _all_to_all(topology: t.Topology) -> Collective:
    return on_all_ranks(topology, CollectiveKind.ALLTOALL)


@pytest.mark.parametrize(
    "expression", ["torus(3, 3)", "generalized_kautz(3, 11)", "jellyfish(10, 3)", "dgx_a100(1, 4, pcie=True)"]
)
def test_the_three_linear_programs_agree_with_the_exact_rate(expression: str) -> None:
    topology = t.parse(expression)
    collective = _all_to_all(topology)
    exact = exact_rate(topology, collective)
    assert exact is not None
    expected = pytest.approx(float(exact.rate), rel=LINK_TOLERANCE)
    pairs, master = link_mcf(topology, collective), master_mcf(topology, collective)
    assert pairs.rate == expected
    assert master.rate == expected
    assert check_flow(topology, collective, pairs.flow) == expected
    assert check_flow(topology, collective, master.flow) == expected
    children = np.zeros((collective.n_ranks, topology.n_links))
    for rank, by_target in children_mcf(topology, collective, master.flow).items():
        children[rank] = by_target.sum(axis=0)
        assert children[rank].sum() <= master.flow.by_source[rank].sum() + 1e-6
    assert check_flow(topology, collective, ConcurrentFlow(children), tolerance=1e-6) == pytest.approx(
        float(exact.rate), rel=1e-6
    )


def test_a_child_needs_a_flow_that_delivers() -> None:
    ring = t.ring(4)
    collective = _all_to_all(ring)
    nothing = ConcurrentFlow(np.zeros((4, ring.n_links)))
    with pytest.raises(InfeasibleError):
        children_mcf(ring, collective, nothing)
