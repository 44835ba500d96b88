"""All-to-all schedulers side by side: steps, routes and classic algorithms, each with its verifier."""

from __future__ import annotations

from time import process_time

from treadle.errors import ScheduleError
from treadle.planning.problem import Problem
from treadle.planning.solving.alltoall_candidates import ALLTOALL_ALGORITHMS, TSMCF
from treadle.planning.solving.bounds import Bound
from treadle.planning.solving.route_candidates import HIERARCHICAL, ROUTE_ALGORITHMS, ROUTES
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.alltoall.baselines import ALLTOALL_BASELINES
from treadle.verification.schedules import verify
from treadle.verification.violations import Report

_LARGE = 64
"""Ranks beyond which the slow ones have to be named to be run."""

_SLOW = (TSMCF, ROUTES, "ilp-disjoint", "ilp-shortest", "mcf-extp", "path-mcf")
_STEPS = (*ALLTOALL_ALGORITHMS, "pairwise", *(name for name in ALLTOALL_BASELINES if "exchange" in name))
"""Store and forward: not for switches."""


COMPARED_ONLY = ALLTOALL_BASELINES
"""What `compare` runs besides the algorithms of `solve`."""


def fitting_names(problem: Problem) -> list[str]:
    """Algorithms that are made for such a fabric, the slow ones for small fabrics only."""
    has_switches = bool(problem.topology.switches.size)
    large = problem.collective.n_ranks > _LARGE
    return [
        name
        for name in (*ALLTOALL_ALGORITHMS, *ROUTE_ALGORITHMS, *COMPARED_ONLY)
        if not (has_switches and name in _STEPS)
        and not (large and name in _SLOW)
        and (has_switches or name != HIERARCHICAL)
    ]


def judged_alltoall(problem: Problem, name: str, bound: Bound) -> tuple[Report, float]:
    """The verifier's report on a schedule of `COMPARED_ONLY`, and the CPU seconds to make it.

    Raises
    ------
    TreadleError
        If the algorithm cannot serve the problem.
    """
    if problem.collective.kind is not CollectiveKind.ALLTOALL:
        raise ScheduleError(f"{name} is for alltoall, not {problem.collective.kind}")
    start = process_time()
    topology, collective = problem.topology, problem.collective
    schedule = COMPARED_ONLY[name](topology, collective)
    seconds = process_time() - start
    report = verify(topology, collective, schedule, claimed_optimal_algbw=bound.algbw, witness=bound.witness)
    return report, seconds
