"""Schedulers of the table that are tried on a problem by default."""

from __future__ import annotations

from treadle.inputs.problem import Problem
from treadle.schedulers.group_rates import own_fabric
from treadle.schedulers.schedulers import schedulers
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.scheduler import Comparing, Scheduler, no_switches

_LARGE = 64
"""Ranks beyond which the slow ones have to be named to be run."""


def fitting(problem: Problem, *, at_sizes: bool) -> list[Scheduler]:
    """Schedulers worth a row: for such collectives and fabrics, the slow ones for small fabrics only.

    Parameters
    ----------
    problem : Problem
    at_sizes : bool
        Those for small sizes too.

    Returns
    -------
    list of Scheduler
        Schedulers that do not support the problem for a reason other than switches; each is reported.
    """
    is_alltoall = problem.collective.kind is CollectiveKind.ALLTOALL
    has_switches = bool(problem.topology.switches.size)
    wanted = {
        Comparing.ALWAYS: True,
        Comparing.SMALL: problem.collective.n_ranks <= _LARGE,
        Comparing.SWITCHED: has_switches,
        Comparing.GROUPS: problem.collective.groups is not None,
        Comparing.ABLE: True,
        Comparing.MACHINES: problem.collective.groups is None,
        Comparing.SIZES: at_sizes and problem.collective.groups is None,
        Comparing.PRACTICE: at_sizes and problem.collective.groups is None,
        Comparing.NAMED: False,
    }
    return [
        scheduler
        for scheduler in schedulers()
        if (CollectiveKind.ALLTOALL in scheduler.collectives) == is_alltoall
        and not (has_switches and no_switches in scheduler.requirements)
        and (problem.collective.groups is None or _serves_groups(scheduler, problem))
        and wanted[scheduler.comparing]
        and (
            scheduler.comparing not in (Comparing.ABLE, Comparing.MACHINES)
            or scheduler.unsupported(problem.topology, problem.collective) is None
        )
    ]


def _serves_groups(scheduler: Scheduler, problem: Problem) -> bool:
    """Whether a scheduler supports several groups, all together or the first alone."""
    if scheduler.unsupported(problem.topology, problem.collective) is not None:
        return False
    return scheduler.in_groups or scheduler.unsupported(*own_fabric(problem, 0)) is None
