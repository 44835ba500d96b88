"""Trees of several groups at once, by name of the algorithm that makes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from time import process_time

from treadle.errors import ScheduleError, TreadleError
from treadle.planning.problem import Problem
from treadle.planning.solving.bounds import (
    algbw_of_phases,
    bound_of_groups,
    bracket_note,
    groups_optimum,
    phase_optima,
)
from treadle.planning.solving.candidate import Candidate
from treadle.planning.solving.schedulers import find_scheduler
from treadle.planning.solving.transfer import transfer_collective, transfer_schedule
from treadle.refusal import Refusal
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.synthesis.scheduler_options import Form, flag_of
from treadle.synthesis.trees.groups.group_optimum import GroupOptimum
from treadle.synthesis.trees.groups.share_forests import lean_forests, two_phases
from treadle.topologies import subset
from treadle.verification.schedules import verify
from treadle.watch import UNWATCHED, Watch

QUICK = ("hierarchical-ring", "ring", "multitree", "double-binary-tree")
"""Tried for each group when time has run out; all of them are quick."""

_EXACT = ("exact", "form")
"""What may be asked for: groups take just as many trees as their shares hold."""

_PHASES = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLGATHER)


def group_candidate(
    problem: Problem, algorithm: str, asked: Mapping[str, object], *, watch: Watch = UNWATCHED
) -> Candidate:
    """Trees of all groups that together attain the optimum.

    Parameters
    ----------
    problem : Problem
        In groups.
    algorithm : str
        The candidate's name.
    asked : mapping
        Options by field; those that limit the number of trees are refused.
    watch : Watch

    Raises
    ------
    ScheduleError
        If an option was asked for that groups do not heed.
    InfeasibleError
        If a member of a group cannot be reached, or there are too many trees.
    TimeLimitError
        If the deadline passed before anything was known of the optimum.
    """
    _check_asked(algorithm, asked)
    start = process_time()
    optimum = groups_optimum(problem, watch)
    phases = _phases(problem, watch)
    seconds = {"optimum": process_time() - start}
    start = process_time()
    if phases is not None and phases.algbw >= optimum.lower:
        schedule, notes = phases.schedule(watch), phases.told(optimum.upper)
    else:
        schedule = lean_forests(problem.topology, problem.collective, optimum, watch=watch)
        notes = () if phases is None else phases.beaten(optimum.lower)
    seconds["trees"] = process_time() - start
    return Candidate(
        algorithm,
        schedule,
        bound_of_groups(problem, optimum),
        seconds=seconds,
        notes=(*notes, *bracket_note(optimum)),
        is_late=watch.is_late and not optimum.is_exact,
        groups=optimum,
        rs_ag=None if phases is None else phases.algbw,
    )


@dataclass(frozen=True)
class _Phases:
    """An allreduce as the reduce-scatters of all groups and then their allgathers."""

    problem: Problem
    scatter: GroupOptimum
    gather: GroupOptimum

    @property
    def algbw(self) -> Fraction:
        """Of both, one after the other."""
        return algbw_of_phases((self.scatter, self.gather))

    def schedule(self, watch: Watch) -> GroupSchedule:
        """The trees of both."""
        topology, collective = self.problem.topology, self.problem.collective
        scatter, gather = (
            lean_forests(topology, replace(collective, kind=kind), optimum, watch=watch)
            for kind, optimum in zip(_PHASES, (self.scatter, self.gather), strict=True)
        )
        return two_phases(scatter, gather)

    def told(self, upper: Fraction) -> tuple[str, ...]:
        """Where nothing better is known."""
        if self.algbw == upper:
            return ("reduce-scatter + allgather is optimal",)
        return ("built as reduce-scatter + allgather",)

    def beaten(self, algbw: Fraction) -> tuple[str, ...]:
        """Where trees with free roots are better."""
        share = float(self.algbw / algbw)
        return (
            f"built as in-trees and out-trees with free roots; reduce-scatter + allgather reaches "
            f"{share:.2%} of it",
        )


def _phases(problem: Problem, watch: Watch) -> _Phases | None:
    """Those of an allreduce, if there is time to look at them."""
    optima = phase_optima(problem, watch)
    return None if optima is None else _Phases(problem, *optima)


def _check_asked(algorithm: str, asked: Mapping[str, object]) -> None:
    """Refuse options that groups do not heed."""
    wanted = [name for name, value in asked.items() if value not in (None, False) and name not in _EXACT]
    if wanted:
        raise ScheduleError(
            f"{algorithm}: {flag_of(wanted[0])} is for one group of ranks; several at once take the "
            f"trees that their shares of the links hold; leave it out"
        )
    if asked.get("form") == Form.FACTORED:
        raise ScheduleError(f"{algorithm}: trees of several groups are written out, not factored (--form)")


def quick_groups(problem: Problem) -> Candidate:
    """The best baseline, each group by itself, for when time has run out; no bound.

    Raises
    ------
    ScheduleError
        If none fits.
    """
    found: list[tuple[Fraction, Candidate]] = []
    for name in QUICK:
        try:
            schedule = _by_itself(problem, name)
        except TreadleError:
            continue
        report = verify(problem.topology, problem.collective, schedule)
        if report.is_ok and report.algbw is not None:
            found.append((report.algbw, Candidate(name, schedule, None)))
    if not found:
        raise ScheduleError(
            f"{problem.topology.name}: the time limit was reached and no quick schedule fits the groups; "
            f"allow more time"
        )
    return max(found, key=lambda entry: entry[0])[1]


def _by_itself(problem: Problem, name: str) -> GroupSchedule:
    """A baseline for each group on the nodes that it may use."""
    topology, collective = problem.topology, problem.collective
    scheduler, made = find_scheduler(name), []
    for group in range(collective.n_groups or 0):
        member = collective.member(group)
        own = subset(topology, *(topology.node_names[node] for node in (*member.ranks, *member.forwarders)))
        inner = transfer_collective(member, topology, own)
        refusal = scheduler.refusal(own, inner)
        if isinstance(refusal, Refusal):
            raise ScheduleError(f"{name}: {refusal}")
        schedule = transfer_schedule(scheduler.make(own, inner, {}), own, topology)
        assert isinstance(schedule, ForestSchedule)
        made.append(schedule)
    return GroupSchedule(collective.kind, tuple(made))
