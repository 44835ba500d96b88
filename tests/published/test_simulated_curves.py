"""Ratios and directions of the preprint's tables 2 and 3 and of figures 3.6, 3.11, 4.12 and A.2, simulated.

What is published was measured on real machines. Pinned here are the limits by the costs of the schedules,
which the papers' analysis gives, and the simulator's times of a few sizes: the record simulated-curves.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from treadle import parse
from treadle.reproduction import curve_settings, simulated_curves
from treadle.reproduction.printed import published_figures

KB, MB, GB = 2**10, 2**20, 2**30
FC, ONE_TREE = "ForestColl", "ForestColl, 1 tree a root"


def place_of(setting: str, panel: str) -> tuple[Any, Any]:
    machine = next(one for one in curve_settings.SETTINGS if one.name == setting)
    return machine, next(one for one in machine.panels if one.title == panel)


@cache
def measured(setting: str, panel: str, label: str, sizes: tuple[int, ...]) -> Any:
    machine, part = place_of(setting, panel)
    curve = next(one for one in part.curves if one.label == label)
    return simulated_curves.measure(replace(machine, sizes=sizes), part, curve)


def limit(setting: str, panel: str, label: str) -> Fraction:
    machine, part = place_of(setting, panel)
    curve = next(one for one in part.curves if one.label == label)
    return Fraction(simulated_curves.plan_of(curve, part.collective, machine.cap).algbw)


def speedup(setting: str, panel: str, labels: tuple[str, str], size: int) -> float:
    """Simulated time of the second over that of the first."""
    first, second = (measured(setting, panel, label, (size,)).seconds[size] for label in labels)
    return float(second / first)


def test_every_curve_is_of_a_fabric_that_there_is() -> None:
    for machine in curve_settings.SETTINGS:
        for panel in machine.panels:
            assert len({curve.label for curve in panel.curves}) == len(panel.curves)
            for curve in panel.curves:
                assert len(parse(curve.fabric).compute_nodes) > 1


# --- limits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "panel", "other", "ratio"),
    [
        # 346.67 against 213.33 GB/s: "62.5% worse" (preprint 5.3); measured 1.3
        ("a100", "allgather", "ring", Fraction(13, 8)),
        ("a100", "reduce-scatter", "ring", Fraction(13, 8)),
        ("a100", "allreduce", "ring", Fraction(13, 8)),
        ("a100", "allgather", "MultiTree", Fraction(91, 90)),
        # measured 2.7 against a ring that was made for 16 GPUs a box
        ("mi250-8", "allgather", "ring", Fraction(39, 20)),
        # "similar throughput" in one box (4.6.3)
        ("h100-boxes", "1x8", "ring", Fraction(1)),
        ("h100-boxes", "2x8", "ring", Fraction(5, 4)),
    ],
)
def test_limits_of_forests(setting: str, panel: str, other: str, ratio: Fraction) -> None:
    """Tables 2 and 3, figure 4.12(b)."""
    assert limit(setting, panel, FC) / limit(setting, panel, other) == ratio


@pytest.mark.parametrize(
    ("setting", "panel", "ours", "other", "ratio"),
    [
        # "at most 1/3 of the total bandwidth" (A.1.1, figure A.2); measured 2.5
        ("cubes", "allreduce", "BFB, hypercube", "RH&D, hypercube, whole messages", Fraction(3)),
        ("cubes", "allreduce", "BFB, hypercube", "BFB, twisted", Fraction(1)),
        # both bandwidth-optimal (3.8.3, figure 3.6)
        ("testbed-12", "allreduce", "OurBestTopo, BFB", "ShiftedRing", Fraction(1)),
        ("testbed-12", "allgather", "OurBestTopo, BFB", "ShiftedBFBRing", Fraction(1)),
        # "matches" at equal sides; 1.29 and 1.42 measured at unequal ones (3.8.5, figure 3.11)
        ("tori", "3 x 3 x 3", "BFB", "traditional torus", Fraction(1)),
        ("tori", "3 x 3 x 2", "BFB", "traditional torus", Fraction(76, 51)),
        ("tori", "3 x 3 x 3 x 2", "BFB", "traditional torus", Fraction(247, 212)),
    ],
)
def test_limits_of_steps(setting: str, panel: str, ours: str, other: str, ratio: Fraction) -> None:
    assert limit(setting, panel, ours) / limit(setting, panel, other) == ratio


def test_hosts_bound_the_tori() -> None:
    """BFB attains 2 M/B (N-1)/N with B the host's 100 Gbit/s, whatever the torus (3.8.5)."""
    for dims, n in (("3 x 3 x 2", 18), ("3 x 3 x 3", 27), ("3 x 3 x 3 x 2", 54)):
        assert limit("tori", dims, "BFB") == Fraction(12_500_000_000 * n, 2 * (n - 1))


# --- simulated ---------------------------------------------------------------------------------------------

BOXES = (
    ("a100", "allgather", ("ring", "MultiTree")),
    ("a100", "allreduce", ("ring", "MultiTree", "double binary tree", "Blink+switch")),
    ("mi250-8", "reduce-scatter", ("ring", "MultiTree")),
    ("mi250-8", "allreduce", ("ring", "MultiTree", "double binary tree", "Blink+switch")),
)


@pytest.mark.parametrize(("setting", "panel", "others"), BOXES)
def test_forests_win_at_a_gigabyte(setting: str, panel: str, others: tuple[str, ...]) -> None:
    """Tables 2 and 3, 1 GB. MultiTree on A100 is what one tree a root gives: 0.1% for ties."""
    ours = min(measured(setting, panel, label, (GB,)).seconds[GB] for label in (FC, ONE_TREE))
    for other in others:
        assert ours <= 1.001 * measured(setting, panel, other, (GB,)).seconds[GB], other


def test_the_optimum_shows_where_latency_does_not() -> None:
    """The exact optimum gains 1.1% on one tree a root, which a few more hops of 10 us can cost up to 1 GB."""
    assert speedup("a100", "allgather", (FC, "MultiTree"), 16 * GB) > 1


def test_rings_are_slower_at_every_size() -> None:
    """Table 3: 4.1, 2.5, 1.3, 1.3 times at 1, 16, 128 MB and 1 GB."""
    for size in (MB, 16 * MB, 128 * MB, GB):
        assert speedup("a100", "allgather", (FC, "ring"), size) > 1
    assert speedup("a100", "allgather", (ONE_TREE, "ring"), MB) > 4
    assert 2 < speedup("a100", "allgather", (ONE_TREE, "ring"), 16 * MB) < 3


@pytest.mark.parametrize(("setting", "published"), [("a100", 1.0), ("mi250-16", 1.16), ("mi250-8", 1.36)])
def test_a_single_root_is_no_match(setting: str, published: float) -> None:
    """Blink+switch on MI250 at 1 GB (4.6.2); the limits are further apart where it is not pipelined."""
    ratio = limit(setting, "allreduce", FC) / limit(setting, "allreduce", "Blink+switch")
    assert ratio > 1.2
    assert published / 1.25 < ratio


def test_small_messages_favour_low_trees() -> None:
    """MultiTree has the lowest limit on 8+8 MI250 GPUs, and nothing is faster at 1 KB."""
    assert limit("mi250-8", "allgather", "MultiTree") < limit("mi250-8", "allgather", "ring")
    for ours in (FC, ONE_TREE):
        assert speedup("mi250-8", "allgather", (ours, "MultiTree"), KB) <= 1


def test_switches_that_add_up() -> None:
    """Figure 4.12's boxes, two of them: in the limit allgathers gain nothing (4.5.6), allreduces do."""
    _, allgather = place_of("h100-boxes", "2x8")
    plans = [simulated_curves.plan_of(curve, "allgather") for curve in allgather.curves[:3]]
    assert {plan.algbw for plan in plans} == {Fraction(1600 * 10**9, 3)}
    plain, sharp = (simulated_curves.plan_of(allgather.curves[place], "allreduce").algbw for place in (0, 2))
    assert sharp / plain == Fraction(3, 2)


def test_testbed_of_twelve_nodes() -> None:
    """Figure 3.6, allreduce: 75% below ShiftedRing at 1 KB, 50% below double binary trees at 1 GB."""
    best = "OurBestTopo, BFB"
    assert speedup("testbed-12", "allreduce", (best, "ShiftedRing"), KB) == pytest.approx(4, rel=0.06)
    assert speedup("testbed-12", "allreduce", (best, "double binary tree"), KB) == pytest.approx(
        1.25, rel=0.1
    )
    assert speedup("testbed-12", "allreduce", (best, "double binary tree"), MB) == pytest.approx(1.8, rel=0.1)
    assert speedup("testbed-12", "allreduce", (best, "double binary tree"), GB) == pytest.approx(2, rel=0.15)
    assert speedup("testbed-12", "allreduce", (best, "ShiftedRing"), GB) == pytest.approx(1, rel=0.01)
    assert speedup("testbed-12", "allreduce", ("ShiftedBFBRing", "ShiftedRing"), KB) > 1.6


def test_cubes() -> None:
    """Figure A.2: 20% less on the twisted hypercube at small sizes, 60% less than RH&D at large ones."""
    assert 1.2 < speedup("cubes", "allreduce", ("BFB, twisted", "BFB, hypercube"), KB) < 1.4
    assert speedup("cubes", "allreduce", ("BFB, hypercube", "RH&D, hypercube, whole messages"), GB) > 2.5
    assert speedup("cubes", "allreduce", ("BFB, hypercube", "RH&D, hypercube, sliced"), GB) > 1.5


def test_tori_with_slow_hosts() -> None:
    """Figure 3.11: the traditional schedule's steps cost it small sizes, unequal sides the large ones."""
    pair = ("BFB", "traditional torus")
    assert speedup("tori", "3 x 3 x 2", pair, KB) > 1.5
    assert speedup("tori", "3 x 3 x 2", pair, GB) > 1
    assert speedup("tori", "3 x 3 x 2", ("BFB", "traditional torus, whole messages"), GB) > 1.29
    assert speedup("tori", "3 x 3 x 3", pair, KB) > 1.5


def test_every_claim_names_curves_of_its_panel() -> None:
    for claim in curve_settings.CLAIMS:
        machine, panel = place_of(claim.setting, claim.panel)
        assert {claim.ours, *claim.other.split(" or ")} <= {curve.label for curve in panel.curves}
        sizes = [size for key in claim.sizes for size in (key if isinstance(key, tuple) else (key,))]
        assert set(sizes) <= set(machine.sizes)
        printed = published_figures()[claim.exhibit].figures
        assert any(claim.label(size) in printed for size in claim.sizes), claim
