"""Strong duality on random fabrics: three linear programs, exact flows and exact lengths agree."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples.strategies import digraphs, eulerian_topologies
from shortcuts.exact_flows import exact_rate, expanded_flow, expanded_units
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.alltoall.rate.exact_rate import check_exact_flow, solve_exactly
from treadle.synthesis.alltoall.rate.flow import check_flow
from treadle.synthesis.alltoall.rate.flow_instance import flow_instance
from treadle.synthesis.alltoall.rate.flow_symmetry import find_symmetry, symmetry_of
from treadle.synthesis.alltoall.rate.mcf_programs import link_mcf, master_mcf
from treadle.topologies import Topology


@st.composite
def instances(draw: Any) -> tuple[Topology, Collective]:
    """A fabric with or without switches, some of its compute nodes as ranks, and demands."""
    topology = draw(st.one_of(digraphs(compute=(3, 7)), eulerian_topologies()))
    nodes = draw(st.permutations([int(node) for node in topology.compute_nodes]))
    count = draw(st.integers(2, len(nodes)))
    demands = None
    if draw(st.booleans()):
        amounts = draw(st.lists(st.integers(0, 4), min_size=count * count, max_size=count * count))
        matrix = np.array(amounts).reshape(count, count)
        matrix[0, 1] += 1
        demands = Demands(matrix)
    forwarders = tuple(nodes[count:])
    return topology, Collective(
        CollectiveKind.ALLTOALL, tuple(nodes[:count]), forwarders=forwarders, demands=demands
    )


@settings(max_examples=21, deadline=None, derandomize=True)
@given(instances())
def test_all_formulations_agree_and_duality_is_exact(instance: tuple[Topology, Collective]) -> None:
    topology, collective = instance
    exact = exact_rate(topology, collective)
    assert exact is not None
    assert exact.certificate.pair_rate_bound(topology, collective) == exact.rate
    arrays = flow_instance(topology, collective)
    check_exact_flow(arrays, exact)
    expected = pytest.approx(float(exact.rate), rel=1e-6)
    assert link_mcf(topology, collective).rate == expected
    assert master_mcf(topology, collective).rate == expected
    assert check_flow(topology, collective, expanded_flow(arrays, exact)) == expected


@settings(max_examples=10, deadline=None, derandomize=True)
@given(instances())
def test_each_sender_is_served_exactly_within_the_links(instance: tuple[Topology, Collective]) -> None:
    topology, collective = instance
    arrays = flow_instance(topology, collective)
    rates = set()
    for symmetry in (symmetry_of(arrays), find_symmetry(arrays)):
        exact = solve_exactly(arrays, symmetry)
        assert exact is not None
        rates.add(exact.rate)
        flows, denominator = expanded_units(arrays, exact)
        loads = [0] * topology.n_links
        for row, flow in enumerate(flows):
            kept = [0] * topology.n_nodes
            for link, amount in flow.items():
                assert amount >= 0
                loads[link] += amount
                kept[topology.tails[link]] -= amount
                kept[topology.heads[link]] += amount
            kept[arrays.sources[row]] = 0
            assert kept == [amount * denominator for amount in arrays.demands[row].tolist()]
        busiest = max(
            Fraction(load, denominator * bandwidth)
            for load, bandwidth in zip(loads, topology.bandwidths.tolist(), strict=True)
        )
        assert busiest * exact.rate == 1
    assert len(rates) == 1
