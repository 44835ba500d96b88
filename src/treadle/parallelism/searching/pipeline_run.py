"""Pipeline stages around the search of a plan: layers cut into stages, micro-batches, memory of each stage.

The graph is that of one micro-batch, the search's mesh has no axis of stages. The search counts what the
first stage holds without the ends of the model. The evaluator counts each stage in full: where more does not
fit, the search is repeated with a smaller limit. Bounds hold for stages of equally many layers.

The slowest stage is passed by all m micro-batches and each other one once, on the way in and out: with one
virtual stage on each, (m - 1) * max + sum of the stages' seconds. The sum is that of all layers, so the
best cut by this has the least maximum; of those the evenest is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import inf

from treadle.context import context
from treadle.errors import FormatError, InfeasibleError
from treadle.parallelism.evaluation.evaluation import Evaluation, evaluate, together_s
from treadle.parallelism.plan.parallel_plan import ParallelPlan, Pipeline
from treadle.parallelism.search.branching import SearchEffort
from treadle.parallelism.search.minimax import step_time
from treadle.parallelism.searching.mesh_problem import MeshResult
from treadle.parallelism.searching.mesh_search import Look
from treadle.parallelism.searching.parallel_result import PricedPlan
from treadle.parallelism.searching.plan_search import OURS, STAGES, PipelineForm, PlanSearch
from treadle.schedules.mesh import Mesh
from treadle.training.costs import Costs
from treadle.units import format_size

_MOST_SEARCHES = 6
_MOST_SIMULATED, _MOST_PRESETS = 2, 8


def inner_mesh(mesh: Mesh) -> Mesh:
    """Return the mesh of a stage.

    Raises
    ------
    FormatError
        Without another axis.
    """
    pairs = [pair for pair in zip(mesh.axis_names, mesh.shape, strict=True) if pair[0] != STAGES]
    if not pairs:
        raise FormatError(f"mesh {mesh.notation}: stages only; expected another axis, as {STAGES}=4,0=1")
    return Mesh(tuple(size for _, size in pairs), tuple(name for name, _ in pairs))


def staged(
    plans: PlanSearch, plan: ParallelPlan, mesh: Mesh, costs: Costs, form: PipelineForm
) -> ParallelPlan:
    """Return the plan in stages, cut so that the pipeline is quickest.

    Raises
    ------
    InfeasibleError
        If there are more stages than layers, or layers of a kind differ.
    """
    model, n_pieces = plans.model, form.stages * form.interleave
    if plan.layers:
        raise InfeasibleError(f"{model.name}: layers that differ (--mixed) are not cut into stages")
    if form.stages == 1:
        return replace(plan, claim=None)
    found = evaluate(plan, model, costs, plans.numbers, overlap=plans.request.overlap.value)
    batches = form.micro_batches
    kappa = plans.numbers.kappa
    seconds = {
        one.part: together_s(one.serial_s(batches), one.overlapped_s(batches), kappa) for one in found.parts
    }
    by_layer = [seconds[model.parts[at].name] for at in model.order]
    cut = best_cut(by_layer, n_pieces)
    if cut is None:
        raise InfeasibleError(
            f"{model.name}: {n_pieces} virtual stages (pp x interleave) for {model.layers} layers; use fewer"
        )
    pipeline = Pipeline(STAGES, cut, batches, form.interleave)
    return replace(plan, mesh=mesh, pipeline=pipeline, claim=None)


def search_staged(
    plans: PlanSearch,
    mesh: Mesh,
    costs: Costs,
    form: PipelineForm,
    look: Look[MeshResult],
    *,
    effort: SearchEffort | None = None,
) -> tuple[PricedPlan, list[PricedPlan], MeshResult, float]:
    """Return the best plan in stages, presets, what was searched, and a bound.

    Parameters
    ----------
    plans : PlanSearch
    mesh : Mesh
    costs : Costs
    form : PipelineForm
    look : Look
        At the mesh of a stage.
    effort : SearchEffort, optional

    Raises
    ------
    InfeasibleError
        If no plan was found that fits.
    """
    request, posed = plans.request, look.found.posed
    tried: dict[tuple[int, ...], Evaluation] = {}

    def estimate(labels: tuple[int, ...]) -> Evaluation:
        if labels not in tried:
            bare = posed.problem.decode(labels)
            tried[labels] = plans.estimated(staged(plans, bare, mesh, costs, form), costs)
        return tried[labels]

    limit, is_late, bound_s = float(request.memory_bytes), False, 0.0
    graph = posed.problem.graph
    aim = step_time(graph, overlap=request.overlap, memory_bytes=request.memory_bytes)
    amounts = {labels: graph.amounts(labels) for labels in posed.named.values()}
    by_time = sorted(amounts, key=lambda one: (not aim.fits(amounts[one]), aim.value(amounts[one])))
    for labels in by_time[:_MOST_PRESETS]:
        estimate(labels)
    for _ in range(_MOST_SEARCHES):
        found = plans.with_memory(limit).search(look, effort=effort)
        if limit == request.memory_bytes:
            bound_s = scaled(found.bound_s, form)
        is_late |= found.found.is_late
        if found.found.plan is None:
            break
        held = estimate(found.found.plan).peak_bytes
        if held <= request.memory_bytes or context().is_late:
            break
        limit *= 0.98 * request.memory_bytes / held

    def those_that_fit() -> dict[tuple[int, ...], Evaluation]:
        return {labels: one for labels, one in tried.items() if one.peak_bytes <= request.memory_bytes}

    fitting = those_that_fit()
    if not fitting:
        # each preset has a cut of its own, so one that the search takes for fuller may fit
        for labels in by_time[_MOST_PRESETS:]:
            estimate(labels)
        fitting = those_that_fit()
    if not fitting:
        least = min(one.peak_bytes for one in tried.values())
        raise InfeasibleError(
            f"{plans.model.name}, mesh {mesh.notation}, {form.micro_batches} micro-batches: no plan found "
            f"that fits into {format_size(int(request.memory_bytes))} a rank; the least is "
            f"{format_size(least)}"
        )
    # a simulation of many micro-batches takes seconds: only the plans of the least estimates have one
    shown = sorted(fitting, key=lambda labels: fitting[labels].seconds)[:_MOST_SIMULATED]
    names = {labels: name for name, labels in reversed(list(posed.named.items()))}
    rows = {
        labels: plans.priced(
            names.get(labels, OURS), staged(plans, posed.problem.decode(labels), mesh, costs, form), costs
        )
        for labels in shown
    }
    best = min(rows, key=lambda labels: rows[labels].seconds)
    return (
        replace(rows[best], name=OURS),
        [row for labels, row in rows.items() if labels in names],
        MeshResult(posed, best, is_late=is_late),
        min(bound_s, rows[best].estimate_s),
    )


def stages_of(mesh: Mesh) -> int:
    """Return the ranks along the axis of stages; 1 without one."""
    return dict(zip(mesh.axis_names, mesh.shape, strict=True)).get(STAGES, 1)


def scaled(seconds: float, form: PipelineForm) -> float:
    """Return what a step takes at least, from the seconds of all layers with one micro-batch.

    With m micro-batches and v virtual stages on each of p stages it takes ``(m - 1/v) * t + s / v``, for
    s seconds of all stages and t of the slowest one, which is at least ``s / p``.
    """
    rest = 1 / form.interleave
    return seconds * ((form.micro_batches - rest) / form.stages + rest)


_ROUNDING = 1e-9
"""Relative tolerance of sums of layers."""


def best_cut(layers_s: Sequence[float], n_stages: int) -> tuple[int, ...] | None:
    """Return the layers of each stage; None where there are more stages than layers.

    Parameters
    ----------
    layers_s : sequence of float
        Seconds of each layer for one micro-batch, forward and backward.
    n_stages : int

    Examples
    --------
    >>> best_cut([1.0] * 7 + [3.0], 2)
    (5, 3)
    """
    before = [0.0, *accumulate(layers_s)]
    least: list[float] = [0.0, *[inf] * len(layers_s)]
    for _ in range(n_stages):
        least = [
            min((max(least[start], done - before[start]) for start in range(end)), default=inf)
            for end, done in enumerate(before)
        ]
    if least[-1] == inf:
        return None
    limit = least[-1] * (1 + _ROUNDING)
    evenest: list[tuple[float, tuple[int, ...]]] = [(0.0, ()), *[(inf, ())] * len(layers_s)]
    for _ in range(n_stages):
        evenest = [
            min(
                (
                    (evenest[start][0] + (done - before[start]) ** 2, (*evenest[start][1], end - start))
                    for start in range(end)
                    if done - before[start] <= limit
                ),
                default=(inf, ()),
            )
            for end, done in enumerate(before)
        ]
    return evenest[-1][1]
