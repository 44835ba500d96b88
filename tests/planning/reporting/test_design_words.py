"""What a page about a design says: tiles, tables, curves and facts, of nine nodes with four ports."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from treadle import planning
from treadle.drawing.pages import design_page
from treadle.finder.building.installed_fabric import InstalledFabric
from treadle.finder.designing.design_flow import AlltoallRates
from treadle.finder.designing.design_result import DesignResult
from treadle.finder.designing.known_fabrics import known_fabrics
from treadle.finder.workload import Network, allreduce_of

NETWORK = Network(1e-6, 12_500_000_000)
SIZES = [4**power for power in range(5, 16)]


@pytest.fixture(scope="module")
def result() -> DesignResult:
    """One fabric is the frontier: two steps and 8/9 M/B, which none beats."""
    return planning.design(
        9,
        4,
        network=NETWORK,
        workload=allreduce_of(2**20),
        alltoall=AlltoallRates.BOUND,
        use_cache=False,
    )


@pytest.fixture(scope="module")
def built(result: DesignResult) -> InstalledFabric:
    return planning.cabling(result.topology(), rack_size=4)


def allreduce_s(steps: int, t_b: Fraction, size: int) -> float:
    return 2 * steps * 1e-6 + 2 * float(t_b) * size / 12.5e9


def test_tiles_say_what_is_the_least(result: DesignResult, built: InstalledFabric) -> None:
    assert built.totals is not None
    metres = f"{float(built.totals.metres):,.0f} m"
    assert design_page._tiles(result, result.best, built) == [
        ["2", "steps, the lower bound", "good"],
        ["0.889 M/B", "bandwidth time, the lower bound", "good"],
        ["153 us", "allreduce of 1MB", ""],
        [metres, "of 18 cables", ""],
    ]
    beaten = replace(result, limits=replace(result.limits, steps=1, t_b=Fraction(1, 2)))
    row = replace(result.best, allreduce_s=None)
    assert design_page._tiles(beaten, row, built) == [
        ["2", "steps; lower bound 1", ""],
        ["0.889 M/B", "bandwidth time; lower bound 0.500", ""],
        [metres, "of 18 cables", ""],
    ]


def test_points_of_the_frontier_of_people_and_of_the_finder(
    result: DesignResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = design_page._points(result)
    first, known, others = points[0], points[1:7], points[7:]
    (row,) = result.rows
    assert (first.key, first.kind, first.name, first.note) == (
        "1",
        "frontier",
        "circulant N=9 d=4 no. 1",
        row.option.expression,
    )
    assert (first.nodes, first.ports, first.steps, first.t_b) == (9, 4, 2, Fraction(8, 9))
    assert first.seconds == pytest.approx([allreduce_s(2, Fraction(8, 9), size) for size in SIZES])
    assert [(one.key, one.name) for one in known] == list(
        zip("abcdef", [one.name for one in known_fabrics(9, 4)], strict=True)
    )
    for one in known:
        assert one.kind == "known"
        own = (one.nodes, one.ports) == (9, 4)
        beaten = (one.steps, one.t_b) != (2, Fraction(8, 9))
        assert one.note == ("beaten" if beaten else "as good" if own else "of another size")
        assert one.seconds == pytest.approx([allreduce_s(one.steps, one.t_b, size) for size in SIZES])
    assert {one.note for one in known} == {"beaten", "as good"}
    assert {(one.key, one.kind, one.nodes, one.ports, one.seconds) for one in others} == {
        ("", "other", 9, 4, ())
    }
    told = [one.name for one in points]
    assert len(set(told)) == len(told)
    exact = {planning_expression(one): one.is_exact for one in result.others}
    for one in others:
        assert one.note == ("" if exact[one.name] else "at most: predicted")
    monkeypatch.setattr(design_page, "_MOST_POINTS", 9)
    assert design_page._points(result) == points[:9]


def planning_expression(candidate: Any) -> str:
    from treadle.finder.construction import expression

    return expression(candidate.construction)


def test_curves_of_all_that_are_timed(result: DesignResult) -> None:
    points = design_page._points(result)
    curves: Any = design_page._curves(result, points)
    timed = [one for one in points if one.seconds]
    assert curves["sizes"] == SIZES
    assert [one["key"] for one in curves["series"]] == [one.key for one in timed]
    names = {one["key"]: one["name"] for one in curves["series"]}
    for one in timed:
        why = [f"{one.nodes} nodes"] * (one.nodes != 9) + ["switches"] * ("fat_tree" in one.name)
        why += ["3 ports"] * (one.ports == 3)
        scope = f" ({', '.join(why)}: outside the bound)" if why else ""
        assert names[one.key] == f"{one.key} {one.name}{scope}"
        below = any(own < 0.9999 * least for own, least in zip(one.seconds, curves["bound"], strict=True))
        assert scope or not below
    assert curves["boundName"] == "lower bound (9 nodes, 4 ports each, no switches)"
    assert {one.nodes == 9 for one in timed} == {True, False}
    assert curves["series"][0]["seconds"] == [float(f"{second:.6g}") for second in timed[0].seconds]
    assert curves["bound"] == curves["series"][0]["seconds"]
    assert curves["note"] == (
        "An allreduce by 1.00 us a step and bandwidth, 12.5 GB/s a node over all its ports."
    )


def test_tables_of_fabrics_and_cables(result: DesignResult, built: InstalledFabric) -> None:
    points = design_page._points(result)
    table: Any = design_page._fabrics(points)
    assert table["rows"][0] == [
        "1",
        f"{points[0].name}: circulant(9, 2, 3)",
        "frontier",
        9,
        4,
        2,
        pytest.approx(8 / 9),
        "",
    ]
    assert table["rows"][1][:3] == ["a", points[1].name, "known"]
    assert table["rows"][-1][2] == "found"
    assert [row[7] for row in table["rows"][1:]] == [one.note for one in points[1:]]
    totals: Any = design_page._totals(built)
    placed, plain = built.totals, built.in_order
    assert placed is not None
    assert plain is not None
    assert totals["rows"] == [
        ["metres in all", float(placed.metres), float(plain.metres)],
        ["longest, metres", float(placed.longest), float(plain.longest)],
        ["cables within racks", placed.in_rack, plain.in_rack],
        ["pairs of racks that cables join", placed.bundles, plain.bundles],
    ]
    assert (placed.in_rack, plain.in_rack) == (9, 6)
    lengths: Any = design_page._lengths(built)
    counts: dict[tuple[str, str], int] = {}
    for metres, medium in zip(built.sheet.metres, built.sheet.media, strict=True):
        key = f"{int(metres)} to {int(metres) + 1}", medium
        counts[key] = counts.get(key, 0) + 1
    assert lengths["rows"] == [
        [name, counts.get((name, "copper"), 0), counts.get((name, "optical"), 0)]
        for name in sorted({name for name, _ in counts})
    ]
    assert {medium for _, medium in counts} == {"copper", "optical"}


def test_facts_of_a_design(result: DesignResult, built: InstalledFabric) -> None:
    assert design_page._facts(result, result.best, built) == [
        ["Chosen", result.best.option.expression],
        ["Network", "1.00 us a step, 12.5 GB/s out of and into a node"],
        ["Workload", "one allreduce"],
        ["Lower bounds (9 nodes, 4 ports each, no switches)", "2 steps, T_B 0.8889 M/B"],
        ["Racks", "3 of at most 4 nodes, 0.6 m wide, rows 2.4 m apart"],
    ]
