"""Plans of sets from racers whose times are made up, and what tables and JSON say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.summaries import size_set_summary
from treadle.errors import FormatError, ScheduleError
from treadle.inputs.problem import Problem
from treadle.planning import solve, solve_sizes
from treadle.schedulers.sizes import size_sets
from treadle.schedulers.sizes.cost_ranges import UncertainChoice
from treadle.schedulers.sizes.selection import SelectionRules, SizeCandidate, TimedSize
from treadle.schedulers.sizes.size_sets import (
    SizedChoice,
    SizeSet,
    size_set,
)
from treadle.schedulers.solving import RejectedError, SolveResult
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol

HOP = ClassCost(1000)
MODEL = CostModel("odd", "by hand", (Protocol("ll", HOP, HOP, HOP),))


@pytest.fixture(scope="module")
def solved() -> SolveResult:
    return solve("ring:3", "allgather")


@pytest.fixture(scope="module")
def rules(solved: SolveResult) -> SelectionRules:
    return SelectionRules(Problem(solved.plan.topology, solved.plan.collective), MODEL)


@dataclass
class MadeUp:
    """A racer of the same schedule as all others."""

    algorithm: str
    times: dict[int, TimedSize]
    schedule: Any
    report: Any
    options: str = ""
    baseline: str = ""
    refusal: str = ""
    least: float = 0.0
    hidden: dict[int, float] = field(default_factory=dict)

    __hash__ = object.__hash__

    @property
    def title(self) -> str:
        return f"{self.algorithm} {self.options}".strip()

    def floor(self, size: int) -> float:
        return self.least

    def time(self, size: int) -> TimedSize:
        if size not in self.times:
            self.times[size] = TimedSize(self.hidden[size], 1, "ll", False)
        return self.times[size]


def racer(solved: SolveResult, name: str, seconds: dict[int, float], **values: Any) -> MadeUp:
    times = {size: TimedSize(one, 1, "ll", False) for size, one in seconds.items()}
    return MadeUp(name, times, solved.plan.entries[0].schedule, solved.report, **values)


def test_a_set_that_does_not_verify_is_rejected(
    solved: SolveResult, rules: SelectionRules, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = (
        SimpleNamespace(is_ok=is_ok, violations=(f"ok: {is_ok}",), n_violations=2) for is_ok in (True, False)
    )
    monkeypatch.setattr(size_sets, "verify_plan", lambda _: (good, bad, good))
    one = racer(solved, "a", {10: 1.0})
    with pytest.raises(RejectedError) as caught:
        size_set(rules, cast(Sequence[SizeCandidate], [one]), [10], None)
    assert "fails verification (violations: 2; first: ok: False" in str(caught.value)


def test_nobody_was_timed(solved: SolveResult, rules: SelectionRules) -> None:
    able, refused = racer(solved, "a", {}), racer(solved, "b", {}, refusal="too large")
    for racers, told in (([able], ""), ([able, refused], "; b: too large")):
        with pytest.raises(ScheduleError) as caught:
            size_set(rules, cast(Sequence[SizeCandidate], racers), [1], None)
        assert str(caught.value) == f"ring(3): no candidate was timed at any size{told}"


def choices() -> tuple[SizedChoice, ...]:
    bound: Any = SimpleNamespace(time=Fraction(1, 4), reason="reach")
    return (
        SizedChoice(8, "a", 3, "ll", 6.0, 4.0, "c", 7.0, bound),
        SizedChoice(16, "b k=2", 1, "", 5.0, 5.0),
    )


def made(solved: SolveResult) -> SizeSet:
    doubt = UncertainChoice(8, "a", "b", 0.25, "launches lowest")
    return SizeSet(
        solved.plan,
        (solved.report, solved.report),
        choices(),
        None,
        MODEL,
        (doubt,),
        n_candidates=9,
        n_timed=4,
        left_out=("x", "y"),
        is_late=True,
        seconds={"race": 2.0},
    )


def test_violations_of_all_reports_are_told(solved: SolveResult) -> None:
    bad: Any = SimpleNamespace(is_ok=False, violations=("late", "lost"), n_violations=5)
    told = size_set_summary(replace(made(solved), reports=(solved.report, bad)))
    assert (told["verified"], told["violations"], told["n_violations"]) == (False, ["late", "lost"], 5)


def test_ranges_are_at_least_one() -> None:
    assert len(solve_sizes("ring:3", "allgather", "1K", max_schedules=1).plan.entries) == 1
    with pytest.raises(FormatError) as caught:
        solve_sizes("ring:3", "allgather", "1K", max_schedules=0)
    assert str(caught.value) == "solve: max_schedules 0, expected at least 1"


def test_sizes_are_tried_with_halves_and_without() -> None:
    for halves, sizes in ((True, [1000, 1414, 2000]), (False, [1000, 2000])):
        found = solve_sizes("ring:3", "allgather", [2000, 1000, 2000], algorithms=["ring"], halves=halves)
        assert [row.size_bytes for row in found.rows] == sizes
        assert found.left_out == ()
        assert (found.n_candidates, found.n_timed, found.is_late) == (1, 1, False)
