"""What is told of a fitted model: every line and every key, of figures that are made up."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from treadle.render.fitting import cost_fit_rows
from treadle.render.rows import lines
from treadle.simulation.calibration.cost_fit import CostFit, FittedPoint
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol

MODEL = CostModel(
    "ours",
    "by hand",
    (
        Protocol(
            "ll",
            ClassCost(1100, 1200, 0, Fraction(1, 2)),
            ClassCost(2100, 2200, 0, Fraction(3, 5)),
            ClassCost(3100, 3200, 0, Fraction(7, 10)),
            launch_ns=4567,
        ),
        Protocol("simple", launch_ns=8000),
    ),
    reduction_bytes_per_s=5_500_000_000,
    bands={
        "ll.launch_ns": (4000, 5000),
        "ll.box.alpha_ns": (1000, 1500),
        "ll.network.occupancy_ns": (2000, 2500),
        "ll.hop.efficiency": (0.6, 0.8),
        "simple.launch_ns": (7000, 9000),
        "reduction_bytes_per_s": (5e9, 6e9),
    },
)
# errors: +0.5, -0.25, +0.125, -0.75
POINTS = (
    FittedPoint("a", 8, 2.0, 3.0, "ll", 1, 0.5),
    FittedPoint("b", 16, 4.0, 3.0, "simple", 2, None),
    FittedPoint("a", 32, 8.0, 9.0, "ll", 4, 0.25),
)
UNSEEN = (FittedPoint("c", 64, 4.0, 1.0, "ll", 8, None),)
FIT = CostFit(MODEL, POINTS, UNSEEN)


def text_of(fit: CostFit) -> list[str]:
    return lines(list(cost_fit_rows(fit)))


def test_lines() -> None:
    found = text_of(FIT)
    assert found[: found.index("")] == [
        "ll.launch                   4.567 us (95 %: 4 to 5)",
        "ll.box.alpha                1.1 us (95 %: 1 to 1.5)",
        "ll.network.occupancy        2.2 us (95 %: 2 to 2.5)",
        "ll.hop.efficiency           0.7 (95 %: 0.6 to 0.8)",
        "simple.launch               8 us (95 %: 7 to 9)",
        "reduction                   5.5 GB/s (95 %: 5 to 6)",
        "error of the fit            mean 29.2%, max 50.0% over 3 times",
        "  a                         mean 31.2%",
        "  b                         mean 25.0%",
        "error of what was held out  mean 75.0%, max 75.0% over 1 times",
        "  c                         mean 75.0%",
    ]
    assert [line.split() for line in found[found.index("") + 2 :]] == [
        ["a", "8B", "2000000.00", "3000000.00", "+50.0%", "ll", "1", "50.0%"],
        ["b", "16B", "4000000.00", "3000000.00", "-25.0%", "simple", "2", "-"],
        ["a", "32B", "8000000.00", "9000000.00", "+12.5%", "ll", "4", "25.0%"],
        ["c", "64B", "4000000.00", "1000000.00", "-75.0%", "ll", "8", "-"],
    ]
    assert [line for line in text_of(replace(FIT, held_out=())) if "held out" in line] == []
