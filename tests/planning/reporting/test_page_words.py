"""Words and rows of pages about steps and plans that shard models, of results by hand."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import Any, cast

from treadle.drawing.pages import parallel_page, step_page
from treadle.drawing.pages.parallel_page import ReportedPlan
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.searching.parallel_result import FabricMatrix, MeshTrial, PricedPlan
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.device_memory import MemoryParts
from treadle.training.timeline.task import COMPUTE_STREAM, Category, Task
from treadle.training.timeline.timeline import Timeline
from treadle.unsupported import Unsupported

MESH = Mesh((2, 3), ("a", "b"))


def row(
    name: str, seconds: float, *, exposed: float = 0.25, memory: float = 2**30, fits: bool = True
) -> PricedPlan:
    plan = cast(ParallelPlan, SimpleNamespace(mesh=MESH))
    return PricedPlan(name, plan, seconds, seconds, seconds - exposed, exposed, 0.0, 0.5, {}, memory, fits)


def told(
    *rows: PricedPlan, bound_s: float = 0.0, fabric: str = "here", evaluation: Any = None, **fields: Any
) -> ReportedPlan:
    return ReportedPlan(fabric, rows, evaluation, Unsupported("none", "why"), bound_s, **fields)


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
