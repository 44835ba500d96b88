"""A schedule for a problem by the algorithm of a given name."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from time import process_time

import numpy as np

from treadle.arrays import exact_sum
from treadle.errors import FormatError, InfeasibleError, ScheduleError, TreadleError
from treadle.planning.problem import Problem
from treadle.planning.solving.alltoall_candidates import (
    ALLTOALL_ALGORITHMS,
    PIPELINED,
    generate_alltoall,
    quick_alltoall,
)
from treadle.planning.solving.bounds import Bound, bound_of_allreduce, find_bound
from treadle.planning.solving.candidate import Candidate, Options
from treadle.planning.solving.factored_candidates import factored_forest
from treadle.planning.solving.route_candidates import ROUTE_ALGORITHMS, ROUTES, generate_routed, quick_routes
from treadle.planning.solving.step_candidates import STEP_ALGORITHMS, generate_steps
from treadle.planning.solving.transfer import transfer_collective, transfer_schedule
from treadle.planning.solving.tree_choice import with_tree_choice
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis import trees as forestcoll
from treadle.synthesis.engine import TimeLimitError
from treadle.synthesis.trees import allreduce
from treadle.synthesis.trees.baselines import BASELINES
from treadle.synthesis.trees.budget import MAX_DYADIC_TREES, MAX_TREES, TreeBudget, is_dyadic
from treadle.topologies import with_bandwidths
from treadle.units import format_bandwidth
from treadle.verification.schedules import verify

FORESTCOLL = "forestcoll"
RS_AG = "rs-ag"
MAX_WRITTEN_OUT = 2**14
"""Ranks of an allgather and the like beyond which trees, N**2 parents and more, are not written out."""

FALLBACKS = ("hierarchical-ring", "ring", "multitree", "double-binary-tree")
"""Tried when time has run out; all of them are quick."""


def default_algorithm(problem: Problem) -> str:
    """What `solve` uses where nothing is asked for: an all-to-all through switches needs routes."""
    if problem.collective.kind is not CollectiveKind.ALLTOALL:
        return FORESTCOLL
    return ROUTES if problem.topology.switches.size else PIPELINED


def algorithm_names() -> tuple[str, ...]:
    """Every value of `algorithm`."""
    return (FORESTCOLL, RS_AG, *BASELINES, *STEP_ALGORITHMS, *ALLTOALL_ALGORITHMS, *ROUTE_ALGORITHMS)


def generate(problem: Problem, algorithm: str, options: Options) -> Candidate:
    """A schedule by the named algorithm.

    Parameters
    ----------
    problem : Problem
    algorithm : str
        One of `algorithm_names`.
    options : Options

    Raises
    ------
    FormatError
        For an unknown name.
    InfeasibleError, ScheduleError
        If the algorithm cannot serve the problem.
    TimeLimitError
        If the deadline passed.
    """
    topology, collective = problem.topology, problem.collective
    if algorithm in BASELINES:
        start = process_time()
        schedule = BASELINES[algorithm](topology, collective)
        seconds = {"schedule": process_time() - start}
        bound = options.bound or find_bound(problem, options.watch)
        return Candidate(algorithm, schedule, bound, seconds=seconds)
    if algorithm in STEP_ALGORITHMS:
        return generate_steps(problem, algorithm, options)
    if algorithm in ALLTOALL_ALGORITHMS:
        return generate_alltoall(problem, algorithm, options)
    if algorithm in ROUTE_ALGORITHMS:
        return generate_routed(problem, algorithm, options)
    check_algorithm(algorithm)
    if collective.kind is CollectiveKind.ALLTOALL:
        raise ScheduleError(
            f"{algorithm} builds spanning trees, which do not serve an all-to-all; expected one of "
            f"{', '.join((*ALLTOALL_ALGORITHMS, *ROUTE_ALGORITHMS))}"
        )
    if options.trim:
        return _on_trimmed(problem, algorithm, options)
    if algorithm == RS_AG and collective.kind is not CollectiveKind.ALLREDUCE:
        raise ScheduleError(f"{RS_AG} (reduce-scatter, then allgather) serves allreduce only")
    factored = factored_forest(problem, algorithm, options)
    if isinstance(factored, Candidate):
        return factored
    if collective.n_ranks > MAX_WRITTEN_OUT and not collective.kind.is_rooted:
        why = f"; decomposition by tight cuts: {factored}" if factored.reason else ""
        raise InfeasibleError(
            f"{topology.name}: trees of {collective.n_ranks} ranks are too many to be written out (at most "
            f"{MAX_WRITTEN_OUT} ranks){why}"
        )
    return replace(_explicit(problem, algorithm, options), decomposition=factored.reason)


def _explicit(problem: Problem, algorithm: str, options: Options) -> Candidate:
    """A forest with all trees written out."""
    topology, collective = problem.topology, problem.collective
    if collective.kind is CollectiveKind.ALLREDUCE:
        return _allreduce(problem, algorithm, options)
    built = forestcoll.synthesise(
        topology,
        collective,
        budget=options.budget,
        packer=options.packer,
        progress=options.progress,
        deadline=options.deadline,
    )
    made = Candidate(
        algorithm,
        built.schedule,
        Bound(built.optimum.algbw, built.optimum.witness),
        trees_per_root=built.trees_per_root,
        exact_trees_per_root=built.exact_trees_per_root,
        seconds=built.seconds,
        notes=(built.note,) if built.note else (),
        packer=built.packer,
        packing=built.attempts,
        height_bound=built.height_bound,
    )
    return with_tree_choice(problem, options, made, built.algbw)


def check_algorithm(name: str) -> None:
    """Raise FormatError unless an algorithm has that name."""
    known = algorithm_names()
    if name not in known:
        raise FormatError(f"unknown algorithm {name[:40]!r}; expected one of {', '.join(known)}")


def _allreduce(
    problem: Problem,
    algorithm: str,
    options: Options,
) -> Candidate:
    """Reduce-scatter + allgather where that meets the bound or is asked for; else what is better."""
    topology, collective = problem.topology, problem.collective
    phases = forestcoll.synthesise(
        topology,
        collective,
        budget=options.budget,
        packer=options.packer,
        progress=options.progress,
        deadline=options.deadline,
    )
    notes = (phases.note,) if phases.note else ()
    base = Candidate(
        algorithm,
        phases.schedule,
        None,
        trees_per_root=phases.trees_per_root,
        exact_trees_per_root=phases.exact_trees_per_root,
        seconds=phases.seconds,
        notes=(*notes, f"built as {allreduce.Construction.PHASES}"),
        packer=phases.packer,
        packing=phases.attempts,
        height_bound=phases.height_bound,
    )
    start = process_time()
    try:
        if algorithm == RS_AG:
            bound = options.bound or find_bound(problem, options.watch)
            best = None
        else:
            best = allreduce.solve_allreduce(
                topology,
                collective,
                rs_ag=phases.schedule,
                pack=forestcoll.pack_forest,
                limits=_unit_limits(collective, options.budget),
                watch=options.watch,
            )
            bound = bound_of_allreduce(problem, best.bound)
    except TimeLimitError:
        return replace(base, bound=options.bound, is_late=True)
    seconds = {**phases.seconds, "allreduce": process_time() - start}
    exact = phases.exact_trees_per_root if phases.exact_algbw == bound.algbw else None
    base = replace(base, bound=bound, seconds=seconds, exact_trees_per_root=exact)
    if best is None:
        return with_tree_choice(problem, options, base, phases.algbw)
    if exact is None:
        base = replace(base, exact_trees=best.exact_units)
    if best.construction is not allreduce.Construction.PHASES:
        base = Candidate(
            algorithm,
            best.schedule,
            bound,
            exact_trees_per_root=exact,
            exact_trees=base.exact_trees,
            seconds=seconds,
            notes=(*notes, f"built as {best.construction}"),
        )
    return with_tree_choice(problem, options, base, best.algbw)


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


def fall_back(problem: Problem, algorithm: str = "", options: Options | None = None) -> Candidate:
    """The fastest schedule of those that are quick to make, for when time has run out.

    Routes are replaced by routes within the same limits.

    Raises
    ------
    ScheduleError
        If none fits.
    """
    if algorithm in ROUTE_ALGORITHMS:
        return quick_routes(problem, options or Options())
    if problem.collective.kind is CollectiveKind.ALLTOALL:
        return quick_alltoall(problem, options or Options())
    # the cut search is quick enough to be worth waiting for; an allreduce's linear program may not be
    is_slow = problem.collective.kind is CollectiveKind.ALLREDUCE
    bound = None if is_slow else find_bound(problem)
    found: list[tuple[Fraction, Candidate]] = []
    for name in FALLBACKS:
        try:
            schedule = BASELINES[name](problem.topology, problem.collective)
        except TreadleError:
            continue
        report = verify(problem.topology, problem.collective, schedule)
        if report.is_ok and report.algbw is not None:
            found.append((report.algbw, Candidate(name, schedule, bound)))
    if not found:
        raise ScheduleError(
            f"{problem.topology.name}: the time limit was reached and no quick schedule fits; allow more time"
        )
    return max(found, key=lambda entry: entry[0])[1]


def _on_trimmed(problem: Problem, algorithm: str, options: Options) -> Candidate:
    whole = problem.topology
    trimming = forestcoll.best_trimming(whole, problem.collective, progress=options.progress)
    widths = whole.bandwidths * trimming.scale
    if np.array_equal(trimming.bandwidths, widths):
        return generate(problem, algorithm, replace(options, trim=False))
    # multiples of all bandwidths change no schedule
    small, links = with_bandwidths(whole, trimming.bandwidths, f"trimmed({whole.name})")
    inner = Problem(small, transfer_collective(problem.collective, whole, small))
    built = generate(inner, algorithm, replace(options, trim=False, bound=None))
    lost = (exact_sum(widths) - exact_sum(trimming.bandwidths)) // trimming.scale
    note = f"{format_bandwidth(lost)} of surplus bandwidth were left unused to balance every switch"
    note += " and forwarder" if problem.collective.forwarders else ""
    if trimming.share < 1:
        note += f", which leaves {float(trimming.share):.2%} of the rate at most"
    return replace(
        built,
        schedule=transfer_schedule(built.schedule, small, whole, links),
        bound=options.bound or find_bound(problem, options.watch),
        notes=(*built.notes, note),
    )
