"""Predicted figures equal those of constructed schedules, and where theorem 7 is only a bound."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import pytest

from reference.line_graph_costs import (
    measured,
)
from reference.step_times import t_b
from treadle.finder.predict import (
    Performance,
    cartesian_power_performance,
    degree_expansion_performance,
)
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.synthesis.steps.bfb import bfb_allgather
from treadle.synthesis.steps.schedule_expansions import (
    cartesian_power_schedule,
    degree_expansion_schedule,
)
from treadle.topologies import parse
from treadle.topologies.topology import Topology

BASES = [
    *("complete(2)", "complete(3)", "complete(5)", "complete_bipartite(3, 3)", "hamming(2, 3)"),
    *("directed_circulant(6, 1, 2, 3, 4)", "directed_circulant(8, 1, 3)", "circulant(12, 1, 3, 4, 5)"),
    *("circulant(9, 2, 3)", "circulant(4, 1, 2)", "uni_ring(1, 5)", "uni_ring(2, 4)", "uni_ring(3, 3)"),
    *("bi_ring(2, 5)", "bi_ring(4, 4)", "torus(3, 4)", "torus(2, 5)", "hypercube(3)", "twisted_hypercube(3)"),
    *("kautz(2, 2)", "kautz(3, 1)", "de_bruijn(2, 3)", "de_bruijn(3, 2)"),
    *("diamond()", "modified_de_bruijn(2, 3)", "modified_de_bruijn(3, 2)", "modified_de_bruijn(4, 2)"),
    *(f"generalized_kautz({d}, {m})" for d, m in [(2, 5), (2, 7), (2, 9), (2, 11), (3, 7), (3, 10), (4, 14)]),
    *("line_graph(directed_circulant(8, 1, 3))", "degree_expansion(uni_ring(1, 4), 2)"),
]


@cache
def _base(text: str) -> tuple[Topology, Steps, Performance]:
    topology = parse(text)
    steps = bfb_allgather(topology)
    return topology, steps, measured(topology, steps)


def _t_b(topology: Topology, steps: Steps) -> Fraction:
    return t_b(topology, StepSchedule(CollectiveKind.ALLGATHER, broadcast=steps))


def _assert_told(told: Performance, topology: Topology, steps: Steps) -> None:
    """What is claimed holds; None and a False flag may claim less than is so."""
    found = measured(topology, steps)
    assert (told.nodes, told.degree, told.steps) == (found.nodes, found.degree, found.steps)
    assert told.t_b == found.t_b == _t_b(topology, steps)
    assert told.diameter in (None, found.diameter)
    assert told.cycle in (None, found.cycle)
    assert (told.has_loops, told.is_simple) == (found.has_loops, found.is_simple)
    for flag in ("is_breadth_first", "is_bidirectional", "has_exact_line_graphs"):
        assert getattr(found, flag) or not getattr(told, flag), flag


@pytest.mark.parametrize("text", BASES)
def test_degree_expansions_and_powers(text: str) -> None:
    """Theorems 11 and 12."""
    topology, steps, base = _base(text)
    for n in (1, 2, 3):
        if not base.has_loops:
            told = degree_expansion_performance(base, n)
            _assert_told(told, *degree_expansion_schedule(topology, steps, n))
        if base.nodes**n <= 400:
            told = cartesian_power_performance(base, n)
            _assert_told(told, *cartesian_power_schedule(topology, steps, n))


# --- theorem 10 --------------------------------------------------------------------------------------------


# --- measuring ---------------------------------------------------------------------------------------------
