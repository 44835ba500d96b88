"""How a search for the best plan is told, to people and in JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from treadle.cli.output import Output
from treadle.cli.quantities import counted
from treadle.cli.training.step_report import count_text, gigabytes
from treadle.parallelism.evaluation.retiming import Retimed
from treadle.planning import FabricSearch, ParallelizeResult, PricedPlan
from treadle.refusal import Refusal
from treadle.training.training_options import Recompute
from treadle.units import format_seconds

_MOST_LEFT_OUT = 3
"""Of what a layout of `train` does not say."""
_MOST_NAMED = 8
"""Rows of named plans that people see; JSON has all."""


def print_parallelize(output: Output, result: ParallelizeResult) -> None:
    """Model, limits, what was assumed; a table of plans for each fabric, and what is proved."""
    model, request = result.model, result.request
    output.line(
        f"model       {model.name}: {count_text(model.parameters)} parameters, {model.layers} layers, "
        f"{result.tokens} tokens a step"
    )
    output.line(f"memory      {gigabytes(request.memory_bytes)} a rank, on {request.device.name}")
    output.line(f"compute     {request.times.words}")
    for note in result.notes:
        output.line(f"note        {note}")
    for search in result.searches:
        output.line()
        _print_search(output, search)
    if result.matrix is not None:
        output.line()
        _print_matrix(output, result)
    output.line()
    output.line("exposed     time in which a rank communicates and does not compute")
    output.line(f"overlap     {_OVERLAP[request.overlap.value]}")
    output.line("0, 0,1 ...  communication of groups along these axes of the mesh, hidden or not")


_OVERLAP = {
    "none": "none: computing and communicating never run at once",
    "layer": "layer: communication hides behind the computing of its own layer",
    "model": "model: communication hides behind any computing of the step, however far away",
}


def _print_search(output: Output, search: FabricSearch) -> None:
    output.line(f"fabric      {search.fabric}, mesh {search.mesh.text}")
    for trial in search.meshes if len(search.meshes) > 1 else ():
        found = f"{format_seconds(trial.seconds)}" if trial.seconds < float("inf") else "nothing fits"
        how = "searched" if trial.is_searched else "by named plans"
        order = ", tiles" if trial.mesh.rank_order is not None else ""
        output.line(
            f"mesh        {trial.mesh.text}{order}: {found} {how}, none below {format_seconds(trial.bound_s)}"
        )
    output.line()
    axes = sorted({axes for row in search.rows for axes in row.by_axes}, key=lambda text: (len(text), text))
    named = list(_distinct(search.named))
    shown = [search.best, *named[:_MOST_NAMED]]
    headings = ["plan", "step", "compute", "exposed", "memory", *axes]
    rows = [
        (
            row.name,
            format_seconds(row.seconds),
            format_seconds(row.compute_s),
            format_seconds(row.exposed_s),
            gigabytes(row.memory_bytes) + ("" if row.fits else " (too much)"),
            *(format_seconds(row.by_axes.get(one, 0.0)) for one in axes),
        )
        for row in shown
    ]
    output.table(headings, rows, least=[*reversed(axes), "compute"])
    if len(shown) <= len(search.named):
        output.line(f"({len(search.named) + 1 - len(shown)} named plans more, or alike: --json)")
    output.line()
    output.line(f"gain        {_gain(search)}")
    late = "; the time limit was reached" if search.is_late else ""
    bound = f"plan of this kind takes less than {format_seconds(search.bound_s)}"
    if search.best.plan.pipeline is not None:
        bound = f"plan in as many stages takes less than {format_seconds(search.bound_s)}"
    output.line(f"proved      no {bound}: {search.gap:.1%} below at most{late}")
    if search.best.plan.pipeline is None:
        output.line(
            f"checked     {format_seconds(search.checked_bound_s)} at least, "
            f"by a pass that shares no code with it"
        )
    output.line(f"plan        {_plan_words(search.best)}")
    output.line(f"train       {_retimed(search)}")


def _distinct(rows: Iterable[PricedPlan]) -> Iterator[PricedPlan]:
    """Names whose axes find nothing of their own to cut come to the same plan: the first of each."""
    seen = set()
    for row in rows:
        figures = (f"{row.seconds:.4e}", f"{row.memory_bytes:.4e}")
        if figures not in seen:
            seen.add(figures)
            yield row


def _gain(search: FabricSearch) -> str:
    fitting = [row for row in search.named if row.fits]
    if not fitting:
        return "no named plan fits"
    best = min(fitting, key=lambda row: row.seconds)
    return f"{best.seconds / search.best.seconds:.2f}x as quick as the best named plan that fits, {best.name}"


def _plan_words(row: PricedPlan) -> str:
    plans = [one for part in row.plan.parts.values() for one in part]
    recomputed = sum(one.n_recomputed for one in plans)
    chunked = sum(one.n_chunked for one in plans)
    words = [f"activations between layers {row.plan.boundary.activation}"]
    if recomputed:
        words.append(f"{counted(recomputed, 'operator')} recomputed")
    if chunked:
        words.append(f"{counted(chunked, 'operator')} in chunks")
    if (pipeline := row.plan.pipeline) is not None:
        layers = ",".join(map(str, pipeline.layers))
        words.append(f"stages of {layers} layers, {pipeline.micro_batches} micro-batches")
    return ", ".join(words)


def _retimed(search: FabricSearch) -> str:
    again = search.retimed
    if isinstance(again, Refusal):
        return f"has no such plan: {again.reason}"
    layout = again.layout
    recompute = "" if layout.recompute is Recompute.NONE else f", recompute {layout.recompute}"
    left = f"; left out: {_first(layout.left_out)}" if layout.left_out else ""
    nearest = "as" if not layout.left_out else "the nearest layout,"
    return f"{format_seconds(float(again.outcome.iteration_s))} {nearest} {again.mesh}{recompute}{left}"


def _first(words: Sequence[str]) -> str:
    """The first few, and how many there are more."""
    more = len(words) - _MOST_LEFT_OUT
    shown = ", ".join(words[:_MOST_LEFT_OUT])
    return f"{shown}, and {more} more (--json)" if more > 0 else shown


def _print_matrix(output: Output, result: ParallelizeResult) -> None:
    matrix = result.matrix
    assert matrix is not None
    rows = [
        (name, *("-" if seconds is None else format_seconds(seconds) for seconds in row))
        for name, row in zip(
            (*matrix.fabrics, "isolated costs"), (*matrix.seconds, matrix.isolated_s), strict=True
        )
    ]
    output.table(["plan of \\ on", *matrix.fabrics], rows)
    output.line()
    output.line(
        "isolated    the plan found with each axis priced by itself, one group at a time; its true time"
    )


def parallelize_values(result: ParallelizeResult) -> dict[str, object]:
    """What JSON says."""
    request = result.request
    found: dict[str, object] = {
        "model": result.model.name,
        "parameters": result.model.parameters,
        "layers": result.model.layers,
        "tokens": result.tokens,
        "gpu": request.device.name,
        "memory_limit_bytes": request.memory_bytes,
        "compute_times": request.times.words,
        "overlap": request.overlap.value,
        "notes": list(result.notes),
        "searches": [_search_values(search) for search in result.searches],
        "seconds": {"total": result.seconds},
    }
    if result.matrix is not None:
        matrix = result.matrix
        found["matrix"] = {
            "fabrics": list(matrix.fabrics),
            "step_s": [list(row) for row in matrix.seconds],
            "isolated_s": list(matrix.isolated_s),
        }
    return found


def _search_values(search: FabricSearch) -> dict[str, object]:
    return {
        "fabric": search.fabric,
        "mesh": search.mesh.text,
        "bound_s": search.bound_s,
        "checked_bound_s": search.checked_bound_s,
        "gap": search.gap,
        "time_limit_reached": search.is_late,
        "plans": [_row_values(row) for row in search.rows],
        "meshes": list(_mesh_values(search)),
        "train": _retimed_values(search.retimed),
    }


def _retimed_values(again: Retimed | Refusal) -> dict[str, object]:
    if isinstance(again, Refusal):
        return {"mesh": None, "iteration_s": None, "left_out": [again.reason]}
    return {
        "mesh": again.mesh,
        "iteration_s": float(again.outcome.iteration_s),
        "left_out": list(again.layout.left_out),
    }


def _mesh_values(search: FabricSearch) -> Iterator[dict[str, object]]:
    for trial in search.meshes:
        yield {
            "mesh": trial.mesh.text,
            "step_s": trial.seconds if trial.seconds < float("inf") else None,
            "bound_s": trial.bound_s if trial.bound_s < float("inf") else None,
            "searched": trial.is_searched,
        }


def _row_values(row: PricedPlan) -> dict[str, object]:
    return {
        "plan": row.name,
        "step_s": row.seconds,
        "compute_s": row.compute_s,
        "exposed_s": row.exposed_s,
        "communication_s": row.communication_s,
        "communication_by_axes_s": dict(row.by_axes),
        "memory_bytes": row.memory_bytes,
        "fits": row.fits,
    }
