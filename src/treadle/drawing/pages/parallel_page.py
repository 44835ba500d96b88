"""A plan that shards a model as a page: its step over time, what computes and moves, memory, states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from treadle.drawing.page import PageKind, page, table, text_columns
from treadle.drawing.pages.task_tracks import task_tracks
from treadle.parallelism.evaluation.evaluation import Evaluation, evaluate
from treadle.parallelism.evaluation.resimulation import Resimulated
from treadle.parallelism.explaining.state_format import dims_of, spelled_state
from treadle.parallelism.graph.compute_graph import Phase
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart
from treadle.parallelism.plan.parallel_plan import ParallelPlan, Pipeline
from treadle.parallelism.searching.parallel_options import ParallelRequest
from treadle.parallelism.searching.parallel_result import (
    FabricMatrix,
    MeshTrial,
    ParallelizeResult,
    PricedPlan,
)
from treadle.spelling import counted
from treadle.training.costs import Costs
from treadle.units import format_seconds, format_size
from treadle.unsupported import Unsupported

_COMPUTE, _EXPOSED = ["compute", "compute", "forward"], ["exposed", "exposed", "allgather"]
_IDLE = ["idle", "idle", "idle"]
_PART_KINDS = [
    ["forward", "F", "forward"],
    ["backward, with what is computed again", "B", "backward"],
    ["optimizer", "O", "optimizer"],
    ["communication of the forward pass", "F", "allgather"],
    ["communication of the backward pass", "B", "reduce-scatter"],
]
_MOST_HELD = 40
_NEAR = 0.02
"""A gap that is good news."""


@dataclass(frozen=True)
class ReportedPlan:
    """A plan on a fabric with what is known of it.

    Parameters
    ----------
    fabric : str
    rows : tuple of PricedPlan
        The plan, then others to compare with.
    evaluation : Evaluation
        Of the plan.
    resimulation : Resimulated or Unsupported
    bound_s : float
        No plan of the kind that was searched takes less; 0: nothing is proved.
    is_claimed : bool
        The bound is what the plan's file says; nothing here checked it.
    trials : tuple of MeshTrial
    """

    fabric: str
    rows: tuple[PricedPlan, ...]
    evaluation: Evaluation
    resimulation: Resimulated | Unsupported
    bound_s: float
    is_claimed: bool = False
    trials: tuple[MeshTrial, ...] = ()


def parallel_page(result: ParallelizeResult) -> str:
    """Write the report of `treadle parallelize --report`: one self-contained HTML file.

    Parameters
    ----------
    result : ParallelizeResult
        The first fabric's plan is reported in full, others by their times.
    """
    told = []
    for search in result.searches:
        costs = search.costs_on(search.best.plan.mesh)
        told.append(
            ReportedPlan(
                search.fabric,
                search.rows,
                evaluated(search.best.plan, search.found.posed.problem.model, costs, result.request),
                search.resimulation,
                search.bound_s,
                trials=search.meshes,
            )
        )
    return parallel_report(result.model, result.request, told, notes=result.notes, matrix=result.matrix)


def evaluated(plan: ParallelPlan, model: ModelGraph, costs: Costs, request: ParallelRequest) -> Evaluation:
    """Evaluate a plan under a request."""
    return evaluate(plan, model, costs, request.numbers, overlap=request.overlap.value)


def parallel_report(
    model: ModelGraph,
    request: ParallelRequest,
    told: Sequence[ReportedPlan],
    *,
    notes: Sequence[str] = (),
    matrix: FabricMatrix | None = None,
) -> str:
    """Return the report of a model's plans, the first in full."""
    first, plan = told[0], told[0].rows[0].plan
    left: list[object] = []
    lanes = {}
    if timed := [(one, one.resimulation) for one in told if isinstance(one.resimulation, Resimulated)]:
        left.append({"panel": "lanes"})
        lanes["lanes"] = {
            **task_tracks((f"{again.mesh} on {one.fabric}", again.outcome.timeline) for one, again in timed),
            "note": _lanes_words(timed[0][1]),
        }
    left += [
        _rows_bars(told),
        _parts(first.evaluation, plan.pipeline),
        collectives(first.evaluation),
        operators(plan, model),
    ]
    right: list[object] = [
        {"panel": "facts", "title": "The plan", "rows": _facts(model, request, first, notes)},
        _rows_table(told),
        _memory(first.evaluation, request.memory_bytes),
        parameters(plan, model),
    ]
    if len(first.trials) > 1:
        right.append(_meshes(first.trials))
    if matrix is not None:
        right.append(_matrix(matrix))
    return page(
        {
            "title": f"{model.name} on {first.fabric}, mesh {plan.mesh.notation}",
            "lede": f"How every tensor is sharded on {plan.mesh.n_ranks} {request.device.name}; figures are "
            "of a model of the machine, nothing is measured here",
            "tiles": _tiles(first, request),
            **lanes,
            "left": left,
            "right": right,
        },
        PageKind.STEP,
    )


def _tiles(told: ReportedPlan, request: ParallelRequest) -> list[list[str]]:
    best, *others = told.rows
    tiles = [[format_seconds(best.seconds), "a step, simulated", ""]]
    if told.bound_s:
        gap = max(0.0, 1 - told.bound_s / best.estimate_s)  # a bound of estimates, not of simulations
        words = "its file claims" if told.is_claimed else "proved"
        is_near = gap <= _NEAR and not told.is_claimed
        tiles.append([f"{gap:.1%}", f"may be saved at most: {words}", "good" if is_near else ""])
    if fitting := [row for row in others if row.fits]:
        near = min(fitting, key=lambda row: row.seconds)
        tiles.append([f"{near.seconds / best.seconds:.2f}x", f"as quick as {near.name}", ""])
    tiles.append(
        [format_size(round(best.memory_bytes)), f"of {format_size(round(request.memory_bytes))} a rank", ""]
    )
    return tiles


def _lanes_words(again: Resimulated) -> str:
    words = (
        f"Simulated as {again.mesh}, the layout of whole axes that the plan comes nearest to: "
        f"{format_seconds(float(again.outcome.iteration_s))}."
    )
    if again.layout.left_out:
        words += f" What that leaves out: {'; '.join(again.layout.left_out)}."
    return words


def _row_names(told: Sequence[ReportedPlan]) -> list[tuple[str, PricedPlan]]:
    """Return the plans that fit, the first of each fabric first, without duplicates."""
    found, seen = [], set()
    for one in told:
        for row in one.rows:
            key = one.fabric, f"{row.seconds:.4e}", f"{row.memory_bytes:.4e}"
            if key not in seen:
                seen.add(key)
                found.append((f"{row.name} on {one.fabric}" if len(told) > 1 else row.name, row))
    return found


def _rows_bars(told: Sequence[ReportedPlan]) -> dict[str, object]:
    rows = [(name, row) for name, row in _row_names(told) if row.fits]
    bound = told[0].bound_s if len(told) == 1 else 0
    return {
        "panel": "bars",
        "id": "plans",
        "title": "Plans side by side",
        "note": "those that fit; a step, simulated",
        "form": "s",
        "kinds": [_COMPUTE, _EXPOSED, _IDLE],
        "rows": [[name, [row.compute_s, _exposed(row), row.idle_s]] for name, row in rows],
        "limit": bound or None,
        "limitWords": f"no plan has an estimate below {format_seconds(bound)}"
        + (", its file claims" if told[0].is_claimed else ""),
    }


def _exposed(row: PricedPlan) -> float:
    """Return the exposed seconds; rounding errors of floats count as 0."""
    return row.exposed_s if row.exposed_s > 1e-12 * row.seconds else 0.0


def _rows_table(told: Sequence[ReportedPlan]) -> dict[str, object]:
    rows = [
        [
            name if row.fits else f"{name} (does not fit)",
            *(row.seconds, _exposed(row), row.communication_s, row.memory_bytes),
        ]
        for name, row in _row_names(told)
    ]
    seconds = [(name, "s") for name in ("step", "exposed", "communication")]
    left_out = "Exposed: a rank communicates and does not compute. Communication: hidden or not."
    return table(
        "figures", "Figures", [*text_columns("plan"), *seconds, ("memory", "B")], rows, left_out=left_out
    )


def _parts(found: Evaluation, pipeline: Pipeline | None = None) -> dict[str, object]:
    rows = []
    for one in found.parts:
        name = one.part if one.plan == 0 else f"{one.part} ({one.plan + 1})"
        runs = one.runs
        rows.append(
            [f"{runs} x {name}", [runs * one.forward_s, runs * one.backward_s, runs * one.optimizer_s, 0, 0]]
        )
        if one.communication_s:
            rows.append(["communication", [0, 0, 0, *(runs * one.moved_s(phase) for phase in Phase)]])
    hides = {
        "layer": "of each layer the longer of both counts",
        "none": "both count",
        "model": "the longer of both sums counts",
    }[found.overlap]
    times = "" if pipeline is None else f", of one of {pipeline.micro_batches} micro-batches"
    return {
        "panel": "bars",
        "id": "parts",
        "title": "Parts of the model",
        "note": f"all layers of a kind together{times}; {hides}",
        "form": "s",
        "kinds": _PART_KINDS,
        "rows": rows,
    }


def _memory(found: Evaluation, limit: float) -> dict[str, object]:
    peak = found.peak
    most = peak.contents[:_MOST_HELD]
    rest = peak.contents[_MOST_HELD:]
    rows: list[list[object]] = [[one.why, one.tensor, one.n_bytes] for one in most]
    if rest:
        rows.append([f"{len(rest)} more", "", sum(one.n_bytes for one in rest)])
    return table(
        "memory",
        "Memory at the fullest moment",
        [*text_columns("why", "tensor"), ("bytes", "B")],
        [["all", "", peak.n_bytes], *rows],
        note=f"{peak.phase.value} of {peak.part}, {peak.node}",
        left_out=f"{format_size(round(limit))} may be used." if isfinite(limit) else "",
    )


def _meshes(trials: Sequence[MeshTrial]) -> dict[str, object]:
    rows = [
        [
            one.mesh.notation + ("" if one.is_searched else " (not searched)"),
            one.seconds if isfinite(one.seconds) else None,
            one.bound_s if isfinite(one.bound_s) else None,
        ]
        for one in trials
    ]
    columns = [*text_columns("mesh"), ("best known", "s"), ("no plan takes less", "s")]
    left_out = "Not searched: its bound cannot beat the best plan known."
    return table("meshes", "Meshes that were looked at", columns, rows, left_out=left_out)


def _matrix(matrix: FabricMatrix) -> dict[str, object]:
    rows = [[name, *row] for name, row in zip(matrix.fabrics, matrix.seconds, strict=True)]
    columns = [*text_columns("plan of"), *((f"on {name}", "s") for name in matrix.fabrics)]
    rows.append(["axes priced one by one", *matrix.isolated_s])
    return table("matrix", "Each plan on each fabric", columns, rows)


def _facts(
    model: ModelGraph, request: ParallelRequest, told: ReportedPlan, notes: Sequence[str]
) -> list[list[str]]:
    plan = told.rows[0].plan
    words = f"{model.parameters / 1e9:.3g} billion parameters, {model.layers} layers"
    tokens = model.tokens * (1 if plan.pipeline is None else plan.pipeline.micro_batches)
    rows = [
        ["Model", f"{model.name}, {words}, {tokens:,} tokens a step"],
        ["Compute", request.times.summary],
        ["Overlap", f"communication hides behind computing: {request.overlap.value}"],
        ["Between layers", f"activations {plan.boundary.activation}"],
    ]
    if plan.n_recomputed:
        rows.append(["Computed again", f"{plan.n_recomputed} operators"])
    if plan.n_chunked:
        rows.append(["In chunks", f"{plan.n_chunked} operators"])
    if plan.pipeline is not None:
        layers = ", ".join(map(str, plan.pipeline.layers))
        rows.append(["Stages", f"of {layers} layers, {plan.pipeline.micro_batches} micro-batches"])
    if plan.layers:
        rows.append(["Mixed layers", ", ".join(plan.layers)])
    return rows + [["Note", note] for note in notes]


# What a plan says of collectives, parameters and operators, as tables of a page

_MOST_COLLECTIVES, _MOST_PARAMETERS, _MOST_OPERATORS = 200, 400, 600


def collectives(found: Evaluation) -> dict[str, object]:
    """Return the table of collectives of one micro-batch, the slowest first."""
    by_time = sorted(found.movements, key=lambda one: -one[0] * one[1].seconds)
    shown = by_time[:_MOST_COLLECTIVES]
    rows = [
        [
            *(one.part, one.tensor, one.phase.value),
            f"{one.collective.kind.value} along {','.join(one.collective.axes)}",
            *(one.why, runs * one.count, one.collective.size_bytes, runs * one.seconds),
        ]
        for runs, one in shown
    ]
    return table(
        "collectives",
        "Collectives",
        [
            *text_columns("part", "tensor", "pass", "what", "for"),
            *(("times", "n"), ("bytes each", "B"), ("time", "s")),
        ],
        rows,
        note="hidden or not, those that take longest first",
        left_out=_left_out(len(shown), len(by_time), "collective"),
    )


def parameters(plan: ParallelPlan, model: ModelGraph) -> dict[str, object]:
    """Return the table of parameters and the states in which they are stored."""
    rows = []
    for part in model.parts:
        for number, one in enumerate(plan.parts[part.name]):
            for path, state in one.parameters.items():
                letters = dims_of(part, part.parameters[path])
                rows.append([_named(part, plan, number), path, spelled_state(letters, state)])
    return table(
        "parameters",
        "Parameters",
        text_columns("part", "parameter", "stored"),
        rows[:_MOST_PARAMETERS],
        note="by letter the axes that cut it",
        left_out=_left_out(_MOST_PARAMETERS, len(rows), "parameter"),
    )


def operators(plan: ParallelPlan, model: ModelGraph) -> dict[str, object]:
    """Return the table of operators: inputs, results, and how often each runs."""
    rows = []
    for part in model.parts:
        for number, one in enumerate(plan.parts[part.name]):
            for name, operator in one.operators.items():
                chunk = operator.chunk
                rows.append(
                    [
                        _named(part, plan, number),
                        name,
                        "; ".join(map(str, operator.inputs)),
                        "; ".join(map(str, operator.outputs)),
                        operator.parts,
                        "" if operator.keep is None else operator.keep.value,
                        "" if chunk is None else f"{chunk.n_chunks} along {chunk.letter}",
                    ]
                )
    return table(
        "operators",
        "Operators",
        [
            *text_columns("part", "operator", "takes", "makes"),
            ("shares of the work", "n"),
            *text_columns("for the backward pass", "chunks"),
        ],
        rows[:_MOST_OPERATORS],
        note="dimensions with | between, by the axes that cut them",
        left_out=_left_out(_MOST_OPERATORS, len(rows), "operator"),
    )


def _named(part: ModelPart, plan: ParallelPlan, number: int) -> str:
    return part.name if len(plan.parts[part.name]) == 1 else f"{part.name} ({number + 1})"


def _left_out(shown: int, found: int, noun: str) -> str:
    return f"{shown} of {counted(found, noun)} are shown." if shown < found else ""
