"""Constructions from expressions: the way back, and schedules of the dissertation's expansions by name."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.errors import TopologyError
from treadle.finder.construction import (
    Base,
    LineGraph,
    Product,
    construction_of,
)
from treadle.finder.designing.design_flow import AlltoallRates
from treadle.finder.designing.design_result import DesignResult
from treadle.finder.workload import Network, allreduce_of
from treadle.planning import design, design_plan, verify
from treadle.schedules.collective import CollectiveKind


def test_what_has_no_schedule_of_its_own_is_a_base() -> None:
    """A product of a graph whose schedule is no breadth-first broadcast is scheduled as it stands."""
    assert isinstance(construction_of("cartesian_product(diamond(), complete(3))"), Base)
    assert isinstance(construction_of("cartesian_product(complete(2), complete(3))"), Product)
    assert isinstance(construction_of("line_graph(diamond())"), LineGraph)


def _named(text: str, nodes: int, degree: int) -> DesignResult:
    return design(
        nodes,
        degree,
        network=Network(alpha_s=1e-5, bandwidth_bytes_per_s=12_500_000_000),
        workload=allreduce_of(2**20),
        alltoall=AlltoallRates.BOUND,
        topology=text,
        use_cache=False,
    )


@pytest.mark.parametrize(
    ("text", "nodes", "steps", "t_b"),
    [
        ("L(DBJMod(4,2))", 64, 4, Fraction(1)),
        ("Diamond^2", 64, 6, Fraction(63, 64)),
        ("L2(K4,4)", 128, 4, Fraction(33, 32)),
        ("BiRing(2,8) x UniRing(1,4)^2", 128, 10, Fraction(127, 128)),
    ],
)
def test_rows_of_table_a1_by_name(text: str, nodes: int, steps: int, t_b: Fraction) -> None:
    result = _named(text, nodes, 4)
    (row,) = result.rows
    assert (row.option.candidate.steps, row.option.candidate.t_b_both / 2) == (steps, t_b)


def test_a_named_fabric_gets_a_plan() -> None:
    plan, _ = design_plan(_named("L(Diamond)", 16, 2), CollectiveKind.ALLREDUCE, use_cache=False)
    assert verify(plan).report.is_ok


@pytest.mark.parametrize(
    ("text", "nodes", "degree"), [("K5", 6, 4), ("star(4)", 4, 1), ("dgx_a100(1)", 8, 1)]
)
def test_other_sizes_are_refused(text: str, nodes: int, degree: int) -> None:
    with pytest.raises(TopologyError, match="expected a regular fabric"):
        _named(text, nodes, degree)
