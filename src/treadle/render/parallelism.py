"""Views of ``parallelize``, ``capture`` and ``execute``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import inf, isfinite
from typing import TYPE_CHECKING

from treadle.render.quantities import counted
from treadle.render.rows import Column, Row, Rows, Table, facts, fields_of, framed, labelled, row, table_of
from treadle.render.training import format_count, gigabytes
from treadle.training.training_options import Recompute
from treadle.units import format_seconds, format_size
from treadle.unsupported import Unsupported

if TYPE_CHECKING:
    from treadle.api.execute_plan import PlanExecution
    from treadle.parallelism.evaluation.resimulation import Resimulated
    from treadle.parallelism.execution.run_comparison import CollectiveKey
    from treadle.parallelism.explaining.explain_plan import ExplainedTensor
    from treadle.parallelism.explaining.plan_changes import PlanChanges
    from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart
    from treadle.parallelism.searching.parallel_result import FabricSearch, ParallelizeResult, PricedPlan

_MOST_LEFT_OUT, _MOST_PRESETS, _MOST_FAULTS, _MOST_CHANGES = 3, 8, 8, 40
"""Largest number of rows printed; JSON has all."""
_OVERLAP = {
    "none": "none: a rank never computes and communicates concurrently",
    "layer": "layer: communication overlaps with the computation of its own layer",
    "model": "model: communication overlaps with any computation of the step",
}


# ``parallelize``


def parallelize_rows(result: ParallelizeResult) -> Rows:
    """Model, limits, a table of plans for each fabric, and what is proved."""
    model, request = result.model, result.request
    yield row(
        "model",
        f"{model.name}: {format_count(model.parameters)} parameters, {model.layers} layers, "
        f"{result.tokens} tokens per step",
        key=True,
        model=model.name,
        parameters=model.parameters,
        layers=model.layers,
        tokens=result.tokens,
    )
    text = f"{gigabytes(request.memory_bytes)} per rank, on {request.device.name}"
    yield row("memory", text, gpu=request.device.name, memory_limit_bytes=request.memory_bytes)
    yield row("compute", request.times.summary, compute_times=request.times.summary)
    yield from labelled("note", result.notes)
    yield facts(notes=list(result.notes))
    for search in result.searches:
        yield row(None, "")
        yield from _search_rows(search)
    yield row(None, "")
    if (matrix := result.matrix) is not None:
        names, times = (*matrix.fabrics, "isolated costs"), (*matrix.seconds, matrix.isolated_s)
        cells = [
            [name, *("-" if seconds is None else format_seconds(seconds) for seconds in each)]
            for name, each in zip(names, times, strict=True)
        ]
        yield Table(["plan of \\ on", *matrix.fabrics], cells)
        yield row(None, "")
        yield row(
            "isolated",
            "the plan found when each axis is priced alone, one group at a time; its true time",
            matrix={
                "fabrics": list(matrix.fabrics),
                "step_s": [list(each) for each in matrix.seconds],
                "isolated_s": list(matrix.isolated_s),
            },
        )
    yield row("step", "simulated task by task as by `treadle train`: compute + exposed + idle")
    yield row("exposed", "time in which a rank communicates and does not compute")
    yield row("estimate", "per layer, the longer of computation (with waits) and overlapped communication")
    yield row("overlap", _OVERLAP[request.overlap.value], overlap=request.overlap.value)
    yield row("0, 0,1 ...", "communication of groups along these axes of the mesh, overlapped or not")
    yield facts(searches=[_search_values(one) for one in result.searches], seconds={"total": result.seconds})


def _search_rows(search: FabricSearch) -> Rows:
    """The best plan on one fabric next to the presets."""
    best = search.best
    yield row("topology", f"{search.fabric}, mesh {search.mesh.notation}")
    for trial in search.meshes if len(search.meshes) > 1 else ():
        found = format_seconds(trial.seconds) if trial.seconds < inf else "nothing fits"
        how = "searched" if trial.is_searched else "with presets"
        order = ", tiles" if trial.mesh.rank_order is not None else ""
        if trial.micro_batches > 1:
            order += f", {trial.micro_batches} micro-batches"
        if trial.interleave > 1:
            order += f", interleave {trial.interleave}"
        bound = f", lower bound {format_seconds(trial.bound_s)}" if trial.bound_s < inf else ""
        yield row("mesh", f"{trial.mesh.notation}{order}: {found} {how}{bound}")
    has_stages = best.plan.pipeline is not None
    shown = [best, *list(_distinct(search.named))[:_MOST_PRESETS]]
    axes = sorted({axes for one in search.rows for axes in one.by_axes}, key=lambda text: (len(text), text))
    idle: list[Column[PricedPlan]] = [("idle", lambda one: format_seconds(one.idle_s))]
    columns: list[Column[PricedPlan]] = [
        ("plan", lambda one: one.name),
        ("step", lambda one: format_seconds(one.seconds)),
        ("compute", lambda one: format_seconds(one.compute_s)),
        ("exposed", lambda one: format_seconds(one.exposed_s)),
        *(idle if has_stages else []),
        ("memory", lambda one: gigabytes(one.memory_bytes) + " (too much)" * (not one.fits)),
        *((axis, lambda one, axis=axis: format_seconds(one.by_axes.get(axis, 0.0))) for axis in axes),
    ]
    yield row(None, "")
    yield table_of(shown, columns, 1, [*reversed(axes), "compute"])
    if len(shown) <= len(search.named):
        yield row(None, f"({len(search.named) + 1 - len(shown)} more presets, or equal ones: --json)")
    yield row(None, "")
    fitting = min((one for one in search.named if one.fits), key=lambda one: one.seconds, default=None)
    gain = "no preset fits"
    if fitting is not None:
        gain = f"{fitting.seconds / best.seconds:.2f}x as fast as the best preset that fits, {fitting.name}"
    yield row("gain", gain)
    late = "; the time limit was reached" if search.is_late else ""
    scope = "a plan in stages of as many layers" if has_stages else "a plan of this kind"
    yield row(
        "lower bound",
        f"{format_seconds(search.bound_s)} for the estimate of {scope}; that of this plan, "
        f"{format_seconds(best.estimate_s)}, is at most {search.gap:.1%} above it{late}",
    )
    if not has_stages:
        bound = format_seconds(search.checked_bound_s)
        yield row("checked", f"at least {bound}, by a pass that shares no code with the search")
    yield row("plan", _plan_text(best))
    yield row("train", _resimulation_text(search.resimulation))


def _distinct(rows: Iterable[PricedPlan]) -> Iterator[PricedPlan]:
    """The first of each set of equal plans: presets whose axes find nothing of their own to cut."""
    seen = set()
    for one in rows:
        values = (f"{one.seconds:.4e}", f"{one.memory_bytes:.4e}")
        if values not in seen:
            seen.add(values)
            yield one


def _plan_text(one: PricedPlan) -> str:
    plans = [plan for part in one.plan.parts.values() for plan in part]
    words = [f"activations between layers {one.plan.boundary.activation}"]
    if recomputed := sum(plan.n_recomputed for plan in plans):
        words.append(f"{counted(recomputed, 'operator')} recomputed")
    if chunked := sum(plan.n_chunked for plan in plans):
        words.append(f"{counted(chunked, 'operator')} in chunks")
    if (pipeline := one.plan.pipeline) is not None:
        runs = [(size, len(list(some))) for size, some in groupby(pipeline.layers)]
        layers = ",".join(
            f"{count} x {size}" if count > 2 else ",".join([str(size)] * count) for size, count in runs
        )
        pieces = "stages" if pipeline.interleave == 1 else f"{pipeline.stages} stages, pieces"
        words.append(f"{pieces} of {layers} layers, {pipeline.micro_batches} micro-batches")
    return ", ".join(words)


def _resimulation_text(again: Resimulated | Unsupported) -> str:
    if isinstance(again, Unsupported):
        return f"does not support this plan: {again.reason}"
    layout = again.layout
    recompute = "" if layout.recompute is Recompute.NONE else f", recompute {layout.recompute}"
    more = len(layout.left_out) - _MOST_LEFT_OUT
    shown = ", ".join(layout.left_out[:_MOST_LEFT_OUT]) + (f", and {more} more (--json)" if more > 0 else "")
    nearest = "the nearest layout," if layout.left_out else "as"
    left = f"; not covered: {shown}" if layout.left_out else ""
    return f"{format_seconds(float(again.outcome.iteration_s))} {nearest} {again.mesh}{recompute}{left}"


def _search_values(search: FabricSearch) -> dict[str, object]:
    again = search.resimulation
    train: dict[str, object] = {"mesh": None, "iteration_s": None}
    if isinstance(again, Unsupported):
        train["left_out"] = [again.reason]
    else:
        train = {"mesh": again.mesh, "iteration_s": float(again.outcome.iteration_s)}
        train["left_out"] = list(again.layout.left_out)
    return {
        "fabric": search.fabric,
        "mesh": search.mesh.notation,
        **fields_of(search, "bound_s", "checked_bound_s", "gap"),
        "time_limit_reached": search.is_late,
        "plans": [
            {
                "plan": one.name,
                "step_s": one.seconds,
                **fields_of(one, "estimate_s", "compute_s", "exposed_s", "idle_s", "communication_s"),
                "communication_by_axes_s": dict(one.by_axes),
                **fields_of(one, "memory_bytes", "fits"),
            }
            for one in search.rows
        ],
        "meshes": [
            {
                "mesh": trial.mesh.notation,
                "step_s": trial.seconds if trial.seconds < inf else None,
                "bound_s": trial.bound_s if trial.bound_s < inf else None,
                "searched": trial.is_searched,
                **fields_of(trial, "micro_batches", "interleave"),
            }
            for trial in search.meshes
        ],
        "train": train,
    }


def tensor_rows(stories: Sequence[ExplainedTensor]) -> Rows:
    """View of ``--explain TENSOR``: states in the order of the step, then the alternatives."""
    for story in stories:
        told = story.story
        name = f"{told.part}/{told.name}"
        yield row(None, "")
        yield row("tensor", f"{name}: {told.kind} with dims {told.letters}, {format_size(told.whole_bytes)}")
        yield row(None, "")
        cells = [
            [
                leg.when,
                leg.what,
                leg.state,
                ", ".join(f"{step.kind} along {','.join(step.axes)}" for step in leg.steps),
                format_size(leg.local_bytes),
                format_seconds(leg.seconds) if leg.steps else "",
            ]
            for leg in told.legs
        ]
        yield Table(["when", "what", "state", "moved by", "per rank", "time"], cells, 4, ("per rank",))
        if story.alternatives:
            yield row(None, "")
            instead = [
                [
                    one.what,
                    one.state,
                    f"{one.more:+.1%}",
                    format_seconds(one.seconds),
                    gigabytes(one.memory_bytes),
                ]
                for one in story.alternatives
            ]
            yield Table(["instead", "state", "step", "", "memory"], instead, 2)
            yield row(None, "(the rest of the plan adapts, one choice at a time)")
    yield facts(explained=[_tensor_values(one) for one in stories] or None)


def _tensor_values(story: ExplainedTensor) -> dict[str, object]:
    told = story.story
    return {
        "part": told.part,
        "tensor": told.name,
        "letters": told.letters,
        "bytes": told.whole_bytes,
        "states": [
            {
                **fields_of(leg, "when", "what", "state", "local_bytes"),
                "time_s": leg.seconds,
                "collectives": [
                    {"kind": str(step.kind), "axes": list(step.axes), "size_bytes": step.size_bytes}
                    for step in leg.steps
                ],
            }
            for leg in told.legs
        ],
        "alternatives": [
            {"what": one.what, "state": one.state, "step_s": one.seconds, "memory_bytes": one.memory_bytes}
            for one in story.alternatives
        ],
    }


def plan_changes_rows(found: PlanChanges) -> Rows:
    """View of ``--diff PLAN``: both plans' values, then the differences."""
    ours, theirs = found.ours, found.theirs
    cells = [
        [
            name,
            *map(format_seconds, (plan.seconds, plan.compute_s, plan.exposed_s, plan.communication_s)),
            gigabytes(plan.memory_bytes),
        ]
        for name, plan in (("this plan", ours), ("the other", theirs))
    ]
    yield from framed(Table(["", "step", "compute", "exposed", "communication", "memory"], cells))
    if found.changes:
        shown = [[one.part, one.what, one.ours, one.theirs] for one in found.changes[:_MOST_CHANGES]]
        yield Table(["part", "what", "this plan", "the other"], shown, 4)
    else:
        yield row("difference", "none")
    if (more := len(found.changes) - _MOST_CHANGES) > 0:
        yield row(None, f"({more} more differences: --json)")
    yield facts(
        differences={
            "step_s": ours.seconds,
            "other_step_s": theirs.seconds,
            "memory_bytes": ours.memory_bytes,
            "other_memory_bytes": theirs.memory_bytes,
            "changes": [
                {"part": one.part, "what": one.what, "this": one.ours, "other": one.theirs}
                for one in found.changes
            ],
        }
    )


# ``capture``


def capture_rows(model: ModelGraph, *, show: bool) -> Rows:
    """Parts and operators of a captured model."""
    yield row(
        "model",
        f"{model.name}: {format_count(model.parameters)} parameters",
        model=model.name,
        parameters=model.parameters,
    )
    sizes = {atom.name: atom.size for part in model.parts for atom in part.graph.atoms}
    step = f"{model.batch} = {model.tokens} samples" if model.batch else None
    if model.sequence:
        step = f"{model.tokens} tokens: {model.batch} = {sizes[model.batch]} samples of "
        step += f"{model.sequence} = {sizes[model.sequence]}"
    letters = {"batch_letter": model.batch, "sequence_letter": model.sequence}
    yield Row("step", step, {"tokens": model.tokens, **letters})
    ties = [(" ".join(tie.first), " ".join(tie.second)) for tie in model.ties]
    yield from (row("shared", f"{first} is {second}") for first, second in ties)
    yield row(None, "")
    kinds = [_operators(part) for part in model.parts]
    cells = [
        [
            part.name,
            str(part.repeats),
            format_count(part.parameter_elements),
            str(sum(of.values())),
            ", ".join(counted(count, kind.lower()) for kind, count in of.most_common()),
        ]
        for part, of in zip(model.parts, kinds, strict=True)
    ]
    yield Table(["part", "times", "parameters", "operators", "kinds"], cells, 1, ["kinds"])
    if show:
        for part in model.parts:
            yield row(None, f"\n{part.name}, {counted(part.repeats, 'time')}\n{part.graph}")
    yield facts(
        parts=[
            {
                **fields_of(part, "name", "repeats"),
                "parameters": part.parameter_elements,
                "operators": dict(of),
            }
            for part, of in zip(model.parts, kinds, strict=True)
        ],
        layers=model.layers,
        shared_parameters=[{"first": first, "second": second} for first, second in ties],
        digest=model.digest,
    )


def _operators(part: ModelPart) -> Counter[str]:
    """Operators of a part by kind."""
    kinds = (node.kind.value for node in part.graph.nodes)
    return Counter(kind for kind in kinds if kind not in ("PLACEHOLDER", "OUTPUT"))


# ``execute``


def execution_rows(plan: str, found: PlanExecution) -> Iterator[Row]:
    """Ranks, values, collectives and memory, each next to what was expected."""
    execution, prediction = found.execution, found.prediction
    mesh = ",".join(f"{name}={size}" for name, size in found.mesh)
    yield row("plan", f"{plan}: {found.model}, mesh {mesh}", model=found.model, mesh=mesh)
    yield row(
        "executed",
        f"one step on {execution.n_ranks} processes of this machine, over {execution.backend}",
        ranks=execution.n_ranks,
        backend=execution.backend,
    )
    for name, errors in (("outputs", found.output_errors), ("gradients", found.gradient_errors)):
        if errors:
            worst = max(errors, key=lambda one: (errors[one] != errors[one], errors[one]))
            yield row(
                name,
                f"{len(errors)}, at most {errors[worst]:.1e} off those of one process ({worst}); "
                f"{found.tolerance:.1e} is allowed",
            )
    texts = [f"{execution.n_collectives} called by each rank, {prediction.n_collectives} predicted"]
    predicted, called = _by_axes(prediction.collectives), _by_axes(execution.collectives)
    for kind, axes in sorted({**predicted, **called}):
        (n, size), (n_expected, expected) = (one.get((kind, axes), (0, 0)) for one in (called, predicted))
        same = "as predicted"
        if (n, size) != (n_expected, expected):
            same = f"predicted {n_expected} of {format_size(expected)}"
        texts.append(f"{kind} along {axes}: {n} of {format_size(size)}, {same}")
    yield row("collectives", "\n".join(texts))
    yield row(
        "memory",
        f"{format_size(execution.peak_bytes)} at the peak of a rank, {execution.peak_at}; predicted "
        f"{format_size(prediction.peak_bytes)} ({found.memory_error:+.1%})",
    )
    faults = [str(fault) for fault in found.faults]
    yield from (row("WRONG", fault) for fault in faults[:_MOST_FAULTS])
    if (more := len(faults) - _MOST_FAULTS) > 0:
        yield row("", f"({counted(more, 'more fault')}: --json)")
    yield row("result", None if faults else "as on one process, with the predicted collectives")
    keys = sorted({**prediction.collectives, **execution.collectives})
    yield Row(
        None,
        None,
        {
            "largest_error": _number(execution.largest_error),
            "tolerance": found.tolerance,
            "errors": {name: _number(error) for name, error in execution.errors.items()},
            "collectives": [
                {
                    "kind": kind.value,
                    "axes": list(axes),
                    "size_bytes": size,
                    "called": execution.collectives.get((kind, axes, size), 0),
                    "predicted": prediction.collectives.get((kind, axes, size), 0),
                }
                for kind, axes, size in keys
            ],
            **fields_of(execution, "peak_bytes", "peak_at"),
            "predicted_peak_bytes": prediction.peak_bytes,
            "memory_error": found.memory_error,
            "faults": faults,
        },
    )


def _by_axes(collectives: Mapping[CollectiveKey, int]) -> dict[tuple[str, str], tuple[int, int]]:
    """Calls and bytes by kind and axes."""
    calls, sizes = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for (kind, axes, size), count in collectives.items():
        calls[kind.value, ",".join(axes)] += count
        sizes[kind.value, ",".join(axes)] += count * size
    return {key: (calls[key], sizes[key]) for key in calls}


def _number(value: float) -> float | None:
    """A number that JSON can hold."""
    return value if isfinite(value) else None
