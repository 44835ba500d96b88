"""All-to-all schedulers side by side: steps, routes and classic algorithms, each with its verifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import process_time
from types import MappingProxyType

from treadle.errors import ScheduleError
from treadle.planning.alltoall_candidates import ALLTOALL_ALGORITHMS, TSMCF
from treadle.planning.candidate import Bound, Options
from treadle.planning.problem import Problem
from treadle.planning.routing import best_routes
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.exchange import ExchangeSchedule
from treadle.schedules.routes import RouteSchedule
from treadle.schedules.verify import verify
from treadle.schedules.verify_routes import verify_routes
from treadle.schedules.violations import Report
from treadle.synthesis.alltoall.baselines import ALLTOALL_BASELINES, Baseline
from treadle.synthesis.alltoall.hierarchical import hierarchical_routes

ROUTES = "routes"
HIERARCHICAL = "hierarchical-routes"

_LARGE = 64
"""Ranks beyond which the slow ones have to be named to be run."""

_SLOW = (TSMCF, ROUTES, "ilp-disjoint", "ilp-shortest")
_STEPS = (*ALLTOALL_ALGORITHMS, "pairwise", *(name for name in ALLTOALL_BASELINES if "exchange" in name))
"""Store and forward: not for switches."""


Generator = Callable[[Problem, Options], RouteSchedule | ExchangeSchedule]


def _best(problem: Problem, options: Options) -> RouteSchedule:
    return best_routes(problem, watch=options.watch, chunks=options.chunks)


def _hierarchical(problem: Problem, options: Options) -> RouteSchedule:
    found = hierarchical_routes(problem.topology, problem.collective, chunks=options.chunks)
    return found.schedule


def _plain(baseline: Baseline) -> Generator:
    return lambda problem, _: baseline(problem.topology, problem.collective)


COMPARED_ONLY: Mapping[str, Generator] = MappingProxyType(
    {
        ROUTES: _best,
        HIERARCHICAL: _hierarchical,
        **{name: _plain(baseline) for name, baseline in ALLTOALL_BASELINES.items()},
    }
)
"""What `compare` runs besides the algorithms of `solve`."""


def fitting_names(problem: Problem) -> list[str]:
    """Algorithms that are made for such a fabric, the slow ones for small fabrics only."""
    has_switches = bool(problem.topology.switches.size)
    large = problem.collective.n_ranks > _LARGE
    return [
        name
        for name in (*ALLTOALL_ALGORITHMS, *COMPARED_ONLY)
        if not (has_switches and name in _STEPS)
        and not (large and name in _SLOW)
        and (has_switches or name != HIERARCHICAL)
    ]


def judged_alltoall(problem: Problem, name: str, bound: Bound, options: Options) -> tuple[Report, float]:
    """The verifier's report on a schedule of `COMPARED_ONLY`, and the CPU seconds to make it.

    Raises
    ------
    TreadleError
        If the algorithm cannot serve the problem.
    """
    if problem.collective.kind is not CollectiveKind.ALLTOALL:
        raise ScheduleError(f"{name} is for alltoall, not {problem.collective.kind}")
    start = process_time()
    schedule = COMPARED_ONLY[name](problem, options)
    seconds = process_time() - start
    topology, collective = problem.topology, problem.collective
    optimal, witness = bound.algbw, bound.witness
    if isinstance(schedule, RouteSchedule):
        report = verify_routes(topology, collective, schedule, claimed_optimal_algbw=optimal, witness=witness)
    else:
        report = verify(topology, collective, schedule, claimed_optimal_algbw=optimal, witness=witness)
    return report, seconds
