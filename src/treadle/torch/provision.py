"""What rank 0 does for its group: find plans in a directory, synthesise one for the sizes they leave out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from treadle.errors import InfeasibleError, ScheduleError
from treadle.planning import solve
from treadle.planning.problem import Problem
from treadle.planning.solving.plan_directory import PlanIndex, find_group_plans, find_plans, has_gap
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.plan import Plan, PlanEntry
from treadle.topologies import subset
from treadle.topologies.topology import Topology
from treadle.torch.settings import Settings
from treadle.units import format_size

LOGGER = logging.getLogger("treadle.torch")


@dataclass(frozen=True)
class SharedPlan:
    """A plan, and in words where rank 0 had it from."""

    plan: Plan
    origin: str

    def entry_for(self, size_bytes: int) -> PlanEntry | None:
        """The plan's entry that serves a size."""
        return next((entry for entry in self.plan.entries if entry.serves(size_bytes)), None)


def problems_of(
    fabric: Topology, places: Sequence[int], kind: CollectiveKind, root: int | None
) -> tuple[Problem, ...]:
    """A collective of some of a fabric's compute nodes: with the other nodes absent, then as forwarders.

    Parameters
    ----------
    fabric : Topology
    places : sequence of int
        Of the group's ranks among the compute nodes, in the order of the ranks.
    kind : CollectiveKind
    root : int, optional
        Rank in the group.

    Returns
    -------
    tuple of Problem
        One if the group has all compute nodes, else two.
    """
    nodes = tuple(int(fabric.compute_nodes[place]) for place in places)
    others = tuple(int(node) for node in fabric.compute_nodes if int(node) not in set(nodes))
    part = fabric if nodes == tuple(fabric.compute_nodes.tolist()) else subset(fabric, *places)
    alone = Problem(part, Collective(kind, tuple(part.compute_nodes.tolist()), root=root))
    if not others:
        return (alone,)
    return alone, Problem(fabric, Collective(kind, nodes, root=root, forwarders=others))


def provide(problems: Sequence[Problem], index: PlanIndex | None, settings: Settings) -> list[SharedPlan]:
    """Plans that together serve all sizes: those of the directory, then a new one if they leave some out.

    First come those in which other groups communicate at the same time.

    Parameters
    ----------
    problems : sequence of Problem
        Of `problems_of`.
    index : PlanIndex, optional
        Of the directory of plans.
    settings : Settings

    Raises
    ------
    TreadleError
        If a new plan is needed and none can be made.
    """
    plans: list[SharedPlan] = []
    if index is not None:
        whole = problems[-1]
        found = find_group_plans(index, whole.topology, whole.collective)
        for line in found.problems:
            LOGGER.warning("a plan is left out: %s", line)
        plans += [SharedPlan(plan, f"one group of {_file_origin(path, plan)}") for path, plan in found.plans]
        for problem in problems:
            found = find_plans(index, problem.topology, problem.collective)
            for line in found.problems:
                LOGGER.warning("a plan is left out: %s", line)
            plans += [SharedPlan(plan, _file_origin(path, plan)) for path, plan in found.plans]
    if has_gap([(entry.min_bytes, entry.max_bytes) for one in plans for entry in one.plan.entries]):
        plans.append(_synthesised(problems, settings))
    return plans


def _file_origin(path: Path, plan: Plan) -> str:
    last = plan.entries[-1].max_bytes
    sizes = (
        f"from {format_size(plan.entries[0].min_bytes)} {'on' if last is None else f'to {format_size(last)}'}"
    )
    return f"plan file {path} ({plan.algorithm}, sizes {sizes})"


def _synthesised(problems: Sequence[Problem], settings: Settings) -> SharedPlan:
    """A new plan; the nodes outside the group forward only where its own do not reach one another."""
    start = monotonic()
    try:
        plan = _solved(problems[0], settings)
    except InfeasibleError:
        if len(problems) == 1:
            raise
        plan = _solved(problems[-1], settings)
    seconds = monotonic() - start
    return SharedPlan(
        plan, f"plan synthesised by {plan.algorithm} on {plan.topology.name} in {seconds:.2f} s"
    )


def _solved(problem: Problem, settings: Settings) -> Plan:
    kind, limit = problem.collective.kind, settings.time_limit_s
    algorithm = settings.algorithms.get(kind, settings.algorithm)
    try:
        result = solve(problem.topology, problem.collective, algorithm=algorithm, time_limit_s=limit)
    except ScheduleError as error:
        if algorithm is None or kind in settings.algorithms:
            raise
        LOGGER.info("%s does not serve %s (%s)", algorithm, kind, error)
        result = solve(problem.topology, problem.collective, time_limit_s=limit)
    return result.plan
