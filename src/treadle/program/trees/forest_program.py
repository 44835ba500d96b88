"""Forest schedules to programs: one send and one receive for every path entry of every tree edge."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import gcd

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, offsets_of
from treadle.errors import InfeasibleError, ScheduleError
from treadle.program.hazards import Row, find_waits
from treadle.program.program import MAX_CHUNKS, Buffer, OperationKind, Program
from treadle.program.trees.send_order import Turns, path_times, turns_of, ways_to_go
from treadle.schedules.collective import Collective, CollectiveKind, check_membership
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, Tree
from treadle.topologies.topology import Topology

_FIELDS = (
    "wave",
    "phase",
    "to_go",
    "turn",
    "child",
    "sender",
    "receiver",
    "channel",
    "path",
    "first",
    "last",
)
_WAVE, _PHASE, _TO_GO, _TURN, _CHILD, _SENDER, _RECEIVER, _CHANNEL, _PATH, _FIRST, _LAST = range(len(_FIELDS))
"""Columns of a transfer table; `first` and one past `last` are units at first, chunks later."""
_ALIKE = (_WAVE, _PHASE, _CHILD, _SENDER, _RECEIVER, _CHANNEL, _PATH)
"""What transfers of one message have in common."""


def lower(
    topology: Topology,
    collective: Collective,
    schedule: ForestSchedule,
    *,
    channels: int = 1,
    in_place: bool = False,
    merge: bool = True,
) -> Program:
    """Turn a forest schedule into a program.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        On `topology`; of the schedule's kind and number of ranks.
    schedule : ForestSchedule
        Verified by the caller; only its form is checked here.
    channels : int
        Independent streams between two ranks: the trees of a root are dealt out to so many channels.
    in_place : bool
        INPUT and OUTPUT are one memory.
    merge : bool
        Send adjacent chunk ranges of different trees as one where rank pair, path, channel, depth and
        buffers agree.

    Returns
    -------
    Program
        n_chunks is the smallest number of equal chunks whose bounds include those of all trees and path
        entries.

    Raises
    ------
    ScheduleError
        If the schedule does not fit the collective, or a tree is malformed.
    InfeasibleError
        If the trees' shares have no common measure of a size that programs can have.

    Notes
    -----
    Out-trees: the root sends, a child receives and then forwards. In-trees: a rank sends after its own
    receive-reduces, which run one after the other, the child of the least height first; sums are kept in
    OUTPUT where the rank has one for the chunk, else in SCRATCH. A transfer's wave is the earliest step at
    which its data can be there; all ranks list their operations by wave, so the lists are a common linear
    order that respects every dependence and stream: no deadlock. Dependences are the read-after-write,
    write-after-read and write-after-write pairs of each rank's list, so no two operations race.

    Within a wave, what has the longest way to go comes first, then turns decide (`send_order`): who is sent
    to, or, where data flow towards a root, for whom; without turns where there is one root only.

    A path that begins (ends) at a switch stands for a copy (a sum) made in the network. Programs are point to
    point: its edge becomes a send from rank to rank like any other, so the data are right in every runtime,
    but the switch's capability is not used and the schedule's throughput is not what they move.
    `treadle.program.in_network.in_network_sends` tells which sends these are.

    O(transfers x chunks per transfer) after sorting.
    """
    _check_fit(topology, collective, schedule)
    if channels < 1:
        raise ScheduleError(f"channels: expected at least 1, found {channels}")
    base = offsets_of(schedule.root_multiplicity)
    table, path_offset, path_links = _transfers(topology, schedule, base, channels)
    unit = gcd(*(int(v) for v in np.unique(np.concatenate([base, table[_FIRST], table[_LAST]]))))
    table[_FIRST] //= unit
    table[_LAST] //= unit
    n_chunks = int(base[-1]) // unit
    if n_chunks > MAX_CHUNKS:
        raise InfeasibleError(
            f"the trees' shares need {n_chunks} equal chunks of the data, programs have up to {MAX_CHUNKS}; "
            f"solve with fewer trees (--trees or --max-trees, not --exact)"
        )
    frame = _Frame(collective, base // unit, in_place)
    table = _ordered(turns_of(topology, collective), frame, _merged(table) if merge else table)
    table, buffers = frame.buffers(table)
    return _program(frame, table, buffers, path_offset, path_links)


def _check_fit(topology: Topology, collective: Collective, schedule: ForestSchedule) -> None:
    check_membership(topology, collective)
    if schedule.kind is not collective.kind:
        raise ScheduleError(f"the schedule is for {schedule.kind}, the collective is {collective.kind}")
    units = [int(r) for r in schedule.root_multiplicity]
    if len(units) != collective.n_ranks:
        raise ScheduleError(f"the schedule has {len(units)} ranks, the collective {collective.n_ranks}")
    if sum(units) < 1:
        raise ScheduleError("the schedule has no trees")
    if collective.kind is not CollectiveKind.ALLREDUCE:
        weights, total = collective.shard_weights, sum(collective.shard_weights)
        for rank, (r, weight) in enumerate(zip(units, weights, strict=True)):
            if r * total != weight * sum(units):
                raise ScheduleError(
                    f"rank {rank} has {r} of {sum(units)} units, expected the share {weight}/{total}"
                )
    for forest in schedule.forests:
        links = forest.path_links
        if np.any((links < 0) | (links >= topology.n_links)):
            raise ScheduleError(f"forest: path links must be 0 to {topology.n_links - 1}")


def _transfers(
    topology: Topology, schedule: ForestSchedule, base: Int64Array, channels: int
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """The transfer table in units, and the path table of all forests together."""
    parts: list[Int64Array] = []
    begins = _tree_bounds(schedule, base)
    earliest = np.zeros(len(begins) - 1, dtype=np.int64)
    n_paths, offsets = 0, [np.zeros(1, dtype=np.int64)]
    links: list[NDArray[np.int32]] = []
    for phase, forest in enumerate(schedule.forests):
        latest = earliest.copy()
        times = path_times(topology, forest.path_offset, forest.path_links)
        tree_times = np.zeros(len(begins), dtype=np.int64)
        before = len(parts)
        for root in range(forest.n_ranks):
            start = int(base[root])
            for tree in forest.trees(root):
                low, past = np.searchsorted(begins, [start, start + tree.multiplicity]).tolist()
                depth, wave = _depths(tree), int(earliest[low:past].max(initial=0))
                part, height = _tree_transfers(forest, tree, depth, wave, start)
                part[_TO_GO], tree_times[low:past] = ways_to_go(forest, tree, depth, times)
                part[_PHASE] = phase
                part[_PATH] += n_paths
                within = (start - int(base[root])) * channels // int(base[root + 1] - base[root])
                part[_CHANNEL] = (root + within) % channels
                latest[low:past] = height
                parts.append(part)
                start += tree.multiplicity
        for part in parts[:before]:  # the trees of the phases before go on with these
            lows = np.searchsorted(begins, part[_FIRST], side="right") - 1
            ends = np.stack([lows, np.searchsorted(begins, part[_LAST])], axis=1).reshape(-1)
            part[_TO_GO] += np.maximum.reduceat(tree_times, ends)[::2]
        earliest = latest
        n_paths += forest.n_paths
        offsets.append(forest.path_offset[1:] + offsets[-1][-1])
        links.append(forest.path_links)
    return np.concatenate(parts, axis=1), np.concatenate(offsets), np.concatenate(links).astype(np.int64)


def _tree_bounds(schedule: ForestSchedule, base: Int64Array) -> Int64Array:
    """Where trees of any forest begin, in units, and the end: between two bounds all units are alike."""
    bounds = [base]
    for forest in schedule.forests:
        for root in range(forest.n_ranks):
            sizes = [tree.multiplicity for tree in forest.trees(root)]
            bounds.append(base[root] + np.cumsum(sizes, dtype=np.int64))
    return np.unique(np.concatenate(bounds))


def _tree_transfers(
    forest: Forest, tree: Tree, depth: Int64Array, wave: int, start: int
) -> tuple[Int64Array, int]:
    """Transfers of one tree that may begin at `wave`, and the wave after its last."""
    counts = np.diff(tree.entry_offset)
    child = np.repeat(np.arange(forest.n_ranks, dtype=np.int64), counts)
    ends = np.cumsum(tree.entry_units)
    before = np.concatenate([[0], ends])[tree.entry_offset[:-1]]
    totals = np.concatenate([[0], ends])[tree.entry_offset[1:]] - before
    expected = np.where(tree.parent < 0, 0, tree.multiplicity)
    if np.any(totals != expected):
        rank = int(np.flatnonzero(totals != expected)[0])
        raise ScheduleError(
            f"tree of root {tree.root}: the paths above rank {rank} carry {totals[rank]} units, "
            f"expected {expected[rank]}"
        )
    parent = tree.parent[child].astype(np.int64)
    part = np.zeros((len(_FIELDS), len(child)), dtype=np.int64)
    part[_CHILD] = child
    part[_PATH] = tree.entry_path
    part[_LAST] = start + ends - before[child]
    part[_FIRST] = part[_LAST] - tree.entry_units
    if forest.direction is Direction.BROADCAST:
        part[_SENDER], part[_RECEIVER] = parent, child
        part[_WAVE] = wave + depth[child] - 1
        return part, wave + int(depth.max())
    height = _heights(tree, depth)
    part[_SENDER], part[_RECEIVER] = child, parent
    part[_WAVE] = wave + height[child]
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


@dataclass(frozen=True)
class _Frame:
    """Where the data of a collective lies."""

    collective: Collective
    shard_offset: Int64Array
    in_place: bool

    @property
    def reduces(self) -> bool:
        return self.collective.kind.reduces

    def owns(self, rank: int, chunk: int) -> bool:
        """Whether `chunk` is of the shard of `rank`."""
        return bool(self.shard_offset[rank] <= chunk < self.shard_offset[rank + 1])

    def accumulator(self, rank: int, chunk: int) -> Buffer:
        """Buffer in which `rank` sums `chunk`."""
        everywhere = self.collective.kind is CollectiveKind.ALLREDUCE
        return Buffer.OUTPUT if everywhere or self.owns(rank, chunk) else Buffer.SCRATCH

    def buffers(self, table: Int64Array) -> tuple[Int64Array, Int64Array]:
        """What each transfer reads at its sender, adds to and writes at its receiver, shape (3, n).

        A chunk's first child in list order adds to INPUT, and later ones to what is there. Transfers are cut
        where these change: the table with the parts in their place.
        """
        if not self.reduces:
            return self._copied(table)
        parts: list[tuple[int, int, int]] = []
        found: list[tuple[int, int, int]] = []
        everywhere = self.collective.kind is CollectiveKind.ALLREDUCE
        # between two of these bounds all chunks are alike
        cuts = np.unique(np.concatenate([self.shard_offset, table[_FIRST], table[_LAST]]))
        owner = np.searchsorted(self.shard_offset, cuts[:-1], side="right") - 1
        begun = np.zeros((len(self.shard_offset) - 1, len(owner)), dtype=np.bool_)
        ranges = np.searchsorted(cuts, table[[_FIRST, _LAST]])
        columns = np.concatenate([table[[_PHASE, _SENDER, _RECEIVER]], ranges]).T.tolist()
        starts = cuts.tolist()
        for place, (phase, sender, receiver, first, last) in enumerate(columns):
            if phase:
                parts.append((place, starts[first], starts[last]))
                found.append((Buffer.OUTPUT, Buffer.OUTPUT, Buffer.OUTPUT))
                continue
            alike = 2 * begun[sender, first:last] + begun[receiver, first:last]
            if not everywhere:
                alike = alike + 4 * (owner[first:last] == receiver) + 8 * (owner[first:last] == sender)
            bounds = [first, *(first + 1 + np.flatnonzero(np.diff(alike))).tolist(), last]
            for low, past in pairwise(bounds):
                target = self.accumulator(receiver, starts[low])
                parts.append((place, starts[low], starts[past]))
                found.append(
                    (
                        self.accumulator(sender, starts[low]) if begun[sender, low] else Buffer.INPUT,
                        target if begun[receiver, low] else Buffer.INPUT,
                        target,
                    )
                )
            begun[receiver, first:last] = True
        places, firsts, lasts = np.array(parts, dtype=np.int64).reshape(-1, 3).T
        cut = table[:, places]
        cut[_FIRST], cut[_LAST] = firsts, lasts
        return cut, np.array(found, dtype=np.int64).reshape(-1, 3).T

    def _copied(self, table: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Without sums: the owner of a chunk sends it from INPUT."""
        own = self.shard_offset[table[_SENDER]], self.shard_offset[table[_SENDER] + 1]
        bounds = [np.clip(bound, table[_FIRST], table[_LAST]) for bound in own]
        ends = np.stack([table[_FIRST], *bounds, table[_LAST]])
        place, part = np.nonzero(np.diff(ends, axis=0).T > 0)
        cut = table[:, place]
        cut[_FIRST], cut[_LAST] = ends[part, place], ends[part + 1, place]
        buffers = np.full((3, len(place)), Buffer.OUTPUT, dtype=np.int64)
        buffers[0, part == 1] = Buffer.INPUT
        return cut, buffers


def _merged(table: Int64Array) -> Int64Array:
    """Join transfers that differ in nothing but adjacent ranges of chunks; the longest way to go counts."""
    table = table[:, np.lexsort((table[_FIRST], *table[list(_ALIKE[::-1])]))]
    keys = table[list(_ALIKE)]
    joined = np.all(keys[:, 1:] == keys[:, :-1], axis=0) & (table[_FIRST, 1:] == table[_LAST, :-1])
    starts = np.flatnonzero(np.concatenate([[True], ~joined]))
    ends = np.concatenate([starts[1:], [table.shape[1]]]) - 1
    merged = table[:, starts]
    merged[_LAST] = table[_LAST, ends]
    merged[_TO_GO] = np.maximum.reduceat(table[_TO_GO], starts)
    return merged


def _ordered(turns: Turns, frame: _Frame, table: Int64Array) -> Int64Array:
    """The common order of all ranks: by wave, the longest way first, then in turns."""
    if not frame.collective.kind.is_rooted:
        root = np.searchsorted(frame.shard_offset, table[_FIRST], side="right") - 1
        inwards = (table[_PHASE] == 0) & frame.reduces
        table[_TURN] = turns.between(table[_SENDER], np.where(inwards, root, table[_RECEIVER]))
    keys = table[_PATH::-1].copy()
    keys[_PATH - _TO_GO] *= -1
    ordered: Int64Array = table[:, np.lexsort((table[_FIRST], *keys))]
    return ordered


def _program(
    frame: _Frame, table: Int64Array, buffers: Int64Array, path_offset: Int64Array, path_links: Int64Array
) -> Program:
    collective = frame.collective
    n = collective.n_ranks
    ranks = [_own_copies(frame, rank) for rank in range(n)]
    for row, (read, sum_from, target) in zip(table.T.tolist(), buffers.T.tolist(), strict=True):
        wave, phase, _, _, _, sender, receiver, channel, path, first, last = row
        kind = OperationKind.RECEIVE_REDUCE if frame.reduces and phase == 0 else OperationKind.RECEIVE
        count = last - first
        ranks[sender].append((OperationKind.SEND, first, count, receiver, read, read, channel, wave, path))
        ranks[receiver].append((kind, first, count, sender, sum_from, target, channel, wave, -1))
    wait_counts: list[int] = []
    waits: list[int] = []
    start = 0
    for rank in ranks:
        for found in find_waits(rank, in_place=frame.in_place, reduces=frame.reduces):
            wait_counts.append(len(found))
            waits.extend(start + place for place in found)
        start += len(rank)
    columns = np.array([row for rank in ranks for row in rank], dtype=np.int64).reshape(-1, 9).T
    kinds, first_, count_, peer, source, target_, channel_, step, path_ = columns
    return Program(
        kind=collective.kind,
        nodes=np.array(collective.ranks, dtype=np.int32),
        root=-1 if collective.root is None else collective.root,
        n_chunks=int(frame.shard_offset[-1]),
        shard_offset=frame.shard_offset,
        in_place=frame.in_place,
        operation_offset=offsets_of([len(rank) for rank in ranks]),
        operation_kind=kinds.astype(np.int32),
        peer=peer.astype(np.int32),
        channel=channel_.astype(np.int32),
        step=step.astype(np.int32),
        source=source.astype(np.int32),
        target=target_.astype(np.int32),
        path=path_.astype(np.int32),
        first=first_,
        count=count_,
        wait_offset=offsets_of(wait_counts),
        waits=np.array(waits, dtype=np.int64),
        path_offset=path_offset,
        path_links=path_links.astype(np.int32),
    )


def _own_copies(frame: _Frame, rank: int) -> list[Row]:
    """The copy of a rank's own shard to its OUTPUT, where nothing else brings it there."""
    first, last = int(frame.shard_offset[rank]), int(frame.shard_offset[rank + 1])
    if frame.reduces or frame.in_place or first == last:
        return []
    return [(OperationKind.COPY, first, last - first, -1, Buffer.INPUT, Buffer.OUTPUT, 0, 0, -1)]
