"""ForestColl and its two-phase allreduce, as the table of schedulers names them."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

import numpy as np

from treadle.arrays import exact_sum
from treadle.context import TimeLimitError, context, under
from treadle.errors import FormatError, InfeasibleError
from treadle.inputs.problem import Problem
from treadle.options.keywords import ForestKeywords
from treadle.schedulers.bounds import (
    MAX_RANKS_BY_FLOW,
    bound_of_allreduce,
    equal_length_bound,
    find_bound,
)
from treadle.schedulers.factored_candidates import MAX_EXPLICIT_RANKS, factored_forest
from treadle.schedulers.forest_request import ForestRequest, tree_budget
from treadle.schedulers.tree_choice import with_tree_choice
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.transfer import transfer_collective, transfer_schedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.spelling import unknown
from treadle.synthesis import trees as packing
from treadle.synthesis.result import Bound, Result
from treadle.synthesis.scheduler_options import Form
from treadle.synthesis.trees import Packer, allreduce
from treadle.synthesis.trees.one_root.one_root_forest import SEARCHED_RANKS
from treadle.synthesis.trees.tree_budget import MAX_DYADIC_TREES, MAX_TREES, TreeBudget, is_dyadic
from treadle.topologies import with_bandwidths
from treadle.topologies.topology import Topology
from treadle.units import format_bandwidth

FORESTCOLL = "forestcoll"
RS_AG = "rs-ag"
MAX_WRITTEN_OUT = 2**14
"""Ranks of an allgather and the like beyond which trees, N**2 parents and more, are not written out."""


def forestcoll(
    topology: Topology,
    collective: Collective,
    *,
    bound: Bound | None = None,
    **asked: Unpack[ForestKeywords],
) -> Result:
    """Throughput-optimal spanning trees, also of several groups at once; the best allreduce that is known.

    Parameters
    ----------
    topology, collective
    bound : Bound, optional
        If it is known already.
    **asked
        See `TreeOptions`.

    Raises
    ------
    InfeasibleError, ScheduleError
        If there are no such trees.
    TimeLimitError
        If the deadline passed.
    """
    problem = Problem(topology, collective)
    if collective.groups is not None:
        from treadle.schedulers.groups import group_candidate  # brings a solver

        return group_candidate(problem, FORESTCOLL, asked)
    return _forest(problem, FORESTCOLL, _request(bound, **asked))


def rs_ag(
    topology: Topology,
    collective: Collective,
    *,
    bound: Bound | None = None,
    **asked: Unpack[ForestKeywords],
) -> Result:
    """An allreduce as ForestColl's reduce-scatter and then its allgather; see `forestcoll`."""
    problem = Problem(topology, collective)
    if collective.groups is not None:
        from treadle.schedulers.groups import two_phase_groups  # brings a solver

        return two_phase_groups(problem, RS_AG, asked)
    return _forest(problem, RS_AG, _request(bound, **asked))


def _request(
    bound: Bound | None,
    *,
    trees: int | None = None,
    max_trees: int | None = None,
    exact: bool = False,
    packer: str | None = None,
    form: Form | str = Form.AUTO,
    trim: bool = False,
) -> ForestRequest:
    """What was asked for, in the types of the trade."""
    if packer is not None and packer not in tuple(Packer):
        raise FormatError(unknown("packer", packer, Packer))
    if form not in tuple(Form):
        raise FormatError(f"unknown form {form[:40]!r}; expected one of {', '.join(Form)}")
    budget = tree_budget(trees=trees, max_trees=max_trees, exact=exact)
    return ForestRequest(budget, None if packer is None else Packer(packer), Form(form), trim, bound)


def _forest(problem: Problem, algorithm: str, request: ForestRequest) -> Result:
    """Trees by name of the algorithm."""
    topology, collective = problem.topology, problem.collective
    if request.trim:
        return _on_trimmed(problem, algorithm, request)
    if (boxed := _box_by_box(problem, algorithm, request)) is not None:
        return boxed
    factored = factored_forest(problem, algorithm, request, free_roots=algorithm == FORESTCOLL)
    if isinstance(factored, Result):
        return factored
    if collective.n_ranks > MAX_WRITTEN_OUT and not collective.kind.is_rooted:
        why = f"; decomposition by tight cuts: {factored}" if factored.reason else ""
        raise InfeasibleError(
            f"{topology.name}: trees of {collective.n_ranks} ranks are too many to be written out (at most "
            f"{MAX_WRITTEN_OUT} ranks){why}"
        )
    return replace(_explicit(problem, algorithm, request), decomposition=factored.reason)


def _box_by_box(problem: Problem, algorithm: str, request: ForestRequest) -> Result | None:
    """The few trees of one root in many boxes, written out; None if another form or packer is asked for."""
    is_free, collective = request.form is Form.AUTO and request.packer is None, problem.collective
    if not (is_free and collective.kind.is_rooted and collective.n_ranks > MAX_EXPLICIT_RANKS):
        return None
    built = packing.synthesise_box_by_box(problem.topology, collective, budget=request.budget)
    if not isinstance(built, Result):
        return None
    if collective.n_ranks <= SEARCHED_RANKS:  # there are other ways, which may be lower
        return _explicit(problem, algorithm, request)
    return with_tree_choice(problem, request, replace(built, algorithm=algorithm))


def _explicit(problem: Problem, algorithm: str, request: ForestRequest) -> Result:
    """A forest with all trees written out; an allreduce in two phases, or otherwise where that is better."""
    made = packing.synthesise(
        problem.topology, problem.collective, budget=request.budget, packer=request.packer
    )
    if problem.collective.kind is not CollectiveKind.ALLREDUCE:
        return with_tree_choice(problem, request, replace(made, algorithm=algorithm))
    phases = replace(made, algorithm=algorithm, rs_ag=None)
    built_as = f"built as {allreduce.Construction.PHASES}"
    best: allreduce.AllreduceSolution | None = None
    try:
        with context().stage("allreduce"):
            # of very many ranks other constructions take too long to gain what few trees lose
            is_enough = phases.algbw == made.rs_ag or problem.collective.n_ranks > MAX_RANKS_BY_FLOW
            quick = equal_length_bound(problem) if request.bound is None else None
            if algorithm == RS_AG:
                bound = request.bound or find_bound(problem)
            elif quick is not None and quick.algbw == made.rs_ag and is_enough:
                bound = replace(quick, is_tight=True)
            else:
                best = _best_allreduce(problem, request, phases.trees)
                bound = bound_of_allreduce(problem, best.bound)
    except TimeLimitError:
        return replace(phases, bound=request.bound, is_late=True, notes=(*phases.notes, built_as))
    exact = phases.exact_trees_per_root if made.rs_ag == bound.algbw else None
    notes = phases.notes if best is None else (*phases.notes, *_unfinished(best))
    found = replace(phases, bound=bound, exact_trees_per_root=exact, notes=(*notes, built_as))
    if best is not None:
        found = replace(found, algbw=best.algbw, exact_trees=best.exact_units if exact is None else None)
        if best.construction is not allreduce.Construction.PHASES:
            found = Result(
                best.schedule,
                bound,
                algorithm,
                best.algbw,
                exact_trees_per_root=exact,
                exact_trees=found.exact_trees,
                notes=(*notes, f"built as {best.construction}"),
            )
    return with_tree_choice(problem, request, found)


def _unit_limits(collective: Collective, budget: TreeBudget) -> allreduce.UnitLimits | None:
    """What a budget per root allows all roots together."""
    if budget.exact:
        return None
    ranks = collective.n_ranks
    if not budget.is_default:
        most = (budget.trees or 0) + (budget.max_trees or 0)
        return allreduce.UnitLimits(most * ranks, is_fixed=budget.trees is not None)
    dyadic = MAX_DYADIC_TREES * ranks if budget.dyadic_loss and is_dyadic(ranks) else 0
    return allreduce.UnitLimits(MAX_TREES * ranks, dyadic=dyadic, dyadic_loss=budget.dyadic_loss)


def _on_trimmed(problem: Problem, algorithm: str, request: ForestRequest) -> Result:
    whole = problem.topology
    with under(context().unlimited):
        trimming = packing.best_balancing(whole, problem.collective)
    widths = whole.bandwidths * trimming.scale
    if np.array_equal(trimming.bandwidths, widths):
        return _forest(problem, algorithm, replace(request, trim=False))
    # multiples of all bandwidths change no schedule
    small, links = with_bandwidths(whole, trimming.bandwidths, f"trimmed({whole.name})")
    inner = Problem(small, transfer_collective(problem.collective, whole, small))
    built = _forest(inner, algorithm, replace(request, trim=False, bound=None))
    lost = (exact_sum(widths) - exact_sum(trimming.bandwidths)) // trimming.scale
    note = f"{format_bandwidth(lost)} of surplus bandwidth were left unused to balance every switch"
    note += " and forwarder" if problem.collective.forwarders else ""
    schedule = transfer_schedule(built.schedule, small, whole, links)
    built = replace(built, schedule=schedule, bound=request.bound, notes=(*built.notes, note))
    is_free = problem.collective.kind is CollectiveKind.ALLREDUCE and algorithm == FORESTCOLL
    if is_free and isinstance(schedule, ForestSchedule):
        return _untrimmed(problem, request, built, schedule)
    return replace(built, bound=request.bound or find_bound(problem))


def _untrimmed(problem: Problem, request: ForestRequest, trimmed: Result, schedule: ForestSchedule) -> Result:
    """A faster allreduce on all of the bandwidth, where there is one; else that on the trimmed fabric.

    In-trees and out-trees pass each switch as often in as out, but by different links: bandwidth that is
    surplus to both in equal shares may help only one of them.
    """
    try:
        with context().stage("allreduce"):
            best = _best_allreduce(problem, request, schedule)
    except TimeLimitError:
        return replace(trimmed, is_late=True)
    bound = bound_of_allreduce(problem, best.bound)
    if best.schedule is schedule:
        return replace(trimmed, bound=bound, notes=(*trimmed.notes, *_unfinished(best)))
    notes = (*_unfinished(best), f"built as {best.construction}")
    made = Result(best.schedule, bound, FORESTCOLL, best.algbw, exact_trees=best.exact_units, notes=notes)
    return with_tree_choice(problem, request, made)


def _unfinished(best: allreduce.AllreduceSolution) -> tuple[str, ...]:
    """Notes on constructions that spent their work budgets, where what there is may be below the optimum."""
    if best.algbw == best.bound.algbw:
        return ()
    return tuple(f"{name}: not finished within the work budget" for name in best.unfinished)


def _best_allreduce(
    problem: Problem, request: ForestRequest, given: ForestSchedule
) -> allreduce.AllreduceSolution:
    """The given schedule, or a faster one by another construction."""
    return allreduce.solve_allreduce(
        problem.topology,
        problem.collective,
        rs_ag=given,
        pack=packing.pack_forest,
        limits=_unit_limits(problem.collective, request.budget),
    )
