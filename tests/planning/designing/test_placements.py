"""Ranks placed for a workload's groups: what is promised is what the relabelled fabric has."""

from __future__ import annotations

import csv
import io
import time
from fractions import Fraction
from functools import cache

import pytest

from treadle.finder.construction import DegreeExpansion, Placed, construction_of
from treadle.finder.designing.design_flow import AlltoallRates
from treadle.finder.designing.design_result import DesignResult
from treadle.finder.workload import Call, Exchange, Network, Workload
from treadle.planning import bound, design, design_plan, verify
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import parse

ALPHA, RATE, SIZE = 1e-5, 12_500_000_000, 64 * 2**20
SCATTERED = 'with_axes_ordered(cartesian_product(uni_ring(1, 4), complete(4)), "4x4", "1,0")'


@cache
def _designed(expression: str, *calls: Call) -> DesignResult:
    topology = parse(expression)
    return design(
        topology.n_nodes,
        topology.n_links // topology.n_nodes,
        network=Network(alpha_s=ALPHA, bandwidth_bytes_per_s=RATE),
        workload=Workload("groups", calls),
        alltoall=AlltoallRates.BOUND,
        topology=expression,
        use_cache=False,
    )


def _gather(size: int, stride: int = 1, count: int = 1) -> Call:
    return Call(Exchange.ALLGATHER, SIZE, Fraction(count), size, stride)


def test_the_relabelled_fabric_has_what_is_promised() -> None:
    """K4s whose nodes are numbered across: placed, groups of four are a K4 each; priced anew by `bound`."""
    best = _designed(SCATTERED, _gather(4)).best
    assert best.placement is not None
    assert best.seconds is not None
    assert best.own_order_s is not None
    assert best.seconds < best.own_order_s / 2

    def seconds(expression: str, steps: int) -> float:
        found = bound(expression, "allgather", mesh="4,4", axes="1", forward=True)
        return steps * ALPHA + SIZE / (RATE // 4) / float(found.algbw)

    assert best.option.expression.startswith(f"with_nodes_ordered({SCATTERED}, ")
    assert best.seconds == pytest.approx(seconds(best.option.expression, 1))
    assert best.own_order_s == pytest.approx(seconds(SCATTERED, 3))


def test_the_sheet_says_where_ranks_live() -> None:
    best = _designed(SCATTERED, _gather(4)).best
    rows = list(csv.DictReader(io.StringIO(best.placement_summary())))
    own, placed = parse(SCATTERED), best.option.topology
    assert [int(row["rank"]) for row in rows] == list(range(16))
    assert [int(row["number"]) for row in rows] == list(best.placement or ())
    assert all(row["node"] == own.node_names[int(row["number"])] for row in rows)
    links = {
        (own.node_names[t], own.node_names[h])
        for t, h in zip(own.tails.tolist(), own.heads.tolist(), strict=True)
    }
    names = [row["node"] for row in rows]
    assert {
        (names[t], names[h]) for t, h in zip(placed.tails.tolist(), placed.heads.tolist(), strict=True)
    } == links


def test_a_schedule_of_an_expansion_goes_with_its_ranks() -> None:
    """A fabric whose schedule is no breadth-first broadcast, and the same figures as without placement."""
    result = _designed("degree_expansion(complete(3), 2)", _gather(2, stride=3))
    best = result.best
    assert isinstance(best.option.candidate.construction, Placed)
    assert best.option.candidate.construction.of == DegreeExpansion(construction_of("complete(3)"), 2)
    for kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER):
        plan, _ = design_plan(result, kind, use_cache=False)
        assert verify(plan).is_ok
        assert best.option.expression in plan.topology.name
    again = _designed(best.option.expression, _gather(2, stride=3)).best
    assert again.option.candidate.construction == best.option.candidate.construction
    assert again.option.candidate.t_b_both == best.option.candidate.t_b_both
    assert again.seconds == best.seconds


def test_a_loaded_machine_tells_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that runs a thousand times as fast."""
    calls = (_gather(4),)
    first = _designed("jellyfish(16, 3)", *calls)
    now = time.monotonic

    monkeypatch.setattr("time.monotonic", lambda: 1000 * now())
    _designed.cache_clear()
    assert _designed("jellyfish(16, 3)", *calls).records() == first.records()


def test_groups_that_fall_well_stay() -> None:
    best = _designed("cartesian_product(uni_ring(1, 4), complete(4))", _gather(4)).best
    assert best.placement is None
    assert best.own_order_s is None
