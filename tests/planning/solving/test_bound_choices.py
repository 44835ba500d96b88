"""Which way a bound is found, at every number of ranks where that changes; what routes are told to cost."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from treadle.planning import make_problem
from treadle.schedulers import route_candidates
from treadle.schedules.certificate import BottleneckCut
from treadle.synthesis.result import Bound
from treadle.synthesis.scheduler_options import RouteOptions

CUT = BottleneckCut((0,))


def made_up(**values: Any) -> Any:
    return SimpleNamespace(**values)


@pytest.mark.parametrize(("layers", "words"), [(1, "1 layer"), (3, "3 layers")])
def test_how_far_searched_routes_are_below_the_bound(
    layers: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make_problem("ring:4", "alltoall")
    schedule = made_up(n_layers=layers)
    found = made_up(schedule=schedule, unlayered_algbw=Fraction(3), layer_rates={}, is_late=True)
    asked: list[Any] = []

    def search(*given: Any, **named: Any) -> Any:
        asked.append((given, named))
        return found

    bound = Bound(Fraction(4), CUT)
    monkeypatch.setattr(route_candidates, "searched_routes", search)
    monkeypatch.setattr(route_candidates, "rate_with_routes", lambda *given: given)
    monkeypatch.setattr(
        route_candidates, "bound_of_alltoall", lambda rate: bound if rate[2] is schedule else None
    )
    monkeypatch.setattr(route_candidates, "route_algbw", lambda *given: Fraction(2))
    given = (problem.topology, problem.collective)
    options = RouteOptions(chunks=2, max_layers=3, layer_changes=True, max_routes=4, max_hops=5, seed=6)
    built = route_candidates._searched(*given, options)
    assert (built.schedule, built.bound, built.is_late) == (schedule, bound, True)
    assert built.notes == (f"below the bound: without layers 25.00%, in {words} 50.00%",)
    assert asked == [(given, options.given())]
