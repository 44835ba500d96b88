"""Racers whose times are made up: what is known of them, who leads, and in which order sizes are raced."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, nextafter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from treadle.inputs.problem import make_problem
from treadle.schedulers.sizes.selection import (
    MOST_TASKS,
    SelectionRules,
    SizeCandidate,
    TimedSize,
    _around,
    _by_halves,
    _guess,
    _Lead,
    _race_at,
    best_baseline,
    select,
    winners,
)
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol


@pytest.mark.parametrize(
    ("count", "order"),
    [
        (0, []),
        (1, [0]),
        (2, [1, 0]),
        (3, [2, 0, 1]),
        (4, [3, 0, 1, 2]),
        (6, [5, 0, 2, 1, 3, 4]),
        (9, [8, 0, 4, 2, 6, 1, 3, 5, 7]),
    ],
)
def test_sizes_from_the_ends_inwards(count: int, order: list[int]) -> None:
    assert list(_by_halves(count)) == order


def test_of_equal_times_the_first_leads() -> None:
    lead = _Lead()
    assert (lead.seconds, lead.place) == (inf, 0)
    lead.take(2.0, 5)
    assert (lead.seconds, lead.place) == (2.0, 5)
    assert lead.bar(6) == 2.0
    assert lead.bar(5) == lead.bar(4) == nextafter(2.0, inf)
    lead.take(2.0, 6)
    assert lead.place == 5
    lead.take(2.0, 4)
    assert (lead.seconds, lead.place) == (2.0, 4)
    lead.take(3.0, 1)
    assert (lead.seconds, lead.place) == (2.0, 4)
    lead.take(1.0, 9)
    assert (lead.seconds, lead.place) == (1.0, 9)


@dataclass
class MadeUp:
    """A racer that takes what it is told, and at least its floor."""

    title: str
    seconds: dict[int, float]
    baseline: str = ""
    least: float = 0.0
    able: bool = True
    times: dict[int, TimedSize] = field(default_factory=dict)
    limits: list[float] = field(default_factory=list)

    def floor(self, size: int) -> float:
        return self.least

    def is_able(self) -> bool:
        return self.able

    def time_below(self, size: int, limit: float) -> TimedSize | None:
        self.limits.append(limit)
        if self.seconds[size] >= limit:
            return None
        self.times[size] = TimedSize(self.seconds[size], 1, "", False)
        return self.times[size]


def raced(*racers: MadeUp, size: int = 7) -> None:
    _race_at(cast(list[SizeCandidate], racers), size)


def test_who_cannot_win_is_not_timed() -> None:
    """Those expected to be fast go first; of the others the floor is held against the lead."""
    slow, fast = MadeUp("slow", {7: 5.0}, least=4.0), MadeUp("fast", {7: 2.0}, least=1.0)
    equal, unable = MadeUp("equal", {7: 2.0}, least=2.0), MadeUp("unable", {7: 0.5}, able=False)
    raced(slow, fast, equal, unable)
    assert fast.limits == [inf]
    assert (slow.limits, equal.limits, unable.limits) == ([], [], [])
    first = MadeUp("equal but first", {7: 2.0}, least=2.0)
    fast = MadeUp("fast", {7: 2.0}, least=1.0)
    raced(first, fast)
    assert first.limits == [nextafter(2.0, inf)]
    assert winners(cast(list[SizeCandidate], [first, fast]), [7])[7].title == "equal but first"


def test_baselines_have_a_lead_of_their_own() -> None:
    """A baseline is timed up to the fastest baseline, though all are slower than another."""
    ours = MadeUp("ours", {7: 1.0}, least=0.1)
    slow = MadeUp("slow", {7: 5.0}, "slow base", least=0.3)
    quick = MadeUp("quick", {7: 4.0}, "quick base", least=0.2)
    late = MadeUp("late", {7: 0.9}, least=0.4)
    raced(ours, slow, quick, late)
    assert (ours.limits, quick.limits, slow.limits, late.limits) == (
        [inf],
        [inf],
        [nextafter(4.0, inf)],
        [1.0],
    )
    assert best_baseline(cast(list[SizeCandidate], [ours, slow, quick, late]), 7) == ("quick base", 4.0)
    assert best_baseline(cast(list[SizeCandidate], [ours, late]), 7) is None
    assert best_baseline(cast(list[SizeCandidate], [quick]), 8) is None


def test_a_baseline_may_lead_all() -> None:
    base, ours = MadeUp("base", {7: 1.0}, "base", least=0.1), MadeUp("ours", {7: 2.0}, least=0.2)
    raced(ours, base)
    assert ours.limits == [nextafter(1.0, inf)]
    assert not ours.times


def test_all_sizes_are_raced() -> None:
    racers = [MadeUp("a", {1: 1.0, 2: 3.0, 3: 3.0}), MadeUp("b", {1: 2.0, 2: 2.0, 3: 3.0})]
    select(cast(list[SizeCandidate], racers), [1, 2, 3])
    best = winners(cast(list[SizeCandidate], racers), [1, 2, 3, 4])
    assert {size: one.title for size, one in best.items()} == {1: "a", 2: "b", 3: "a"}


def test_guesses_are_means_of_the_times_around() -> None:
    known = {2: TimedSize(4.0, 1, "", False), 8: TimedSize(9.0, 1, "", False)}
    racer = cast(SizeCandidate, MadeUp("a", {}, least=1.0, times=known))
    assert _guess(racer, 4) == 6.0
    assert _guess(racer, 2) == 4.0
    assert _guess(racer, 8) == 9.0
    assert _guess(racer, 1) == _guess(racer, 9) == 1.0
    assert _guess(cast(SizeCandidate, MadeUp("a", {}, least=7.0, times=known)), 4) == 7.0


def model(*protocols: Protocol) -> CostModel:
    return CostModel("odd", "by hand", protocols)


def test_the_least_that_a_message_takes() -> None:
    """Of the classes of links that are there, and of all protocols."""
    near, far, hop = ClassCost(3000, 500), ClassCost(2000, 1000, 77), ClassCost(100, 50)
    dear = Protocol("simple", ClassCost(9000), ClassCost(9000), ClassCost(9000), launch_ns=1)
    boxes = make_problem("dgx_a100(2, 2)", "allgather")
    ring = make_problem("ring:3", "allgather")
    assert SelectionRules(boxes, model(Protocol("ll", near, far, hop), dear)).least_alpha_s == 3000 / 1e9
    assert SelectionRules(boxes, model(Protocol("ll", near, near, hop), dear)).least_alpha_s == 3500 / 1e9
    assert SelectionRules(ring, model(Protocol("ll", near, far, hop), dear)).least_alpha_s == 150 / 1e9
    assert SelectionRules(ring, model(dear)).least_alpha_s == 9000 / 1e9
    assert SelectionRules(ring, model(dear)).most_tasks == MOST_TASKS == 2**19


def racer(algbw: Fraction | None, height: int | None) -> SizeCandidate:
    hop = ClassCost(100, 50)
    rules = SelectionRules(make_problem("ring:3", "allgather"), model(Protocol("ll", hop, hop, hop)))
    report = SimpleNamespace(algbw=algbw, height_max=height)
    return SizeCandidate(rules, "trees", "", cast(Any, None), cast(Any, report))


def test_what_depth_and_throughput_tell() -> None:
    """Three messages of 150 ns each, or the bytes over the throughput."""
    found = racer(Fraction(1000), 3)
    assert found.floor(10**6) == 1000.0
    assert found.floor(0) == 3 * (150 / 1e9)
    assert racer(None, 3).floor(10**6) == 0.0
    assert racer(Fraction(1000), None).floor(10**6) == 0.0
    found._beyond[10**6] = 1001.0
    assert found.floor(10**6) == 1001.0
    found.refusal = "no"
    assert found.floor(10**6) == inf
    assert not found.is_able()


def test_titles_have_options_where_there_are_any() -> None:
    assert racer(None, None).title == "trees"
    other = racer(None, None)
    other.options = "trees=3"
    assert other.title == "trees trees=3"


def test_the_nearest_sizes_that_are_known() -> None:
    times = {size: TimedSize(float(size), size, "", False) for size in (1, 2, 8, 9)}
    assert [one.slices for one in _around(times, 4)] == [2, 8]
    assert [one.slices for one in _around(times, 0)] == [1]
    assert [one.slices for one in _around(times, 10)] == [9]
    assert [one.slices for one in _around(times, 2)] == [2, 2]


def test_times_and_limits_are_remembered() -> None:
    """A search that finds nothing below a limit: the largest of these is a floor; slices are tried near."""
    asked: list[tuple[int, float, list[int]]] = []
    found = racer(None, None)

    def fastest(size: int, limit: float, *, near: list[int]) -> Any:
        asked.append((size, limit, near))
        if limit <= 5.0:
            return None
        return SimpleNamespace(seconds=5.0, slices=size, protocol=0, form=size % 2)

    found.__dict__["search"] = SimpleNamespace(fastest=fastest)
    assert found.time_below(4, 2.0) is None
    assert found.time_below(4, 1.0) is None
    assert found._beyond == {4: 2.0}
    assert found.time_below(4, 6.0) == TimedSize(5.0, 4, "ll", False)
    assert found.time_below(4, 5.0) is None
    assert found.time(4).seconds == 5.0
    assert found.time(9) == TimedSize(5.0, 9, "ll", True)
    assert found.time(6).slices == 6
    assert asked == [(4, 2.0, []), (4, 1.0, []), (4, 6.0, []), (9, inf, [4]), (6, inf, [4, -9])]
