"""Constructions from expressions: the way back, and schedules of the dissertation's expansions by name."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.errors import TopologyError
from treadle.finder.construction import (
    Base,
    Construction,
    DegreeExpansion,
    LineGraph,
    Parallel,
    Placed,
    Power,
    Product,
    ScheduleMethod,
    WithReverse,
    construction_of,
    expression,
    is_breadth_first,
    notation,
    unplaced,
)
from treadle.finder.designing.design_flow import AlltoallRates
from treadle.finder.designing.design_result import DesignResult
from treadle.finder.workload import Network, allreduce_of
from treadle.planning import design, design_plan, verify
from treadle.schedules.collective import CollectiveKind


@pytest.mark.parametrize(
    "text",
    [
        "line_graph(cartesian_power(diamond(), 2), 2)",
        "degree_expansion(bi_ring(2, 5), 2)",
        "cartesian_product(uni_ring(1, 4), line_graph(complete(3)))",
        "with_parallel_links(cartesian_power(torus(3, 3), 2), 3)",
        'abelian_cayley("4x2", 1, 2)',
        "cartesian_product(diamond(), complete(3))",
    ],
)
def test_constructions_name_what_they_came_from(text: str) -> None:
    assert expression(construction_of(text)) == text


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


def _bfb(text: str, family: str) -> Base:
    return Base(text, text.replace(" ", ""), ScheduleMethod.BFB, family)


K3 = _bfb("complete(3)", "complete")
KAUTZ = _bfb("generalized_kautz(2, 5)", "generalized kautz")
DIAMOND = Base("diamond()", "Diamond", ScheduleMethod.EXACT, "exact synthesis")
MODIFIED = Base("modified_de_bruijn(2, 4)", "DBJMod(2,4)", ScheduleMethod.EXACT, "exact synthesis")


@pytest.mark.parametrize(
    ("text", "read", "words", "breadth_first"),
    [
        ("complete(3)", K3, "complete(3)", True),
        ("modified_de_bruijn(2, 4)", MODIFIED, "DBJMod(2,4)", False),
        ("line_graph(diamond())", LineGraph(DIAMOND, 1), "L(Diamond)", False),
        ("line_graph(complete(3))", LineGraph(K3), "L(complete(3))", True),
        ("line_graph(complete(3), 3)", LineGraph(K3, 3), "L^3(complete(3))", True),
        ("degree_expansion(complete(3), 4)", DegreeExpansion(K3, 4), "complete(3)*4", False),
        ("cartesian_power(complete(3), 2)", Power(K3, 2), "complete(3)^2", False),
        (
            "cartesian_power(degree_expansion(complete(3), 4), 2)",
            Power(DegreeExpansion(K3, 4), 2),
            "(complete(3)*4)^2",
            False,
        ),
        ("with_parallel_links(complete(3), 5)", Parallel(K3, 5), "with_parallel_links(complete(3),5)", True),
        (
            "with_parallel_links(diamond(), 5)",
            Parallel(DIAMOND, 5),
            "with_parallel_links(diamond(),5)",
            False,
        ),
        (
            'with_nodes_ordered(diamond(), "0,2,1")',
            Placed(DIAMOND, (0, 2, 1)),
            'with_nodes_ordered(diamond(),"0,2,1")',
            False,
        ),
        (
            "cartesian_product(complete(3), line_graph(generalized_kautz(2, 5)))",
            Product((K3, LineGraph(KAUTZ))),
            "complete(3) x L(generalized_kautz(2,5))",
            True,
        ),
    ],
)  # fmt: skip
def test_expressions_are_read_and_written_as_papers_do(
    text: str, read: Construction, words: str, breadth_first: bool
) -> None:
    assert construction_of(text) == read
    assert (expression(read), notation(read)) == (text, words)
    assert is_breadth_first(read) is breadth_first


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("complete(", "complete"),
        ("complete", "complete"),
        ("complete(3, bandwidth='5B/s')", "complete"),
        ("line_graph(complete(3), times=2)", "line graph"),
        ("line_graph(complete(3), 2, 3)", "line graph"),
        ("line_graph()", "line graph"),
        ("line_graph(complete(3), complete(3))", "line graph"),
        ("degree_expansion(complete(3))", "degree expansion"),
        ("cartesian_product(complete(3))", "cartesian product"),
        ("with_inserted_nodes(uni_ring(1, 4), 2)", "with inserted nodes"),
        ("with_reverse_links(uni_ring(1, 4))", "with reverse links"),
    ],
)
def test_everything_else_is_one_base(text: str, family: str) -> None:
    plain = text.replace("'", '"')
    assert construction_of(text) == _bfb(plain, family)


def test_the_reverse_and_placements_in_words() -> None:
    both = WithReverse(K3)
    assert expression(both) == notation(both) == "with_reverse_links(complete(3))"
    assert not is_breadth_first(both)
    assert notation(DegreeExpansion(both, 2)) == "with_reverse_links(complete(3))*2"
    assert notation(DegreeExpansion(LineGraph(K3), 2)) == "L(complete(3))*2"
    assert unplaced(Placed(K3, (0, 2, 1))) is K3
    assert unplaced(both) is both
    assert is_breadth_first(Placed(K3, (0, 2, 1)))
