"""MultiTree's growth against the same rules without bit masks, on random odd fabrics."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Forest
from treadle.synthesis.trees.baselines.multitree import multitree
from treadle.synthesis.trees.tree_parts import single_path_trees
from treadle.topologies.topology import Topology, TopologyBuilder

Edge = tuple[int, int, tuple[int, ...]]


class Grown:
    """Free links of a time step, and trees that take turns."""

    def __init__(self, topology: Topology, ranks: tuple[int, ...]) -> None:
        self.ranks, self.rank_of = ranks, {node: rank for rank, node in enumerate(ranks)}
        self.ends = list(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
        self.bandwidths = topology.bandwidths.tolist()
        unit = min(self.bandwidths)
        self.capacity = [
            0 if t == h else b // unit for (t, h), b in zip(self.ends, self.bandwidths, strict=True)
        ]
        self.free = list(self.capacity)
        reached = {x: self.reached(x) for t, x in self.ends if t in self.rank_of and t != x}
        self.targets = {x: found for x, found in reached.items() if found}
        self.order = sorted(self.targets, key=self.nearness)

    def reached(self, x: int) -> dict[int, int]:
        """Ranks behind a first hop, with their distance."""
        distance, queue = {x: 0}, deque([x])
        while queue:
            node = queue.popleft()
            if node in self.rank_of:
                continue
            for tail, head in self.ends:
                if tail == node and head not in distance:
                    distance[head] = distance[node] + 1
                    queue.append(head)
        return {self.rank_of[node]: hops for node, hops in distance.items() if node in self.rank_of}

    def nearness(self, x: int) -> tuple[int, int, int]:
        into = [e for e, (t, h) in enumerate(self.ends) if h == x != t and t in self.rank_of]
        hops = sorted(self.targets[x].values())
        # of a switch's ranks the nearest is mostly the sender
        place = 0 if x in self.rank_of else min(1, len(hops) - 1)
        return hops[place], -max(self.bandwidths[e] for e in into), x

    def link(self, tail: int, head: int) -> int | None:
        return next((e for e, ends in enumerate(self.ends) if ends == (tail, head) and self.free[e]), None)

    def path(self, x: int, goal: int) -> tuple[int, ...] | None:
        """Breadth first from the goal."""
        if x == goal:
            return ()
        onward: dict[int, tuple[int, ...]] = {goal: ()}
        queue = deque([goal])
        while queue:
            node = queue.popleft()
            last = self.link(x, node)
            if last is not None:
                return (last, *onward[node])
            for e, (tail, head) in enumerate(self.ends):
                if head == node and tail not in onward and tail not in self.rank_of and self.free[e]:
                    onward[tail] = (e, *onward[node])
                    queue.append(tail)
        return None

    def edge(self, root: int, joined: set[int], missing: set[int]) -> Edge | None:
        n = len(self.ranks)
        for x in self.order:
            senders = [r for r in joined if self.link(self.ranks[r], x) is not None]
            if not senders or not missing & set(self.targets[x]):
                continue
            sender = min(senders, key=lambda r: (r - root) % n)
            for target in sorted(missing & set(self.targets[x]), key=lambda r: (r - sender) % n):
                way = self.path(x, self.ranks[target])
                first = self.link(self.ranks[sender], x)
                if way is not None and first is not None:
                    for e in (first, *way):
                        self.free[e] -= 1
                    return sender, target, (first, *way)
        return None

    def trees(self, weights: tuple[int, ...]) -> dict[int, dict[int, tuple[int, tuple[int, ...]]]] | None:
        """By root the parent and path of each rank."""
        found: dict[int, dict[int, tuple[int, tuple[int, ...]]]] = {r: {} for r, w in enumerate(weights) if w}
        growing, n = list(found), len(weights)
        while growing:
            self.free = list(self.capacity)
            before = {root: {root, *found[root]} for root in growing}
            turn, grew = list(growing), False
            while turn:
                following = []
                for root in turn:
                    edge = self.edge(root, before[root], set(range(n)) - {root} - set(found[root]))
                    if edge is not None:
                        found[root][edge[1]] = edge[0], edge[2]
                        grew = True
                        following += [root] if len(found[root]) < n - 1 else []
                turn = following
            if not grew:
                return None
            growing = [root for root in growing if len(found[root]) < n - 1]
            growing = growing[1:] + growing[:1]
        return found


def random_fabric(seed: int) -> Topology:
    """Five ranks and three switches, of unequal bandwidths, some links parallel and some loops."""
    chance, builder = np.random.default_rng(seed), TopologyBuilder("odd")
    names = ["s", "a", "b", "t", "c", "d", "u", "e"]
    for name in names:
        if name in "stu":
            builder.switch(name)
        else:
            builder.compute(name)
    for one, other in (("a", "s"), ("b", "s"), ("c", "t"), ("d", "t"), ("s", "u"), ("t", "u"), ("e", "u")):
        builder.duplex(one, other, int(chance.integers(2, 9)))
    for _ in range(9):
        one, other = chance.integers(0, 8, 2).tolist()
        builder.link(names[one], names[other], int(chance.integers(2, 9)))
    return builder.build()


@pytest.mark.parametrize("seed", range(12))
def test_trees_grow_by_turns(seed: int) -> None:
    fabric, chance = random_fabric(seed), np.random.default_rng(seed)
    ranks = tuple(chance.permutation(fabric.compute_nodes).tolist())
    weights = (1, 2, 0, 3, 1) if seed % 2 else (1, 1, 1, 1, 1)
    made = multitree(fabric, Collective(CollectiveKind.ALLGATHER, ranks, weights=weights)).broadcast
    wanted = Grown(fabric, ranks).trees(weights)
    assert isinstance(made, Forest)
    assert wanted is not None
    assert made.root_multiplicity.tolist() == list(weights)
    found = {
        spec.root: {rank: (spec.parent[rank], way) for rank, ((way, _),) in spec.paths.items()}
        for spec in single_path_trees(made)
    }
    assert found == wanted


def test_a_rank_that_nobody_reaches() -> None:
    builder = TopologyBuilder("gap")
    for name in "abc":
        builder.compute(name)
    builder.duplex("a", "b", 2)
    builder.link("c", "a", 2)
    fabric = builder.build()
    with pytest.raises(InfeasibleError) as refused:
        multitree(fabric, Collective(CollectiveKind.ALLGATHER, (0, 1, 2)))
    assert str(refused.value) == "gap: some rank cannot be reached; connect the fabric"
    made = multitree(fabric, Collective(CollectiveKind.ALLGATHER, (0, 1, 2), weights=(0, 0, 1)))
    assert [list(spec.parent) for spec in single_path_trees(made.forests[0])] == [[2, 0, -1]]
