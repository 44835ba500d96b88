"""What is sent along tree edges, as tables: of all ranks from the trees, or of one rank from its roles.

Both kinds have the same columns, so that all that follows is one lowering. The table of all ranks knows more:
how far each tree goes on below an edge, and how high it is. The table of one rank holds what both ends of an
edge know and nothing else, so the tables of all ranks, made apart, agree on every message.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from treadle.arrays import Int32Array, Int64Array, offsets_of
from treadle.errors import ScheduleError
from treadle.program.trees.send_order import path_times, remaining_hops
from treadle.schedules.trees.forest import Direction, RoleEdges, Tree, Trees, TreeSchedule
from treadle.topologies.topology import Topology

_FIELDS = range(11)
WAVE, PHASE, TO_GO, TURN, CHILD, SENDER, RECEIVER, CHANNEL, PATH, FIRST, LAST = _FIELDS
"""Columns of a transfer table; `first` and one past `last` are chunks."""


@dataclass(frozen=True, eq=False)
class Transfers:
    """One transfer for every path entry of every tree edge.

    Parameters
    ----------
    table : array of int64, shape (fields, transfers)
    base : array of int64, shape (N + 1,)
        First chunk of each root's shard, and the number of chunks.
    path_offset : array of int64
    path_links : array of int32
        Links of the paths that `table` counts.
    """

    table: Int64Array
    base: Int64Array
    path_offset: Int64Array
    path_links: Int32Array


def all_transfers(
    topology: Topology, schedule: TreeSchedule, channels: int, *, roots: int | None = None
) -> Transfers:
    """The transfers of all ranks; trees are assigned to channels whole.

    Parameters
    ----------
    topology : Topology
    schedule : TreeSchedule
    channels : int
    roots : int, optional
        Only the trees of so many roots, from rank 0.

    Raises
    ------
    ScheduleError
        If a tree is malformed, or a link is none of the fabric's.
    """
    base = offsets_of(schedule.root_multiplicity)
    parts: list[Int64Array] = []
    begins = _tree_bounds(schedule, base, roots)
    earliest = np.zeros(len(begins) - 1, dtype=np.int64)
    n_paths, offsets = 0, [np.zeros(1, dtype=np.int64)]
    links: list[Int32Array] = []
    for phase, forest in enumerate(schedule.forests):
        used = _used_paths(forest, roots)
        path_offset, path_links = forest.paths(used)
        _check_links(topology, path_links)
        latest = earliest.copy()
        times = path_times(topology, path_offset, path_links)
        tree_times = np.zeros(len(begins), dtype=np.int64)
        before = len(parts)
        for root in range(forest.n_ranks)[:roots]:
            start = int(base[root])
            for tree in forest.trees(root):
                low, past = np.searchsorted(begins, [start, start + tree.multiplicity]).tolist()
                depth, wave = _depths(tree), int(earliest[low:past].max(initial=0))
                part, height = _tree_transfers(forest.direction, tree, depth, wave, start)
                paths = np.searchsorted(used, tree.entry_path)
                part[PATH] = n_paths + paths
                part[TO_GO], tree_times[low:past] = remaining_hops(
                    forest.direction, tree, depth, times[paths]
                )
                part[PHASE] = phase
                part[CHANNEL] = _channel(root, start - int(base[root]), base, channels)
                latest[low:past] = height
                parts.append(part)
                start += tree.multiplicity
        for part in parts[:before]:  # the trees of the phases before go on with these
            lows = np.searchsorted(begins, part[FIRST], side="right") - 1
            ends = np.stack([lows, np.searchsorted(begins, part[LAST])], axis=1).reshape(-1)
            part[TO_GO] += np.maximum.reduceat(tree_times, ends)[::2]
        earliest = latest
        n_paths += len(used)
        offsets.append(path_offset[1:] + offsets[-1][-1])
        links.append(path_links)
    table, grain = np.concatenate(parts, axis=1), _grain(schedule)
    table[FIRST] //= grain
    table[LAST] //= grain
    return Transfers(table, base // grain, np.concatenate(offsets), np.concatenate(links))


def transfers_at(topology: Topology, schedule: TreeSchedule, rank: int, channels: int) -> Transfers:
    """The transfers into and out of one rank; those of all ranks agree.

    Unit tree u of root v is in chunk i = u / grain (rounded down) of the p chunks of v, which follow those of
    the roots before v, on channel (v + i c / p) mod c of c channels. A transfer's wave is the depth of its
    edge, negative where data flow towards the root: so in an allreduce sums come first. Equal paths are one,
    and their numbers rise with their links: both ends of an edge compare them alike.

    Raises
    ------
    ScheduleError
        If there is no such rank, its edges do not carry whole chunks, or it is in no tree.
    """
    grain = _grain(schedule)
    base = offsets_of(schedule.root_multiplicity) // grain
    parts: list[Int64Array] = []
    paths: list[tuple[Int64Array, Int32Array]] = []
    for phase, forest in enumerate(schedule.forests):
        roles = forest.roles(rank)
        for edges, is_above in ((roles.up, True), (roles.down, False)):
            part, number = _edge_transfers(edges, grain, base, channels)
            ends = np.full(part.shape[1], rank), part[CHILD].copy()
            child, parent = ends if is_above else ends[::-1]
            reduces = forest.direction is Direction.REDUCE
            part[PHASE], part[CHILD] = phase, child
            part[SENDER], part[RECEIVER] = (child, parent) if reduces else (parent, child)
            part[WAVE] *= -1 if reduces else 1
            used, part[PATH] = np.unique(number, return_inverse=True)
            part[PATH] += sum(len(offset) - 1 for offset, _ in paths)
            paths.append(forest.paths(used))
            _check_links(topology, paths[-1][1])
            parts.append(part)
    table = np.concatenate(parts, axis=1)
    if not table.size:
        raise ScheduleError(f"lowering: rank {rank} is in no tree")
    path_offset, path_links, numbers = _distinct_paths(paths)
    table[PATH] = numbers[table[PATH]]
    return Transfers(table, base, path_offset, path_links)


def _grain(schedule: TreeSchedule) -> int:
    return gcd(*(forest.grain for forest in schedule.forests))


def _check_links(topology: Topology, links: Int32Array) -> None:
    if np.any((links < 0) | (links >= topology.n_links)):
        raise ScheduleError(f"forest: path links must be 0 to {topology.n_links - 1}")


def _channel(root: int | Int64Array, unit: int | Int64Array, base: Int64Array, channels: int) -> Int64Array:
    """Channel of a unit (or chunk, as `base` counts) of a root, counted from the root's first."""
    channel: Int64Array = (root + unit * channels // (base[root + 1] - base[root])) % channels
    return channel


def _used_paths(forest: Trees, roots: int | None) -> Int64Array:
    """Numbers of the paths that the trees take, rising."""
    used: list[Int32Array | Int64Array] = [np.zeros(0, dtype=np.int64)]
    for root in range(forest.n_ranks)[:roots]:
        used += [tree.entry_path for tree in forest.trees(root)]
    return np.unique(np.concatenate(used))


def _tree_bounds(schedule: TreeSchedule, base: Int64Array, roots: int | None) -> Int64Array:
    """Where trees of any forest begin, in units, and the end: between two bounds all units are alike."""
    bounds = [base]
    for forest in schedule.forests:
        for root in range(forest.n_ranks)[:roots]:
            sizes = [tree.multiplicity for tree in forest.trees(root)]
            bounds.append(base[root] + np.cumsum(sizes, dtype=np.int64))
    return np.unique(np.concatenate(bounds))


def _tree_transfers(
    direction: Direction, tree: Tree, depth: Int64Array, wave: int, start: int
) -> tuple[Int64Array, int]:
    """Transfers of one tree that may begin at `wave`, in units, and the wave after its last."""
    child = np.repeat(np.arange(len(depth), dtype=np.int64), np.diff(tree.entry_offset))
    ends = offsets_of(tree.entry_units)
    before = ends[tree.entry_offset[:-1]]
    totals = ends[tree.entry_offset[1:]] - before
    expected = np.where(tree.parent < 0, 0, tree.multiplicity)
    if np.any(totals != expected):
        rank = int(np.flatnonzero(totals != expected)[0])
        raise ScheduleError(
            f"tree of root {tree.root}: the paths above rank {rank} carry {totals[rank]} units, "
            f"expected {expected[rank]}"
        )
    parent = tree.parent[child].astype(np.int64)
    part = np.zeros((len(_FIELDS), len(child)), dtype=np.int64)
    part[CHILD] = child
    part[LAST] = start + ends[1:] - before[child]
    part[FIRST] = part[LAST] - tree.entry_units
    if direction is Direction.BROADCAST:
        part[SENDER], part[RECEIVER] = parent, child
        part[WAVE] = wave + depth[child] - 1
        return part, wave + int(depth.max())
    height = _heights(tree, depth)
    part[SENDER], part[RECEIVER] = child, parent
    part[WAVE] = wave + height[child]
    return part, wave + int(height[tree.root])


def _depths(tree: Tree) -> Int64Array:
    """Edges from the root to each rank; ScheduleError unless the parents form one tree."""
    n = len(tree.parent)
    depth = np.full(n, -1, dtype=np.int64)
    depth[tree.root] = 0
    for level in range(1, n):
        below = np.flatnonzero((depth < 0) & (tree.parent >= 0) & (depth[tree.parent] == level - 1))
        if not below.size:
            break
        depth[below] = level
    if tree.parent[tree.root] != -1 or depth.min() < 0:
        raise ScheduleError(f"tree of root {tree.root}: not every rank is reached once from the root")
    return depth


def _heights(tree: Tree, depth: Int64Array) -> Int64Array:
    """Edges from each rank down to its deepest descendant."""
    height = np.zeros(len(depth), dtype=np.int64)
    for rank in np.argsort(-depth, kind="stable"):
        parent = tree.parent[rank]
        if parent >= 0:
            height[parent] = max(height[parent], height[rank] + 1)
    return height


def _edge_transfers(
    edges: RoleEdges, grain: int, base: Int64Array, channels: int
) -> tuple[Int64Array, Int64Array]:
    """Transfers of a rank's edges, peers as children and depths as waves, and numbers of their paths."""
    if np.any(edges.unit % grain) or np.any(edges.units % grain):
        raise ScheduleError(f"lowering: an edge does not carry whole chunks of {grain} unit trees")
    first = edges.unit // grain
    row, first, last = _cut_by_channel(edges.root, first, first + edges.units // grain, base, channels)
    root = edges.root[row]
    part = np.zeros((len(_FIELDS), len(row)), dtype=np.int64)
    part[WAVE], part[CHILD] = edges.depth[row], edges.peer[row]
    part[CHANNEL] = _channel(root, first, base, channels)
    part[FIRST], part[LAST] = base[root] + first, base[root] + last
    return part, edges.path[row]


def _cut_by_channel(
    root: Int64Array, first: Int64Array, last: Int64Array, base: Int64Array, channels: int
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Ranges of chunks cut where the channel changes: row, first and one past the last chunk."""
    if channels == 1:
        return np.arange(len(root)), first, last
    total = (base[root + 1] - base[root])[:, None]
    # chunk i is in part i c / p, so part j begins at the ceiling of j p / c
    starts = -(-np.arange(channels) * total // channels)
    ends = np.concatenate([starts[:, 1:], total], axis=1)
    low = np.maximum(starts, first[:, None])
    high = np.minimum(ends, last[:, None])
    row, part = np.nonzero(high > low)
    return row, low[row, part], high[row, part]


def _distinct_paths(
    parts: list[tuple[Int64Array, Int32Array]],
) -> tuple[Int64Array, Int32Array, Int64Array]:
    """Offsets and links of all paths, equal ones once, and which of these each one is."""
    lengths = np.concatenate([np.diff(offset) for offset, _ in parts])
    padded = np.full((len(lengths), int(lengths.max(initial=0))), -1, dtype=np.int32)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.concatenate([links for _, links in parts])
    distinct, numbers = np.unique(padded, axis=0, return_inverse=True)
    found = distinct >= 0
    return offsets_of(found.sum(axis=1)), distinct[found], numbers.reshape(-1).astype(np.int64)
