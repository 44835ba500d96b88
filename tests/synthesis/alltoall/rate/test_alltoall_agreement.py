"""A hundred random fabrics: linear program, iteration and symmetry agree, and both certificates meet.

Certificates are judged by `reference.alltoall_lp`, which reads the fabric's arrays and shares nothing with
the solvers: networkx for distances, scipy for the linear program, its own sums in fractions.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.alltoall_lp import exact_flow_rate, flow_rate, length_bound, lp_rate
from samples.strategies import digraphs, eulerian_topologies, relay_balanced_topologies, symmetric_topologies
from shortcuts.exact_flows import expanded_units
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.alltoall.rate.exact_columns import ExactRate
from treadle.synthesis.alltoall.rate.exact_rate import solve_exactly
from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance, flow_instance
from treadle.synthesis.alltoall.rate.flow_symmetry import FlowSymmetry, find_symmetry, symmetry_of
from treadle.synthesis.alltoall.rate.pdhg import pdhg_rate
from treadle.topologies.topology import Topology, TopologyBuilder

GAP = 1e-4
DEMANDS = st.integers(0, 5)


@st.composite
def any_fabrics(draw: Any) -> tuple[FlowInstance, FlowSymmetry]:
    """With or without switches, of unlike links; ranks in any order, some nodes forward; any demands."""
    topology = draw(
        st.one_of(
            eulerian_topologies(),
            relay_balanced_topologies(),
            symmetric_topologies(),
            digraphs(compute=(3, 7)),
        )
    )
    nodes = draw(st.permutations([int(node) for node in topology.compute_nodes]))
    count = draw(st.integers(2, len(nodes)))
    demands = None
    if draw(st.booleans()):
        cells = draw(st.lists(DEMANDS, min_size=count * count, max_size=count * count))
        matrix = np.array(cells).reshape(count, count)
        matrix[0, 1] += 1
        demands = Demands(matrix)
    everyone = tuple(nodes[:count]), tuple(nodes[count:])
    collective = Collective(CollectiveKind.ALLTOALL, everyone[0], forwarders=everyone[1], demands=demands)
    instance = flow_instance(topology, collective)
    return instance, find_symmetry(instance)


@st.composite
def turning_fabrics(draw: Any) -> tuple[FlowInstance, FlowSymmetry]:
    """Fabrics and demands that a rotation keeps: unlike chords, at times a switch in the middle."""
    n = draw(st.integers(3, 9))
    builder = TopologyBuilder("turning")
    names = [builder.compute(f"gpu{i}") for i in range(n)]
    middle = builder.switch("sw") if draw(st.booleans()) else None
    chords = {1: draw(st.integers(1, 9))}
    for _ in range(draw(st.integers(0, 3))):
        chords[draw(st.integers(1, n - 1))] = draw(st.integers(1, 9))
    uplink = draw(st.integers(1, 9))
    for i, name in enumerate(names):
        for chord, bandwidth in chords.items():
            builder.link(name, names[(i + chord) % n], bandwidth)
        if middle is not None:
            builder.duplex(name, middle, uplink)
    apart = draw(st.lists(DEMANDS, min_size=n - 1, max_size=n - 1))
    amounts = [0, apart[0] + 1, *apart[1:]]
    demands = Demands(np.array([[amounts[(j - i) % n] for j in range(n)] for i in range(n)]))
    topology = builder.build()
    instance = flow_instance(topology, Collective(CollectiveKind.ALLTOALL, tuple(range(n)), demands=demands))
    rotation = [*range(1, n), 0] + [n] * (middle is not None)
    return instance, symmetry_of(instance, [np.array(rotation)])


def flows_of(instance: FlowInstance, exact: ExactRate) -> dict[int, dict[int, Fraction]]:
    flows, denominator = expanded_units(instance, exact)
    return {
        source: {link: Fraction(amount, denominator) for link, amount in flow.items()}
        for source, flow in zip(instance.sources.tolist(), flows, strict=True)
    }


@settings(max_examples=35, deadline=None, derandomize=True)
@given(st.one_of(any_fabrics(), turning_fabrics()))
def test_three_methods_agree(problem: tuple[FlowInstance, FlowSymmetry]) -> None:
    """Linear program = PDHG = symmetric optimum within the certified gaps; primal = dual as fractions."""
    instance, symmetry = problem
    topology, collective = instance.topology, instance.collective
    optimum = lp_rate(topology, collective)
    for group in (symmetry_of(instance), symmetry):
        exact = solve_exactly(instance, group)
        assert exact is not None
        assert float(exact.rate) == pytest.approx(optimum, rel=1e-7)
        above = length_bound(topology, collective, exact.certificate.lengths.tolist())
        below = exact_flow_rate(topology, collective, flows_of(instance, exact))
        assert above == below == exact.rate
        found = pdhg_rate(instance, group, gap=GAP)
        assert not found.is_late
        assert found.gap <= GAP * 1.001
        upper = length_bound(topology, collective, found.certificate.lengths.tolist())
        assert upper == found.upper >= exact.rate
        reached = flow_rate(topology, collective, found.flow.by_source)
        assert found.rate * (1 - 1e-9) <= reached <= float(exact.rate) * (1 + 1e-9)


def test_rotations_leave_one_source() -> None:
    """So that the symmetric side of the comparison is what it says."""
    builder = TopologyBuilder("ring")
    names = [builder.compute(f"gpu{i}") for i in range(5)]
    for one, other in pairwise([*names, names[0]]):
        builder.link(one, other, 3)
    instance = flow_instance(builder.build(), Collective(CollectiveKind.ALLTOALL, tuple(range(5))))
    symmetry = symmetry_of(instance, [np.array([1, 2, 3, 4, 0])])
    assert (symmetry.n_sources, symmetry.n_orbits) == (1, 1)
    exact = solve_exactly(instance, symmetry)
    assert exact is not None
    assert exact.rate == Fraction(3, 10)


def _tampered(flows: dict[int, dict[int, Fraction]]) -> dict[int, dict[int, Fraction]]:
    source = next(iter(flows))
    link = next(link for link, amount in flows[source].items() if amount)
    return flows | {source: flows[source] | {link: flows[source][link] / 2}}


def test_the_checkers_notice() -> None:
    """A flow that delivers less is refused, one with a detour certifies less, other lengths prove less."""
    builder = TopologyBuilder("triangle")
    names = [builder.compute(name) for name in "abc"]
    for one, other in ((0, 1), (1, 2), (2, 0), (0, 2)):
        builder.link(names[one], names[other], 2)
    topology: Topology = builder.build()
    collective = Collective(CollectiveKind.ALLTOALL, (0, 1, 2))
    instance = flow_instance(topology, collective)
    exact = solve_exactly(instance, symmetry_of(instance))
    assert exact is not None
    flows = flows_of(instance, exact)
    assert exact_flow_rate(topology, collective, flows) == exact.rate == Fraction(2, 3)
    with pytest.raises(AssertionError):
        exact_flow_rate(topology, collective, _tampered(flows))
    around = flows | {0: {0: Fraction(1), 2: Fraction(1), 3: Fraction(2)}}  # to c and back home first
    assert exact_flow_rate(topology, collective, around) < exact.rate
    assert length_bound(topology, collective, [1, 1, 1, 1]) > exact.rate
