"""Candidates of a front in their order, and when a point is proved."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.steps.exact.exact_problem import FreeRounds, exact_problem
from treadle.synthesis.steps.exact.pareto import (
    Excluded,
    _all_proved,
    _candidates,
    _least_ratio,
    _least_steps,
    pareto_front,
)
from treadle.synthesis.steps.exact.synthesise import ExactStatus
from treadle.topologies.catalogue.direct import from_arcs


def test_candidates_rise_from_the_cut_to_what_is_there() -> None:
    """R / C from 3/2 to below 3, few chunks first: with 2 steps at least as many rounds."""
    found = list(_candidates(2, 3, None, Fraction(3, 2), Fraction(3)))
    assert found == [(3, 2), (5, 3), (2, 1), (4, 2), (6, 3), (7, 3), (5, 2), (8, 3)]
    assert list(_candidates(4, 2, None, Fraction(3, 2), Fraction(3))) == [(4, 2), (5, 2)]
    # two rounds more than steps at most
    assert list(_candidates(2, 3, 4, Fraction(3, 2), Fraction(3))) == [(3, 2), (2, 1), (4, 2)]
    assert list(_candidates(2, 1, None, Fraction(3, 2), Fraction(2))) == []
    assert list(_candidates(2, 1, None, Fraction(3, 2), Fraction(5, 2))) == [(2, 1)]


def test_a_point_is_proved_if_all_that_is_no_worse_is_infeasible() -> None:
    proved = Excluded(2, 3, 2, ExactStatus.INFEASIBLE, "")
    late = Excluded(2, 5, 3, ExactStatus.UNKNOWN, "")
    assert _all_proved([proved], Fraction(2))
    assert _all_proved([proved, late], Fraction(3, 2))
    assert not _all_proved([proved, late], Fraction(5, 3))
    assert not _all_proved([proved, late], Fraction(2))


def test_what_no_schedule_goes_below() -> None:
    """One way round four, and a link from 0 to 2: three hops; node 3 gets three shards over one link."""
    graph = from_arcs("graph", [0, 1, 2, 3, 0], [1, 2, 3, 0, 2], n=4)
    problem = exact_problem(graph, range(4), chunks=1, rounds=FreeRounds(4, 4))
    assert _least_steps(graph, problem) == 3
    assert _least_ratio(graph, problem) == 3
    of_one = exact_problem(graph, [0], chunks=1, rounds=FreeRounds(4, 4))
    assert _least_steps(graph, of_one) == 2
    oneway = from_arcs("oneway", [0, 1], [1, 2], n=3)
    apart = exact_problem(oneway, range(3), chunks=1, rounds=FreeRounds(3, 3))
    with pytest.raises(
        InfeasibleError, match=r"^oneway: some node cannot be reached; connect the fabric strongly$"
    ):
        _least_steps(oneway, apart)


@pytest.mark.parametrize("values", [(0, 1, None), (1, 0, None), (1, 1, -1)])
def test_limits_out_of_range(values: tuple[int, int, int | None]) -> None:
    graph = from_arcs("graph", [0, 1], [1, 0], n=2)
    steps, chunks, extra = values
    message = "^pareto front: needs at least 1 step, 1 chunk and 0 extra rounds$"
    with pytest.raises(ScheduleError, match=message):
        pareto_front(
            graph, CollectiveKind.ALLGATHER, max_steps=steps, max_chunks=chunks, max_extra_rounds=extra
        )
    with pytest.raises(ScheduleError, match=r"^pareto front: take those of reduce-scatter and allgather"):
        pareto_front(graph, CollectiveKind.ALLREDUCE, max_steps=1, max_chunks=1)
