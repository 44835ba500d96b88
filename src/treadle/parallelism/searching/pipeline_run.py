"""Pipeline stages around the search of a plan: layers cut into stages, micro-batches, memory of each stage.

The graph is that of one micro-batch, the search's mesh has no axis of stages. Stages hold fewer layers than
the whole model, and several micro-batches of what is saved: what that comes to the evaluator says, and the
search is repeated with a smaller limit until its plan fits as a pipeline. The bound is over cuts and plans of
any memory: layers take what the search proves of a micro-batch without the optimizer, and stages do not all
begin and end at once.

The stages run micro-batches one after the other (1F1B). With m micro-batches the slowest stage is passed m
times and each other one once, on the way in and out: (m - 1) * max + sum of the stages' seconds. The sum is
that of all layers, so the best cut by this has the least maximum; of those the evenest is taken. What is
reported is the timeline that `parallelism.evaluation` makes of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import inf

from treadle.context import context, under
from treadle.errors import FormatError, InfeasibleError
from treadle.parallelism.evaluation.evaluation import evaluate
from treadle.parallelism.plan.parallel_plan import ParallelPlan, Pipeline
from treadle.parallelism.problem.search_problem import pose
from treadle.parallelism.search.branching import SearchEffort, minimise
from treadle.parallelism.search.minimax import Overlap, step_time
from treadle.parallelism.searching.parallel_result import PricedPlan
from treadle.parallelism.searching.plan_search import OURS, PlanSearch
from treadle.parallelism.searching.posed_mesh import MeshFound, PosedMesh
from treadle.schedules.mesh import Mesh
from treadle.training.costs import Costs

STAGES = "pp"
"""Name of the axis along which stages lie."""
_MOST_SEARCHES = 6
_MOST_BOUND_PARTS = 20
"""Of branch and bound, for what layers take at least."""


def without_stages(mesh: Mesh) -> Mesh:
    """The mesh of a stage.

    Raises
    ------
    FormatError
        If there is no other axis.
    """
    pairs = [pair for pair in zip(mesh.axis_names, mesh.shape, strict=True) if pair[0] != STAGES]
    if not pairs:
        raise FormatError(f"mesh {mesh.text}: stages only; expected another axis, as {STAGES}=4,0=1")
    return Mesh(tuple(size for _, size in pairs), tuple(name for name, _ in pairs))


def staged(
    plans: PlanSearch, plan: ParallelPlan, mesh: Mesh, costs: Costs, micro_batches: int
) -> ParallelPlan:
    """The plan in stages, cut so that the pipeline is quickest.

    Raises
    ------
    InfeasibleError
        If there are more stages than layers, or layers of a kind differ.
    """
    model, n_stages = plans.model, stages_of(mesh)
    if plan.layers:
        raise InfeasibleError(f"{model.name}: layers that differ (--mixed) are not cut into stages")
    found = evaluate(plan, model, costs, plans.numbers, overlap=plans.request.overlap.value)
    seconds = {}
    for times in found.parts:
        moved = times.forward_moved_s + times.backward_moved_s
        seconds[times.part] = max(times.forward_s + times.backward_s, moved)
    by_layer = [seconds[model.parts[at].name] for at in model.order]
    cut = best_cut(by_layer, n_stages)
    if cut is None:
        raise InfeasibleError(f"{model.name}: {n_stages} stages of {model.layers} layers; use fewer stages")
    return replace(plan, mesh=mesh, pipeline=Pipeline(STAGES, cut, micro_batches), claim=None)


def search_staged(
    plans: PlanSearch, mesh: Mesh, costs: Costs, micro_batches: int
) -> tuple[PricedPlan, list[PricedPlan], MeshFound, float]:
    """The best plan in stages, named ones, what was searched, and a bound.

    Raises
    ------
    InfeasibleError
        If no plan was found that fits.
    """
    inner, request = without_stages(mesh), plans.request
    posed = plans.pose(inner, costs)

    def priced(name: str, labels: tuple[int, ...]) -> PricedPlan:
        bare = posed.problem.decode(labels)
        return plans.priced(name, staged(plans, bare, mesh, costs, micro_batches), costs)

    named = {name: (priced(name, labels), labels) for name, labels in posed.named.items()}
    tried = [(replace(row, name=OURS), labels) for row, labels in named.values()]
    limit, is_late = inf, False
    for _ in range(_MOST_SEARCHES):
        narrowed = plans.with_memory(limit)
        found = narrowed.search(narrowed.look(posed))
        is_late |= found.found.is_late
        if found.found.plan is None:
            break
        row = priced(OURS, found.found.plan)
        tried.append((row, found.found.plan))
        if row.fits or context().is_late:
            break
        alone = plans.priced(OURS, posed.problem.decode(found.found.plan), costs).memory_bytes
        limit = 0.98 * min(limit, alone) * request.memory_bytes / row.memory_bytes
    best = min((pair for pair in tried if pair[0].fits), key=lambda pair: pair[0].seconds, default=None)
    if best is None:
        least = min(row.memory_bytes for row, _ in tried)
        raise InfeasibleError(
            f"{plans.model.name}, mesh {mesh.text}, {micro_batches} micro-batches: no plan was found that "
            f"fits into {request.memory_bytes / 2**30:.4g} GB a rank; the least is {least / 2**30:.4g} GB"
        )
    return (
        best[0],
        [row for row, _ in named.values()],
        MeshFound(posed, best[1], is_late=is_late),
        min(pipeline_bound(plans, posed, stages_of(mesh), micro_batches), best[0].seconds),
    )


def pipeline_bound(plans: PlanSearch, posed: PosedMesh, n_stages: int, micro_batches: int) -> float:
    """Seconds that no plan in stages goes below, however its layers are cut and whatever memory it takes.

    Where all of a stage overlaps, layers by themselves prove nothing: then it is by the sum of all of them.
    """
    request, model = plans.request, plans.model
    graph = pose(model, posed.problem.mesh, posed.costs, request.times, optimizer_bytes=0).graph
    effort = SearchEffort(gap=request.gap, n_parts=_MOST_BOUND_PARTS)

    def least_s(repeats: tuple[int, ...]) -> float:
        """Of a micro-batch in layers so often run each."""
        own = replace(graph, repeats=repeats)
        aim = step_time(own, overlap=request.overlap)
        with under(context().unlimited):
            return minimise(own, aim, within=posed.within, effort=effort).bound

    found = least_pipeline_s(least_s(graph.repeats), n_stages, micro_batches)
    if request.overlap is Overlap.MODEL:
        return found
    own_s = [
        least_s(tuple(int(part is other) for other in range(len(model.parts))))
        for part in range(len(model.parts))
    ]
    return max(found, least_of_cuts([own_s[part] for part in model.order], n_stages, micro_batches))


def stages_of(mesh: Mesh) -> int:
    """Ranks along the axis of stages; 1 without one."""
    return dict(zip(mesh.axis_names, mesh.shape, strict=True)).get(STAGES, 1)


_ROUNDING = 1e-9
"""Of sums of layers, relative."""


def best_cut(layers_s: Sequence[float], n_stages: int) -> tuple[int, ...] | None:
    """Layers of each stage; None where there are more stages than layers.

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


def least_pipeline_s(seconds: float, n_stages: int, micro_batches: int) -> float:
    """What no cut into stages undercuts: seconds of all micro-batches one forward, one backward.

    Parameters
    ----------
    seconds : float
        That all stages together take for one micro-batch, at least.
    n_stages, micro_batches : int

    Notes
    -----
    The first forward pass reaches stage k when the stages before it have done theirs, and after the stage's
    last backward pass these have one more to do: a step of B takes m t_k + (t_1 + ... + t_(k-1)) or more.
    So the first k stages have at most S_k = S_(k-1) + (B - S_(k-1)) / m seconds of a micro-batch, which
    sums up to B (1 - (1 - 1/m)^k).

    Examples
    --------
    >>> least_pipeline_s(4.0, 1, 8)
    32.0
    """
    return seconds / (1 - (1 - 1 / micro_batches) ** n_stages)


def least_of_cuts(layers_s: Sequence[float], n_stages: int, micro_batches: int) -> float:
    """What no cut of these layers undercuts: a layer lies in one stage as a whole.

    Parameters
    ----------
    layers_s : sequence of float
        Seconds of each layer for one micro-batch, at least.
    n_stages, micro_batches : int

    Notes
    -----
    A step takes m t_k + (t_1 + ... + t_(k-1)) or more for every stage k, as in `least_pipeline_s`, and what
    lies before a stage is the same however it is cut.

    Examples
    --------
    >>> least_of_cuts([1.0, 1.0, 3.0], 2, 4)
    14.0
    """
    before = [0.0, *accumulate(layers_s)]
    least = [inf, *(micro_batches * done for done in before[1:])]
    for _ in range(n_stages - 1):
        least = [
            min(
                (
                    max(least[start], micro_batches * (done - before[start]) + before[start])
                    for start in range(end)
                ),
                default=inf,
            )
            for end, done in enumerate(before)
        ]
    return least[-1]
