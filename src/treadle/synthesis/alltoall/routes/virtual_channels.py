"""Layers (virtual channels) for given paths, so that no set of packets can block each other for ever.

A layer is free of deadlock if and only if the waits between its links have no cycle (Dally and Seitz 1987).
LASH puts each path into the first layer that stays free. On all fabrics tried it took at most as many layers
as DF-SSSP, which puts all paths into one layer and removes those that close its cycles.
"""

from __future__ import annotations

from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

import numpy as np

from treadle.arrays import Int32Array
from treadle.context import context, under
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.path_sets import PathSet
from treadle.topologies.topology import Topology

_MOST_WORK = 2**30
"""Waits times links times ranks up to which `shared_waits_cycle` is tried."""

_BEAT_PATHS = 2**10
"""Paths between two checks of the deadline."""

Waits = list[tuple[int, int]]
"""(link, next link) along a path: the first is held while the second is waited for."""


class ChannelDependencies:
    """Acyclic channel dependencies: a digraph with a topological order, extended one dependency at a time.

    Parameters
    ----------
    n_links : int

    Notes
    -----
    The order is repaired locally when a wait goes against it (Pearce and Kelly, 2006).
    """

    def __init__(self, n_links: int) -> None:
        self.place = list(range(n_links))
        self._after: list[set[int]] = [set() for _ in range(n_links)]
        self._before: list[set[int]] = [set() for _ in range(n_links)]
        self._rejected: set[tuple[int, int]] = set()

    def add(self, waits: Waits) -> bool:
        """Add all, or none if they would close a cycle; return whether they were added."""
        if any(wait in self._rejected for wait in waits):
            return False
        added: Waits = []
        for a, b in waits:
            if b in self._after[a]:
                continue
            if not self._insert(a, b):
                if not added:
                    self._rejected.add((a, b))  # for good, since the digraph only grows
                for held, wanted in added:
                    self._after[held].discard(wanted)
                    self._before[wanted].discard(held)
                return False
            added.append((a, b))
        return True

    def _insert(self, a: int, b: int) -> bool:
        if self.place[a] > self.place[b] and not self._repair(a, b):
            return False
        self._after[a].add(b)
        self._before[b].add(a)
        return a != b

    def _repair(self, a: int, b: int) -> bool:
        """Order b behind a; return False if b leads to a."""
        forward = self._between(b, a, self._after)
        if forward is None:
            return False
        backward = self._between(a, b, self._before)
        assert backward is not None, "a leads to b, not back"
        moved = sorted(backward, key=self.place.__getitem__) + sorted(forward, key=self.place.__getitem__)
        for link, place in zip(moved, sorted(self.place[link] for link in moved), strict=True):
            self.place[link] = place
        return True

    def _between(self, start: int, end: int, neighbours: list[set[int]]) -> set[int] | None:
        """Return the links reached from one in the order's range up to another; None if that is reached."""
        low, high = sorted((self.place[start], self.place[end]))
        found, stack = {start}, [start]
        while stack:
            for link in neighbours[stack.pop()]:
                if link == end:
                    return None
                if link not in found and low < self.place[link] < high:
                    found.add(link)
                    stack.append(link)
        return found


def waits_of(paths: PathSet) -> list[Waits]:
    """Return the waits along every path."""
    links, offset = paths.links.tolist(), paths.offset.tolist()
    return [
        list(zip(links[low : high - 1], links[low + 1 : high], strict=True)) for low, high in pairwise(offset)
    ]


def lash_layers(paths: PathSet, n_links: int) -> Int32Array:
    """Put every path into the first layer that stays free of cycles, long paths first.

    Parameters
    ----------
    paths : PathSet
    n_links : int
        m of the fabric.

    Returns
    -------
    array of int32, shape (k,)
        Layers from 0.

    Raises
    ------
    TimeLimitError
        If the deadline passes.

    Notes
    -----
    LASH (Skeie, Lysne and Theiss, 2002) one path after another, as the all-to-all paper's LASH-sequential.
    """
    return fill_layers(paths, n_links, None)[0]


def with_layers(topology: Topology, schedule: RouteSchedule) -> RouteSchedule:
    """Return the same routes in layers without cyclic waits, by LASH, long paths first."""
    paths = PathSet(schedule.source, schedule.target, schedule.path_offset, schedule.path_links)
    with under(context().unlimited):  # without layers the paths would be of no use
        layer = lash_layers(paths, topology.n_links)
    return replace(schedule, layer=layer)


def fill_layers(
    paths: PathSet, n_links: int, max_layers: int | None
) -> tuple[Int32Array, list[ChannelDependencies]]:
    """Return the layer of each path by first fit, long ones first, -1 if none fits; and the layers' waits."""
    layers, waits = list[ChannelDependencies](), waits_of(paths)
    chosen = np.full(len(waits), -1, dtype=np.int32)
    for done, path in enumerate(np.argsort(-paths.hops, kind="stable").tolist()):
        if done % _BEAT_PATHS == 0:
            context().report("layers", done, len(waits))
        for number, layer in enumerate(layers):
            if layer.add(waits[path]):
                chosen[path] = number
                break
        else:
            if max_layers is None or len(layers) < max_layers:
                layers.append(ChannelDependencies(n_links))
                if layers[-1].add(waits[path]):
                    chosen[path] = len(layers) - 1
    return chosen, layers


def shared_waits_cycle(topology: Topology, collective: Collective) -> bool:
    """Whether the waits that every routing has form a cycle, so that a single layer always deadlocks.

    Parameters
    ----------
    topology : Topology
    collective : Collective

    Returns
    -------
    bool
        False proves nothing; it is also returned for fabrics too large to try.

    Notes
    -----
    A wait (a, b), where a leads to b's tail, is shared if some demand cannot be carried by any walk in which
    b does not follow a. Dally and Seitz (1987): a layer is free of deadlock if and only if its waits have no
    cycle.
    """
    carries = np.flatnonzero(topology.tails != topology.heads)
    tails, heads = topology.tails[carries], topology.heads[carries]
    held, wanted = np.nonzero((heads[:, None] == tails[None, :]) & (tails[:, None] != heads[None, :]))
    if len(held) ** 2 * collective.n_ranks > _MOST_WORK:
        return False
    ranks = np.array(collective.ranks)
    demanded = collective.pair_demands.between > 0
    first = ranks[:, None] == tails[None, :]
    follows: dict[int, set[int]] = {}
    for wait in range(len(held)):
        others = np.arange(len(held)) != wait
        reached = first.copy()  # links that walks of each rank come to along the other waits
        while len((found := np.nonzero(reached[:, held] & ~reached[:, wanted] & others))[0]):
            reached[found[0], wanted[found[1]]] = True
        served = np.zeros((len(ranks), topology.n_nodes), dtype=np.bool_)
        rows, links = np.nonzero(reached)
        served[rows, heads[links]] = True
        if np.any(demanded & ~served[:, ranks]):
            follows.setdefault(int(held[wait]), set()).add(int(wanted[wait]))
    try:
        TopologicalSorter(follows).prepare()
    except CycleError:
        return True
    return False
