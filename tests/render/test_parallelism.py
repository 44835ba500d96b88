"""What parallelize, capture and execute report, of results by hand."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan
from types import SimpleNamespace
from typing import Any

from harness.snapshots import check
from treadle.render.parallelism import execution_rows, parallelize_rows, plan_changes_rows, tensor_rows
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.training_options import Recompute
from treadle.unsupported import Unsupported

GB = 2**30


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


def step(kind: str, *axes: str) -> Any:
    return SimpleNamespace(kind=kind, axes=axes, size_bytes=7)


def figures(seconds: float, **changes: Any) -> Any:
    values = {
        "name": "plan",
        "seconds": seconds,
        "estimate_s": seconds * 3 / 4,
        "compute_s": seconds / 2,
        "exposed_s": seconds / 4,
        "idle_s": seconds / 4,
        "communication_s": seconds / 8,
        "memory_bytes": seconds * GB,
        "by_axes": {},
        "fits": True,
    }
    return SimpleNamespace(**(values | changes))


def plan(pipeline: Any = None, recomputed: int = 0, chunked: int = 0) -> Any:
    parts = {"a": [SimpleNamespace(n_recomputed=recomputed, n_chunked=0)]}
    parts["b"] = [SimpleNamespace(n_recomputed=0, n_chunked=chunked)]
    return SimpleNamespace(pipeline=pipeline, parts=parts, boundary=SimpleNamespace(activation="S(0)"))


MESH = Mesh((2, 3), ("0", "1"))


def trial(seconds: float, bound: float, *, is_searched: bool = True, mesh: Mesh = MESH) -> Any:
    more = {"micro_batches": 1, "interleave": 1}
    return SimpleNamespace(mesh=mesh, seconds=seconds, bound_s=bound, is_searched=is_searched, **more)


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
        "resimulation": Unsupported("no layout"),
    }
    return SimpleNamespace(**(values | changes))


def result(**changes: Any) -> Any:
    request = SimpleNamespace(
        memory_bytes=80 * GB,
        device=SimpleNamespace(name="a100"),
        times=SimpleNamespace(summary="by shapes"),
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


def test_executions() -> None:
    faults = tuple(Unsupported("why", f"f{number}") for number in range(11))
    views = [execution_rows("p", execution(faults=faults[:count], output_errors={})) for count in (8, 9, 11)]
    check("executions", execution_rows("p.plan", execution()), *views)


def test_tensors() -> None:
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
    story: Any = SimpleNamespace(story=told, alternatives=(other,))
    bare: Any = SimpleNamespace(story=told, alternatives=())
    check("tensors", tensor_rows([story, bare]), tensor_rows([]))


def test_differences() -> None:
    change = SimpleNamespace(part="block", what="w", ours="R", theirs="S(0)")
    found: list[Any] = [
        SimpleNamespace(ours=figures(1.0), theirs=figures(2.0), changes=(change,) * count)
        for count in (0, 40, 41)
    ]
    check("differences", *map(plan_changes_rows, found))


def test_searches() -> None:
    """Presets that do not fit or are equal, meshes, pipelines, and layouts that train has or lacks."""
    slow = figures(3.0, name="FSDP", by_axes={"0": 2.0})
    tight = figures(2.0, name="TP", fits=False)
    stages = SimpleNamespace(layers=(3, 2), micro_batches=4, interleave=1, stages=2)
    staged = search(
        *(figures(2.0 + number, name=f"n{number}", fits=False) for number in range(9)),
        figures(2.0, name="alike"),
        best=figures(1.5, name="best", plan=plan(stages, recomputed=1, chunked=2)),
        meshes=(
            trial(1.5, 1.0, mesh=Mesh((2, 3), ("0", "1"), (0, 2, 4, 1, 3, 5))),
            trial(inf, 2.0, is_searched=False),
        ),
        is_late=True,
    )
    layouts = [(Recompute.NONE, ""), (list(Recompute)[-1], "abc"), (Recompute.NONE, "abcde")]
    retimed = [
        search(
            tight,
            resimulation=SimpleNamespace(
                layout=SimpleNamespace(recompute=recompute, left_out=tuple(left_out)),
                outcome=SimpleNamespace(iteration_s=Fraction(3, 2)),
                mesh="dp=6",
            ),
        )
        for recompute, left_out in layouts
    ]
    views = [result(searches=(one,), matrix=None) for one in (search(slow, tight), staged, *retimed)]
    check("searches", parallelize_rows(result()), *map(parallelize_rows, views))
