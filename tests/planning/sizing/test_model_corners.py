"""Cost models at the ends of their bands, and doubts of rows whose times are made up."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from treadle.schedulers.sizes.cost_ranges import (
    _moved,
    cost_range,
)
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
