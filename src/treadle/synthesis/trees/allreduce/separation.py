"""Violated cuts of rooted connectivity: every sink shall receive the entire supply of the roots.

One flow with a moving sink: what a sink received is pushed on to the next one in the residual network, and a
search that gets stuck has found a violated cut. See docs/proofs/forestcoll.md, "Testing condition C".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treadle.context import context

Number = int | float


@dataclass
class _Residual:
    """Arc a and its opposite a ^ 1; `out` lists the arcs that leave each node."""

    heads: list[int]
    free: list[Number]
    out: list[list[int]]
    tolerance: Number

    def push(self, source: int, sink: int, demand: Number) -> Number:
        """Augment by up to `demand` (Dinic); return the amount."""
        pushed: Number = 0
        while demand - pushed > self.tolerance:
            level = self._levels(source, sink)
            if level[sink] < 0:
                break
            cursor = [0] * len(self.out)
            while demand - pushed > self.tolerance:
                amount = self._augment(source, sink, demand - pushed, level, cursor)
                if not amount:
                    break
                pushed += amount
        return pushed

    def _levels(self, source: int, sink: int) -> list[int]:
        level = [-1] * len(self.out)
        level[source] = 0
        queue = deque([source])
        while queue:
            node = queue.popleft()
            if node == sink:
                break
            for arc in self.out[node]:
                head = self.heads[arc]
                if level[head] < 0 and self.free[arc] > self.tolerance:
                    level[head] = level[node] + 1
                    queue.append(head)
        return level

    def _augment(self, source: int, sink: int, demand: Number, level: list[int], cursor: list[int]) -> Number:
        path: list[int] = []
        node = source
        while node != sink:
            if cursor[node] == len(self.out[node]):
                if not path:
                    return 0
                node = self.heads[path.pop() ^ 1]
                cursor[node] += 1
                continue
            arc = self.out[node][cursor[node]]
            head = self.heads[arc]
            if level[head] == level[node] + 1 and self.free[arc] > self.tolerance:
                path.append(arc)
                node = head
            else:
                cursor[node] += 1
        amount = min(demand, min(self.free[arc] for arc in path))
        for arc in path:
            self.free[arc] -= amount
            self.free[arc ^ 1] += amount
        return amount

    def reachable(self, start: int, backwards: int = 0) -> set[int]:
        """Return the nodes that `start` reaches by free capacity; with `backwards` = 1, those that reach
        it."""
        seen, stack = {start}, [start]
        while stack:
            for arc in self.out[stack.pop()]:
                head = self.heads[arc]
                if head not in seen and self.free[arc ^ backwards] > self.tolerance:
                    seen.add(head)
                    stack.append(head)
        return seen


def violated_cuts(
    n_nodes: int,
    arcs: Sequence[tuple[int, int, Number]],
    supply: Mapping[int, Number],
    sinks: Sequence[int],
    *,
    tolerance: Number = 0,
) -> list[frozenset[int]]:
    """Return node sets S without some sink, and with less capacity out of S than the supply inside S.

    Parameters
    ----------
    n_nodes : int
    arcs : sequence of (tail, head, capacity)
    supply : mapping of node to amount
    sinks : sequence of int
    tolerance : number
        0 with integers; smaller shortfalls are overlooked.

    Returns
    -------
    list of frozenset
        The least and the greatest minimum cut for every sink that falls short, equal sets once; empty if
        and only if none falls short.

    Notes
    -----
    A super-source feeds each node its supply. Given a flow of the whole supply X to one sink, another sink t
    receives X if and only if the residual network carries X from the first sink to t: a set that holds the
    first sink but neither t nor the super-source has residual capacity of at least X anyway. So each sink
    after the first costs little more than rerouting the flow from its neighbour.
    """
    source, total = n_nodes, sum(supply.values())
    residual = _Residual([], [], [[] for _ in range(n_nodes + 1)], tolerance * 1e-3)
    feeds = [(source, node, amount) for node, amount in supply.items() if amount > 0]
    for tail, head, capacity in (*feeds, *arcs):
        for start, end, free in ((tail, head, capacity), (head, tail, 0)):
            residual.out[start].append(len(residual.heads))
            residual.heads.append(end)
            residual.free.append(free)
    found: dict[frozenset[int], None] = {}
    origin = source
    nodes = frozenset(range(n_nodes))
    for done, sink in enumerate(sinks):
        context().report("allreduce cuts", done, len(sinks))
        before = residual.free.copy()
        if residual.push(origin, sink, total) < total - tolerance:
            # two cuts of one flow: the nearest to where it starts and the nearest to the sink, both violated
            found[frozenset(residual.reachable(origin) - {source})] = None
            found[nodes - residual.reachable(sink, 1)] = None
            # undo: the next sink is fed from the last one that received everything
            residual.free = before
        else:
            origin = sink
    return list(found)
