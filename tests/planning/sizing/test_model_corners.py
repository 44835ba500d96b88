"""Cost models at the ends of their bands, and doubts of rows whose times are made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import cast

import pytest

from treadle.inputs.problem import make_problem
from treadle.schedulers.sizes.cost_ranges import (
    UncertainChoice,
    _figure,
    _group_of,
    _moved,
    cost_range,
    uncertain_choices,
)
from treadle.schedulers.sizes.selection import SelectionRules, SizeCandidate, TimedSize
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol

BOX, FAR, HOP = ClassCost(10, 20, 30, Fraction(1, 2)), ClassCost(40, 50, 60), ClassCost(70, 80, 90)
MODEL = CostModel(
    "odd",
    "by hand",
    (
        Protocol("ll", BOX, FAR, HOP, launch_ns=100, channels=2, channel_bytes_per_s=300),
        Protocol("simple", BOX, FAR, HOP, launch_ns=200, channels=4, channel_bytes_per_s=500),
    ),
    reduction_bytes_per_s=700,
)
BANDS: dict[str, tuple[float, float]] = {
    "ll.box.alpha_ns": (1, 11),
    "ll.network.occupancy_ns": (2, 12),
    "simple.hop.hop_ns": (3, 13),
    "ll.launch_ns": (4, 14),
    "simple.channel_bytes_per_s": (5, 15),
    "simple.box.efficiency": (0.25, 0.75),
    "reduction_bytes_per_s": (6, 16),
}


@pytest.mark.parametrize(
    ("path", "group"),
    [
        ("ll.box.alpha_ns", "latencies in the box"),
        ("ll.box.occupancy_ns", "latencies in the box"),
        ("ll.network.alpha_ns", "latencies of the network"),
        ("simple.hop.hop_ns", "latencies of the network"),
        ("simple.launch_ns", "launches"),
        ("simple.box.efficiency", "rates"),
        ("ll.channel_bytes_per_s", "rates"),
        ("reduction_bytes_per_s", "rates"),
    ],
)
def test_groups_of_figures(path: str, group: str) -> None:
    assert _group_of(path) == group


def moved(path: str, value: float) -> CostModel:
    return _moved(replace(MODEL, bands=BANDS), {path: value})


def test_one_figure_is_moved_and_the_rest_stays() -> None:
    low, simple = MODEL.protocols
    assert moved("reduction_bytes_per_s", 12.6) == replace(MODEL, reduction_bytes_per_s=13)
    assert moved("reduction_bytes_per_s", -5) == replace(MODEL, reduction_bytes_per_s=0)
    for path, protocols in (
        ("ll.launch_ns", (replace(low, launch_ns=13), simple)),
        ("simple.channel_bytes_per_s", (low, replace(simple, channel_bytes_per_s=13))),
        ("ll.box.alpha_ns", (replace(low, box=replace(BOX, alpha_ns=13)), simple)),
        ("simple.network.occupancy_ns", (low, replace(simple, network=replace(FAR, occupancy_ns=13)))),
        ("simple.hop.hop_ns", (low, replace(simple, hop=replace(HOP, hop_ns=13)))),
        ("ll128.launch_ns", (low, simple)),
        ("ll.channels", (low, simple)),
        ("ll.moon.alpha_ns", (low, simple)),
    ):
        assert moved(path, 12.6) == replace(MODEL, protocols=protocols), path
    half = replace(low, box=replace(BOX, efficiency=Fraction(3, 4)))
    assert moved("ll.box.efficiency", 0.75) == replace(MODEL, protocols=(half, simple))
    assert moved("ll.launch_ns", -0.6).protocols[0].launch_ns == 0


def test_several_figures_are_moved_at_once() -> None:
    found = _moved(
        MODEL, {"ll.launch_ns": 1, "reduction_bytes_per_s": 2, "ll.box.alpha_ns": 3, "simple.launch_ns": 4}
    )
    low, simple = MODEL.protocols
    assert found.reduction_bytes_per_s == 2
    assert found.protocols == (
        replace(low, launch_ns=1, box=replace(BOX, alpha_ns=3)),
        replace(simple, launch_ns=4),
    )


@pytest.mark.parametrize(
    ("name", "value", "figure"),
    [
        ("alpha_ns", 2.6, 3),
        ("alpha_ns", -2.6, 0),
        ("efficiency", 0.3, Fraction(3, 10)),
        ("efficiency", 1.25, Fraction(1)),
        ("efficiency", -1.0, Fraction(1, 10**6)),
        ("efficiency", 0.0, Fraction(1, 10**6)),
    ],
)
def test_figures_stay_in_their_range(name: str, value: float, figure: Fraction) -> None:
    assert _figure(name, value) == figure


def test_corners_are_the_ends_of_each_group_and_of_all() -> None:
    banded = replace(MODEL, bands=BANDS)
    found = dict(cost_range(banded))
    words = ("latencies in the box", "latencies of the network", "launches", "rates", "all")
    assert list(found) == [f"{name} {end}" for name in words for end in ("lowest", "highest")]
    groups = {
        "latencies in the box": ["ll.box.alpha_ns"],
        "latencies of the network": ["ll.network.occupancy_ns", "simple.hop.hop_ns"],
        "launches": ["ll.launch_ns"],
        "rates": ["simple.channel_bytes_per_s", "simple.box.efficiency", "reduction_bytes_per_s"],
        "all": list(BANDS),
    }
    for name, paths in groups.items():
        for place, end in enumerate(("lowest", "highest")):
            assert found[f"{name} {end}"] == _moved(MODEL, {path: BANDS[path][place] for path in paths})
    few = replace(MODEL, bands={"ll.launch_ns": (4, 14)})
    assert [name for name, _ in cost_range(few)] == ["launches lowest", "launches highest"]


@dataclass
class Row:
    size_bytes: int
    title: str


@dataclass
class MadeUp:
    """A racer whose times follow from how long a launch takes."""

    title: str
    slope: float
    cost_model: CostModel = MODEL
    asked: list[int] = field(default_factory=list)

    def under(self, rules: SelectionRules) -> MadeUp:
        return MadeUp(self.title, self.slope, rules.cost_model, self.asked)

    def time(self, size_bytes: int) -> TimedSize:
        self.asked.append(size_bytes)
        return TimedSize(10 + self.slope * self.cost_model.protocols[0].launch_ns, 1, "ll", False)


def doubts(
    racers: Sequence[MadeUp], rows: Sequence[Row], bands: tuple[float, float]
) -> tuple[UncertainChoice, ...]:
    model = replace(MODEL, bands={"ll.launch_ns": bands, "simple.launch_ns": (1, 1)})
    rules = SelectionRules(make_problem("ring:3", "allgather"), model)
    return uncertain_choices(rules, cast(list[SizeCandidate], racers), rows)


def test_a_doubt_is_the_most_that_another_schedule_saves() -> None:
    """At launches of 2: 12 against 10 and 6; at launches of 4: 14 against 10 and 2."""
    racers = [MadeUp("a", 1), MadeUp("b", 0), MadeUp("c", -2), MadeUp("never chosen", -9)]
    rows = [Row(30, "a"), Row(10, "b"), Row(20, "c")]
    found = doubts(racers, rows, (2, 4))
    assert found == (
        UncertainChoice(10, "b", "c", 1 - 2 / 10, "launches highest"),
        UncertainChoice(30, "a", "c", 1 - 2 / 14, "launches highest"),
    )
    assert not racers[3].asked


def test_only_rows_next_to_another_choice_are_in_doubt() -> None:
    racers = [MadeUp("a", 1), MadeUp("b", 0)]
    rows = [Row(1, "a"), Row(2, "a"), Row(3, "b"), Row(4, "b"), Row(5, "b")]
    assert [one.size_bytes for one in doubts(racers, rows, (2, 4))] == [2]
    assert set(racers[0].asked) == {2, 3}
    assert doubts(racers, [Row(1, "a"), Row(2, "a")], (2, 4)) == ()


def test_times_that_are_equal_are_no_doubt() -> None:
    racers = [MadeUp("a", 1), MadeUp("b", 0)]
    rows = [Row(1, "a"), Row(2, "b")]
    assert doubts(racers, rows, (0, 0)) == ()
    assert doubts(racers, rows, (0, 1)) == (UncertainChoice(1, "a", "b", 1 - 10 / 11, "launches highest"),)
    assert (
        uncertain_choices(
            SelectionRules(make_problem("ring:3", "allgather"), MODEL),
            cast(list[SizeCandidate], racers),
            rows,
        )
        == ()
    )
