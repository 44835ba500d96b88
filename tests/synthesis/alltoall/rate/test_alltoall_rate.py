"""The optimal all-to-all rate: against a linear program, closed forms, and certificates checked apart."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.alltoall_lp import flow_rate, length_bound, lp_rate
from samples.strategies import eulerian_topologies, relay_balanced_topologies
from treadle.context import Context, under
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall import RateResult, flow_instance, optimal_rate
from treadle.synthesis.alltoall.rate import pdhg
from treadle.synthesis.alltoall.rate.certificate import rounded_certificate
from treadle.synthesis.alltoall.rate.flow_symmetry import known_symmetry
from treadle.synthesis.alltoall.rate.pdhg import pdhg_rate
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder


def alltoall(topology: Topology) -> Collective:
    return on_all_ranks(topology, CollectiveKind.ALLTOALL)


def solved(name: str, **options: Any) -> RateResult:
    topology = parse(name)
    return optimal_rate(topology, alltoall(topology), **options)


def iterated(topology: Topology, collective: Collective, gap: float, **options: Any) -> RateResult:
    """By PDHG, small or not."""
    return pdhg_rate(flow_instance(topology, collective), gap=gap, **options)


def check_certificates(found: RateResult) -> None:
    """Both sides again, by code that knows nothing of the solver."""
    lower = flow_rate(found.topology, found.collective, found.flow.by_source)
    upper = length_bound(found.topology, found.collective, found.certificate.lengths.tolist())
    assert upper == found.upper
    assert lower >= found.rate * (1 - 1e-9)
    assert found.rate <= float(upper)
    assert np.allclose(found.flow.loads, found.loads, rtol=1e-9, atol=1e-9 * found.loads.max())


@st.composite
def problems(draw: Any) -> tuple[Topology, Collective]:
    """Any fabric; some ranks forward only; demands of any kind."""
    topology = draw(st.one_of(eulerian_topologies(), relay_balanced_topologies()))
    nodes = [int(v) for v in topology.compute_nodes]
    ranks = sorted(draw(st.permutations(nodes))[: draw(st.integers(2, len(nodes)))])
    demands = None
    if draw(st.booleans()):
        cells = st.integers(0, 5)
        matrix = np.array([[draw(cells) for _ in ranks] for _ in ranks])
        matrix[0, 1] += 1
        demands = Demands(matrix)
    forwarders = tuple(v for v in nodes if v not in ranks)
    return topology, Collective(CollectiveKind.ALLTOALL, tuple(ranks), forwarders=forwarders, demands=demands)


@settings(max_examples=21, deadline=None, derandomize=True)
@given(problems())
def test_pdhg_agrees_with_the_linear_program(problem: tuple[Topology, Collective]) -> None:
    topology, collective = problem
    found = iterated(topology, collective, 1e-4)
    assert not found.is_late
    optimum = lp_rate(topology, collective)
    assert found.gap <= 1.001e-4
    assert found.rate <= optimum * (1 + 1e-7)
    assert float(found.upper) >= optimum * (1 - 1e-7)
    check_certificates(found)


@settings(max_examples=9, deadline=None, derandomize=True)
@given(problems())
def test_small_fabrics_are_solved_exactly(problem: tuple[Topology, Collective]) -> None:
    topology, collective = problem
    found = optimal_rate(topology, collective)
    assert found.exact == found.upper
    assert found.gap == 0
    assert float(found.upper) == pytest.approx(lp_rate(topology, collective), rel=1e-7)
    check_certificates(found)


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("hypercube(3)", Fraction(1, 4)),  # 2 / N for N = 2^d
        ("torus(3,3,3)", Fraction(1, 9)),  # the paper, section 5.2
        ("complete_bipartite(4,4)", Fraction(2, 5)),
        ("complete(5)", Fraction(1)),
        ("uni_ring(1,5)", Fraction(1, 10)),
        ("hypercube(8)", Fraction(1, 128)),
    ],
)
def test_closed_forms(name: str, rate: Fraction) -> None:
    found = solved(name)
    assert found.exact == rate
    assert found.certificate.pair_rate_bound(found.topology, found.collective) == rate


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("generalized_kautz(4,27)", 0.06701708),
        ("generalized_kautz(4,64)", 0.02170767),
        ("generalized_kautz(4,100)", 0.01235658),
        ("generalized_kautz(4,128)", 0.00861605),
    ],
)
def test_generalized_kautz_by_lp(name: str, rate: float) -> None:
    """Values of the master program by HiGHS' interior point method."""
    topology = parse(name)
    found = iterated(topology, alltoall(topology), 1e-4)
    assert found.rate <= rate * (1 + 1e-6)
    assert float(found.upper) >= rate * (1 - 1e-6)
    assert found.gap <= 1.001e-4
    assert found.gap == 1 - found.rate / float(found.upper)


@pytest.mark.parametrize("name", ["circulant(13,2,3)", "torus(4,4)", "complete_bipartite(4,4)", "torus(5,3)"])
def test_flows_spread_from_one_source_load_all_links_alike(name: str) -> None:
    found = solved(name)
    assert found.exact is not None
    check_certificates(found)


def test_small_gaps_in_double_precision() -> None:
    topology = parse("generalized_kautz(4,27)")
    found = iterated(topology, alltoall(topology), 1e-8)
    assert found.gap <= 1.01e-8
    assert found.rate == pytest.approx(51 / 761, rel=2e-8)


def test_one_source_per_orbit_gives_the_same() -> None:
    topology = parse("generalized_kautz(4,60)")
    instance = flow_instance(topology, alltoall(topology))
    symmetry = known_symmetry(instance)
    assert symmetry.n_sources < 60
    found = pdhg_rate(instance, symmetry, gap=1e-5)
    whole = pdhg_rate(instance, gap=1e-5)
    check_certificates(found)
    assert found.rate == pytest.approx(whole.rate, rel=2e-5)


def test_threads_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = parse("jellyfish(70,4)")
    results = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(pdhg, "core_threads", lambda most, threads=threads: threads)
        results.append(iterated(topology, alltoall(topology), 1e-2))
    assert all(found.flow == results[0].flow for found in results)
    assert all(found.certificate == results[0].certificate for found in results)


def without_link(topology: Topology, link: int) -> Topology:
    kept = np.arange(topology.n_links) != link
    return replace(
        topology,
        tails=topology.tails[kept],
        heads=topology.heads[kept],
        bandwidths=topology.bandwidths[kept],
        latencies_ns=topology.latencies_ns[kept],
    )


def test_a_previous_result_is_a_start() -> None:
    """Solved again after a failure: certified, no worse than from scratch, and no step needed without one."""
    topology = parse("jellyfish(64,4,seed=3)")
    before = iterated(topology, alltoall(topology), 1e-3)
    again = iterated(topology, alltoall(topology), 1e-3, start=before)
    assert again.gap <= 1.1e-3
    broken = without_link(topology, 5)
    found = iterated(broken, alltoall(broken), 1e-3, start=before)
    check_certificates(found)
    scratch = iterated(broken, alltoall(broken), 1e-3)
    assert found.rate == pytest.approx(scratch.rate, rel=2e-3)
    assert found.upper < before.upper


def test_unreachable_demand_is_named() -> None:
    builder = TopologyBuilder("one way")
    for name in "abc":
        builder.compute(name)
    builder.link("a", "b", 1)
    builder.link("b", "a", 1)
    builder.link("b", "c", 1)
    topology = builder.build()
    with pytest.raises(InfeasibleError, match="'c' has data for 'a', but no path leads there"):
        optimal_rate(topology, alltoall(topology))
    with pytest.raises(InfeasibleError, match="'c' has data for 'a'"):
        iterated(topology, alltoall(topology), 1e-3)
    towards_c = Demands([[0, 1, 2], [0, 0, 3], [0, 0, 0]])
    found = optimal_rate(topology, replace(alltoall(topology), demands=towards_c))
    assert found.exact == Fraction(1, 5)


def test_a_time_limit_leaves_a_certified_gap() -> None:
    found = solved("jellyfish(200,4)", gap=1e-7, time_limit_s=0.05)
    assert found.is_late
    assert 1e-7 < found.gap < 1
    assert float(found.upper) > found.rate > 0


def test_progress_is_reported_and_interruption_stops_the_core() -> None:
    class StopError(Exception):
        pass

    def progress(stage: str, done: int, total: int) -> None:
        assert stage == "concurrent flow"
        assert 0 <= done <= total
        raise StopError

    with pytest.raises(StopError), under(Context(progress)):
        solved("jellyfish(200,4)", gap=1e-9)


@pytest.mark.parametrize("gap", [-1e-3, 1.0, float("nan"), float("inf")])
def test_gap_out_of_range(gap: float) -> None:
    with pytest.raises(ScheduleError, match="gap"):
        solved("hypercube(2)", gap=gap)


def test_another_collective_is_refused() -> None:
    topology = parse("hypercube(2)")
    with pytest.raises(ScheduleError, match="all-to-all"):
        optimal_rate(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))


def test_binding_links_are_full_and_have_a_length() -> None:
    builder = TopologyBuilder("two triangles")
    for i in range(6):
        builder.compute(f"n{i}")
    for first in (0, 3):
        for i, j in ((0, 1), (1, 2), (0, 2)):
            builder.duplex(f"n{first + i}", f"n{first + j}", 10)
    builder.duplex("n0", "n3", 1)
    found = optimal_rate(builder.build(), alltoall(builder.build()))
    assert found.exact == Fraction(1, 9)
    assert found.binding_links().tolist() == [12, 13]


def test_rounding_keeps_small_proportions() -> None:
    assert rounded_certificate(np.array([2.0, 6.0, 0.0])).lengths.tolist() == [1, 3, 0]
    fine = rounded_certificate(np.array([1.0, 0.7071, 0.1])).lengths
    assert fine.max() == 2**30
