"""Rows of a design: what each costs, which are worth telling, which fabric serves which call."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from treadle.errors import ScheduleError, TopologyError
from treadle.finder.construction import expression, notation
from treadle.finder.designing import design_rows, hybrids
from treadle.finder.designing.candidates import named_option
from treadle.finder.designing.design_result import DesignResult, DesignRow
from treadle.finder.designing.workload_costs import PricedFabric
from treadle.finder.evaluate import GroupCosts
from treadle.finder.measure import FlowRate, Option
from treadle.finder.workload import Call, Exchange, Network, Workload
from treadle.planning import design
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import dump_topology, parse

GATHER, SUM, EXCHANGE = Exchange.ALLGATHER, Exchange.ALLREDUCE, Exchange.ALLTOALL
NETWORK = Network(alpha_s=0.5, bandwidth_bytes_per_s=8)


@pytest.fixture(scope="module")
def torus() -> Option:
    """Two steps, 8/9 M/B; nine nodes with distances of 108 together."""
    return named_option("torus(3, 3)", 9, 4)


@pytest.fixture(scope="module")
def ring() -> Option:
    return named_option("bi_ring(4, 9)", 9, 4)


def test_sizes_that_are_shown() -> None:
    calls = (Call(GATHER, 9), Call(SUM, 5), Call(SUM, 7, group_size=3), Call(SUM, 6))
    workload = Workload("w", calls)
    assert design_rows.format_sizes(workload) == 7
    assert design_rows.format_sizes(Workload("w", calls[:1])) == 2**20
    assert design_rows.size_of(workload, CollectiveKind.ALLREDUCE) == 6
    assert design_rows.size_of(workload, CollectiveKind.ALLGATHER) == 9
    assert design_rows.size_of(workload, CollectiveKind.REDUCE_SCATTER) == 7


def test_a_row_of_a_fabric(torus: Option) -> None:
    """16 bytes: an allreduce takes four steps and 16/9 of two seconds, an all-to-all 108 / 81 of them."""
    workload = Workload("w", (Call(SUM, 16, Fraction(3)),))
    priced = PricedFabric(torus, {}, own_s=7.0)
    row = design_rows.row_of(priced, [2.0], workload, NETWORK, 16)
    assert (row.seconds, row.own_order_s, row.alltoall_s) == (6.0, 7.0, None)
    assert row.allreduce_s == pytest.approx(4 * 0.5 + 2 * 8 / 9 * 2)
    assert row.alltoall_bound_s == pytest.approx(2 * 108 / 81)
    assert row.least_s == pytest.approx(3 * (4 * 0.5 + 2 * 8 / 9 * 2))
    flowing = replace(priced, option=replace(torus, flow=FlowRate(0.25, 0.0)))
    flowed = design_rows.row_of(flowing, [2.0], workload, NETWORK, 16)
    assert flowed.alltoall_s == pytest.approx(2 * 4 / (9 * 0.25))
    assert flowed.alltoall_bound_s == row.alltoall_bound_s


def timed(seconds: float | None) -> DesignRow:
    return DesignRow(cast(Any, None), seconds, None, None, None)


def test_fabrics_for_groups_that_are_quicker_than_the_frontier() -> None:
    rows = [timed(seconds) for seconds in (1.0, 2.0, 3.0, None)]
    known = [timed(2.0), timed(None), timed(2.5)]
    assert design_rows.worthwhile(known, rows) == (rows[0],)
    assert design_rows.worthwhile([timed(None)], rows) == tuple(rows[:3])


def test_a_fabric_for_each_call(torus: Option, ring: Option) -> None:
    """The ring is quicker for the first call, the torus for the second; a change takes a second."""
    workload = Workload("w", (Call(GATHER, 8), Call(SUM, 8, Fraction(2))))
    priced = [PricedFabric(torus, {}), PricedFabric(ring, {})]
    costs: list[list[float | None]] = [[9.0, 1.0], [2.0, 6.0]]

    def cheapest(costs: list[list[float | None]], delay_s: float) -> Any:
        return design_rows.reconfigured(cast(Any, None), priced, costs, workload, NETWORK, 9, delay_s)

    found = cheapest(costs, 1.0)
    assert found is not None
    assert found.fabrics == (ring.expression, torus.expression)
    assert (found.seconds, found.changes) == (2.0 + 2 * 1.0 + 2 * 1.0, 2)
    stays = cheapest(costs, 10.0)
    assert stays is not None
    assert stays.fabrics == (torus.expression, torus.expression)
    assert (stays.seconds, stays.changes) == (9.0 + 2.0, 0)
    assert cheapest([[None, 1.0], [None, 6.0]], 1.0) is None


def test_calls_in_groups_have_fabrics_of_their_own(torus: Option, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three nodes with four links each: one step and 2/3 M/B; three of them side by side."""
    small = named_option("complete(3)", 3, 2)
    asked: list[tuple[int, int]] = []

    def frontier(finder: Any, nodes: int, degree: int) -> tuple[Option, ...]:
        asked.append((nodes, degree))
        return (small,)

    monkeypatch.setattr(design_rows, "frontier_options", frontier)
    workload = Workload("w", (Call(GATHER, 24, Fraction(5), 3, 3), Call(GATHER, 8, group_size=9)))
    priced = [PricedFabric(torus, {})]
    found = design_rows.reconfigured(cast(Any, None), priced, [[100.0, 1.0]], workload, NETWORK, 9, 0.0)
    assert asked == [(3, 4)]
    assert found is not None
    assert found.fabrics == ("3 x complete(3), stride 3", torus.expression)
    assert found.seconds == pytest.approx(5 * (0.5 + 2 / 3 * 3) + 1.0)


def test_others_are_those_that_are_not_told(torus: Option, ring: Option) -> None:
    finder: Any = SimpleNamespace(candidates=lambda nodes, degree: [torus.candidate, ring.candidate])
    assert design_rows.others_of(finder, 9, 4, [torus]) == (ring.candidate,)
    assert design_rows.others_of(finder, 9, 4, []) == (torus.candidate, ring.candidate)


def result_of(*options: Option, best: int = 0, **fields: Any) -> DesignResult:
    rows = tuple(DesignRow(option, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0) for option in options)
    nothing = cast(Any, None)
    network = Network(1.6e-9, 22)
    return DesignResult(9, 4, True, network, nothing, 16, rows, rows[best], nothing, None, {}, **fields)


def test_rows_as_a_table(torus: Option, ring: Option) -> None:
    first, second = result_of(torus, ring, best=1).records()
    assert first == {
        "fabric": "torus(3, 3)",
        "steps": 2,
        "t_b": pytest.approx(8 / 9),
        "separate_parts": 1,
        "diameter": 2,
        "time_s": 1.0,
        "least_s": 5.0,
        "own_order_s": 6.0,
        "allreduce_s": 2.0,
        "alltoall_bound_s": 3.0,
        "alltoall_s": 4.0,
        "is_best": False,
    }
    assert (second["fabric"], second["is_best"], second["diameter"]) == ("bi_ring(4, 9)", True, 4)


def test_links_of_a_row_share_the_bandwidth(torus: Option, ring: Option) -> None:
    """22 bytes/s over four links are five each, 1.6 ns are two."""
    found = result_of(torus, ring)
    for row, nodes in ((None, 9), (found.rows[1], 9)):
        fabric = found.topology(row)
        assert fabric.n_nodes == nodes
        assert set(fabric.bandwidths.tolist()) == {5}
        assert set(fabric.latencies_ns.tolist()) == {2}
    assert found.topology() == found.topology(found.rows[0])
    assert found.topology(found.rows[1]) != found.topology()


def test_what_was_found_now_and_what_was_kept(torus: Option, ring: Option) -> None:
    effort: Any = SimpleNamespace(found=(torus.candidate,))
    found = result_of(torus, ring, efforts=(effort,), kept=(expression(ring.candidate.construction),))
    first, second = found.rows
    assert (found.is_fresh(first), found.is_fresh(second)) == (True, False)
    assert (found.is_cached(first), found.is_cached(second)) == (False, True)
    assert first.placement is None


def test_products_cost_what_their_factors_do(torus: Option) -> None:
    """A complete graph of three beside one of four: two of five links, or three, serve each group."""
    three, four = named_option("complete(3)", 3, 2), named_option("complete(4)", 4, 3)
    one = hybrids._group_figures([three], 5, 12)
    # six ordered pairs at distance 1 of nine; 5/2 of the share, in groups of three of twelve nodes
    assert one == GroupCosts(
        1,
        Fraction(5, 2) * Fraction(2, 3),
        Fraction(5, 2) * Fraction(2, 3),
        Fraction(5, 2) * Fraction(6, 9) * 36,
    )
    both = hybrids._group_figures([three, four], 5, 12)
    assert both is not None
    assert (both.steps, both.t_b) == (2, Fraction(11, 12))
    assert both.distance_sum == (Fraction(6, 9) + Fraction(12, 16)) * 12 * 12
    assert hybrids._group_figures([], 5, 12) is None


def test_products_of_graphs_that_are_not_optimal_are_measured_up_to_a_size(
    ring: Option, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = named_option("de_bruijn(2, 3)", 8, 2)
    assert not odd.candidate.is_bandwidth_optimal or not odd.candidate.gather.is_simple
    hybrids._measured_product.cache_clear()
    monkeypatch.setattr(hybrids, "_MOST_PRODUCT", 72)
    found = hybrids._measured_product((odd, ring))
    assert found is not None
    assert (found.gather.nodes, found.gather.degree) == (72, 6)
    hybrids._measured_product.cache_clear()
    monkeypatch.setattr(hybrids, "_MOST_PRODUCT", 71)
    assert hybrids._measured_product((odd, ring)) is None
    assert hybrids._measured_product((odd,)) is odd.candidate
    hybrids._measured_product.cache_clear()


@pytest.mark.parametrize(
    ("nodes", "degree", "group"), [(20, 4, None), (24, 2, None), (32, 4, None), (90, 4, None), (24, 4, 4)]
)
def test_what_a_design_calls_a_fabric_names_it(nodes: int, degree: int, group: int | None) -> None:
    """Every row and every fabric that none beats, placed ranks and copies too, by notation and expression."""
    calls = (Call(SUM, 2**20, group_size=group), Call(GATHER, 2**20, group_size=group, stride=2))
    calls = calls if group else calls[:1]
    found = design(
        nodes, degree, network=Network(1e-5, 10**10), workload=Workload("w", calls), use_cache=False
    )
    candidates = [row.option.candidate for row in found.rows]
    for one in (*candidates, *found.others):
        named = parse(notation(one.construction))
        assert named == parse(expression(one.construction))
        assert named.n_nodes == nodes


def test_a_file_is_a_design_only_where_an_expression_constructs_it(tmp_path: Path) -> None:
    torus = parse("torus(3, 3)")
    for name, fabric in (("own", replace(torus, name="mine")), ("named", torus)):
        (tmp_path / f"{name}.json").write_text(dump_topology(fabric), encoding="utf-8")
    named = named_option(str(tmp_path / "named.json"), 9, 4)
    assert named.expression == "torus(3, 3)"
    with pytest.raises(
        TopologyError, match=r"own\.json is a file, and the finder takes fabrics that an expr"
    ):
        named_option(str(tmp_path / "own.json"), 9, 4)


def test_networks_give_each_link_a_byte() -> None:
    words = (
        "^design: a bandwidth of 3 bytes/s leaves each of 4 links less than 1 byte/s; expected at least 4 "
        "bytes/s$"
    )
    with pytest.raises(ScheduleError, match=words):
        design(9, 4, network=Network(0.0, 3), workload=Workload("w", (Call(SUM, 1),)), use_cache=False)
