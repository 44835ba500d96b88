"""Plans of sets from racers whose times are made up, and what tables and JSON say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.summaries import size_set_summary
from treadle._version import __version__
from treadle.errors import FormatError, ScheduleError
from treadle.inputs.problem import Problem
from treadle.planning import solve, solve_sizes
from treadle.schedulers.bounds import find_bound
from treadle.schedulers.schedulers import find_scheduler
from treadle.schedulers.sizes import size_sets
from treadle.schedulers.sizes.cost_ranges import UncertainChoice
from treadle.schedulers.sizes.selection import SelectionRules, SizeCandidate, TimedSize
from treadle.schedulers.sizes.size_sets import (
    SizedChoice,
    SizeSet,
    _parts,
    _plan,
    _ranges,
    half_octaves,
    size_set,
    verified_racers,
)
from treadle.schedulers.solving import RejectedError, SolveResult
from treadle.schedules.plan import Pipelining
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol
from treadle.synthesis.scheduler_options import OPTIONS_OF

HOP = ClassCost(1000)
MODEL = CostModel("odd", "by hand", (Protocol("ll", HOP, HOP, HOP),))


@pytest.fixture(scope="module")
def solved() -> SolveResult:
    return solve("ring:3", "allgather")


@pytest.fixture(scope="module")
def rules(solved: SolveResult) -> SelectionRules:
    return SelectionRules(Problem(solved.plan.topology, solved.plan.collective), MODEL)


def test_no_candidate_is_refused_with_the_first_reason(rules: SelectionRules) -> None:
    bound = find_bound(rules.problem)
    with pytest.raises(ScheduleError, match="no candidate at any size; no scheduler serves it"):
        verified_racers(rules, [], bound)
    rail = find_scheduler("rail")
    with pytest.raises(ScheduleError) as refused:
        verified_racers(rules, [(rail, OPTIONS_OF[rail.form]())], bound)
    assert str(refused.value).startswith("ring(3): no candidate at any size; rail: rail: ")


def test_sizes_between_those_that_double() -> None:
    assert half_octaves([]) == []
    assert half_octaves([7]) == [7]
    assert half_octaves([4, 2, 8, 4]) == [2, 3, 4, 6, 8]
    assert half_octaves([10, 20, 30]) == [10, 14, 20, 30]


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


def test_ranges_meet_where_times_cross(solved: SolveResult, rules: SelectionRules) -> None:
    """At sizes of 100 and 400 one is twice as slow and then twice as fast: from 200 on it serves.

    That is 256 where the other takes less than 1% longer there.
    """
    a = racer(solved, "a", {50: 1.0, 100: 1.0, 400: 4.0}, options="trees=3", least=0.1)
    b = racer(solved, "b", {50: 5.0, 100: 2.0, 400: 2.0, 900: 3.0})
    able = cast(list[SizeCandidate], [a, b])
    sizes = [50, 100, 400, 900]
    a.times[100] = TimedSize(1.0, 4, "ll", False)
    b.times[900] = TimedSize(3.0, 1, "simple", False)
    a.hidden, b.hidden = {128: 1.28, 256: 2.02, 900: 7.0}, {128: 2.0, 256: 2.0}
    ranges = _ranges(able, sizes, None)
    assert [(one.schedule, one.first, one.last) for one in ranges] == [(0, 0, 1), (1, 2, 3)]
    parts = _parts(able, sizes, ranges)
    assert parts == [(0, a, [50, 100]), (200, b, [400, 900])]
    a.times[256] = TimedSize(2.0199, 4, "ll", False)
    assert [start for start, _, _ in _parts(able, sizes, ranges)] == [0, 256]
    plan = _plan(rules, parts, None)
    first, last = plan.entries
    assert (first.min_bytes, first.max_bytes, first.title) == (0, 199, "a trees=3")
    assert first.pipelining == (Pipelining(0, 1, "ll"), Pipelining(100, 4, "ll"))
    assert (last.min_bytes, last.max_bytes, last.title) == (200, None, "b")
    assert last.pipelining == (Pipelining(200, 1, "ll"), Pipelining(900, 1, "simple"))
    assert plan.algorithm == "by-size"
    assert (plan.optimal_algbw, plan.certificate) == (None, None)
    assert plan.algbw == solved.report.algbw
    assert dict(plan.provenance) == {"version": __version__, "cost_model": "odd"}


def test_a_crossover_passes_sizes_of_a_range(solved: SolveResult) -> None:
    """From 1024 on the second is faster, by less than 1% at 1500; a range keeps one of its sizes."""
    a = racer(solved, "a", {700: 1.0, 1024: 2.0, 1500: 3.02, 3000: 9.0})
    b = racer(solved, "b", {700: 1.5, 1024: 2.01, 1500: 3.0, 3000: 6.0}, hidden={2048: 4.0})
    a.hidden = {2048: 5.0}
    sizes, able = [700, 1024, 1500, 3000], cast(list[SizeCandidate], [a, b])
    ranges = _ranges(able, sizes, None)
    assert [(one.first, one.last) for one in ranges] == [(0, 1), (2, 3)]
    assert _parts(able, sizes, ranges) == [(0, a, [700]), (1024, b, [1024, 1500, 3000])]
    ((start, _, served), _) = _parts(able, sizes[1:], _ranges(able, sizes[1:], None))
    assert (start, served) == (0, [1024])


def test_equal_cuts_are_told_once(solved: SolveResult, rules: SelectionRules) -> None:
    a = racer(solved, "a", {1: 1.0, 2: 1.0, 3: 1.0})
    able, sizes = cast(list[SizeCandidate], [a]), [1, 2, 3]
    plan = _plan(rules, _parts(able, sizes, _ranges(able, sizes, None)), solved.bound)
    (only,) = plan.entries
    assert (only.min_bytes, only.max_bytes) == (0, None)
    assert only.pipelining == (Pipelining(0, 1, "ll"),)
    assert plan.algorithm == "a"
    assert solved.bound is not None
    assert (plan.optimal_algbw, plan.certificate) == (solved.bound.algbw, solved.bound.certificate)


def test_what_is_not_known_is_found_out_before_it_stands(solved: SolveResult) -> None:
    """One range: by its floor the second would do at 20, but it takes 9 there."""
    a = racer(solved, "a", {10: 1.0, 20: 3.0})
    b = racer(solved, "b", {10: 1.5}, least=0.5, hidden={20: 9.0})
    ranges = _ranges(cast(list[SizeCandidate], [a, b]), [10, 20], 1)
    assert [(one.schedule, one.first, one.last) for one in ranges] == [(0, 0, 1)]
    assert b.times[20].seconds == 9.0


def test_rows_have_the_fastest_of_all_and_the_fastest_baseline(
    solved: SolveResult, rules: SelectionRules
) -> None:
    a = racer(solved, "a", {10: 1.0, 20: 3.0, 30: 3.0})
    b = racer(solved, "b", {10: 9.0, 20: 2.0, 30: 8.0}, baseline="b k=2")
    c = racer(solved, "c", {10: 4.0}, baseline="c")
    sizes = [10, 20, 30, 40]
    racers = cast(Sequence[SizeCandidate], [a, b, c])
    plan, reports, rows = size_set(rules, racers, sizes, None, 1)
    assert len(plan.entries) == len(reports) == 1
    assert [replace(row, bound=None) for row in rows] == [
        SizedChoice(10, "a", 1, "ll", 1.0, 1.0, "c", 4.0),
        SizedChoice(20, "a", 1, "ll", 3.0, 2.0, "b k=2", 2.0),
        SizedChoice(30, "a", 1, "ll", 3.0, 3.0, "b k=2", 8.0),
    ]
    assert [row.bound.size_bytes for row in rows if row.bound] == [10, 20, 30]
    _, _, rows = size_set(rules, cast(Sequence[SizeCandidate], [a]), [10], solved.bound)
    assert (rows[0].baseline, rows[0].baseline_seconds) == ("", None)


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


def test_a_table_of_sizes(solved: SolveResult) -> None:
    found = made(solved)
    assert found.worst_ratio == 1.5
    assert found.mean_ratio == 1.25
    assert found.records() == [
        {
            "size_bytes": 8,
            "schedule": "a",
            "slices": 3,
            "protocol": "ll",
            "time_s": 6.0,
            "best_time_s": 4.0,
            "baseline": "c",
            "baseline_time_s": 7.0,
            "bound_s": 0.25,
        },
        {
            "size_bytes": 16,
            "schedule": "b k=2",
            "slices": 1,
            "protocol": "",
            "time_s": 5.0,
            "best_time_s": 5.0,
            "baseline": "",
            "baseline_time_s": None,
            "bound_s": None,
        },
    ]


def test_what_json_says_of_a_set(solved: SolveResult) -> None:
    """A ring of three at 1 byte/s each way: three halves of algbw a link, times two links."""
    plan = replace(
        solved.plan,
        entries=(
            replace(
                solved.plan.entries[0],
                max_bytes=99,
                algorithm="a",
                options="k=2",
                pipelining=(Pipelining(0, 2, "ll"), Pipelining(50, 3)),
            ),
            replace(solved.plan.entries[0], min_bytes=100, algorithm="b"),
        ),
    )
    told = size_set_summary(replace(made(solved), plan=plan))
    assert {key: told[key] for key in ("topology", "collective", "ranks", "algorithm")} == {
        "topology": "ring(3)",
        "collective": "allgather",
        "ranks": 3,
        "algorithm": "forestcoll",
    }
    assert (told["algbw_bytes_per_s"], told["algbw_exact"]) == (3.0, "3/1")
    assert (told["busbw_bytes_per_s"], told["busbw_exact"]) == (2.0, "2/1")
    assert told["entries"] == [
        {
            "min_bytes": 0,
            "max_bytes": 99,
            "algorithm": "a",
            "options": "k=2",
            "pipelining": [
                {"min_bytes": 0, "slices": 2, "protocol": "ll"},
                {"min_bytes": 50, "slices": 3, "protocol": ""},
            ],
        },
        {"min_bytes": 100, "max_bytes": None, "algorithm": "b", "options": "", "pipelining": []},
    ]
    assert told["rows"] == [
        {
            "size_bytes": 8,
            "schedule": "a",
            "slices": 3,
            "time_s": 6.0,
            "best_time_s": 4.0,
            "protocol": "ll",
            "baseline": "c",
            "baseline_time_s": 7.0,
            "bound_s": 0.25,
            "bound_by": "reach",
        },
        {"size_bytes": 16, "schedule": "b k=2", "slices": 1, "time_s": 5.0, "best_time_s": 5.0},
    ]
    assert (told["worst_ratio"], told["mean_ratio"]) == (1.5, 1.25)
    assert told["doubts"] == [
        {"size_bytes": 8, "schedule": "a", "other": "b", "gain": 0.25, "corner": "launches lowest"}
    ]
    assert (told["candidates"], told["timed"], told["left_out"]) == (9, 4, ["x", "y"])
    assert (told["verified"], told["violations"], told["n_violations"]) == (True, [], 0)
    assert (told["time_limit_reached"], told["seconds"]) == (True, {"race": 2.0})


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
