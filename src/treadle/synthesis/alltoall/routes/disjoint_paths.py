"""Path sets to choose from: most link-disjoint paths, and the shortest paths up to a length."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Float64Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective
from treadle.synthesis.alltoall.routes.path_sets import (
    PathSet,
    ShortestPaths,
    check_reachable,
    demanded_pairs,
    from_lists,
    out_links,
)
from treadle.synthesis.parallel import map_blocks, spans
from treadle.topologies.topology import Topology

_Found = list[tuple[int, int, list[int]]]
"""Paths as (source, target, links)."""

_BLOCK = 2**16
"""Pairs times links per batch: fits the cache; dask's workers pay for every large array once more."""

_FAR = 2**20

_LEAST_PAIRS, _LEAST_SOURCES = 256, 4
"""Pairs of a task."""


def disjoint_paths(topology: Topology, collective: Collective) -> PathSet:
    """For every pair a largest set of paths of which no two share a link, with the fewest hops in all.

    Parameters
    ----------
    topology : Topology
    collective : Collective

    Raises
    ------
    InfeasibleError
        If some rank cannot be reached.
    TimeLimitError
        If the deadline passes.

    Notes
    -----
    Successive shortest augmenting paths (Suurballe, 1974) in unit capacities; many pairs per batch, each with
    rounds of Bellman and Ford over its residual links. Source of the set: section 3.1.4 of the all-to-all
    paper.
    """
    check_reachable(topology, collective)
    source, target, _ = demanded_pairs(collective)
    ranks = np.array(collective.ranks)
    blocks = [
        (topology, source[own], target[own], ranks[source[own]], ranks[target[own]])
        for own in spans(len(source), least=_LEAST_PAIRS)
    ]
    found = map_blocks("disjoint paths", _disjoint, blocks)
    return from_lists([path for paths in found for path in paths])


def _disjoint(
    topology: Topology,
    source: NDArray[np.int32],
    target: NDArray[np.int32],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> _Found:
    """The paths of some pairs of ranks, which are at these nodes."""
    rows = max(1, _BLOCK // (2 * topology.n_links))
    used = np.concatenate(
        [
            _largest_flows(topology, starts[first : first + rows], ends[first : first + rows])
            for first in range(0, len(starts), rows)
        ]
    )
    pairs = zip(source.tolist(), target.tolist(), starts.tolist(), ends.tolist(), used, strict=True)
    return [
        (one, other, path)
        for one, other, start, end, taken in pairs
        for path in _walks(topology, np.flatnonzero(taken), start, end)
    ]


def _largest_flows(
    topology: Topology, source: NDArray[np.int64], target: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Links of a maximum flow of least cost for each pair of nodes, shape (pairs, m)."""
    carries = np.flatnonzero(topology.tails != topology.heads)
    m, n = len(carries), topology.n_nodes
    tails, heads = topology.tails[carries], topology.heads[carries]
    ends = np.concatenate([heads, tails])
    order = np.argsort(ends, kind="stable")
    begins = np.concatenate([tails, heads])[order].astype(np.int64)
    reached, starts = np.unique(ends[order], return_index=True)
    widths = np.diff(np.append(starts, 2 * m))
    used = np.zeros((len(source), m), dtype=np.bool_)
    active = np.arange(len(source))
    while active.size:
        cost = np.concatenate([np.where(used[active], _FAR, 1), np.where(used[active], -1, _FAR)], axis=1)
        cost = cost[:, order].astype(np.int32)
        distance = np.full((len(active), n), _FAR, dtype=np.int32)
        distance[np.arange(len(active)), source[active]] = 0
        into = np.full((len(active), n), -1, dtype=np.int64)
        while True:
            through = distance[:, begins] + cost
            through[through > _FAR // 2] = _FAR
            nearest = np.minimum.reduceat(through, starts, axis=1)
            better = nearest < distance[:, reached]
            if not better.any():
                break
            hit = through == np.repeat(nearest, widths, axis=1)
            place = np.minimum.reduceat(np.where(hit, np.arange(2 * m), 2 * m), starts, axis=1)
            into[:, reached] = np.where(better, place, into[:, reached])
            distance[:, reached] = np.where(better, nearest, distance[:, reached])
        keep = distance[np.arange(len(active)), target[active]] < _FAR // 2
        active, into = active[keep], into[keep]
        # turn over the residual arcs of each active pair's augmenting path
        at, row = target[active], np.arange(len(active))
        while row.size:
            place = into[row, at]
            arc = order[place]
            used[active[row], arc % m] = arc < m
            at = begins[place]
            going = at != source[active[row]]
            at, row = at[going], row[going]
    result = np.zeros((len(source), topology.n_links), dtype=np.bool_)
    result[:, carries] = used
    return result


def _walks(topology: Topology, links: NDArray[np.int64], source: int, target: int) -> list[list[int]]:
    """Split the links of a flow into paths, the shortest walk first."""
    out: dict[int, list[int]] = {}
    for link in links.tolist():
        out.setdefault(int(topology.tails[link]), []).append(link)
    paths: list[list[int]] = []
    while out.get(source):
        at, path = source, list[int]()
        while at != target:
            link = out[at].pop()
            path.append(link)
            at = int(topology.heads[link])
        paths.append(path)
    return sorted(paths, key=len)


def bounded_paths(
    topology: Topology, collective: Collective, *, slack: int = 0, most: int = 64, seed: int = 0
) -> PathSet:
    """For every pair its simple paths of up to distance + `slack` hops, at most `most` of them.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    slack : int
        Hops beyond the distance.
    most : int
        Paths a pair; the shorter ones first, among equally long ones a choice by `seed`.
    seed : int

    Raises
    ------
    InfeasibleError
        If some rank cannot be reached.
    ScheduleError
        If `slack` is negative or `most` not positive.
    TimeLimitError
        If the deadline passes.
    """
    if slack < 0 or most < 1:
        raise ScheduleError(f"paths: slack {slack} and {most} paths a pair; expected at least 0 and 1")
    check_reachable(topology, collective)
    back = ShortestPaths(topology.transpose(), collective).distances(np.ones(topology.n_links))
    order = np.random.default_rng(seed).permutation(topology.n_links)
    demand = collective.pair_demands.between
    blocks = [
        (topology, collective.ranks, own.start, demand[own] > 0, order, back, slack, most)
        for own in spans(len(demand), least=_LEAST_SOURCES, native=False)
    ]
    found = map_blocks("bounded paths", _bounded, blocks)
    return from_lists([path for paths in found for path in paths])


def _bounded(
    topology: Topology,
    ranks: tuple[int, ...],
    first: int,
    wanted: NDArray[np.bool_],
    order: NDArray[np.int64],
    back: Float64Array,
    slack: int,
    most: int,
) -> _Found:
    """The paths of some sources, those of the ranks from `first` on; `back`: distances to every rank."""
    out = out_links(topology, order.tolist())
    found: _Found = []
    for one, other in np.argwhere(wanted).tolist():
        left = most
        remaining = back[other].tolist()
        start, end = ranks[first + one], ranks[other]
        shortest = int(remaining[start])
        for hops in range(shortest, shortest + slack + 1):
            paths = _of_length(out, remaining, start, end, hops, left)
            found.extend((first + one, other, path) for path in paths)
            left -= len(paths)
    return found


def _of_length(
    out: list[list[tuple[int, int]]], remaining: list[float], start: int, end: int, hops: int, most: int
) -> list[list[int]]:
    """Up to `most` simple paths of exactly `hops` links; depth first, never too far from the end.

    Turns are taken by rotating each node's links by its depth, so that cut-off sets are not all equal.
    """
    found: list[list[int]] = []
    path: list[int] = []
    nodes = [start]
    stack = [iter(out[start])]
    while stack and len(found) < most:
        step = next(stack[-1], None)
        if step is None:
            stack.pop()
            nodes.pop()
            if path:
                path.pop()
            continue
        link, head = step
        left = hops - len(path) - 1
        if head in nodes or remaining[head] > left or (head == end) != (left == 0):
            continue
        if not left:
            found.append([*path, link])
            continue
        path.append(link)
        nodes.append(head)
        stack.append(iter(out[head]))
    return found
