"""A slow, independent judge of spanning-tree packings, and random Eulerian digraphs that have one."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from functools import cache
from itertools import combinations


@dataclass(frozen=True)
class SmallDigraph:
    """Nodes 0..n-1, trees wanted at each, capacity of each arc."""

    roots: tuple[int, ...]
    capacity: dict[tuple[int, int], int]

    @property
    def n_nodes(self) -> int:
        return len(self.roots)

    def slack(self) -> int:
        """The least d+(S) - r(S) over all proper non-empty S: a packing exists iff it is >= 0 (Edmonds)."""
        nodes, least = range(self.n_nodes), None
        for size in range(1, self.n_nodes):
            for inside in combinations(nodes, size):
                leaving = sum(c for (u, v), c in self.capacity.items() if u in inside and v not in inside)
                slack = leaving - sum(self.roots[v] for v in inside)
                least = slack if least is None else min(least, slack)
        assert least is not None
        return least


@cache
def random_eulerian(seed: int) -> SmallDigraph:
    """Random cycles, and random root multiplicities scaled to what the cuts carry; some instance per seed."""
    draw = random.Random(seed)
    n = draw.randint(2, 7)
    capacity: Counter[tuple[int, int]] = Counter()
    cycles = [draw.sample(range(n), n)]
    cycles += [draw.sample(range(n), draw.randint(2, n)) for _ in range(draw.randint(1, 2 * n))]
    for cycle in cycles:
        amount = draw.randint(1, 6)
        for tail, head in zip(cycle, cycle[1:] + cycle[:1], strict=True):
            capacity[tail, head] += amount
    roots = [draw.choice((0, 0, 1, 1, 2, 3)) for _ in range(n)]
    if not any(roots):
        roots[0] = 1
    instance = SmallDigraph(tuple(roots), dict(capacity))
    while instance.slack() < 0:
        roots[draw.choice([v for v in range(n) if roots[v]])] -= 1
        instance = SmallDigraph(tuple(roots), dict(capacity))
    while True:  # as many roots as fit, so that some cut is tight
        more = [v for v in draw.sample(range(n), n) if _with(instance, v).slack() >= 0]
        if not more or sum(instance.roots) >= 24:
            return instance
        instance = _with(instance, more[0])


def _with(instance: SmallDigraph, v: int) -> SmallDigraph:
    roots = list(instance.roots)
    roots[v] += 1
    return SmallDigraph(tuple(roots), instance.capacity)


def faults(
    instance: SmallDigraph, root: list[int], multiplicity: list[int], parent: list[list[int]]
) -> list[str]:
    """Everything wrong with a packing; empty if it is one."""
    found = []
    used: Counter[tuple[int, int]] = Counter()
    rooted: Counter[int] = Counter()
    for r, m, above in zip(root, multiplicity, parent, strict=True):
        if m < 1:
            found.append(f"multiplicity {m}")
        rooted[r] += m
        for v in range(instance.n_nodes):
            x, hops = v, 0
            while x != r and above[x] >= 0 and hops <= instance.n_nodes:
                x, hops = above[x], hops + 1
            if x != r:
                found.append(f"{v} is not reached from {r}")
            if v != r:
                used[above[v], v] += m
        if above[r] != -1:
            found.append(f"the root {r} has a parent")
    found += [f"arc {arc}: {m} trees" for arc, m in used.items() if m > instance.capacity.get(arc, 0)]
    found += [f"{rooted[v]} trees at {v}" for v, r in enumerate(instance.roots) if rooted[v] != r]
    return found
