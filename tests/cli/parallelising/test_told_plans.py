"""What reports of searches, plans and executions say, line by line, of results by hand."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan
from types import SimpleNamespace
from typing import Any

import pytest

from treadle.cli.output import Output
from treadle.cli.parallelising import execution_report, parallel_report, plan_report
from treadle.refusal import Refusal
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.training_options import Recompute

GB = 2**30


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Any:
    """Lines that a call prints, each with single blanks."""

    def told(function: Any, *arguments: Any) -> list[str]:
        capsys.readouterr()
        function(Output(), *arguments)
        return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    return told


def execution(**changes: Any) -> Any:
    """Two allgathers of unequal size along tp, one more than was predicted along dp."""
    gather, reduce = CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE
    called = {(gather, ("tp",), 1024): 2, (gather, ("tp",), 2048): 1, (reduce, ("dp", "tp"), 8): 3}
    predicted = {(gather, ("tp",), 4096): 1, (reduce, ("dp", "tp"), 8): 3, (reduce, ("dp",), 16): 1}
    values = {
        "execution": SimpleNamespace(
            n_ranks=6,
            backend="gloo",
            n_collectives=6,
            collectives=called,
            peak_bytes=3 * 2**20,
            peak_at="backward of l1",
            largest_error=inf,
            errors={"a": 0.5, "b": nan},
        ),
        "prediction": SimpleNamespace(n_collectives=5, collectives=predicted, peak_bytes=4 * 2**20),
        "model": "m",
        "mesh": (("dp", 2), ("tp", 3)),
        "output_errors": {"x": 1e-7, "y": 3e-6},
        "gradient_errors": {"x": nan, "y": 3e-6},
        "tolerance": 2e-5,
        "memory_error": -0.25,
        "faults": (),
    }
    return SimpleNamespace(**(values | changes))


def test_executions(lines: Any) -> None:
    assert lines(execution_report.print_execution, "p.plan", execution()) == [
        "plan p.plan: m, mesh dp=2,tp=3",
        "executed one step on 6 processes of this machine, over gloo",
        "outputs 2, at most 3.0e-06 off those of one process (y); 2.0e-05 is allowed",
        "gradients 2, at most nan off those of one process (x); 2.0e-05 is allowed",
        "collectives 6 called by each rank, 5 predicted",
        "allgather along tp: 3 of 4KB, predicted 1 of 4KB",
        "allreduce along dp: 0 of 0B, predicted 1 of 16B",
        "allreduce along dp,tp: 3 of 24B, as predicted",
        "memory 3MB at the fullest moment of a rank, backward of l1; predicted 4MB (-25.0%)",
        "result as on one process, by the collectives that were predicted",
    ]
    for count, more in ((8, []), (9, ["(1 fault more: --json)"]), (11, ["(3 faults more: --json)"])):
        wrong = execution(faults=tuple(f"f{number}" for number in range(count)), output_errors={})
        told = lines(execution_report.print_execution, "p", wrong)
        assert told[-8 - len(more) :] == [*(f"WRONG f{number}" for number in range(8)), *more]
        assert not any(line.startswith("outputs") for line in told)


def test_executions_in_json() -> None:
    found = execution_report.execution_values(execution(faults=(Refusal("why", "where"),)))
    assert found["largest_error"] is None
    assert found["errors"] == {"a": 0.5, "b": None}
    assert found["mesh"] == "dp=2,tp=3"
    assert (found["peak_bytes"], found["predicted_peak_bytes"], found["memory_error"]) == (
        *(3 * 2**20, 4 * 2**20, -0.25),
    )
    assert found["faults"] == ["where: why"]
    assert found["collectives"] == [
        {"kind": kind, "axes": axes, "size_bytes": size, "called": called, "predicted": predicted}
        for kind, axes, size, called, predicted in (
            ("allgather", ["tp"], 1024, 2, 0),
            ("allgather", ["tp"], 2048, 1, 0),
            ("allgather", ["tp"], 4096, 0, 1),
            ("allreduce", ["dp"], 16, 0, 1),
            ("allreduce", ["dp", "tp"], 8, 3, 3),
        )
    ]


def step(kind: str, *axes: str) -> Any:
    return SimpleNamespace(kind=kind, axes=axes, size_bytes=7)


def test_the_story_of_a_tensor(lines: Any) -> None:
    legs = (
        SimpleNamespace(when="forward", what="made", state="S(0)", steps=(), local_bytes=512, seconds=9.0),
        SimpleNamespace(
            when="backward",
            what="used",
            state="R",
            steps=(step("allgather", "a", "b"), step("alltoall", "c")),
            local_bytes=1536,
            seconds=0.25,
        ),
    )
    other = SimpleNamespace(what="kept", state="P", more=0.125, seconds=0.5, memory_bytes=3 * GB)
    told = SimpleNamespace(part="block", name="w", kind="weight", letters="ab", whole_bytes=2048, legs=legs)
    story = SimpleNamespace(story=told, alternatives=(other,))
    shown = lines(plan_report.print_story, story)
    assert shown[:3] == ["", "tensor block/w: weight of letters ab, 2KB", ""]
    assert "when what state moved by at a rank time" in shown
    assert "forward made S(0) 512B" in shown
    assert "backward used R allgather along a,b, alltoall along c 1.5KB 250 ms" in shown
    assert "kept P +12.5% 500 ms 3 GB" in shown
    assert shown[-1] == "(the rest of the plan adapts, one choice at a time)"
    story.alternatives = ()
    assert lines(plan_report.print_story, story)[-1] == (
        "backward used R allgather along a,b, alltoall along c 1.5KB 250 ms"
    )
    story.alternatives = (other,)
    assert plan_report.story_values(story) == {
        "part": "block",
        "tensor": "w",
        "letters": "ab",
        "bytes": 2048,
        "states": [
            {
                "when": leg.when,
                "what": leg.what,
                "state": leg.state,
                "local_bytes": leg.local_bytes,
                "time_s": leg.seconds,
                "collectives": [
                    {"kind": one.kind, "axes": [*one.axes], "size_bytes": 7} for one in leg.steps
                ],
            }
            for leg in legs
        ],
        "alternatives": [{"what": "kept", "state": "P", "step_s": 0.5, "memory_bytes": 3 * GB}],
    }


def figures(seconds: float, **changes: Any) -> Any:
    values = {
        "name": "plan",
        "seconds": seconds,
        "compute_s": seconds / 2,
        "exposed_s": seconds / 4,
        "communication_s": seconds / 8,
        "memory_bytes": seconds * GB,
        "by_axes": {},
        "fits": True,
    }
    return SimpleNamespace(**(values | changes))


def test_what_differs_between_two_plans(lines: Any) -> None:
    change = SimpleNamespace(part="block", what="w", ours="R", theirs="S(0)")
    for count, end in (
        (0, "difference none"),
        (40, "block w R S(0)"),
        (41, "(1 differences more: --json)"),
    ):
        found = SimpleNamespace(ours=figures(1.0), theirs=figures(2.0), changes=(change,) * count)
        told = lines(plan_report.print_changes, found)
        assert "this plan 1.00 s 500 ms 250 ms 125 ms 1 GB" in told
        assert "the other 2.00 s 1.00 s 500 ms 250 ms 2 GB" in told
        assert told.count("block w R S(0)") == min(count, 40)
        assert told[-1] == end
    assert plan_report.changes_values(found) == {
        "step_s": 1.0,
        "other_step_s": 2.0,
        "memory_bytes": GB,
        "other_memory_bytes": 2 * GB,
        "changes": [{"part": "block", "what": "w", "this": "R", "other": "S(0)"}] * 41,
    }


def plan(pipeline: Any = None, recomputed: int = 0, chunked: int = 0) -> Any:
    parts = {"a": [SimpleNamespace(n_recomputed=recomputed, n_chunked=0)]}
    parts["b"] = [SimpleNamespace(n_recomputed=0, n_chunked=chunked)]
    return SimpleNamespace(pipeline=pipeline, parts=parts, boundary=SimpleNamespace(activation="S(0)"))


MESH = Mesh((2, 3), ("0", "1"))


def trial(seconds: float, bound: float, *, is_searched: bool = True, mesh: Mesh = MESH) -> Any:
    return SimpleNamespace(mesh=mesh, seconds=seconds, bound_s=bound, is_searched=is_searched)


def search(*named: Any, **changes: Any) -> Any:
    best = changes.pop(
        "best", figures(1.5, name="best", plan=plan(), by_axes={"0,1": 0.5, "1": 0.25, "0": 0.125})
    )
    values = {
        "fabric": "here",
        "mesh": MESH,
        "meshes": (trial(1.5, 1.0),),
        "rows": (best, *named),
        "best": best,
        "named": named,
        "bound_s": 1.25,
        "checked_bound_s": 1.125,
        "gap": 0.125,
        "is_late": False,
        "retimed": Refusal("no layout"),
    }
    return SimpleNamespace(**(values | changes))


def test_a_search(lines: Any) -> None:
    slow = figures(3.0, name="FSDP", by_axes={"0": 2.0})
    tight = figures(2.0, name="TP", fits=False)
    told = lines(parallel_report._print_search, search(slow, tight))
    assert told[:2] == ["fabric here, mesh 2,3", ""]
    assert "plan step compute exposed memory 0 1 0,1" in told
    assert "best 1.50 s 750 ms 375 ms 1.5 GB 125 ms 250 ms 500 ms" in told
    assert "FSDP 3.00 s 1.50 s 750 ms 3 GB 2.00 s 0 0" in told
    assert "TP 2.00 s 1.00 s 500 ms 2 GB (too much) 0 0 0" in told
    assert told[-6:] == [
        "",
        "gain 2.00x as quick as the best named plan that fits, FSDP",
        "proved no plan of this kind takes less than 1.25 s: 12.5% below at most",
        "checked 1.12 s at least, by a pass that shares no code with it",
        "plan activations between layers S(0)",
        "train has no such plan: no layout",
    ]


def test_a_search_over_meshes_and_stages(lines: Any) -> None:
    tiled = Mesh((2, 3), ("0", "1"), (0, 2, 4, 1, 3, 5))
    stages = SimpleNamespace(layers=(3, 2), micro_batches=4)
    best = figures(1.5, name="best", plan=plan(stages, recomputed=1, chunked=2))
    named = tuple(figures(2.0 + number, name=f"n{number}", fits=False) for number in range(9))
    found = search(
        *(*named, figures(2.0, name="alike")),
        best=best,
        meshes=(trial(1.5, 1.0, mesh=tiled), trial(inf, 2.0, is_searched=False)),
        is_late=True,
    )
    told = lines(parallel_report._print_search, found)
    assert told[1:3] == [
        "mesh 2,3, tiles: 1.50 s searched, none below 1.00 s",
        "mesh 2,3: nothing fits by named plans, none below 2.00 s",
    ]
    assert any(line.startswith("n7 ") for line in told)
    assert not any(line.startswith(("n8 ", "alike ")) for line in told)
    assert told[-6:] == [
        "(2 named plans more, or alike: --json)",
        "",
        "gain 1.33x as quick as the best named plan that fits, alike",
        "proved no plan in as many stages takes less than 1.25 s: 12.5% below at most; "
        "the time limit was reached",
        "plan activations between layers S(0), 1 operator recomputed, 2 operators in chunks, "
        "stages of 3,2 layers, 4 micro-batches",
        "train has no such plan: no layout",
    ]
    assert lines(parallel_report._print_search, search(named[0]))[-5] == "gain no named plan fits"


def test_what_train_makes_of_a_plan() -> None:
    def again(recompute: Recompute, *left_out: str) -> Any:
        layout = SimpleNamespace(recompute=recompute, left_out=left_out)
        outcome = SimpleNamespace(iteration_s=Fraction(3, 2))
        return search(retimed=SimpleNamespace(layout=layout, outcome=outcome, mesh="dp=6"))

    others = [one for one in Recompute if one is not Recompute.NONE]
    assert parallel_report._retimed(again(Recompute.NONE)) == "1.50 s as dp=6"
    assert parallel_report._retimed(again(others[0], "a", "b", "c")) == (
        f"1.50 s the nearest layout, dp=6, recompute {others[0]}; left out: a, b, c"
    )
    assert parallel_report._retimed(again(Recompute.NONE, *"abcde")).endswith(
        "; left out: a, b, c, and 2 more (--json)"
    )
    assert parallel_report._retimed_values(again(Recompute.NONE, "a").retimed) == {
        "mesh": "dp=6",
        "iteration_s": 1.5,
        "left_out": ["a"],
    }
    assert parallel_report._retimed_values(Refusal("no layout")) == {
        "mesh": None,
        "iteration_s": None,
        "left_out": ["no layout"],
    }


def result(**changes: Any) -> Any:
    request = SimpleNamespace(
        memory_bytes=80 * GB,
        device=SimpleNamespace(name="a100"),
        times=SimpleNamespace(words="by shapes"),
        overlap=SimpleNamespace(value="layer"),
    )
    model = SimpleNamespace(name="m", parameters=1234567, layers=5)
    matrix = SimpleNamespace(fabrics=("x", "y"), seconds=((1.0, None), (2.0, 3.0)), isolated_s=(4.0, None))
    values = {
        "request": request,
        "model": model,
        "tokens": 48,
        "notes": ("assumed",),
        "searches": (search(meshes=(trial(inf, inf, is_searched=False),)),),
        "matrix": matrix,
        "seconds": 2.5,
    }
    return SimpleNamespace(**(values | changes))


def test_a_whole_report(lines: Any) -> None:
    told = lines(parallel_report.print_parallelize, result())
    assert told[:5] == [
        "model m: 1.23M parameters, 5 layers, 48 tokens a step",
        "memory 80 GB a rank, on a100",
        "compute by shapes",
        "note assumed",
        "",
    ]
    assert [line for line in told if line.startswith(("plan of", "x ", "y ", "isolated "))] == [
        "plan of \\ on x y",
        "x 1.00 s -",
        "y 2.00 s 3.00 s",
        "isolated costs 4.00 s -",
        "isolated the plan found with each axis priced by itself, one group at a time; its true time",
    ]
    assert told[-4:] == [
        "",
        "exposed time in which a rank communicates and does not compute",
        "overlap layer: communication hides behind the computing of its own layer",
        "0, 0,1 ... communication of groups along these axes of the mesh, hidden or not",
    ]
    assert not any(
        "isolated" in line for line in lines(parallel_report.print_parallelize, result(matrix=None))
    )


def test_a_search_in_json() -> None:
    found = parallel_report.parallelize_values(result())
    assert found["matrix"] == {
        "fabrics": ["x", "y"],
        "step_s": [[1.0, None], [2.0, 3.0]],
        "isolated_s": [4.0, None],
    }
    assert (found["memory_limit_bytes"], found["tokens"], found["layers"]) == (80 * GB, 48, 5)
    assert (found["overlap"], found["seconds"]) == ("layer", {"total": 2.5})
    (one,) = found["searches"]  # type: ignore[misc, attr-defined]
    assert (one["bound_s"], one["checked_bound_s"], one["gap"], one["time_limit_reached"]) == (
        *(1.25, 1.125, 0.125, False),
    )
    assert one["meshes"] == [{"mesh": "2,3", "step_s": None, "bound_s": None, "searched": False}]
    assert one["plans"] == [
        {
            "plan": "best",
            "step_s": 1.5,
            "compute_s": 0.75,
            "exposed_s": 0.375,
            "communication_s": 0.1875,
            "communication_by_axes_s": {"0,1": 0.5, "1": 0.25, "0": 0.125},
            "memory_bytes": 1.5 * GB,
            "fits": True,
        }
    ]
    assert "matrix" not in parallel_report.parallelize_values(result(matrix=None))
