"""Pages of designs: chart, curves and cables are those of the fabrics; what is beaten is beaten."""

from __future__ import annotations

from itertools import combinations

import pytest

from treadle import planning
from treadle.api.report import report
from treadle.finder.designing.design_flow import AlltoallRates
from treadle.finder.workload import Network, allreduce_of

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


def test_pages_are_small_and_the_same_each_time(small: planning.DesignResult) -> None:
    page = report(small)
    assert page == report(small)
    assert len(page.encode()) <= 150_000
    assert "default-src 'none'" in page
