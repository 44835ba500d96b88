"""Hierarchical all-to-all: verified, never above a proved bound, optimal where boxes and rails are alike."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall import optimal_rate
from treadle.synthesis.alltoall.baselines.equal_weight import equal_weight_shortest_paths
from treadle.synthesis.alltoall.steps.hierarchical import hierarchical_routes
from treadle.synthesis.alltoall.steps.relays import RelayPath
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.routes.route_check import verify_routes

CLOSED = [
    "dgx_a100(2)",
    "dgx_a100_flat(2, gpus_per_box=4)",
    "dgx_h100(2)",
    "mi250(2, gpus_per_box=8)",
    "mi300x(2, gpus_per_box=4)",
    "leaf_spine(4, 2, gpus_per_leaf=4)",
    "leaf_spine(4, 2, gpus_per_leaf=4, oversubscription=4)",
    "rail_optimized(3, 4)",
    "rail_optimized(4, 4, spines=2, oversubscription=4)",
    "pods(2, 2, gpus_per_box=4, oversubscription=2)",
    "fat_tree(4)",
]


def _alltoall(topology: Topology, demands: np.ndarray | None = None) -> Collective:
    everyone = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    if demands is None:
        return everyone
    return Collective(CollectiveKind.ALLTOALL, everyone.ranks, demands=Demands(demands))


@pytest.mark.parametrize("expression", CLOSED)
def test_platforms_reach_the_optimum(expression: str) -> None:
    fabric = parse(expression)
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
    assert found.gap < 1e-5
    rate = optimal_rate(fabric, everyone, gap=1e-3, time_limit_s=10)
    assert found.algbw <= everyone.n_ranks * rate.upper
    assert rate.algbw <= float(found.upper) * (1 + 1e-9)


def test_one_rail_per_gpu_is_exact_in_two_phases() -> None:
    fabric = parse("rail_optimized(3, 4)")
    everyone = _alltoall(fabric)
    found = hierarchical_routes(fabric, everyone, ways=(RelayPath.RELAY_BEFORE,))
    # 8 of 12 units leave over a NIC of 50 GB/s
    assert found.algbw == found.upper == 75 * 10**9
    schedule, box = found.schedule, np.arange(12) // 4
    for index in range(schedule.n_paths):
        source, target = int(schedule.source[index]), int(schedule.target[index])
        nodes = [int(fabric.tails[link]) for link in schedule.path(index)][1:]
        stops = [everyone.ranks.index(node) for node in nodes if fabric.is_compute[node]]
        relay = int(box[source]) * 4 + target % 4
        expected = [] if box[source] == box[target] or relay == source else [relay]
        assert stops == expected
    assert found.relayed == pytest.approx(3 / 4)


def test_fewest_hops_lose_where_the_slow_network_is_as_short_as_the_fast_one() -> None:
    fabric = parse("dgx_h100(2)")
    everyone = _alltoall(fabric)
    naive = equal_weight_shortest_paths(fabric, everyone).algbw
    found = hierarchical_routes(fabric, everyone)
    assert found.algbw == 100 * 10**9 > naive * 14 / 10
    assert found.relayed == 0


def test_uneven_demands_leave_over_all_adapters() -> None:
    fabric = parse("dgx_h100(2, gpus_per_box=4)")
    demands = np.zeros((8, 8), dtype=np.int64)
    demands[0, 4] = 12
    hot = _alltoall(fabric, demands)
    direct = hierarchical_routes(fabric, hot, ways=(RelayPath.DIRECT,))
    found = hierarchical_routes(fabric, hot)
    assert direct.algbw == 50 * 10**9
    assert found.algbw == found.upper == 200 * 10**9
    assert found.relayed == pytest.approx(3 / 4)
    assert verify_routes(fabric, hot, found.schedule, claimed_algbw=found.algbw).is_ok


def test_slow_adapters_are_used_beside_fast_ones() -> None:
    builder = TopologyBuilder("crossed")
    builder.switch("spine")
    for box, widths in enumerate([(3, 1), (1, 3)]):
        builder.switch(f"{box}.switch")
        for i, width in enumerate(widths):
            gpu = builder.compute(f"{box}.{i}")
            builder.duplex(gpu, f"{box}.switch", 9)
            builder.duplex(gpu, "spine", width)
    fabric = builder.build()
    everyone = _alltoall(fabric)
    # 4 pairs each way between the boxes at 3 + 1: F = 1
    parallel = hierarchical_routes(fabric, everyone, ways=(RelayPath.SPREAD,))
    assert parallel.fractional_algbw == pytest.approx(2)
    assert hierarchical_routes(fabric, everyone).algbw == 4


def test_given_boxes_and_limits() -> None:
    fabric = parse("mi300x(2, gpus_per_box=4)")
    everyone = _alltoall(fabric)
    found = hierarchical_routes(
        fabric, everyone, boxes=[(3, 2, 1, 0), (7, 6, 5, 4)], chunks=6, max_routes=2, ways=(RelayPath.SPREAD,)
    )
    assert found.boxes == ((3, 2, 1, 0), (7, 6, 5, 4))
    assert found.schedule.n_chunks == 6
    assert verify_routes(fabric, everyone, found.schedule, max_routes=2).is_ok


def test_bandwidths_far_apart_still_prove_a_bound() -> None:
    """Next to the slow link's the fast links' lengths vanish, in the duals too as nothing takes that link."""
    builder = TopologyBuilder("far apart")
    for node in range(2):
        builder.compute(f"n{node}")
    for tail, head, bandwidth in [(1, 0, 2**40), (0, 1, 3), (0, 1, 2**38)]:
        builder.link(f"n{tail}", f"n{head}", bandwidth)
    fabric = builder.build()
    everyone = _alltoall(fabric)
    found = hierarchical_routes(fabric, everyone)
    assert found.certificate.bound(fabric, everyone) == found.upper
    assert verify_routes(fabric, everyone, found.schedule, claimed_algbw=found.algbw).is_ok
