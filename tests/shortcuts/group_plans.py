"""Schedules of several groups at once: random trees, and each group's best alone."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np

from samples.program_cases import fabric, random_forest
from treadle import planning
from treadle.program.group_lists import ProgramGroups
from treadle.program.operation_lists import OperationKind
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.transfer import transfer_schedule
from treadle.schedules.trees.forest import Direction, ForestSchedule
from treadle.schedules.trees.forest_cost import group_algbw
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies import parse, subset
from treadle.topologies.topology import Topology


def random_groups(
    seed: int, kind: CollectiveKind, n_groups: int = 0, *, size: int = 0
) -> tuple[Topology, Collective, GroupSchedule]:
    """Two to four groups of two to four ranks, of other numbers of trees each, on a clique or a star."""
    rng = random.Random(f"{seed} {kind}")
    size, n_groups = size or rng.randint(2, 4), n_groups or rng.randint(2, 4)
    topology = fabric(size * n_groups, star=rng.random() < 0.5)
    order = list(range(size * n_groups))
    rng.shuffle(order)
    groups = tuple(tuple(sorted(order[start : start + size])) for start in range(0, len(order), size))
    root = rng.randrange(size) if kind.is_rooted else None
    collective = Collective(kind, tuple(topology.compute_nodes.tolist()), root=root, groups=groups)
    schedules = []
    for group in groups:
        part = subset(topology, *group)
        units = [rng.randint(1, 6)] * size
        if root is not None:
            units = [units[0] * (rank == root) for rank in range(size)]
        schedule = ForestSchedule(
            kind,
            reduce=random_forest(part, rng, Direction.REDUCE, units) if kind.reduces else None,
            broadcast=random_forest(part, rng, Direction.BROADCAST, units) if kind.broadcasts else None,
        )
        schedules.append(transfer_schedule(schedule, part, topology))
    return topology, collective, GroupSchedule(kind, tuple(schedules))


def solved_alone(
    expression: str,
    kind: CollectiveKind,
    mesh: Mesh,
    axes: str,
    *,
    root: int | None = None,
    forward: bool = False,
) -> Plan:
    """The best schedule of every group by itself, all at once: not the best of all."""
    topology = parse(expression)
    nodes = tuple(topology.compute_nodes.tolist())
    collective = Collective(kind, nodes, root=root, groups=mesh.groups(axes), ranks_forward=forward)
    schedules = []
    for number in range(collective.n_groups or 0):
        member, part = collective.member(number), topology
        if not forward:
            part = subset(topology, *(nodes.index(node) for node in member.ranks))
            own = tuple(part.node_index(topology.node_names[node]) for node in member.ranks)
            member = Collective(kind, own, root=root)
        found = planning.solve(part, member, algorithm="forestcoll").plan.entries[-1].schedule
        schedules.append(transfer_schedule(found, part, topology))
    schedule = GroupSchedule(kind, tuple(schedules))  # type: ignore[arg-type]
    entry = PlanEntry(0, None, schedule)
    return Plan(topology, collective, (entry,), "each alone", group_algbw(topology, schedule))


def without_sum(groups: ProgramGroups, number: int) -> ProgramGroups:
    """One group's first sum left out."""
    program = groups.programs[number]
    kinds = program.operation_kind.copy()
    kinds[np.flatnonzero(kinds == OperationKind.RECEIVE_REDUCE)[0]] = OperationKind.RECEIVE
    programs = [*groups.programs]
    programs[number] = replace(program, operation_kind=kinds)
    return ProgramGroups(tuple(programs), groups.groups)
