"""Necessary conditions that are checked before any search; each failure has a certificate."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

from treadle.errors import ScheduleError
from treadle.synthesis.steps.exact.exact_problem import ExactProblem


@dataclass(frozen=True)
class Obstruction:
    """A reason why no schedule exists: more has to enter some nodes than the steps can carry there.

    Parameters
    ----------
    nodes : tuple of int
        A node set Q.
    shards : tuple of int
        Shards with owners outside Q; all their chunks must enter Q.
    demand : int
        Chunks that must enter.
    supply : int
        Chunks that can: a link (u, w) into Q helps in step t (from 0) only if some of the owners is within
        t hops of u. Freely spread rounds count in the last step, where they help most. Less than `demand`.
    """

    nodes: tuple[int, ...]
    shards: tuple[int, ...]
    demand: int
    supply: int


def obstruction_of(
    problem: ExactProblem, nodes: tuple[int, ...], shards: tuple[int, ...]
) -> Obstruction | None:
    """The obstruction that a node set and shards make, or None if enough can enter.

    Raises
    ------
    ScheduleError
        If a shard's owner lies among the nodes.
    """
    inside = set(nodes)
    if any(problem.homes[shard] in inside for shard in shards):
        raise ScheduleError(
            "obstruction: the owner of a shard is among the nodes that the shard has to enter"
        )
    nearest = problem.distances[[problem.homes[shard] for shard in shards]].min(axis=0)
    supply = 0
    for tail, head, capacity in zip(problem.tails, problem.heads, problem.capacity, strict=True):
        if head in inside and tail not in inside:
            supply += capacity * sum(problem.late_rounds[int(nearest[tail]) :])
    demand = problem.chunks * len(shards)
    return Obstruction(nodes, shards, demand, supply) if supply < demand else None


def find_obstruction(problem: ExactProblem, cuts: tuple[tuple[int, ...], ...] = ()) -> Obstruction | None:
    """First failure of a necessary condition, or None.

    Conditions: everything that a single node must receive fits into its in-links in time (exact, by a flow;
    it contains the Moore-like condition that every owner is at most S hops away), and for each node set of
    `cuts` all shards from outside fit into its incoming links.

    Parameters
    ----------
    problem : ExactProblem
    cuts : tuple of tuple of int
        Node sets to try besides the single nodes, such as a bottleneck cut.
    """
    for node in range(problem.n_nodes):
        shards = _overloading_shards(problem, node)
        if shards:
            found = obstruction_of(problem, (node,), shards)
            assert found is not None, "a minimum cut is an obstruction"
            return found
    for nodes in cuts:
        shards = tuple(shard for shard, home in enumerate(problem.homes) if home not in set(nodes))
        found = obstruction_of(problem, nodes, shards) if shards else None
        if found is not None:
            return found
    return None


def _overloading_shards(problem: ExactProblem, node: int) -> tuple[int, ...]:
    """Shards that cannot all reach `node` through its in-links in time; empty if all can.

    Shards with equal distances to the in-neighbours are one supply node of a bipartite flow into the slots
    (in-link, step). A saturating flow exists unless some shards have too few slots (Hall's condition).
    """
    into = [link for link, head in enumerate(problem.heads) if head == node]
    classes: dict[tuple[int, ...], list[int]] = {}
    for shard, home in enumerate(problem.homes):
        if home != node:
            key = tuple(int(problem.distances[home, problem.tails[link]]) for link in into)
            classes.setdefault(key, []).append(shard)
    demands = [problem.chunks * len(shards) for shards in classes.values()]
    slots = [(i, step) for i in range(len(into)) for step in range(problem.steps)]
    room = [problem.capacity[into[i]] * problem.late_rounds[step] for i, step in slots]
    usable = [[j for j, (i, step) in enumerate(slots) if key[i] <= step] for key in classes]
    stuck = _unsaturated(demands, room, usable)
    members = list(classes.values())
    return tuple(sorted(shard for group in stuck for shard in members[group]))


def _unsaturated(demands: list[int], room: list[int], usable: list[list[int]]) -> set[int]:
    """Source side of a minimum cut of the bipartite flow; empty if every demand can be met."""
    flow: list[Counter[int]] = [Counter() for _ in demands]
    free = list(room)
    for source, demand in enumerate(demands):
        left = demand
        while left:
            entered, left_by, end = _search(source, usable, free, flow)
            # max-flow min-cut: what is still reached when no path is left needs more slots than it has
            if end is None:
                return set(left_by)
            amount, slot = min(left, free[end]), end
            # a path is as wide as the least that a group on it sends through the slot that it gives up
            while (group := entered[slot]) != source:
                slot = left_by[group]
                amount = min(amount, flow[group][slot])
            free[end] -= amount
            left -= amount
            slot = end
            while True:
                group = entered[slot]
                flow[group][slot] += amount
                if group == source:
                    break
                slot = left_by[group]
                flow[group][slot] -= amount
    return set()


def _search(
    source: int, usable: list[list[int]], free: list[int], flow: list[Counter[int]]
) -> tuple[dict[int, int], dict[int, int], int | None]:
    """Breadth-first search for a free slot: predecessor of each slot, the slot that each group gives up
    (the source has none: -1), and the slot found."""
    entered: dict[int, int] = {}
    left_by = {source: -1}
    queue = deque([source])
    while queue:
        group = queue.popleft()
        for slot in usable[group]:
            if slot in entered:
                continue
            entered[slot] = group
            if free[slot]:
                return entered, left_by, slot
            # the slot is full, but a group that sends through it may find room elsewhere and leave it
            for other, sent in enumerate(flow):
                if sent[slot] and other not in left_by:
                    left_by[other] = slot
                    queue.append(other)
    return entered, left_by, None
