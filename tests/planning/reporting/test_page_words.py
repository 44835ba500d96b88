"""Words and rows of pages about steps and plans that shard models, of results by hand."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.parallelism.plan.small_models import small_model

from treadle.drawing.pages import parallel_page, step_page
from treadle.drawing.pages.parallel_page import ReportedPlan, evaluated
from treadle.drawing.pages.parallel_plan_file import is_parallel_plan
from treadle.parallelism.graph.compute_graph import Phase
from treadle.parallelism.plan.parallel_plan import ParallelPlan, Pipeline
from treadle.parallelism.searching.parallel_options import parallel_request
from treadle.parallelism.searching.parallel_result import FabricMatrix, MeshTrial, PricedPlan
from treadle.parallelism.searching.plan_search import PlanSearch
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts
from treadle.training.device_memory import MemoryParts
from treadle.training.timeline.task import COMPUTE_STREAM, Category, Task
from treadle.training.timeline.timeline import Timeline
from treadle.unsupported import Unsupported

MODEL = small_model(t=48, h=24, f=36)
MESH = Mesh((2, 3), ("a", "b"))
COSTS = AlphaBetaCosts(
    1e-6,
    {
        (kind, axes): rate
        for axes, rate in {("a",): 1e9, ("b",): 2e9, ("a", "b"): 3e9}.items()
        for kind in CollectiveKind
    },
)
REQUEST = parallel_request("a100", 48, {"gap": 0.1})


@pytest.fixture(scope="module")
def plans() -> dict[str, ParallelPlan]:
    posed = PlanSearch(MODEL, REQUEST).make_problem(MESH, COSTS)
    return {
        name: posed.problem.decode(posed.problem.tidied(posed.named[name]))
        for name in ("FSDP", "TP", "TP a x DP b, full recompute")
    }


def row(
    name: str, seconds: float, *, exposed: float = 0.25, memory: float = 2**30, fits: bool = True
) -> PricedPlan:
    plan = cast(ParallelPlan, SimpleNamespace(mesh=MESH))
    return PricedPlan(name, plan, seconds, seconds, seconds - exposed, exposed, 0.0, 0.5, {}, memory, fits)


def told(
    *rows: PricedPlan, bound_s: float = 0.0, fabric: str = "here", evaluation: Any = None, **fields: Any
) -> ReportedPlan:
    return ReportedPlan(fabric, rows, evaluation, Unsupported("none", "why"), bound_s, **fields)


def test_tiles_of_a_plan_that_shards() -> None:
    request = replace(REQUEST, memory_bytes=2**31)
    best = row("treadle", 2.0)
    others = (row("slow", 5.0), row("next", 3.0), row("quick", 1.0, fits=False))
    assert parallel_page._tiles(told(best, *others, bound_s=1.5), request) == [
        ["2.00 s", "a step, simulated", ""],
        ["25.0%", "may be saved at most: proved", ""],
        ["1.50x", "as quick as next", ""],
        ["1GB", "of 2GB a rank", ""],
    ]
    estimate = replace(best, estimate_s=1.875)  # a bound is of estimates
    assert parallel_page._tiles(told(estimate, bound_s=1.5), request)[1][0] == "20.0%"
    near = parallel_page._tiles(told(best, bound_s=1.962), request)
    assert near[1] == ["1.9%", "may be saved at most: proved", "good"]
    assert len(near) == 3
    assert parallel_page._tiles(told(best, bound_s=1.958), request)[1][2] == ""
    claimed = parallel_page._tiles(told(best, bound_s=3.0, is_claimed=True), request)
    assert claimed[1] == ["0.0%", "may be saved at most: its file claims", ""]
    assert [tile[0] for tile in parallel_page._tiles(told(best), request)] == ["2.00 s", "1GB"]


def test_alike_plans_are_told_once() -> None:
    one, other = row("one", 1.0), row("other", 1.00001)
    more = row("more", 1.0, memory=2**31)
    assert [name for name, _ in parallel_page._row_names([told(one, other, more)])] == ["one", "more"]
    two = [told(one, more), told(one, fabric="there")]
    assert [name for name, _ in parallel_page._row_names(two)] == [
        "one on here",
        "more on here",
        "one on there",
    ]


def test_plans_side_by_side() -> None:
    rows = (row("one", 1.0), row("two", 2.0, exposed=1e-13), row("three", 3.0, fits=False))
    bars: Any = parallel_page._rows_bars([told(*rows, bound_s=0.5)])
    assert bars["rows"] == [["one", [0.75, 0.25, 0.0]], ["two", [2.0 - 1e-13, 0.0, 0.0]]]
    assert (bars["limit"], bars["limitWords"]) == (0.5, "no plan has an estimate below 500 ms")
    claimed: Any = parallel_page._rows_bars([told(*rows, bound_s=0.5, is_claimed=True)])
    assert claimed["limitWords"].endswith(", its file claims")
    several: Any = parallel_page._rows_bars([told(rows[0], bound_s=0.5), told(rows[0], fabric="there")])
    assert several["limit"] is None
    table: Any = parallel_page._rows_table([told(*rows)])
    assert table["rows"] == [
        ["one", 1.0, 0.25, 0.5, 2**30],
        ["two", 2.0, 0.0, 0.5, 2**30],
        ["three (does not fit)", 3.0, 0.25, 0.5, 2**30],
    ]


def test_meshes_that_were_looked_at() -> None:
    trials = [MeshTrial(MESH, 2.0, 1.0, True), MeshTrial(Mesh((6,), ("0",)), inf, inf, False)]
    table: Any = parallel_page._meshes(trials)
    assert table["rows"] == [["a=2,b=3", 2.0, 1.0], ["6 (not searched)", None, None]]


def test_each_plan_on_each_fabric() -> None:
    table: Any = parallel_page._matrix(FabricMatrix(("x", "y"), ((1.0, None), (3.0, 4.0)), (5.0, None)))
    assert table["columns"] == [["plan of", "text"], ["on x", "s"], ["on y", "s"]]
    assert table["rows"] == [["x", 1.0, None], ["y", 3.0, 4.0], ["axes priced one by one", 5.0, None]]


def test_facts_are_of_the_first_plan(plans: dict[str, ParallelPlan]) -> None:
    plan = plans["FSDP"]
    one, other = (
        told(replace(row("one", 1.0), plan=some), row("other", 2.0))
        for some in (plan, replace(plan, layers=dict.fromkeys(list(plan.parts)[:2], (0, 0))))
    )
    names = [name for name, _ in parallel_page._facts(MODEL, REQUEST, one, ["first", "second"])]
    assert names == ["Model", "Compute", "Overlap", "Between layers", "Note", "Note"]
    assert parallel_page._facts(MODEL, REQUEST, other, [])[4:] == [
        ["Mixed layers", ", ".join([*plan.parts][:2])]
    ]


def test_the_layout_that_a_plan_comes_nearest_to() -> None:
    again: Any = SimpleNamespace(
        mesh="fsdp=6",
        outcome=SimpleNamespace(iteration_s=0.25),
        layout=SimpleNamespace(left_out=("one", "two")),
    )
    words = "Simulated as fsdp=6, the layout of whole axes that the plan comes nearest to: 250 ms."
    assert parallel_page._lanes_words(again) == f"{words} What that leaves out: one; two."
    again.layout.left_out = ()
    assert parallel_page._lanes_words(again) == words


def test_the_fullest_moment(plans: dict[str, ParallelPlan], monkeypatch: pytest.MonkeyPatch) -> None:
    found = evaluated(plans["FSDP"], MODEL, COSTS, REQUEST)
    table: Any = parallel_page._memory(found, 2**31)
    held = [[one.why, one.tensor, one.n_bytes] for one in found.peak.contents]
    assert table["rows"] == [["all", "", found.peak.n_bytes], *held]
    assert table["leftOut"] == "2GB may be used."
    assert parallel_page._memory(found, inf)["leftOut"] == ""
    assert len(held) > 3
    monkeypatch.setattr(parallel_page, "_MOST_HELD", 2)
    some: Any = parallel_page._memory(found, inf)
    rest = sum(one[2] for one in held[2:])  # type: ignore[misc]
    assert some["rows"][1:] == [*held[:2], [f"{len(held) - 2} more", "", rest]]
    monkeypatch.setattr(parallel_page, "_MOST_HELD", len(held))
    assert parallel_page._memory(found, inf)["rows"] == table["rows"]


def test_parts_of_a_model(plans: dict[str, ParallelPlan]) -> None:
    found = evaluated(plans["FSDP"], MODEL, COSTS, REQUEST)
    block, head = found.parts
    table: Any = parallel_page._parts(found)
    assert (block.runs, head.runs) == (3, 1)
    assert table["rows"] == [
        ["3 x block", [3 * block.forward_s, 3 * block.backward_s, 3 * block.optimizer_s, 0, 0]],
        ["communication", [0, 0, 0, *(3 * block.moved_s(phase) for phase in Phase)]],
        ["1 x head", [head.forward_s, head.backward_s, head.optimizer_s, 0, 0]],
        ["communication", [0, 0, 0, *map(head.moved_s, Phase)]],
    ]
    assert table["note"] == "all layers of a kind together; of each layer the longer of both counts"
    for overlap, words in (("none", "both count"), ("model", "the longer of both sums counts")):
        other = parallel_request("a100", 48, {"overlap": overlap})
        note = cast(str, parallel_page._parts(evaluated(plans["FSDP"], MODEL, COSTS, other))["note"])
        assert note == f"all layers of a kind together; {words}"


def test_facts_of_a_plan_that_shards(plans: dict[str, ParallelPlan]) -> None:
    plan = plans["TP a x DP b, full recompute"]
    mine = replace(row("treadle", 1.0), plan=plan)
    facts = parallel_page._facts(MODEL, REQUEST, told(mine), ["one", "two"])
    assert [name for name, _ in facts] == [
        "Model",
        "Compute",
        "Overlap",
        "Between layers",
        "Computed again",
        "Note",
        "Note",
    ]
    values = dict(facts[:5])
    elements = 3 * 2 * 24 * 36 + 24
    assert values["Model"] == f"small, {elements / 1e9:.3g} billion parameters, 4 layers, 48 tokens a step"
    assert values["Overlap"] == "communication hides behind computing: layer"
    assert values["Between layers"] == f"activations {plan.boundary.activation}"
    assert values["Computed again"] == f"{plan.n_recomputed} operators"
    staged = replace(
        plans["FSDP"],
        mesh=Mesh((2, 2, 3), ("pp", "a", "b")),
        pipeline=Pipeline("pp", (3, 1), 5),
    )
    piped = dict(parallel_page._facts(MODEL, REQUEST, told(replace(mine, plan=staged)), []))
    assert piped["Model"].endswith("4 layers, 240 tokens a step")
    assert piped["Stages"] == "of 3, 1 layers, 5 micro-batches"
    assert "Computed again" not in piped


def test_tables_of_a_plan(plans: dict[str, ParallelPlan], monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plans["FSDP"]
    stored: Any = parallel_page.parameters(plan, MODEL)
    assert stored["rows"] == [["block", "up", "h:a,b"], ["block", "down", "f:a,b"], ["head", "w", "h:a,b"]]
    assert stored["leftOut"] == ""
    run: Any = parallel_page.operators(plan, MODEL)
    by_name = {(one[0], one[1]): one[2:] for one in run["rows"]}
    own = plan.parts["block"][0].operators
    assert list(by_name)[: len(own)] == [("block", name) for name in own]
    for name in ("u", "du"):
        operator = own[name]
        inputs, outputs = ("; ".join(map(str, some)) for some in (operator.inputs, operator.outputs))
        assert by_name["block", name][:3] == [inputs, outputs, 6]
    assert (by_name["block", "u"][3], by_name["block", "du"][3]) == ("saved", "")
    assert {one[4] for one in by_name.values()} == {""}
    monkeypatch.setattr(parallel_page, "_MOST_PARAMETERS", 2)
    monkeypatch.setattr(parallel_page, "_MOST_OPERATORS", 3)
    some: Any = parallel_page.parameters(plan, MODEL)
    assert (len(some["rows"]), some["leftOut"]) == (2, "2 of 3 parameters are shown.")
    few: Any = parallel_page.operators(plan, MODEL)
    assert (few["rows"], few["leftOut"]) == (
        run["rows"][:3],
        f"3 of {len(run['rows'])} operators are shown.",
    )
    monkeypatch.setattr(parallel_page, "_MOST_PARAMETERS", 3)
    assert parallel_page.parameters(plan, MODEL)["leftOut"] == ""


def test_collectives_that_take_longest_come_first(
    plans: dict[str, ParallelPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = evaluated(plans["FSDP"], MODEL, COSTS, REQUEST)
    table: Any = parallel_page.collectives(found)
    seconds = [one[-1] for one in table["rows"]]
    assert seconds == sorted(seconds, reverse=True)
    assert len({one[3] for one in table["rows"]}) > 1
    gathered = [one for one in table["rows"] if one[1] == "up" and one[2] == "forward"]
    assert [one[:4] for one in gathered] == [["block", "up", "forward", "allgather along a,b"]]
    ((_, _, _, _, _, times, size, took),) = gathered
    assert (times, size) == (3, 1728)
    assert took == pytest.approx(3 * (1e-6 + 1728 / 3e9))
    monkeypatch.setattr(parallel_page, "_MOST_COLLECTIVES", 2)
    some: Any = parallel_page.collectives(found)
    assert some["rows"] == table["rows"][:2]
    assert some["leftOut"] == f"2 of {len(seconds)} collectives are shown."


def test_layers_of_several_kinds_are_numbered(plans: dict[str, ParallelPlan]) -> None:
    one, other = plans["TP"], plans["FSDP"]
    block = (*one.parts["block"], *other.parts["block"])
    mixed = replace(one, parts={**one.parts, "block": block}, layers={"block": (0, 1, 0)})
    rows: Any = parallel_page.parameters(mixed, MODEL)["rows"]
    assert [one[:2] for one in rows] == [
        ["block (1)", "up"],
        ["block (1)", "down"],
        ["block (2)", "up"],
        ["block (2)", "down"],
        ["head", "w"],
    ]


def outcome(seconds: float = 2.0, **fields: Any) -> Any:
    given = {
        "iteration_s": seconds,
        "compute_s": 1.0,
        "contention_s": 1e-13,
        "exposed_s": {Category.ALLREDUCE: 0.25, Category.SEND: 0.5},
        "idle_s": 0.125,
        "mfu": 0.345678,
        "tokens_per_s": 1234.5678,
    }
    return SimpleNamespace(**{**given, **fields})


def step_row(schedule: str, fabric: str = "here", *, is_bound: bool = False, seconds: float = 2.0) -> Any:
    return SimpleNamespace(
        schedule=schedule, fabric=fabric, is_bound=is_bound, exposed_s=0.75, outcome=outcome(seconds)
    )


def test_tiles_of_a_step() -> None:
    own, limit = step_row("treadle"), step_row("bound", is_bound=True, seconds=1.5)
    far = step_row("bound", "there", is_bound=True, seconds=1.0)
    result: Any = SimpleNamespace(rows=(own, far, limit))
    tiles = step_page._tiles(own, result)
    assert tiles == [
        ["2.00 s", "a step by treadle", ""],
        ["37.5%", "of it communication that nothing hides", ""],
        ["34.6%", "MFU: model FLOPs over the peak's", ""],
        ["1.50 s", "no schedule of its communication is quicker", ""],
    ]
    assert len(step_page._tiles(limit, result)) == 3
    assert len(step_page._tiles(own, SimpleNamespace(rows=(own, far)))) == 3  # type: ignore[arg-type]


def test_rows_of_a_step() -> None:
    rows = (step_row("treadle"), step_row("ring"))
    assert step_page._row_names(rows) == ["treadle", "ring"]
    both = (*rows, step_row("ring", "there"))
    assert step_page._row_names(both) == ["treadle on here", "ring on here", "ring on there"]
    table: Any = step_page._rows([("own", rows[0])])
    assert table["rows"] == [["own", 2.0, 0.75, 0.345678, 1235]]
    time: Any = step_page._where_time_goes([("own", rows[0])])
    kinds = [words for words, *_ in time["kinds"]]
    assert kinds[:2] == ["compute", "slower beside communication"]
    assert (kinds[-1], len(kinds)) == ("idle", 3 + len(step_page._EXPOSED))
    ((_, parts),) = time["rows"]
    expected = {"compute": 1.0, "allreduce": 0.25, "send": 0.5, "idle": 0.125}
    assert dict(zip(kinds, parts, strict=True)) == {**dict.fromkeys(kinds, 0.0), **expected}


def test_what_a_rank_of_the_first_stage_communicates() -> None:
    """Device 0 sums 8 bytes twice; the other stage's are not counted, and sends were only asked for."""
    total = (CollectiveKind.ALLREDUCE, ("dp",))
    tasks = tuple(
        Task("sum", device, "moves", seconds, (), Category.ALLREDUCE, total, 8)
        for device, seconds in ((1, 7.0), (0, 2.0), (0, 3.0))
    )
    tasks = (*tasks, Task("work", 0, COMPUTE_STREAM, 1.0, (), Category.FORWARD))
    timeline = Timeline(tasks, (0.0, 0.0, 2.0, 0.0), (7.0, 2.0, 5.0, 1.0))
    priced = [
        SimpleNamespace(kind=total[0], axes=total[1], algbw=4, delay_s=0.5),
        SimpleNamespace(kind=None, axes=("pp",), algbw=3, delay_s=0.25),
    ]
    mine: Any = SimpleNamespace(outcome=SimpleNamespace(timeline=timeline), priced=priced)
    table: Any = step_page._communications([("own", mine)])
    assert table["rows"] == [
        ["own", "allreduce along dp", 2, 16, 5.0, 4.0, 0.5],
        ["own", "send along pp", 0, 0.0, 0.0, 3.0, 0.25],
    ]


def test_memory_of_the_stage_that_needs_most() -> None:
    small, large = MemoryParts(1, 0, 3, 0, 0, 0, 0, 4), MemoryParts(2, 0, 3, 0, 0, 0, 0, 5)
    setup = SimpleNamespace(device=SimpleNamespace(memory_bytes=20))
    mine: Any = SimpleNamespace(outcome=SimpleNamespace(memory=(small, large, small), setup=setup))
    table: Any = step_page._memory(mine)
    assert table["rows"] == [
        ["weights", 2, 0.1],
        ["optimizer", 3, 0.15],
        ["cache", 5, 0.25],
        ["all", 10, 0.5],
    ]


def test_files_that_begin_as_plans_do(tmp_path: Path) -> None:
    file = tmp_path / "plan"
    mark = '{"treadle": "parallel plan"}'
    for text, is_plan in (
        (mark, True),
        (" \n" + mark, True),
        ("x" + mark, False),
        ('{"treadle": "parallel plans"}', False),
        (" " * (4096 - len(mark) + 1) + mark, True),
        (" " * (4096 - len(mark) + 2) + mark, False),
    ):
        file.write_text(text)
        assert is_parallel_plan(file) == is_plan, text[-40:]
    assert not is_parallel_plan(tmp_path)
    assert not is_parallel_plan(tmp_path / "missing")
