"""Path sets to choose from: most link-disjoint paths, and the shortest paths up to a length."""

from __future__ import annotations

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Float64Array
from treadle.errors import ScheduleError
from treadle.math.graphs import InArcs
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

_Path = tuple[int, int, list[int]]
"""Source, target and links."""

_BLOCK = 2**16
"""Pairs times links per batch: fits the cache, and large arrays cost dask's workers extra time."""

_FAR = 2**20

_LEAST_PAIRS, _LEAST_SOURCES = 256, 4
"""Least pairs, or sources, of a task."""


def disjoint_paths(topology: Topology, collective: Collective) -> PathSet:
    """Find a largest set of link-disjoint paths for every pair, with the fewest hops in all.

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
    Successive shortest augmenting paths (Suurballe, 1974) in unit capacities, by Bellman-Ford rounds over the
    residual links of many pairs per batch. Source of the set: section 3.1.4 of the all-to-all paper.
    """
    check_reachable(topology, collective)
    source, target, _ = demanded_pairs(collective)
    ranks = np.array(collective.ranks)
    blocks = [
        (topology, source[own], target[own], ranks[source[own]], ranks[target[own]])
        for own in spans(len(source), least=_LEAST_PAIRS)
    ]
    return from_lists(chain(*map_blocks("disjoint paths", _disjoint, blocks)))


def _disjoint(
    topology: Topology,
    source: NDArray[np.int32],
    target: NDArray[np.int32],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
) -> list[_Path]:
    """Find the paths of some pairs of ranks, which are at these nodes."""
    rows, found = max(1, _BLOCK // (2 * topology.n_links)), list[_Path]()
    for first in range(0, len(starts), rows):
        part = slice(first, first + rows)
        used = _largest_flows(topology, starts[part], ends[part])
        columns = (column[part].tolist() for column in (source, target, starts, ends))
        for one, other, start, end, taken in zip(*columns, used, strict=True):
            found += [(one, other, path) for path in _walks(topology, np.flatnonzero(taken), start, end)]
    return found


def _largest_flows(
    topology: Topology, source: NDArray[np.int64], target: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return the links of a maximum flow of least cost for each pair of nodes, shape (pairs, m)."""
    carries = np.flatnonzero(topology.tails != topology.heads)
    m, n = len(carries), topology.n_nodes
    tails, heads = topology.tails[carries], topology.heads[carries]
    arcs = InArcs.of(np.concatenate([tails, heads]), np.concatenate([heads, tails]))  # of the residual graph
    used = np.zeros((len(source), m), dtype=np.bool_)
    active = np.arange(len(source))
    while active.size:
        cost = np.concatenate([np.where(used[active], _FAR, 1), np.where(used[active], -1, _FAR)], axis=1)
        cost = cost[:, arcs.order].astype(np.int32)
        distance = np.full((len(active), n), _FAR, dtype=np.int32)
        distance[np.arange(len(active)), source[active]] = 0
        into = np.full((len(active), n), -1, dtype=np.int64)
        while True:
            through = distance[:, arcs.tails] + cost
            through[through > _FAR // 2] = _FAR
            nearest = np.minimum.reduceat(through, arcs.starts, axis=1)
            better = nearest < distance[:, arcs.heads]
            if not better.any():
                break
            last = arcs.first(through == np.repeat(nearest, arcs.widths, axis=1))
            into[:, arcs.heads] = np.where(better, last, into[:, arcs.heads])
            distance[:, arcs.heads] = np.where(better, nearest, distance[:, arcs.heads])
        keep = distance[np.arange(len(active)), target[active]] < _FAR // 2
        active, into = active[keep], into[keep]
        # Reverse the residual arcs of each active pair's augmenting path.
        at, row = target[active], np.arange(len(active))
        while row.size:
            last = into[row, at]
            arc = arcs.order[last]
            used[active[row], arc % m] = arc < m
            at = arcs.tails[last]
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
    """Find the simple paths of up to distance + `slack` hops of every pair, at most `most` of them.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    slack : int
        Hops beyond the distance of a pair.
    most : int
        Paths per pair; the shorter ones first, and a random choice by `seed` among equally long ones.
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
    return from_lists(chain(*map_blocks("bounded paths", _bounded, blocks)))


def _bounded(
    topology: Topology,
    ranks: tuple[int, ...],
    first: int,
    wanted: NDArray[np.bool_],
    order: NDArray[np.int64],
    back: Float64Array,
    slack: int,
    most: int,
) -> list[_Path]:
    """Find the paths of the ranks from `first` on; `back` has the distances to every rank."""
    out = out_links(topology, order.tolist())
    found: list[_Path] = []
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
    """Return up to `most` simple paths of exactly `hops` links, depth first, never too far from the end."""
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
