"""Tables of the transfers along tree edges: of all ranks from the trees, or of one rank from its roles.

Both tables have the same columns, so that one lowering follows. The table of all ranks contains more: the
part of each tree below an edge, and its height. The table of one rank holds only data that both ends of an
edge know, so the tables of all ranks agree on every message.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from treadle.arrays import Int32Array, Int64Array, offsets_of
from treadle.errors import ScheduleError
from treadle.program.schedule_fit import check_links
from treadle.program.trees.send_order import path_times, remaining_hops
from treadle.schedules.trees.forest import Direction, RoleEdges, Tree, Trees, TreeSchedule
from treadle.topologies.topology import Topology

_FIELDS = range(11)
WAVE, PHASE, TO_GO, TURN, CHILD, SENDER, RECEIVER, CHANNEL, PATH, FIRST, LAST = _FIELDS
"""Columns of a transfer table; the chunks are FIRST up to LAST, exclusive."""


@dataclass(frozen=True, eq=False)
class Transfers:
    """One transfer for every path entry of every tree edge.

    Parameters
    ----------
    table : array of int64, shape (fields, transfers)
    base : array of int64, shape (N + 1,)
        First chunk of the shard of each root, and the number of chunks.
    path_offset : array of int64
    path_links : array of int32
        Links of the paths that `table` numbers.
    """

    table: Int64Array
    base: Int64Array
    path_offset: Int64Array
    path_links: Int32Array


def all_transfers(
    topology: Topology, schedule: TreeSchedule, channels: int, *, roots: int | None = None
) -> Transfers:
    """Return the transfers of all ranks; each tree has one channel.

    Parameters
    ----------
    topology : Topology
    schedule : TreeSchedule
    channels : int
    roots : int, optional
        Use only the trees of the first `roots` ranks.

    Raises
    ------
    ScheduleError
        If a tree is malformed, or the fabric lacks a link.
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
        check_links("forest", topology, path_links)
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
        for part in parts[:before]:  # the trees of the phases before continue with these
            lows = np.searchsorted(begins, part[FIRST], side="right") - 1
            ends = np.stack([lows, np.searchsorted(begins, part[LAST])], axis=1).reshape(-1)
            part[TO_GO] += np.maximum.reduceat(tree_times, ends)[::2]
        earliest = latest
        n_paths += len(used)
        offsets.append(path_offset[1:] + offsets[-1][-1])
        links.append(path_links)
    table, grain = np.concatenate(parts, axis=1), _grain(schedule)
    table[[FIRST, LAST]] //= grain
    return Transfers(table, base // grain, np.concatenate(offsets), np.concatenate(links))


def transfers_at(topology: Topology, schedule: TreeSchedule, rank: int, channels: int) -> Transfers:
    """Return the transfers into and out of one rank; those of all ranks agree.

    Unit tree u of root v is in chunk i = u / grain (rounded down) of the p chunks of v, which follow those of
    the roots before v, on channel (v + i c / p) mod c of c channels. The wave of a transfer is the depth of
    its edge, negative if data flow towards the root: so in an allreduce sums come first. Equal paths have one
    number, and numbers rise with links: both ends of an edge order them equally.

    Raises
    ------
    ScheduleError
        If the rank does not exist, its edges carry parts of chunks, or it is in no tree.
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
            check_links("forest", topology, paths[-1][1])
            parts.append(part)
    table = np.concatenate(parts, axis=1)
    if not table.size:
        raise ScheduleError(f"lowering: rank {rank} is in no tree")
    lengths = np.concatenate([np.diff(offset) for offset, _ in paths])
    padded = padded_paths(lengths, np.concatenate([links for _, links in paths]), -1)
    distinct, numbers = np.unique(padded, axis=0, return_inverse=True)
    is_link = distinct >= 0
    table[PATH] = numbers.reshape(-1)[table[PATH]]
    return Transfers(table, base, offsets_of(is_link.sum(axis=1)), distinct[is_link])


def _grain(schedule: TreeSchedule) -> int:
    return gcd(*(forest.grain for forest in schedule.forests))


def _channel(root: int | Int64Array, unit: int | Int64Array, base: Int64Array, channels: int) -> Int64Array:
    """Return the channel of a unit (or chunk, as `base` counts), counted from the first of its root."""
    channel: Int64Array = (root + unit * channels // (base[root + 1] - base[root])) % channels
    return channel


def _used_paths(forest: Trees, roots: int | None) -> Int64Array:
    """Return the numbers of the paths that the trees use, rising."""
    trees = (tree for root in range(forest.n_ranks)[:roots] for tree in forest.trees(root))
    return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(tree.entry_path for tree in trees)]))


def _tree_bounds(schedule: TreeSchedule, base: Int64Array, roots: int | None) -> Int64Array:
    """Return the first units of trees of any forest, and the end: no tree divides the units in between."""
    bounds = [base]
    for forest in schedule.forests:
        for root in range(forest.n_ranks)[:roots]:
            sizes = [tree.multiplicity for tree in forest.trees(root)]
            bounds.append(base[root] + np.cumsum(sizes, dtype=np.int64))
    return np.unique(np.concatenate(bounds))


def _tree_transfers(
    direction: Direction, tree: Tree, depth: Int64Array, wave: int, start: int
) -> tuple[Int64Array, int]:
    """Return the transfers of one tree that may begin at `wave`, in units, and the wave after its last."""
    child = np.repeat(np.arange(len(depth), dtype=np.int64), np.diff(tree.entry_offset))
    ends = offsets_of(tree.entry_units)
    before = ends[tree.entry_offset[:-1]]
    totals = ends[tree.entry_offset[1:]] - before
    expected = np.where(tree.parent < 0, 0, tree.multiplicity)
    for rank in np.flatnonzero(totals != expected)[:1]:
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
    height = np.zeros(len(depth), dtype=np.int64)  # edges from each rank down to its deepest descendant
    for rank in np.argsort(-depth, kind="stable")[: len(depth) - 1]:  # without the root
        height[tree.parent[rank]] = max(height[tree.parent[rank]], height[rank] + 1)
    part[SENDER], part[RECEIVER] = child, parent
    part[WAVE] = wave + height[child]
    return part, wave + int(height[tree.root])


def _depths(tree: Tree) -> Int64Array:
    """Return the edges from the root to each rank; raise ScheduleError unless the parents form one tree."""
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


def _edge_transfers(
    edges: RoleEdges, grain: int, base: Int64Array, channels: int
) -> tuple[Int64Array, Int64Array]:
    """Return transfers of the edges of a rank, peers as children and depths as waves, and their paths."""
    if np.any(edges.unit % grain) or np.any(edges.units % grain):
        raise ScheduleError(f"lowering: an edge carries a part of a chunk of {grain} unit trees")
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
    """Cut ranges of chunks where the channel changes: return row, first and one past the last chunk."""
    if channels == 1:
        return np.arange(len(root)), first, last
    total = (base[root + 1] - base[root])[:, None]
    # Chunk i is in part i c / p, so part j begins at the ceiling of j p / c.
    starts = -(-np.arange(channels) * total // channels)
    ends = np.concatenate([starts[:, 1:], total], axis=1)
    low = np.maximum(starts, first[:, None])
    high = np.minimum(ends, last[:, None])
    row, part = np.nonzero(high > low)
    return row, low[row, part], high[row, part]


def padded_paths(lengths: Int64Array, links: Int32Array, fill: int) -> Int32Array:
    """Return the links of paths as rows of a table, filled up to equal length."""
    padded = np.full((len(lengths), int(lengths.max(initial=0))), fill, dtype=np.int32)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = links
    return padded
