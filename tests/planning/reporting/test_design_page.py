"""Pages of designs: chart, curves and cables are those of the fabrics; what is beaten is beaten."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from treadle import planning
from treadle.api.report import report
from treadle.cli.main import main
from treadle.drawing.pages.design_page import design_page
from treadle.finder.designing.design_flow import AlltoallRates
from treadle.finder.designing.known_fabrics import is_beaten, known_fabrics
from treadle.finder.workload import Network, allreduce_of
from treadle.synthesis.steps.bfb import bfb_reduce_scatter_value, bfb_value
from treadle.topologies import parse

from .test_plan_page import values_of

NETWORK = Network(alpha_s=10e-6, bandwidth_bytes_per_s=12_500_000_000)


def designed(nodes: int, degree: int) -> planning.DesignResult:
    return planning.design(
        nodes,
        degree,
        network=NETWORK,
        workload=allreduce_of(2**20),
        alltoall=AlltoallRates.BOUND,
        use_cache=False,
    )


@pytest.fixture(scope="module")
def small() -> planning.DesignResult:
    return designed(16, 4)


def test_known_fabrics_have_the_figures_of_their_schedules() -> None:
    for one in known_fabrics(16, 4):
        if "fat_tree" in one.name:
            assert (one.steps, one.t_b) == (2, Fraction(15, 16))
            continue
        fabric = parse(one.name)
        assert (fabric.n_nodes, fabric.n_links) == (one.nodes, one.nodes * one.ports)
        gather, reduce = bfb_value(fabric), bfb_reduce_scatter_value(fabric)
        assert one.steps == max(gather.diameter, reduce.diameter)
        assert one.t_b == (gather.t_b + reduce.t_b) / 2
    names = " ".join(one.name for one in known_fabrics(64, 4))
    assert all(word in names for word in ("torus", "dragonfly", "fat_tree", "kautz", "bi_ring"))
    assert "uni_ring" in known_fabrics(5, 1)[0].name


def test_beaten_is_no_better_in_both_and_worse_in_one() -> None:
    front = [(2, Fraction(2)), (4, Fraction(1))]
    expected = {(3, 2): True, (2, 2): False, (1, 5): False, (4, 1): False, (5, 1): True, (2, 3): True}
    assert {place: is_beaten(place[0], Fraction(place[1]), front) for place in expected} == expected


@pytest.mark.parametrize(("nodes", "degree"), [(16, 4), (64, 4), (27, 3)])
def test_places_follow_figures_and_labels_stand_apart(nodes: int, degree: int) -> None:
    values = values_of(report(designed(nodes, degree)))
    chart = values["pareto"]
    found = {name: (x, y) for x, y, own, *_ in chart["points"] for name in own}
    assert sorted(found) == list(range(len(chart["names"])))
    for one, other in combinations(found, 2):
        (steps, t_b), (steps_, t_b_) = chart["names"][one][4:6], chart["names"][other][4:6]
        assert (steps < steps_) == (found[one][0] < found[other][0])
        assert t_b >= t_b_ or found[one][1] >= found[other][1]
    own = [place for place, name in enumerate(chart["names"]) if name[2:4] == [nodes, degree]]
    for place in own:  # no fabric of this size is left of or below the limit
        assert found[place][0] >= chart["limit"][0]
        assert found[place][1] <= chart["limit"][1]
    boxes = [(x, y - 11, x + 7 * len(words), y + 2) for *_, x, y, words in chart["points"] if words]
    for one_box, other_box in combinations(boxes, 2):
        assert not (
            one_box[0] < other_box[2]
            and other_box[0] < one_box[2]
            and one_box[1] < other_box[3]
            and other_box[1] < one_box[3]
        )


def test_curves_are_times_of_the_rows(small: planning.DesignResult) -> None:
    curves = values_of(report(small))["curves"]
    assert curves["sizes"][5] == small.shown_bytes
    for series, row in zip(curves["series"], small.rows, strict=False):
        assert series["seconds"][5] == pytest.approx(row.allreduce_s, rel=1e-5)
        assert all(one >= least for one, least in zip(series["seconds"], curves["bound"], strict=True))
    assert curves["bound"][5] == pytest.approx(small.limits.allreduce_s, rel=1e-5)


@pytest.mark.parametrize("nodes", [16, 140])
def test_cables_are_all_there(nodes: int) -> None:
    result = designed(nodes, 4)
    built = planning.cabling(result.topology(), rack_size=4)
    values = values_of(design_page(result, built=built))["cables"]
    matrix = np.array(values["matrix"])
    assert (matrix == matrix.T).all()
    assert np.triu(matrix).sum() == len(built.sheet.wires)
    assert values["single"] == (nodes <= 128)
    places = {item: (x, y) for item, _, x, y, _ in values["places"]}
    assert len(set(places.values())) == len(places) == (nodes if values["single"] else 35)
    across = sum(line[2] for line in values["lines"])
    assert across == (len(built.sheet.wires) if values["single"] else np.triu(matrix, 1).sum())
    placement = built.sheet.placement
    assert placement is not None
    if values["single"]:
        assert all(rack == placement.rack[item] for item, rack, *_ in values["places"])
        assert max(np.bincount([rack for _, rack, *_ in values["places"]])) <= 4


def test_pages_are_small_and_the_same_each_time(small: planning.DesignResult) -> None:
    page = report(small)
    assert page == report(small)
    assert len(page.encode()) <= 150_000
    assert "default-src 'none'" in page


def test_json_lists_what_is_beaten(capsys: pytest.CaptureFixture[str]) -> None:
    words = "design --nodes 16 --degree 4 --alltoall bound --no-cache --json"
    assert main(words.split()) == 0
    values: dict[str, Any] = json.loads(capsys.readouterr().out)

    def figures(row: dict[str, Any]) -> tuple[int, Fraction]:
        t_b = Fraction(row["t_b_exact"]) + Fraction(row["t_b_reduce_scatter_exact"])
        return row["steps"], t_b / 2

    front = [figures(row) for row in values["frontier"]]
    shown = {row["topology"] for row in values["frontier"]}
    assert len(values["dominated"]) > 5
    for row in values["dominated"]:
        assert row["topology"] not in shown
        if row["measured"]:
            assert is_beaten(*figures(row), front) or figures(row) in front
    torus = next(row for row in values["known"] if row["fabric"] == "torus(4, 4)")
    assert torus["beaten"]
    assert Fraction(torus["t_b_mean_exact"]) == Fraction(15, 16)
