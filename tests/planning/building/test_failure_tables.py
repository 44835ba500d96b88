"""Random failures: how many, which draws, and tables of figures that are made up."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from treadle.context import TimeLimitError
from treadle.errors import FormatError, TopologyError
from treadle.finder.building.resilience import (
    resilience,
)
from treadle.inputs.problem import Problem
from treadle.schedulers.bound_results import bound_problem


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"samples": 0}, "resilience: samples: 0, expected 1 to 10000"),
        ({"samples": 10_001}, "resilience: samples: 10001, expected 1 to 10000"),
        ({"seed": -1}, "resilience: seed: -1, expected 0 to 2**31 - 1"),
        ({"seed": 2**31}, "resilience: seed: 2147483648, expected 0 to 2**31 - 1"),
    ],
)
def test_draws_that_are_none(words: dict[str, Any], said: str) -> None:
    with pytest.raises(FormatError) as caught:
        resilience("ring:4", **words)
    assert str(caught.value) == said


def test_time_for_failures_is_up() -> None:
    with pytest.raises(TimeLimitError) as caught:
        resilience("ring:4", cables=1, samples=1, time_limit_s=0.0)
    assert str(caught.value) == ("resilience: time ran out; take fewer --samples or a longer --time-limit")


def test_one_of_parallel_fibres_may_fail() -> None:
    found = resilience("uni_ring(3, 5)", cables=1, samples=2, collectives=["allgather"])
    assert found.cables == 15
    assert found.levels[0].shares == (float(Fraction(2, 3)),) * 2
    assert found.levels[0].harms[0].cable == "n0->n1#2"


def test_alike_cables_in_parallel_are_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(problem: Problem, *words: Any) -> Any:
        asked.append(problem.topology.name)
        return bound_problem(problem, *words)

    monkeypatch.setattr("treadle.finder.building.resilience.bound_problem", counted)
    resilience("with_parallel_links(complete(3), 4)", cables=1, samples=30, seed=1, collectives=["allgather"])
    assert len(asked) == 4  # the whole, and one for each of three pairs of nodes


@pytest.mark.parametrize(
    ("what", "fabric"), [("cable", "path(2)"), ("cable", "path(3)"), ("node", "path(1)")]
)
def test_where_nothing_can_fail(what: str, fabric: str) -> None:
    amounts: Any = {"cables": 1} if what == "cable" else {"cables": (), "nodes": 1}
    with pytest.raises(TopologyError, match=rf"no {what} (of path\(3\) )?can fail"):
        resilience(fabric, **amounts, samples=1, collectives=["allgather"])
