"""The best schedule for a damaged fabric: several algorithms, compared by their simulated times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from time import monotonic

from treadle.context import Progress, start
from treadle.errors import ScheduleError, TreadleError
from treadle.inputs.problem import Problem
from treadle.options.keywords import OptionKeywords
from treadle.schedulers.solving import SolveResult, solve_problem, verified
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.plan import Plan
from treadle.simulation.simulated_plans import simulate_plan
from treadle.synthesis.result import Result
from treadle.topologies.topology import Topology

JUDGED_AT = "judged_at_bytes"
"""Provenance: the size at which the plan was preferred to others."""

DEFAULT_SIZE = 2**20
"""Cost model of plans that do not name one, as in `design`."""

_TIME_LIMIT_S = 60.0
"""Default time limit of a candidate."""

FORESTCOLL, RS_AG, BFB, EXACT = "forestcoll", "rs-ag", "bfb", "exact"
"""Candidate algorithms."""

_MOST_EXACT_RANKS = 8
_EXACT_TIME_LIMIT_S = 10.0


@dataclass(frozen=True)
class Candidate:
    """Outcome of an algorithm.

    Parameters
    ----------
    algorithm : str
        With the option that was given, as in ``forestcoll --trees 1``.
    seconds : float, optional
        Simulated, at the size in question.
    algbw : Fraction, optional
        Asymptotic, bytes/s.
    reason : str
        Why no schedule was found; "" if one was.
    """

    algorithm: str
    seconds: float | None = None
    algbw: Fraction | None = None
    reason: str = ""


@dataclass(frozen=True)
class CandidateSet:
    """Candidates at a size.

    Parameters
    ----------
    size_bytes : int
    old_seconds : float
        Time of the old plan on the undamaged fabric, simulated equally.
    outcomes : tuple of Candidate
        The fastest first, then those without a schedule.
    """

    size_bytes: int
    old_seconds: float
    outcomes: tuple[Candidate, ...]


def simulated_s(plan: Plan, size_bytes: int) -> float:
    """Seconds at a size by the simulator's defaults, in as many slices as are best."""
    [row] = simulate_plan(plan, [size_bytes]).rows
    return float(row.time)


def best_for(
    fabric: Topology,
    collective: Collective,
    old: Plan,
    size_bytes: int,
    *,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
) -> tuple[SolveResult, CandidateSet]:
    """The fastest plan at a size.

    Parameters
    ----------
    fabric : Topology
    collective : Collective
    old : Plan
        To compare with.
    size_bytes : int
    time_limit_s : float, optional
        Limit of all candidates together; unfinished ones are left out. Default: a minute for each.
    progress : callable, optional

    Raises
    ------
    ScheduleError
        If none supports the fabric.

    Notes
    -----
    Breadth-first steps are short and lose bandwidth; trees have all the bandwidth, and many of them are small
    messages. One tree per root is often the best of both. Which it is, only a simulation of all messages
    shows: by T_L + T_B many trees look better than they are at small sizes.
    """
    until = None if time_limit_s is None else monotonic() + time_limit_s
    made: list[tuple[float, SolveResult]] = []
    outcomes: list[Candidate] = []
    for name, options in _algorithms(collective):
        label = " ".join([name, *(f"--{key} {value}" for key, value in options.items())])
        limit = _EXACT_TIME_LIMIT_S if name == EXACT else _TIME_LIMIT_S
        limit = limit if until is None else min(limit, max(0.0, until - monotonic()))
        try:
            with start(progress, limit):
                found = solve_problem(Problem(fabric, collective), name, keywords=options)
            if found.plan.algorithm != name or found.is_late:
                raise ScheduleError(f"not ready within {limit:.0f} s")
            seconds = simulated_s(found.plan, size_bytes)
        except TreadleError as error:
            outcomes.append(Candidate(label, reason=str(error)))
            continue
        made.append((seconds, found))
        outcomes.append(Candidate(label, seconds, found.algbw))
    if not made:
        reasons = "; ".join(f"{one.algorithm}: {one.reason}" for one in outcomes)
        raise ScheduleError(f"{fabric.name}: no algorithm supports the remaining fabric: {reasons}")
    _, best = min(made, key=lambda one: one[0])
    ranking = sorted(outcomes, key=lambda one: (one.seconds is None, one.seconds or 0.0))
    candidates = CandidateSet(size_bytes, simulated_s(old, size_bytes), tuple(ranking))
    return _with_least_bound(best, [one for _, one in made], size_bytes), candidates


def _algorithms(collective: Collective) -> list[tuple[str, OptionKeywords]]:
    """Return the candidate algorithms, with options."""
    one_tree = OptionKeywords(trees=1)
    candidates = [(BFB, OptionKeywords()), (FORESTCOLL, one_tree), (FORESTCOLL, OptionKeywords())]
    if collective.kind is CollectiveKind.ALLREDUCE:
        candidates.insert(1, (RS_AG, OptionKeywords()))
    if collective.n_ranks <= _MOST_EXACT_RANKS:
        candidates.append((EXACT, OptionKeywords()))
    return candidates


def _with_least_bound(best: SolveResult, made: list[SolveResult], size_bytes: int) -> SolveResult:
    """Return the best plan with the tightest bound of any candidate."""
    bounds = [one.bound for one in made if one.bound is not None]
    bound = min(bounds, key=lambda one: (one.algbw, not one.is_tight), default=None)
    plan, report = best.plan, best.report
    if bound is not None and bound != best.bound:
        problem = Problem(plan.topology, plan.collective)
        schedule = plan.entries[-1].schedule
        again, report = verified(problem, Result(schedule, bound, plan.algorithm))
        plan = replace(plan, optimal_algbw=again.optimal_algbw, certificate=again.certificate)
    plan = replace(plan, provenance={**plan.provenance, JUDGED_AT: size_bytes})
    return replace(best, plan=plan, report=report, bound=bound)
