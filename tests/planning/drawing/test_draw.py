"""Pictures of plans: what is told is computed, what is hostile is inert, bytes are the same each time."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from treadle import planning
from treadle.api.draw import draw
from treadle.drawing.draw import painting_of
from treadle.drawing.plan_loads import busy_links
from treadle.drawing.tree_hops import hops_of
from treadle.errors import FormatError, ScheduleError
from treadle.inputs.problem import resolve_topology
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import save_plan


@pytest.fixture(scope="module")
def boxes() -> Plan:
    return planning.solve("dgx_a100(2)", "allgather").plan


@pytest.mark.parametrize(("collective", "algorithm"), [("allreduce", "bfb"), ("alltoall", None)])
def test_behind_capped_hosts_links_are_never_full(collective: str, algorithm: str | None) -> None:
    """Hosts that pass on half of what their links carry leave these idle half of the time."""
    torus = resolve_topology("torus(3, 3)")
    half = np.full(9, 2 * int(torus.bandwidths[0]), dtype=np.int64)
    capped = replace(torus, injection_bytes_per_s=half, name="capped")
    busy, full = busy_links(planning.solve(capped, collective, algorithm=algorithm).plan)
    assert busy == pytest.approx(0.5)
    assert not full.any()
    _, full = busy_links(planning.solve(torus, collective, algorithm=algorithm).plan)
    assert full.all()


def test_what_is_false_is_not_drawn(boxes: Plan) -> None:
    with pytest.raises(planning.UnverifiedPlanError, match="allow algbw"):
        draw(replace(boxes, algbw=2 * boxes.algbw))


@pytest.mark.parametrize("collective", ["allgather", "reduce_scatter"])
@pytest.mark.parametrize("fabric", ["leaf_spine(2, 2)", "dgx_h100(4)", "torus(3, 3)"])
def test_what_crosses_a_cut_bounds_the_rate(fabric: str, collective: str) -> None:
    plan = planning.solve(fabric, collective).plan
    painting = painting_of(plan, "cut")
    found = re.fullmatch(r"(\d+) of (\d+) shards must (enter|leave) .* at most (\S+) (\S+)", painting.caption)
    assert found
    assert plan.optimal_algbw is not None
    rate = planning.bound(fabric, collective).bound.algbw
    assert rate == plan.optimal_algbw
    from treadle.units import format_bandwidth

    assert f"{found[4]} {found[5]}" == format_bandwidth(rate)
    assert found[3] == ("leave" if collective == "reduce_scatter" else "enter")


def test_scarce_links_prove_an_allreduce() -> None:
    painting = painting_of(planning.solve("mi250(2)", "allreduce").plan, "cut")
    assert painting.caption == "144 of 176 links are the bottleneck: their prices prove the optimum"


def test_a_tree_reaches_all_ranks_by_hops(boxes: Plan) -> None:
    for root in (0, 3, 15):
        hops, words = hops_of(boxes, root)
        reached = {boxes.collective.ranks[root]}
        for hop in range(1, 1 + max(hops.values())):
            links = [link for link, own in hops.items() if own == hop]
            for _ in links:  # a hop may pass several switches
                reached |= {
                    int(boxes.topology.heads[link])
                    for link in links
                    if int(boxes.topology.tails[link]) in reached
                }
        assert reached >= set(boxes.collective.ranks)
        assert words.startswith("one of ")
    painting = painting_of(boxes, "tree:box0.gpu3")
    assert painting.title == "allgather on dgx_a100(2), data of box0.gpu3"
    assert painting == painting_of(boxes, "tree:3")


@pytest.mark.parametrize(
    ("show", "says"),
    [
        ("loads", "did you mean load"),
        ("tree", "did you mean tree:RANK"),
        ("tree:16", "no rank '16'; expected a number below 16 or a name such as box0.gpu0"),
        ("cut:1", "did you mean cut"),
    ],
)
def test_what_there_is_not_is_refused(boxes: Plan, show: str, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        draw(boxes, show=show)


def test_other_refusals(boxes: Plan) -> None:
    with pytest.raises(FormatError, match="'cut' is of plans, and this is a fabric"):
        draw("ring(4)", show="cut")
    with pytest.raises(FormatError, match="format"):
        draw("ring(4)", file_format="bmp")
    ring = planning.solve("ring(4)", "alltoall").plan
    with pytest.raises(ScheduleError, match="no trees"):
        draw(ring, show="tree:0")
    with pytest.raises(ScheduleError, match=r"no optimum|no cut"):
        draw(ring, show="cut")


def test_files_and_results_are_drawn_too(boxes: Plan, tmp_path: Path) -> None:
    path = tmp_path / "a.plan"
    save_plan(path, boxes)
    assert draw(path) == draw(boxes)
    assert draw(boxes.topology) == draw("dgx_a100(2)")
    png = draw("ring(4)", file_format="png")
    assert png.startswith(b"\x89PNG")
    assert np.frombuffer(png[16:24], ">u4").tolist() > [100, 100]


@pytest.mark.parametrize(
    ("name", "fabric", "show"),
    [("two-boxes-cut", "dgx_a100:2", "cut"), ("pods-65536", "pods:64,128", "load")],
)
def test_the_pictures_of_the_readme_are_ours(repository: Path, name: str, fabric: str, show: str) -> None:
    """After a change: `treadle draw FABRIC allgather --show .. -o docs/images/NAME.svg`."""
    picture = draw(planning.solve(fabric, "allgather").plan, show=show)
    assert picture == (repository / "docs" / "images" / f"{name}.svg").read_bytes()
    assert len(picture) <= 20_000
