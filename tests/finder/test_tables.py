"""The shipped figures of bases: recomputed in samples, and the published statements about all of them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from tools.finder.base_figures import DEGREES, JELLYFISH_SEED, MAX_NODES

from treadle.finder.base_formulas import formula_bases
from treadle.finder.construction import Base, ScheduleMethod
from treadle.finder.measure import measure_graph
from treadle.finder.tables import shipped_tables
from treadle.synthesis.steps.bfb import bfb_reduce_scatter_value, bfb_value
from treadle.topologies import Topology, de_bruijn, generalized_kautz, jellyfish, parse
from treadle.topologies.moore import bandwidth_optimum, moore_steps

FIGURES = shipped_tables().figures
SAMPLE = [(3, 2), (5, 4), (17, 16), (64, 4), (100, 3), (129, 8), (255, 6), (500, 5), (333, 2), (700, 4)]


def test_every_size_is_there() -> None:
    kautz = FIGURES["generalized_kautz"]
    assert set(kautz) == {(n, d) for d in DEGREES for n in range(d + 1, MAX_NODES + 1)}


def test_figure_a7_and_theorem_21_hold_everywhere() -> None:
    """T_B <= 2 T_B* (figure A.7, allgather) and T_L <= T_L* + 1 (theorem 21), d = 2 ... 16, all N <= 2000."""
    for (n, d), (steps, gather, reduce) in FIGURES["generalized_kautz"].items():
        assert moore_steps(n, d) <= steps <= moore_steps(n, d) + 1, (n, d)
        assert bandwidth_optimum(n) <= gather <= 2 * bandwidth_optimum(n), (n, d)
        assert reduce >= bandwidth_optimum(n)


@pytest.mark.parametrize(("n", "d"), SAMPLE)
def test_kautz_figures_are_those_of_the_graphs(n: int, d: int) -> None:
    assert FIGURES["generalized_kautz"][n, d] == measure_graph(generalized_kautz(d, n))


@pytest.mark.parametrize(("n", "d"), [(6, 4), (50, 3), (129, 8), (200, 6), (500, 4)])
def test_random_figures_are_those_of_the_graphs(n: int, d: int) -> None:
    assert FIGURES["jellyfish"][n, d] == measure_graph(jellyfish(n, d, seed=JELLYFISH_SEED))


def test_de_bruijn_figures_have_a_closed_form() -> None:
    """T_L = n and T_B = d (d^n - 1) / (d^n (d - 1)): self-loops count (table A.1: 1.328 at d = n = 4)."""
    for (size, d), (steps, gather, reduce) in FIGURES["de_bruijn"].items():
        assert size == d**steps
        assert gather == reduce == Fraction(d * (size - 1), size * (d - 1))
    assert f"{float(FIGURES['de_bruijn'][256, 4][1]):.3f}" == "1.328"
    assert FIGURES["de_bruijn"][16, 2] == measure_graph(de_bruijn(2, 4))


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 5, 8])
def test_closed_forms_are_those_of_the_graphs(degree: int) -> None:
    """Steps, T_B both ways, diameter and flags of every closed-form base up to 40 nodes."""
    for n in range(2, 41):
        for candidate in formula_bases(n, degree):
            base, figures = candidate.construction, candidate.gather
            assert isinstance(base, Base)
            topology = parse(base.expression)
            assert (topology.n_nodes, topology.n_links) == (n, n * degree), base.expression
            arcs = list(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
            assert figures.is_simple == (len(set(arcs)) == len(arcs) and all(u != v for u, v in arcs))
            assert figures.is_bidirectional == (sorted(arcs) == sorted((v, u) for u, v in arcs))
            assert figures.t_b == bandwidth_optimum(n)
            if base.scheduler is ScheduleMethod.BFB:
                check_breadth_first(topology, figures.steps, figures.t_b)


def check_breadth_first(topology: Topology, steps: int, t_b: Fraction) -> None:
    for value in (bfb_value(topology), bfb_reduce_scatter_value(topology)):
        assert (value.diameter, value.t_b) == (steps, t_b), topology.name
