"""Fabrics with failed links and nodes solve like any other; a failure never raises the optimal rate."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from samples.strategies import digraphs
from shortcuts.exact_flows import exact_rate
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall import RateResult, check_flow, optimal_rate
from treadle.synthesis.alltoall.routes.extract import extract_paths
from treadle.synthesis.alltoall.routes.route_units import route_schedule
from treadle.synthesis.alltoall.routes.virtual_channels import lash_layers
from treadle.synthesis.alltoall.steps.hierarchical import hierarchical_routes
from treadle.synthesis.alltoall.steps.pipelined import pipelined
from treadle.topologies import parse
from treadle.topologies.properties import are_ranks_connected
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import with_failed_links
from treadle.verification.alltoall.exchange_check import verify_exchange
from treadle.verification.routes.route_check import verify_routes

PUNCTURED = [
    "punctured(torus(3, 3, 3), links=3, seed=1)",
    "punctured(torus(4, 4), links=2, nodes=1, seed=3)",
    "punctured(hypercube(4), nodes=3)",
    "punctured(generalized_kautz(4, 16), links=2)",
    "punctured(jellyfish(16, 4), links=4, nodes=1)",
    "punctured(complete_bipartite(4, 4), links=1, seed=2)",
    "punctured(twisted_torus(4, 4, 2), links=2)",
]
GAP = 1e-3


def _alltoall(topology: Topology) -> Collective:
    return on_all_ranks(topology, CollectiveKind.ALLTOALL)


def _certified(topology: Topology, *, start: RateResult | None = None) -> RateResult:
    """The optimum, both of its sides checked by other code."""
    everyone = _alltoall(topology)
    found = optimal_rate(topology, everyone, gap=GAP, start=start)
    assert check_flow(topology, everyone, found.flow) == pytest.approx(found.rate)
    assert found.certificate.pair_rate_bound(topology, everyone) == found.upper
    assert (1 - GAP) * float(found.upper) <= found.rate <= float(found.upper) * (1 + 1e-9)
    return found


def _without(topology: Topology, *links: int) -> Topology:
    left = np.setdiff1d(np.arange(topology.n_links), links)
    return replace(
        topology,
        name=f"{topology.name} without {links}",
        tails=topology.tails[left],
        heads=topology.heads[left],
        bandwidths=topology.bandwidths[left],
        latencies_ns=topology.latencies_ns[left],
    )


@pytest.mark.parametrize("expression", PUNCTURED)
def test_punctured_fabrics_solve_like_any_other(expression: str) -> None:
    fabric = parse(expression)
    everyone = _alltoall(fabric)
    rate = _certified(fabric)
    upper = everyone.n_ranks * rate.upper
    paths = extract_paths(fabric, everyone, rate.flow.by_source)
    layer = lash_layers(paths.paths, fabric.n_links)
    routes = route_schedule(fabric, everyone, paths.paths, paths.weights, chunks=64, layer=layer)
    report = verify_routes(
        fabric,
        everyone,
        routes.schedule,
        claimed_algbw=routes.algbw,
        claimed_optimal_algbw=upper,
        certificate=rate.certificate,
    )
    assert report.is_ok, report.violations
    assert 0.9 * upper <= routes.algbw <= upper
    steps = pipelined(fabric, everyone, routes.schedule, rounds=8)
    timed = verify_exchange(
        fabric, everyone, steps, claimed_optimal_algbw=upper, certificate=rate.certificate
    )
    assert timed.is_ok, timed.violations
    assert timed.algbw is not None
    assert 0.5 * upper <= timed.algbw <= upper


@pytest.mark.parametrize("expression", ["torus(3, 3, 3)", "hypercube(4)", "generalized_kautz(4, 20)"])
def test_the_rate_falls_or_stays_as_links_fail_one_after_another(expression: str) -> None:
    fabric = parse(expression)
    before = _certified(fabric)
    rng = np.random.default_rng(7)
    for _ in range(2):
        carries = np.flatnonzero(fabric.tails != fabric.heads)
        smaller = _without(fabric, int(rng.choice(carries)))
        assert are_ranks_connected(smaller)
        after = _certified(smaller)
        assert after.rate <= float(before.upper) * (1 + 1e-9)
        fabric, before = smaller, after


@settings(max_examples=12, deadline=None, derandomize=True)
@given(fabric=digraphs(compute=(3, 6), max_bandwidth=4), data=st.data())
def test_the_exact_rate_falls_or_stays_when_a_link_fails(fabric: Topology, data: st.DataObject) -> None:
    smaller = _without(fabric, data.draw(st.integers(0, fabric.n_links - 1)))
    assume(are_ranks_connected(smaller))
    rates = [exact_rate(left, _alltoall(left)) for left in (fabric, smaller)]
    assert rates[0] is not None
    assert rates[1] is not None
    assert 0 < rates[1].rate <= rates[0].rate


def test_a_ring_that_is_parted_is_a_path_at_half_the_rate() -> None:
    # of a path of four ranks the middle link carries the data of 2 * 2 pairs each way
    ring, path = parse("ring(4)"), with_failed_links(parse("ring(4)"), "n0--n1")
    exact = [exact_rate(left, _alltoall(left)) for left in (ring, path)]
    assert [found and found.rate for found in exact] == [Fraction(1, 2), Fraction(1, 4)]


@pytest.mark.parametrize("expression", ["torus(4, 4)", "generalized_kautz(4, 48)"])
def test_warm_start_after_a_failure_reaches_the_same_rate(expression: str) -> None:
    fabric = parse(expression)
    before = _certified(fabric)
    lost = int(np.flatnonzero(fabric.tails != fabric.heads)[5])
    smaller = _without(fabric, lost)
    warm, cold = _certified(smaller, start=before), _certified(smaller)
    assert max(warm.rate, cold.rate) <= float(min(warm.upper, cold.upper)) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("expression", "lost"),
    [
        ("rail_optimized(2, 4)", "box0.gpu1--rail1"),
        ("dgx_h100(2, gpus_per_box=4)", "box1.gpu2--ib0"),
        ("leaf_spine(3, 2, gpus_per_leaf=2)", "leaf0--spine1"),
    ],
)
def test_boxes_that_lost_an_adapter_relay_around_it(expression: str, lost: str) -> None:
    whole = parse(expression)
    fabric = with_failed_links(whole, lost)
    everyone = _alltoall(fabric)
    found = hierarchical_routes(fabric, everyone)
    report = verify_routes(
        fabric,
        everyone,
        found.schedule,
        claimed_algbw=found.algbw,
        claimed_optimal_algbw=found.upper,
        certificate=found.certificate,
    )
    assert report.is_ok, report.violations
    before = _certified(whole)
    assert found.fractional_algbw <= everyone.n_ranks * float(before.upper) * (1 + 1e-9)
    assert found.fractional_algbw >= _certified(fabric).algbw * (1 - GAP)


def test_a_fabric_in_two_parts_is_refused() -> None:
    apart = _without(parse("uni_ring(1, 4)"), 2)
    with pytest.raises(InfeasibleError, match=r"cannot be reached|no path"):
        optimal_rate(apart, _alltoall(apart))
