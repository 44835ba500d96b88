"""What a repair compares and says: at which size, by which algorithms, in which words, at what loss."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import pytest

from treadle.context import context
from treadle.errors import ScheduleError
from treadle.schedulers.repairing import repair_candidates
from treadle.schedulers.repairing.repair_candidates import JUDGED_AT, Candidate, best_for
from treadle.schedules.collective import Collective, CollectiveKind

GATHER, SUM, EXCHANGE = CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE, CollectiveKind.ALLTOALL


def made(algorithm: str = "forestcoll", kind: CollectiveKind = GATHER, judged: object = None) -> Any:
    provenance = {} if judged is None else {JUDGED_AT: judged}
    return SimpleNamespace(
        algorithm=algorithm, provenance=provenance, collective=Collective(kind, (0, 1, 2, 3))
    )


@dataclass(frozen=True)
class Made:
    """A plan of an algorithm, and what came of it."""

    algorithm: str
    seconds: float = 0.0
    provenance: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Found:
    """As `solve` gives it."""

    plan: Made
    algbw: Fraction
    is_late: bool = False
    bound: None = None
    report: None = None


class Algorithms:
    """Times of algorithms by name and number of trees; those without one have no schedule."""

    def __init__(self, times: dict[str, float]) -> None:
        self.times, self.limits = times, dict[str, float]()

    def solve_problem(self, problem: Any, algorithm: str, *, keywords: dict[str, Any]) -> Found:
        name = algorithm + "".join(f" {value}" for value in keywords.values())
        self.limits[name] = context().seconds_left or 0
        if name not in self.times:
            raise ScheduleError(f"no {name}")
        made = Made(
            algorithm if name != "bfb" else "other" if self.times[name] < 0 else "bfb", self.times[name]
        )
        return Found(made, Fraction(len(name)), is_late=name == "exact")


def contest(
    monkeypatch: pytest.MonkeyPatch, times: dict[str, float], limit_s: float | None = None
) -> tuple[Any, Any, dict[str, float]]:
    algorithms = Algorithms(times)
    monkeypatch.setattr(repair_candidates, "solve_problem", algorithms.solve_problem)
    monkeypatch.setattr(repair_candidates, "simulated_s", lambda plan, size: plan.seconds * size)
    fabric, collective = cast(Any, SimpleNamespace(name="left")), Collective(GATHER, tuple(range(8)))
    found, told = best_for(fabric, collective, cast(Any, Made("old", 7.0)), 10, time_limit_s=limit_s)
    return found, told, algorithms.limits


def test_the_quickest_at_the_size_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"bfb": 3.0, "forestcoll 1": 2.0, "forestcoll": 4.0, "exact": 1.0}
    found, told, limits = contest(monkeypatch, times)
    assert found.plan == Made("forestcoll", 2.0, {JUDGED_AT: 10})
    assert (told.size_bytes, told.old_seconds) == (10, 70.0)
    assert told.outcomes == (
        Candidate("forestcoll --trees 1", 20.0, Fraction(12)),
        Candidate("bfb", 30.0, Fraction(3)),
        Candidate("forestcoll", 40.0, Fraction(10)),
        Candidate("exact", reason="not ready within 10 s"),
    )
    expected = {"bfb": 60.0, "forestcoll 1": 60.0, "forestcoll": 60.0, "exact": 10.0}
    assert limits == pytest.approx(expected, abs=1)


def test_plans_of_other_algorithms_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that falls back on another has lost; all share the time there is."""
    found, told, limits = contest(monkeypatch, {"bfb": -1.0, "forestcoll": 4.0}, 20.0)
    assert found.plan.algorithm == "forestcoll"
    reasons = {one.algorithm: one.reason for one in told.outcomes}
    assert reasons == {
        "forestcoll": "",
        "bfb": "not ready within 20 s",
        "forestcoll --trees 1": "no forestcoll 1",
        "exact": "no exact",
    }
    assert 19 < limits["forestcoll"] <= 20
    assert limits["exact"] == pytest.approx(10, abs=1)
    assert set(contest(monkeypatch, {"bfb": 1.0}, 0.0)[2].values()) == {0.0}


def test_where_no_algorithm_serves_all_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ScheduleError) as error:
        contest(monkeypatch, {})
    assert str(error.value) == (
        "left: no algorithm supports the remaining fabric: bfb: no bfb; forestcoll --trees 1: no forestcoll "
        "1; "
        "forestcoll: no forestcoll; exact: no exact"
    )
