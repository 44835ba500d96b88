"""Published values of expanded topologies: figures 3.1 to 3.4, tables 3.4, 3.5 and A.1 of the dissertation.

Direct-connect topologies, chapter 3 and appendix A. The errata are those of docs/results/new.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from reference.line_graph_costs import measured
from reference.step_times import t_b as exact_t_b
from samples.step_samples import k22_allgather, ring_allgather, schedule_of, sends_of
from treadle.finder.predict import (
    Performance,
    cartesian_power_performance,
    cartesian_product_performance,
    degree_expansion_performance,
    line_graph_performance,
)
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import Steps
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.bfb import bfb_allgather, bfb_reduce_scatter
from treadle.synthesis.steps.exact.bases import base_schedule
from treadle.synthesis.steps.schedule_expansions import (
    cartesian_power_schedule,
    degree_expansion_schedule,
    line_graph_schedule,
)
from treadle.topologies import parse
from treadle.topologies.distances import diameter
from treadle.topologies.moore import is_moore_optimal, moore_steps
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.expansions import cartesian_product
from treadle.verification.steps.step_check import verify_steps

ALPHA_US = 10
MEGABYTE_US = 2**20 * 8 / 100e3
"""1 MB / (100 Gbit/s) in microseconds, with 1 MB = 2**20 bytes."""

# --- figures -----------------------------------------------------------------------------------------------


def _tuples(topology: Topology, steps: Steps) -> set[tuple[str, str, str, int, int, int]]:
    """((v, C), (u, w), t) by node names, with t from 1 and C as a range of chunks."""
    names = topology.node_names
    return {
        (names[v], names[topology.tails[e]], names[topology.heads[e]], t + 1, low, high)
        for v, e, t, low, high in sends_of(steps)
    }


def _lettered(topology: Topology, letters: str) -> Topology:
    return replace(topology, node_names=tuple(letters))


def test_figure_3_1_allgather_of_k22() -> None:
    """a sends S to c and d; they send C1 and C2 to b. T_L = 2, T_B = 3/4."""
    topology, steps = k22_allgather()
    named = _tuples(_lettered(topology, "abcd"), steps)
    assert {send for send in named if send[0] == "a"} == {
        *{("a", "a", "c", 1, 0, 2), ("a", "a", "d", 1, 0, 2)},
        *{("a", "c", "b", 2, 0, 1), ("a", "d", "b", 2, 1, 2)},
    }
    found = measured(topology, bfb_allgather(topology))
    assert (found.steps, found.t_b) == (2, Fraction(3, 4))
    assert measured(topology, steps) == found


def test_figure_3_2_line_graph_of_k22() -> None:
    """The broadcast of node ca, all of it; the caption gives its first sends and the image of one tuple."""
    topology, steps = k22_allgather()
    expanded = line_graph_schedule(_lettered(topology, "abcd"), steps)
    from_ca = {send[1:] for send in _tuples(*expanded) if send[0] == "c>a"}
    assert {send for send in from_ca if send[2] == 1} == {
        ("c>a", "a>c", 1, 0, 2),
        ("c>a", "a>d", 1, 0, 2),
    }
    # ((a, S), (a, c), 1) and ((a, S), (a, d), 1) of the base; ca itself gets nothing
    assert {send for send in from_ca if send[2] == 2} == {
        *{("a>c", "c>b", 2, 0, 2), ("a>d", "d>a", 2, 0, 2), ("a>d", "d>b", 2, 0, 2)},
    }
    # ((a, C1), (c, b), 2) maps to (cb, bc) and (cb, bd)
    assert {send for send in from_ca if send[2] == 3} == {
        *{("c>b", "b>c", 3, 0, 1), ("c>b", "b>d", 3, 0, 1)},
        *{("d>b", "b>c", 3, 1, 2), ("d>b", "b>d", 3, 1, 2)},
    }
    found = measured(*expanded)
    assert (found.nodes, found.steps, found.t_b) == (8, 3, Fraction(3, 4) + Fraction(1, 4))


def test_figure_3_4_degree_expansion_of_the_ring() -> None:
    """Paths stay in their copy until the last hop; the copies of a node serve each other by halves."""
    topology, steps = ring_allgather(4)
    expanded = degree_expansion_schedule(_lettered(topology, "abcd"), steps, 2)
    sends = {send[:4] for send in _tuples(*expanded)}
    assert {("a.0", "a.0", "b.0", 1), ("a.0", "b.0", "c.1", 2)} <= sends
    assert {("a.1", "a.1", "b.1", 1), ("a.1", "b.1", "c.1", 2), ("a.1", "c.1", "d.0", 3)} <= sends
    assert ("a.0", "b.1", "c.1", 2) not in sends
    assert {send for send in _tuples(*expanded) if send[3] == 4 and send[0] in ("a.0", "a.1")} == {
        *{("a.0", "d.0", "a.1", 4, 0, 1), ("a.0", "d.1", "a.1", 4, 1, 2)},
        *{("a.1", "d.0", "a.0", 4, 0, 1), ("a.1", "d.1", "a.0", 4, 1, 2)},
    }
    found = measured(*expanded)
    assert (found.nodes, found.degree, found.steps) == (8, 2, 4)
    assert found.is_bandwidth_optimal


@pytest.mark.parametrize(
    "text",
    ["complete_bipartite(4, 4)", "complete(5)", "directed_circulant(6, 1, 2, 3, 4)", "hamming(2, 3)"],
)
def test_figure_3_3_line_graphs_of_optimal_bases(text: str) -> None:
    """Degree 4: T_B / T_B* rises towards Theorem 9's limit; every L^n is Moore-optimal."""
    topology = parse(text)
    steps = bfb_allgather(topology)
    base = measured(topology, steps)
    size = base.nodes
    assert base.is_bandwidth_optimal
    assert base.has_exact_line_graphs
    ratios = []
    for n in range(11):
        told = line_graph_performance(base, n) if n else base
        total = 4**n * size
        ratios.append(told.t_b / Fraction(total - 1, total))
        growth = Fraction(4, 3) * (Fraction(1, size) - Fraction(1, total))
        assert told.t_b == Fraction(size - 1, size) + growth  # Corollary 10.1
        assert is_moore_optimal(told.nodes, 4, told.steps)  # Theorem 8
    limit = 1 + Fraction(1, 3 * size)
    assert ratios == sorted(ratios)
    assert ratios[0] == 1
    assert ratios[-1] < limit < ratios[-1] + Fraction(1, 10**6)
    for n in (1, 2):
        assert measured(*line_graph_schedule(topology, steps, n)).t_b == line_graph_performance(base, n).t_b


def test_figure_3_3_larger_bases_stay_closer_to_the_optimum() -> None:
    """In the order of the figure: complete graph, directed circulant, K4,4, H(2,3)."""
    final = []
    for text in (
        "complete(5)",
        "directed_circulant(6, 1, 2, 3, 4)",
        "complete_bipartite(4, 4)",
        "hamming(2, 3)",
    ):
        base = measured(parse(text), bfb_allgather(parse(text)))
        told = line_graph_performance(base, 10)
        final.append(told.t_b * told.nodes / (told.nodes - 1))
    assert final == sorted(final, reverse=True)
    assert [round(float(ratio), 4) for ratio in final] == [1.0667, 1.0556, 1.0417, 1.037]


# --- constructions -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Built:
    """A topology with predicted figures of its allgather, and its schedules both ways."""

    topology: Topology
    told: Performance
    allgather: Steps
    reduce_scatter: Steps


def bfb(text: str) -> Built:
    topology = parse(text)
    steps = bfb_allgather(topology)
    return Built(topology, measured(topology, steps), steps, bfb_reduce_scatter(topology))


def exact(text: str) -> Built:
    """A base whose schedule is not breadth-first but comes from exact synthesis."""
    topology, steps = base_schedule(text, Direction.BROADCAST)
    back = base_schedule(text, Direction.REDUCE)[1]
    return Built(topology, measured(topology, steps), steps, back)


Expansion = Callable[[Topology, Steps, int], tuple[Topology, Steps]]


def _expanded(base: Built, n: int, expand: Expansion, told: Performance) -> Built:
    topology, steps = expand(base.topology, base.allgather, n)
    same, back = expand(base.topology, base.reduce_scatter, n)
    assert same == topology
    return Built(topology, told, steps, back)


def lines(base: Built, n: int = 1) -> Built:
    return _expanded(base, n, line_graph_schedule, line_graph_performance(base.told, n))


def power(base: Built, n: int) -> Built:
    return _expanded(base, n, cartesian_power_schedule, cartesian_power_performance(base.told, n))


def times(base: Built, n: int) -> Built:
    return _expanded(base, n, degree_expansion_schedule, degree_expansion_performance(base.told, n))


def boxed(*factors: Built) -> Built:
    topology = cartesian_product(*(factor.topology for factor in factors))
    steps = bfb_allgather(topology)
    told = cartesian_product_performance(*(factor.told for factor in factors))
    return Built(topology, told, steps, bfb_reduce_scatter(topology))


def k44() -> Built:
    return bfb("complete_bipartite(4, 4)")


def uni_ring_4() -> Built:
    return bfb("uni_ring(1, 4)")


def diamond_squared() -> Built:
    return power(exact("diamond()"), 2)


def modified_squared() -> Built:
    return power(exact("modified_de_bruijn(2, 4)"), 2)


Row = tuple[int, str, Callable[[], Built], int, str, int]
TABLE_A1: list[Row] = [
    (32, "L(K4,4)", lambda: lines(k44()), 3, "1.000", 3),
    (32, "DistReg(4,32)", lambda: bfb("distance_regular(4, 32)"), 4, "0.969", 4),
    (64, "Pi4,64", lambda: bfb("generalized_kautz(4, 64)"), 3, "1.312", 3),
    (64, "L(DBJMod(4,2))", lambda: lines(exact("modified_de_bruijn(4, 2)")), 4, "1.000", 4),
    (64, "Diamond^2", diamond_squared, 6, "0.984", 6),
    (128, "L2(K4,4)", lambda: lines(k44(), 2), 4, "1.031", 4),
    (128, "L(DistReg(4,32))", lambda: lines(bfb("distance_regular(4, 32)")), 5, "1.000", 5),
    (
        128,
        "BiRing(2,8) x UniRing(1,4)^2",
        lambda: boxed(bfb("bi_ring(2, 8)"), uni_ring_4(), uni_ring_4()),
        10,
        "0.992",
        10,
    ),
    (256, "DBJ(4,4)", lambda: bfb("de_bruijn(4, 4)"), 4, "1.328", 4),
    (256, "L2(DBJMod(4,2))", lambda: lines(exact("modified_de_bruijn(4, 2)"), 2), 5, "1.016", 5),
    (256, "L(Diamond^2)", lambda: lines(diamond_squared()), 7, "1.000", 7),
    (256, "DBJMod(2,4)^2", modified_squared, 10, "0.996", 8),
    (512, "L3(K4,4)", lambda: lines(k44(), 3), 5, "1.039", 5),
    (512, "L2(DistReg(4,32))", lambda: lines(bfb("distance_regular(4, 32)"), 2), 6, "1.008", 6),
    (
        512,
        "L(UniRing(1,4)^3 x UniRing(1,2))",  # printed as BiRing(1, 4), whose degree would be odd
        lambda: lines(boxed(uni_ring_4(), uni_ring_4(), uni_ring_4(), bfb("uni_ring(1, 2)"))),
        11,
        "1.000",
        11,
    ),
    (
        512,
        "UniRing(1,4)^3 x UniRing(1,8)",
        lambda: boxed(uni_ring_4(), uni_ring_4(), uni_ring_4(), bfb("uni_ring(1, 8)")),
        16,
        "0.998",
        16,
    ),
    (1024, "Pi4,1024", lambda: bfb("generalized_kautz(4, 1024)"), 5, "1.332", 5),
    (1024, "L3(C(16,{3,4}))", lambda: lines(bfb("circulant(16, 3, 4)"), 3), 6, "1.020", 6),
    (1024, "L2(Diamond^2)", lambda: lines(diamond_squared(), 2), 8, "1.004", 8),
    (1024, "L(DBJMod(2,4)^2)", lambda: lines(modified_squared()), 11, "1.000", 9),
    (
        1024,
        "(UniRing(1,4) x UniRing(1,8))^2",
        lambda: power(boxed(uni_ring_4(), bfb("uni_ring(1, 8)")), 2),
        20,
        "0.999",
        20,
    ),
]
ROWS = {row[1]: row for row in TABLE_A1}


def _printed(t_b: Fraction) -> str:
    return f"{float(t_b):.3f}"


def _cost(built: Built) -> tuple[int, Fraction]:
    """Steps and T_B of the allgather: just what was predicted."""
    found = measured(built.topology, built.allgather)
    assert (found.steps, found.t_b) == (built.told.steps, built.told.t_b)
    return found.steps, found.t_b


@cache
def _row(name: str) -> tuple[int, Fraction]:
    """Steps and T_B of a row of table A.1, with its schedules verified both ways."""
    built = ROWS[name][2]()
    steps, t_b = _cost(built)
    allgather = schedule_of(CollectiveKind.ALLGATHER, built.allgather)
    reduce_scatter = schedule_of(CollectiveKind.REDUCE_SCATTER, built.reduce_scatter)
    for schedule in (allgather, reduce_scatter):
        assert verify_steps(built.topology, on_all_ranks(built.topology, schedule.kind), schedule).is_ok
    # No row has a worse reduce-scatter, though some graphs are not reverse-symmetric.
    assert reduce_scatter.n_steps == steps
    assert _printed(exact_t_b(built.topology, reduce_scatter)) == _printed(t_b)
    assert (built.told.nodes, built.told.degree) == (ROWS[name][0], 4)
    assert diameter(built.topology) == ROWS[name][5]
    assert built.told.diameter in (None, ROWS[name][5])
    return steps, t_b


@pytest.mark.parametrize("name", ROWS)
def test_table_a1(name: str) -> None:
    """T_L, T_B and D of every row."""
    steps, t_b = _row(name)
    assert (steps, _printed(t_b)) == ROWS[name][3:5]


@pytest.mark.parametrize(
    ("nodes", "steps", "t_b"),
    [
        (32, 3, "0.969"),
        (64, 3, "0.984"),
        (128, 4, "0.992"),
        (256, 4, "0.996"),
        (512, 5, "0.998"),
        (1024, 5, "0.999"),
    ],
)
def test_table_a1_bounds(nodes: int, steps: int, t_b: str) -> None:
    """The rows "Theoretical Bound": Moore bound and Theorem 4."""
    assert (moore_steps(nodes, 4), _printed(Fraction(nodes - 1, nodes))) == (steps, t_b)


def _allreduce_us(steps: int, t_b: Fraction) -> float:
    return 2 * (steps * ALPHA_US + float(t_b) * MEGABYTE_US)


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("Pi4,1024", 323.5),
        ("L3(C(16,{3,4}))", 291.0),
        ("L2(Diamond^2)", 328.4),
        ("L(DBJMod(2,4)^2)", 387.8),
        ("(UniRing(1,4) x UniRing(1,8))^2", 567.6),
    ],
)
def test_table_3_4_allreduce_times(name: str, printed: float) -> None:
    """2(T_L + T_B) for alpha = 10 us and M/B = 1 MB / 100 Gbit/s, where 1 MB is 2**20 bytes."""
    assert round(_allreduce_us(*_row(name)), 1) == printed


def test_table_3_4_bound_and_tori() -> None:
    assert round(_allreduce_us(5, Fraction(1023, 1024)), 1) == 267.6
    # The torus 32 x 32: the traditional schedule needs 31 steps per dimension, breadth-first broadcast 16.
    torus = bfb("torus(32, 32)")
    assert (torus.told.steps, torus.told.is_bandwidth_optimal) == (32, True)
    assert round(_allreduce_us(62, torus.told.t_b), 1) == 1407.6
    assert round(_allreduce_us(32, torus.told.t_b), 1) == 807.6


@pytest.mark.parametrize(
    ("nodes", "build", "allreduce_steps"),
    [
        (5, lambda: bfb("complete(5)"), 2),
        (6, lambda: times(bfb("complete(3)"), 2), 4),
        (7, lambda: bfb("circulant(7, 2, 3)"), 4),
        (8, k44, 4),
        (9, lambda: bfb("hamming(2, 3)"), 4),
        (10, lambda: bfb("degree_expansion(bi_ring(2, 5), 2)"), 4),
        (11, lambda: bfb("circulant(11, 2, 3)"), 4),
        (12, lambda: bfb("circulant(12, 2, 3)"), 4),
    ],
)
def test_table_3_5(nodes: int, build: Callable[[], Built], allreduce_steps: int) -> None:
    """All bandwidth-optimal; the table's T_L is that of an allreduce."""
    built = build()
    assert (built.told.nodes, built.told.degree) == (nodes, 4)
    steps, t_b = _cost(built)
    assert (2 * steps, t_b) == (allreduce_steps, Fraction(nodes - 1, nodes))


def test_table_3_5_ten_nodes_by_definition_2() -> None:
    """BiRing(2,5) * 2 has the table's 2 steps only by breadth-first broadcast; Definition 2 takes 3."""
    built = times(bfb("bi_ring(2, 5)"), 2)
    assert _cost(built) == (3, Fraction(9, 10))
    assert np.array_equal(built.topology.tails, parse("degree_expansion(bi_ring(2, 5), 2)").tails)
