"""Exact all-to-all optima: what is computed, what is refused, what the checks notice."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from shortcuts.exact_flows import exact_rate, expanded_flow, expanded_units
from treadle import topologies as t
from treadle.context import TimeLimitError
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.exact_rate import check_exact_flow, solve_exactly
from treadle.synthesis.alltoall.rate.flow import ConcurrentFlow, check_flow
from treadle.synthesis.alltoall.rate.flow_instance import flow_instance
from treadle.synthesis.alltoall.rate.flow_symmetry import symmetry_of
from treadle.synthesis.alltoall.rate.mcf_programs import children_mcf, link_mcf, master_mcf
from treadle.synthesis.alltoall.rate.path_trees import PathTreeFinder

LINK_TOLERANCE = 1e-7


def _all_to_all(topology: t.Topology) -> Collective:
    return on_all_ranks(topology, CollectiveKind.ALLTOALL)


@pytest.mark.parametrize(
    ("expression", "rate"),
    [
        ("ring(4)", Fraction(1, 2)),
        ("ring(5, bidirectional=False)", Fraction(1, 10)),
        ("path(3)", Fraction(1, 2)),
        ("star(4)", Fraction(1, 3)),
        ("complete(5)", Fraction(1)),
        ("with_parallel_links(ring(4), 3)", Fraction(3, 2)),
        ('ring(4, bandwidth="25GB/s")', Fraction(25 * 10**9, 2)),
        ("leaf_spine(2, 2, gpus_per_leaf=3)", Fraction(10**10)),
    ],
)
def test_small_optima_are_exact_with_and_without_symmetry(expression: str, rate: Fraction) -> None:
    topology = t.parse(expression)
    collective = _all_to_all(topology)
    instance = flow_instance(topology, collective)
    for exact in (
        exact_rate(topology, collective),
        solve_exactly(instance, symmetry_of(instance)),
    ):
        assert exact is not None
        assert exact.rate == rate
        assert exact.certificate.pair_rate_bound(topology, collective) == rate
        assert check_flow(topology, collective, expanded_flow(instance, exact)) == pytest.approx(
            float(rate), rel=1e-9
        )


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


def test_demands_and_forwarders_change_the_optimum() -> None:
    ring = t.ring(4, bidirectional=False)
    one = Collective(
        CollectiveKind.ALLTOALL, (0, 2), forwarders=(1, 3), demands=Demands(np.array([[0, 3], [1, 0]]))
    )
    exact = exact_rate(ring, one)
    assert exact is not None
    assert exact.rate == Fraction(1, 3)
    assert exact.certificate.pair_rate_bound(ring, one) == Fraction(1, 3)
    assert link_mcf(ring, one).rate == pytest.approx(1 / 3)


def test_flows_of_all_senders_are_balanced_exactly() -> None:
    graph = t.parse("line_graph(complete_bipartite(3, 3))")
    collective = _all_to_all(graph)
    instance = flow_instance(graph, collective)
    exact = exact_rate(graph, collective)
    assert exact is not None
    assert exact.symmetry.n_sources == 1
    flows, denominator = expanded_units(instance, exact)
    loads = np.zeros(graph.n_links, dtype=object)
    for row, flow in enumerate(flows):
        kept = np.zeros(graph.n_nodes, dtype=object)
        for link, amount in flow.items():
            loads[link] += amount
            kept[graph.tails[link]] -= amount
            kept[graph.heads[link]] += amount
        source = int(instance.sources[row])
        assert all(kept[node] == denominator for node in range(graph.n_nodes) if node != source)
    assert max(Fraction(int(load), denominator) for load in loads) * exact.rate == 1


def test_a_wrong_flow_is_noticed() -> None:
    graph = t.torus(3, 3)
    collective = _all_to_all(graph)
    instance = flow_instance(graph, collective)
    exact = exact_rate(graph, collective)
    assert exact is not None
    check_exact_flow(instance, exact)
    link = next(iter(exact.units[0]))
    broken = {**exact.units[0], link: exact.units[0][link] + 1}
    with pytest.raises(ScheduleError, match="does not balance"):
        check_exact_flow(instance, replace(exact, units=(broken,)))
    with pytest.raises(ScheduleError, match="loads allow"):
        check_exact_flow(instance, replace(exact, rate=exact.rate * 2))
    with pytest.raises(ScheduleError, match="negative load"):
        check_exact_flow(instance, replace(exact, units=({link: -1},)))


def test_what_cannot_be_reached_is_named() -> None:
    builder = t.TopologyBuilder("one way")
    for name in "abc":
        builder.compute(name)
    builder.duplex("a", "b", 1)
    builder.link("b", "c", 1)
    topology = builder.build()
    collective = _all_to_all(topology)
    for solve in (exact_rate, link_mcf, master_mcf):
        with pytest.raises(InfeasibleError, match="no path"):
            solve(topology, collective)


def test_limits_of_size_are_said() -> None:
    graph = t.generalized_kautz(4, 64)
    with pytest.raises(ScheduleError, match="expected at most 200000; solve the decomposed form"):
        link_mcf(graph, _all_to_all(graph))
    graph = t.generalized_kautz(4, 200)
    with pytest.raises(ScheduleError, match="use optimal_rate"):
        master_mcf(graph, _all_to_all(graph))
    assert exact_rate(t.jellyfish(300, 4), _all_to_all(t.jellyfish(300, 4))) is None


def test_limits_of_time_are_kept() -> None:
    graph = t.jellyfish(24, 4)
    assert exact_rate(graph, _all_to_all(graph), time_limit_s=0.0) is None
    with pytest.raises(TimeLimitError):
        master_mcf(t.generalized_kautz(4, 90), _all_to_all(t.generalized_kautz(4, 90)), time_limit_s=0.0)
    with pytest.raises(TimeLimitError):  # the solver starts
        master_mcf(t.generalized_kautz(4, 30), _all_to_all(t.generalized_kautz(4, 30)), time_limit_s=1e-6)


def test_a_child_needs_a_flow_that_delivers() -> None:
    ring = t.ring(4)
    collective = _all_to_all(ring)
    nothing = ConcurrentFlow(np.zeros((4, ring.n_links)))
    with pytest.raises(InfeasibleError):
        children_mcf(ring, collective, nothing)


def test_trees_prefer_fewer_hops_among_equal_lengths() -> None:
    graph = t.ring(6)
    instance = flow_instance(graph, _all_to_all(graph))
    finder = PathTreeFinder(instance, np.array([0]))
    trees = finder.trees(np.zeros(len(instance.links), dtype=np.int64))
    path, _ = finder.hops(trees, (np.zeros(5, dtype=np.int64), np.arange(1, 6)))
    assert np.bincount(path).tolist() == [1, 2, 3, 2, 1]
    assert trees.distance[0].tolist() == [0] * 6


def test_orbits_of_links_of_different_sizes_bind_together() -> None:
    """Two pods of three hosts, joined by a link between their switches and a link per pair of hosts."""
    builder = t.TopologyBuilder("pods joined twice")
    for host in range(6):
        builder.compute(f"g{host}")
    for pod in range(2):
        builder.switch(f"s{pod}")
        for host in range(3):
            builder.duplex(f"g{3 * pod + host}", f"s{pod}", 2)
    builder.duplex("s0", "s1", 1)
    for host in range(3):
        builder.duplex(f"g{host}", f"g{host + 3}", 1)
    fabric = builder.build()
    exact = exact_rate(fabric, _all_to_all(fabric))
    assert exact is not None
    assert exact.symmetry.n_sources == 1
    assert sorted(exact.symmetry.orbit_sizes.tolist()) == [2, 6, 6, 6]
    assert exact.rate == Fraction(4, 9)  # four units between the pods, nine pairs
