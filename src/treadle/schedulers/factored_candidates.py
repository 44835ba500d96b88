"""Forest schedules in factored form: when tight cuts are used, and their outcome."""

from __future__ import annotations

from dataclasses import replace

from treadle.context import context
from treadle.errors import InfeasibleError, ScheduleError
from treadle.inputs.problem import Problem, model_of
from treadle.schedulers.bounds import MAX_RANKS_BY_CUTS, crossing_bound, find_bound, large_allreduce
from treadle.schedulers.forest_request import ForestRequest
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.result import Bound, Result
from treadle.synthesis.scheduler_options import Form
from treadle.synthesis.trees.fixed_trees import floor_capacities
from treadle.synthesis.trees.heights import smallest_height
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.tight_cuts.decompose import (
    FactoredSynthesis,
    UnequalShards,
    decompose,
    decompose_allreduce,
)
from treadle.unsupported import Unsupported

MAX_EXPLICIT_RANKS = 256
"""Trees of more ranks are factored by default where tight cuts allow it."""

MAX_BOUNDED_RANKS = 2**14
"""Beyond, no bound of the height is looked for: at 65,536 ranks it would take as long as the verifier."""


def factored_forest(
    problem: Problem, algorithm: str, request: ForestRequest, *, free_roots: bool = False
) -> Result | Unsupported:
    """A factored forest schedule, or why the trees are to be written out.

    Parameters
    ----------
    problem : Problem
        Not of an all-to-all.
    algorithm : str
        Of ForestColl or its two phases: the candidate's name.
    request : ForestRequest
    free_roots : bool
        Of an allreduce: its shards may differ where that is faster.

    Raises
    ------
    InfeasibleError
        If the factored form was requested and does not apply; or a rank cannot be reached.
    ScheduleError
        If a packer was given as well.
    TimeLimitError
        If the deadline passed.
    """
    is_wanted = request.form is Form.FACTORED
    if request.packer is not None:
        if is_wanted:
            raise ScheduleError(
                f"{algorithm}: --packer {request.packer} is for trees written out, not for factored ones"
            )
        return Unsupported("not tried: a packer was given")
    if request.form is Form.EXPLICIT:
        return Unsupported("not tried: the explicit form was requested")
    if not is_wanted and problem.collective.n_ranks <= MAX_EXPLICIT_RANKS:
        return Unsupported("")  # the packers tell of tight cuts themselves
    switches = problem.topology.multicast | problem.topology.aggregation
    if not is_wanted and switches.any():
        return Unsupported("not tried: switches multicast or aggregate, which factored forests leave unused")
    with context().stage("decomposition"):
        free = _free_roots(problem, request) if free_roots else None
        found = (
            free.found
            if free is not None
            else decompose(problem.topology, problem.collective, budget=request.budget)
        )
    if isinstance(found, Unsupported):
        if is_wanted:
            raise InfeasibleError(f"{problem.topology.name}: no factored forest: {found}")
        return Unsupported(f"does not apply: {found}")
    candidate = Result(
        found.schedule,
        Bound(found.optimum.algbw, found.optimum.certificate, bool(found.exact_trees)),
        algorithm,
        trees_per_root=found.trees_per_root,
        exact_trees_per_root=found.exact_trees or None,
        decomposition=found.summary,
    )
    if problem.collective.n_ranks <= MAX_BOUNDED_RANKS:
        candidate = replace(candidate, height_bound=_height_bound(problem, found))
    if problem.collective.kind is not CollectiveKind.ALLREDUCE:
        return candidate
    if free is None:
        note = "built as reduce-scatter + allgather, each the best of its kind; the bound is not computed"
        return replace(candidate, bound=request.bound, notes=(note,))
    return _with_bound(problem, candidate, free, request)


def _free_roots(problem: Problem, request: ForestRequest) -> UnequalShards | None:
    """Reduce-scatter and allgather of the best shards, with a bound; None without subproblems."""
    if problem.collective.kind is not CollectiveKind.ALLREDUCE:
        return None
    found = decompose_allreduce(problem.topology, problem.collective, budget=request.budget)
    return None if isinstance(found, Unsupported) else found


def _with_bound(problem: Problem, candidate: Result, free: UnequalShards, request: ForestRequest) -> Result:
    """The candidate with the least bound of an allreduce that is known."""
    algbw = free.found.algbw
    bound = Bound(
        free.bound, free.certificate, algbw == free.bound, model_of(problem.topology, problem.collective)
    )
    known = request.bound
    if known is None and algbw < free.bound:
        is_small = problem.collective.n_ranks <= MAX_RANKS_BY_CUTS
        known = find_bound(problem) if is_small else large_allreduce(problem) or crossing_bound(problem)
    if known is not None and known.algbw < free.bound:
        bound = known
    note = "built as reduce-scatter + allgather"
    if max(free.weights) == min(free.weights):
        return replace(candidate, bound=bound, notes=(note,))
    least, most = min(free.weights), max(free.weights)
    return replace(
        candidate,
        bound=bound,
        trees_per_root=None,
        exact_trees_per_root=None,
        exact_trees=free.found.exact_trees * sum(free.weights) or None,
        notes=(f"{note} of unequal shards, {least} to {most}: those behind less bandwidth hold more",),
    )


def _height_bound(problem: Problem, found: FactoredSynthesis) -> int:
    """No forest of these trees per root and this throughput is lower, in one of its directions."""
    bounds = []
    for part in found.parts:
        collective = problem.collective
        if collective.kind is CollectiveKind.ALLREDUCE:
            turned = part.forest.direction is Direction.REDUCE
            kind = CollectiveKind.REDUCE_SCATTER if turned else CollectiveKind.ALLGATHER
            collective = replace(collective, kind=kind)
        instance = instance_of(problem.topology, collective)
        scale = part.forest.total_units / part.algbw
        capacities = floor_capacities(instance.bandwidths, scale)
        bounds.append(smallest_height(instance, part.forest.root_multiplicity, capacities))
    return max(bounds)
