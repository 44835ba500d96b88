"""Pages of plans: what they show is what the plan does, in little room, and names are inert."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from treadle import planning
from treadle.api.report import report
from treadle.api.simulate import simulate
from treadle.drawing.pages.drawn_fabric import DrawnFabric
from treadle.drawing.pages.plan_page import arrivals
from treadle.drawing.plan_loads import busy_links
from treadle.errors import FormatError
from treadle.machines.libraries import library_model
from treadle.machines.nccl import LibraryModel
from treadle.program.operation_lists import OperationKind
from treadle.program.program import Program
from treadle.schedules.plan import Plan
from treadle.topologies import parse
from treadle.topologies.topology import TopologyBuilder


def solved(fabric: str, collective: str, **options: Any) -> Plan:
    return planning.solve(fabric, collective, **options).plan


def values_of(page: str) -> dict[str, Any]:
    """What the script of a page reads."""
    found = re.search(r'<script type="application/json" id="values">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    values: dict[str, Any] = json.loads(found[1])
    return values


def reached(values: dict[str, Any], start: int, frames: list[list[int]]) -> set[int]:
    """Marks to which data at one come if they move over the frames' lines, one frame after another."""
    held = {start}
    for frame in frames:
        lines = {(values["fabric"]["lines"][abs(line) - 1][line < 0], line) for line in frame}
        grows = True
        while grows:  # through the switches between two ranks
            ways = {
                values["fabric"]["lines"][abs(line) - 1][line > 0] for mark, line in lines if mark in held
            }
            grows = not ways <= held
            held |= ways
    return held


@pytest.mark.parametrize(
    ("fabric", "collective", "options", "kind"),
    [
        ("dgx_a100:2", "allgather", {}, "tree"),
        ("dgx_a100:2", "reduce_scatter", {}, "tree"),
        ("torus:3,3", "allgather", {"algorithm": "bfb"}, "step"),
        ("ring:5", "allreduce", {"algorithm": "ring"}, "tree"),
        ("torus:3,3", "allreduce", {"algorithm": "bfb"}, "step"),
        ("pods:3,3", "allgather", {}, "tree"),
    ],
)
def test_data_of_a_rank_come_to_all(fabric: str, collective: str, options: dict[str, Any], kind: str) -> None:
    """Along the arrows of a scene, frame by frame; where data are summed up, against them."""
    values = values_of(report(solved(fabric, collective, **options)))
    assert values["scenes"]["kind"] == kind
    homes = values["marksOfRanks"]
    assert len(values["scenes"]["roots"]) == len(homes) == len(values["ranks"])
    for root, row in enumerate(values["scenes"]["roots"]):
        assert row
        for place, (_, frames) in enumerate(row):
            is_summed = collective == "reduce_scatter" or (collective == "allreduce" and place % 2 == 0)
            if is_summed:
                frames = [[-line for line in frame] for frame in reversed(frames)]
            assert reached(values, homes[root], frames) >= set(homes)


def test_routes_lead_from_source_to_target() -> None:
    plan = planning.routes("torus:3,3").plan
    values = values_of(report(plan))
    for source, row in enumerate(values["scenes"]["roots"]):
        for target, ways in enumerate(row):
            assert bool(ways) == (source != target)
            for _, frames in ways:
                assert values["marksOfRanks"][target] in reached(
                    values, values["marksOfRanks"][source], frames
                )


def test_loads_and_kinds_are_of_all_links() -> None:
    plan = solved("pods:4,32", "allgather")
    values = values_of(report(plan))
    busy, full = busy_links(plan)
    fabric = DrawnFabric(plan.topology)
    for number, line in enumerate(fabric.layout.lines):
        assert values["load"]["share"][number] == pytest.approx(busy[list(line.links)].max(), abs=1e-4)
        assert values["load"]["full"][number] == full[list(line.links)].any()
    assert sum(kind["links"] for kind in values["kinds"]) == plan.topology.n_links
    assert sum(kind["full"] for kind in values["kinds"]) == full.sum()
    assert sum(values["hops"]) == plan.collective.n_ranks
    assert "curves" not in values


@pytest.mark.parametrize("collective", ["allgather", "reduce_scatter", "allreduce", "alltoall"])
def test_arrivals_are_those_of_single_messages(collective: str) -> None:
    plan = solved("dgx_a100:1" if collective != "alltoall" else "torus:2,3", collective)
    run = simulate(plan, [2**20])
    program = run.last.graph.program
    assert isinstance(program, Program)
    found = arrivals(run.last, program)
    n = program.n_ranks
    expected = np.full((n, n), -1.0)
    _, ends = run.last.operation_spans()
    for number in range(program.n_operations):
        operation = OperationKind(int(program.operation_kind[number]))
        is_summed = collective == "reduce_scatter"
        if operation is OperationKind.COPY or (operation is OperationKind.SEND) != is_summed:
            continue
        rank = int(program.operation_rank[number])
        for chunk in range(int(program.first[number]), int(program.first[number] + program.count[number])):
            (shard,) = [
                one
                for one in range(len(program.shard_offset) - 1)
                if program.shard_offset[one] <= chunk < program.shard_offset[one + 1]
            ]
            if collective == "alltoall":
                if shard % n != rank:
                    continue  # passed on
                shard //= n
            time = float(int(ends[number]) * run.last.tick_s)
            expected[rank, shard] = max(expected[rank, shard], time)
    assert found == pytest.approx(expected)
    if collective != "reduce_scatter":  # of which the last message is still on its way
        assert found.max() == pytest.approx(float(run.last.time))


def test_a_page_holds_its_arrivals_and_the_bound() -> None:
    plan = solved("ring:4", "allgather")
    values = values_of(report(plan, size="1M"))
    cells = np.frombuffer(base64.b64decode(values["arrivals"]["cells"]), np.uint8).reshape(4, 4)
    assert (cells[np.diag_indices(4)] == 0).all()
    assert cells.max() == 255
    assert (cells[~np.eye(4, dtype=bool)] >= 1).all()
    curves = values["curves"]
    rows = simulate(plan, curves["sizes"]).rows
    assert curves["bound"] == pytest.approx([float(row.bound.time) for row in rows if row.bound], rel=1e-5)
    assert curves["bound"][-1] == pytest.approx(float(curves["sizes"][-1] / plan.algbw), rel=1e-3)
    assert all(
        one >= bound for one, bound in zip(curves["series"][0]["seconds"], curves["bound"], strict=True)
    )
    assert values["tiles"][1][0] == "optimal"
    levels = base64.b64decode(values["timeline"]["levels"])
    assert len(levels) == len(values["timeline"]["names"]) * values["timeline"]["bins"]


def test_optimal_is_said_of_optimal_plans_only() -> None:
    assert values_of(report(solved("dgx_a100:2", "allgather", exact=True)))["tiles"][1][0] == "optimal"
    assert values_of(report(solved("dgx_a100:2", "allgather")))["tiles"][1] == [
        "99.79%",
        "of the proved bound",
        "",
    ]
    assert values_of(report(solved("ring:4", "allgather", algorithm="ring")))["tiles"][1][0] == "optimal"
    half = replace(solved("ring:4", "allgather"), optimal_algbw=None, certificate=None)
    assert values_of(report(half))["tiles"][1][0] == "no bound"


@pytest.mark.parametrize(
    ("fabric", "collective", "most"),
    [
        ("dgx_a100:2", "allgather", 150_000),
        ("mi250:2", "allreduce", 800_000),
        ("pods:4,32", "allgather", 150_000),
    ],
)
def test_pages_are_small_and_the_same_each_time(fabric: str, collective: str, most: int) -> None:
    plan = solved(fabric, collective)
    page = report(plan)
    assert len(page.encode()) <= most
    if fabric != "mi250:2":
        assert page == report(plan)


def test_what_has_no_room_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.drawing.pages.plan_page.MOST_NUMBERS", 300)
    found = values_of(report(solved("dgx_a100:2", "allgather", exact=True)))["scenes"]
    assert found["leftOut"] == "the heaviest 1 of 2 trees a rank are shown"
    assert {len(row) for row in found["roots"]} == {1}
    steps = values_of(report(solved("torus:3,3", "alltoall")))["scenes"]
    assert len(steps["roots"]) == 9
    assert steps["leftOut"] == ""


def test_names_are_inert() -> None:
    builder = TopologyBuilder("<b>hostile</b>")
    names = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(2)>", "&amp;", "constructor"]
    for name in names:
        builder.compute(name)
    for one, other in zip(names, [*names[1:], names[0]], strict=True):
        builder.duplex(one, other, 10**9)
    plan = solved(builder.build(), "allgather")  # type: ignore[arg-type]
    page = report(plan)
    assert "<img" not in page
    assert "<b>hostile" not in page
    assert page.count("<script") == 2
    assert values_of(page)["ranks"] == names
    assert "default-src 'none'" in page
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)


def test_refusals() -> None:
    plan = solved("ring:4", "allgather")
    with pytest.raises(FormatError, match="another plan has collective allreduce, expected allgather"):
        report(plan, [solved("ring:4", "allreduce")])
    with pytest.raises(FormatError, match="another plan has ranks 5, expected 4"):
        report(plan, [solved("ring:5", "allgather")])
    with pytest.raises(planning.UnverifiedPlanError):
        report(replace(plan, algbw=2 * plan.algbw))
    large = solved("pods:4,32", "allgather")
    with pytest.raises(FormatError, match="more than 256 ranks are not simulated"):
        report(large, [large])


def test_other_plans_stand_beside() -> None:
    ring = solved("dgx_a100:1", "allgather", algorithm="ring")
    values = values_of(report(solved("dgx_a100:1", "allgather"), [ring, ring]))
    assert [one["name"] for one in values["curves"]["series"]] == [
        *("forestcoll", "ring", "ring (2)"),
        "achievable, with its band of 90%",
        "predicted by NCCL 2.30, 12 channels x 20 GB/s",
        "best baseline (ring or tree), simulated",
    ]
    times = [one["seconds"] for one in values["curves"]["series"]]
    assert times[5] == times[1], "an allgather's best baseline is the ring"
    model = library_model(parse("dgx_a100:1"))
    assert isinstance(model, LibraryModel)
    picks = [model.pick("allgather", size) for size in values["curves"]["sizes"]]
    assert times[4] == pytest.approx([pick.time_s for pick in picks], rel=1e-5)
    achievable = values["curves"]["series"][3]
    for low, middle, high in zip(*(achievable[name] for name in ("low", "seconds", "high")), strict=True):
        assert low < middle < high
