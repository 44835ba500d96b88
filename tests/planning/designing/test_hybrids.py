"""Fabrics made for groups: what they promise is what all groups at once can have, and nobody is cut off."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.errors import InfeasibleError
from treadle.finder.designing.design_flow import AlltoallRates
from treadle.finder.designing.design_result import DesignResult
from treadle.finder.workload import Call, Exchange, Network, Workload
from treadle.planning import bound, design, design_plan
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import parse

ALPHA, RATE = 1e-5, 12_500_000_000
SIZE = 64 * 2**20


def _designed(nodes: int, degree: int, *calls: Call, two_way: bool = False) -> DesignResult:
    return design(
        nodes,
        degree,
        network=Network(alpha_s=ALPHA, bandwidth_bytes_per_s=RATE),
        workload=Workload("groups", calls),
        bidirectional=two_way,
        alltoall=AlltoallRates.BOUND,
        use_cache=False,
    )


def _gather(size: int, stride: int = 1, count: int = 1) -> Call:
    return Call(Exchange.ALLGATHER, SIZE, Fraction(count), size, stride)


def test_groups_of_eight_get_a_fabric_each() -> None:
    """Eight K4,4: 7/8 M/B and two steps, which no fabric can beat."""
    result = _designed(64, 4, _gather(8))
    best = result.best
    assert best.option.expression == "disjoint_copies(complete_bipartite(4, 4), 8)"
    assert best.option.parts == 8
    assert best.seconds == pytest.approx(2 * ALPHA + 7 / 8 * SIZE / RATE)
    assert best.least_s == best.seconds
    assert best.allreduce_s is None
    with pytest.raises(InfeasibleError, match="8 parts"):
        design_plan(result, CollectiveKind.ALLREDUCE, use_cache=False)


def test_two_kinds_of_groups_get_a_product() -> None:
    """Eight calls in groups of 8 and one of stride 8: three ports for the former, a ring for the latter."""
    result = _designed(64, 4, _gather(8, count=8), _gather(8, stride=8))
    best = result.best
    assert best.seconds is not None
    assert best.seconds <= 69.3e-3
    assert all(row.least_s is not None and row.least_s <= (row.seconds or 0) for row in result.rows)
    times = [
        SIZE
        / (RATE // 4)
        / float(bound(best.option.expression, "allgather", mesh="8,8", axes=axis, forward=True).algbw)
        for axis in ("1", "0")
    ]
    latencies = 8 * 2 + 7
    assert best.seconds == pytest.approx(8 * times[0] + times[1] + latencies * ALPHA, rel=1e-4)


def test_groups_of_a_stride_are_numbered_as_the_mesh_is() -> None:
    """Members r, r + 8, ... are linked to one another, and to no one else."""
    best = _designed(32, 3, _gather(4, stride=8)).best
    assert best.option.parts == 8
    topology = parse(best.option.expression)
    links = set(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    assert links == {(a, b) for a in range(32) for b in range(a % 8, 32, 8) if a != b}


def test_calls_over_all_nodes_need_one_part() -> None:
    result = _designed(16, 4, _gather(4), Call(Exchange.ALLREDUCE, 2**20))
    assert all(row.option.parts == 1 for row in result.rows)


def test_two_way_fabrics_stay_two_way() -> None:
    result = _designed(64, 4, _gather(8, count=8), _gather(8, stride=8), two_way=True)
    for row in result.rows:
        topology = parse(row.option.expression)
        pairs = set(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
        assert all((head, tail) in pairs for tail, head in pairs)
