"""Plans of a process group: made known by rank 0 through the group's store, chosen by each rank by size."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from time import monotonic

from torch._C._distributed_c10d import Store

from treadle.api.solve import solve
from treadle.errors import FormatError, InfeasibleError, ScheduleError, TreadleError
from treadle.inputs.problem import Problem
from treadle.program.any_schedule import lower
from treadle.program.program import Program
from treadle.runtime.rank_script import PreparedRank
from treadle.schedulers.plan_directory import (
    PlanIndex,
    find_group_plans,
    find_plans,
    has_gap,
    index_plans,
)
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.plan_files.archive import dump_plan, parse_plan
from treadle.topologies import subset
from treadle.topologies.topology import Topology
from treadle.torch.settings import Settings
from treadle.units import format_size

LOGGER = logging.getLogger("treadle.torch")

MAX_SHARED_BYTES = 2**28
"""Largest plan file that goes through the store."""


@dataclass(frozen=True)
class Membership:
    """A process group as its plans see it.

    Parameters
    ----------
    rank : int
        Of this process in the group.
    places : tuple of int
        Of the group's ranks among the compute nodes of the fabric.
    fabric : Topology
        Of the whole job.
    """

    name: str
    rank: int
    places: tuple[int, ...]
    fabric: Topology
    timeout: timedelta


@dataclass(frozen=True)
class SharedPlan:
    """A plan, and in words where rank 0 had it from."""

    plan: Plan
    origin: str


@dataclass(frozen=True)
class PlanTable:
    """The plans of one collective, the same at all ranks.

    Parameters
    ----------
    plans : tuple of SharedPlan
        The first that supports a size is used.
    refusal : str
        Why there is none.
    """

    plans: tuple[SharedPlan, ...]
    refusal: str = ""


@dataclass(frozen=True, eq=False)
class SizedProgram:
    """Actions of all ranks for some sizes of a collective, the fabric, and the origin of the plan."""

    program: Program
    topology: Topology
    origin: str


class PlanSource:
    """Finds this rank's part of the program for a collective and a size; all ranks choose equally.

    Parameters
    ----------
    store : Store
        Of the group alone.
    """

    def __init__(self, store: Store, group: Membership, settings: Settings) -> None:
        self._store, self._group = store, group
        # the other ranks wait for a plan no longer than the group's timeout
        limit = min(settings.time_limit_s, group.timeout.total_seconds() / 2)
        self._settings = replace(settings, time_limit_s=limit)
        self._index: PlanIndex | None = None
        self._tables: dict[tuple[CollectiveKind, int], PlanTable] = {}
        self._programs: dict[tuple[CollectiveKind, int, int, bool], SizedProgram] = {}
        self._parts: dict[int, PreparedRank] = {}

    def part(self, kind: CollectiveKind, root: int, size_bytes: int, *, in_place: bool) -> PreparedRank:
        """This rank's part of the program for a collective.

        Parameters
        ----------
        root : int
            Rank in the group; -1 where there is none.
        size_bytes : int
            The collective's larger per-rank buffer.

        Raises
        ------
        TreadleError
            If no plan exists, at all ranks.
        RuntimeError
            If rank 0 does not answer within the group's timeout.
        """
        program = self.program(kind, root, size_bytes, in_place=in_place).program
        if id(program) not in self._parts:  # which is kept
            self._parts[id(program)] = PreparedRank(program, self._group.rank)
        return self._parts[id(program)]

    def program(self, kind: CollectiveKind, root: int, size_bytes: int, *, in_place: bool) -> SizedProgram:
        """The program of all ranks for a collective; parameters and errors as of `part`."""
        if (kind, root) not in self._tables:
            self._tables[kind, root] = self._table_of_rank_0(kind, root)
        table = self._tables[kind, root]
        for shared in table.plans:
            for entry in shared.plan.entries:
                if entry.supports(size_bytes):
                    key = (kind, root, id(entry), in_place)  # the table keeps the entry alive
                    if key not in self._programs:
                        self._programs[key] = self._lower_entry(shared, entry, size_bytes, in_place)
                    return self._programs[key]
        raise ScheduleError(table.refusal)

    def _lower_entry(
        self, shared: SharedPlan, entry: PlanEntry, size_bytes: int, in_place: bool
    ) -> SizedProgram:
        plan = shared.plan
        program = lower(plan.topology, plan.collective, entry.schedule, in_place=in_place)
        if self._group.rank == 0:
            root = "" if plan.collective.root is None else f" (root {plan.collective.root})"
            LOGGER.info(
                "group %s: %s%s of %d ranks, first of %s: %s",
                self._group.name,
                plan.collective.kind,
                root,
                len(self._group.places),
                format_size(size_bytes),
                shared.origin,
            )
        return SizedProgram(program, plan.topology, shared.origin)

    def _table_of_rank_0(self, kind: CollectiveKind, root: int) -> PlanTable:
        key = f"treadle-plans/{kind}/{root}"
        if self._group.rank == 0:
            table = self._own_table(kind, root)
            for number, shared in enumerate(table.plans):
                self._store.set(f"{key}/{number}", dump_plan(shared.plan))
            head = {"origins": [shared.origin for shared in table.plans], "refusal": table.refusal}
            self._store.set(key, json.dumps(head))
            return table
        self._store.wait([key], self._group.timeout)
        head = json.loads(self._store.get(key))
        return PlanTable(
            tuple(
                SharedPlan(parse_plan(self._store.get(f"{key}/{number}"), source="rank 0"), str(origin))
                for number, origin in enumerate(head["origins"])
            ),
            str(head["refusal"]),
        )

    def _own_table(self, kind: CollectiveKind, root: int) -> PlanTable:
        try:
            if self._index is None and self._settings.plans is not None:
                self._index = index_plans(self._settings.plans)
                for line in self._index.problems:
                    LOGGER.warning("a plan is left out: %s", line)
            group = self._group
            problems = problems_of(group.fabric, group.places, kind, root if kind.is_rooted else None)
            plans = provide(problems, self._index, self._settings)
            if any(len(dump_plan(shared.plan)) > MAX_SHARED_BYTES for shared in plans):
                raise FormatError(f"the plan file is larger than {format_size(MAX_SHARED_BYTES)}")
        except TreadleError as error:
            return PlanTable((), str(error))
        except Exception as error:  # the other ranks wait for an answer, whatever goes wrong
            LOGGER.exception("group %s: no plan for %s", self._group.name, kind)
            return PlanTable((), f"{type(error).__name__} while making a plan: {error}")
        return PlanTable(tuple(plans))


def problems_of(
    fabric: Topology, places: Sequence[int], kind: CollectiveKind, root: int | None
) -> tuple[Problem, ...]:
    """A collective of some of a fabric's compute nodes: with the other nodes absent, then as forwarders.

    Parameters
    ----------
    places : sequence of int
        Of the group's ranks among the compute nodes, in the order of the ranks.
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
    """Return plans that together support all sizes: those of the directory, then a new one if needed.

    First come those in which other groups communicate at the same time.

    Parameters
    ----------
    problems : sequence of Problem
        Of `problems_of`.
    index : PlanIndex, optional
        Of the directory of plans.

    Raises
    ------
    TreadleError
        If a new plan is needed and none can be made.
    """
    plans: list[SharedPlan] = []
    if index is not None:
        searches = [(problems[-1], find_group_plans, "one group of ")]
        searches += [(problem, find_plans, "") for problem in problems]
        for problem, find, prefix in searches:
            found = find(index, problem.topology, problem.collective)
            for line in found.problems:
                LOGGER.warning("a plan is left out: %s", line)
            plans += [SharedPlan(plan, f"{prefix}{_file_origin(path, plan)}") for path, plan in found.plans]
    if has_gap([(entry.min_bytes, entry.max_bytes) for one in plans for entry in one.plan.entries]):
        plans.append(_synthesised(problems, settings))
    return plans


def _file_origin(path: Path, plan: Plan) -> str:
    first, last = plan.entries[0].min_bytes, plan.entries[-1].max_bytes
    end = "on" if last is None else f"to {format_size(last)}"
    return f"plan file {path} ({plan.algorithm}, sizes from {format_size(first)} {end})"


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
