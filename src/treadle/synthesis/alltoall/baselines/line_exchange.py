"""All-to-all on a path or a ring, in slots: what the phases on meshes and tori are made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int64Array

MAX_SIDE = 128
"""Longest path that is scheduled: the slots grow with the square of it."""


@dataclass(frozen=True, eq=False)
class LineExchange:
    """Every position sends one message to each other; a link carries one message per slot.

    Parameters
    ----------
    side : int
        Positions.
    n_slots : int
    start, end, half : arrays of int64, shape (k,)
        Message of each hop: from, to, and which half where messages come in halves.
    at, way : arrays of int64, shape (k,)
        Position that the hop leaves, and 1 (up) or -1 (down).
    slot : array of int64, shape (k,)
    """

    side: int
    n_slots: int
    start: Int64Array
    end: Int64Array
    half: Int64Array
    at: Int64Array
    way: Int64Array
    slot: Int64Array

    def groups(self) -> Int64Array:
        """Number of each slot's group: as many slots in a row as possible, no message twice in one."""
        key = (self.start * self.side + self.end) * 2 + self.half
        order = np.lexsort((self.slot, key))
        before = np.full(len(key), -1, dtype=np.int64)
        same = key[order][1:] == key[order][:-1]
        before[order[1:][same]] = self.slot[order[:-1][same]]
        latest = np.full(self.n_slots, -1, dtype=np.int64)
        np.maximum.at(latest, self.slot, before)
        group = np.zeros(self.n_slots, dtype=np.int64)
        begin = 0
        for slot in range(1, self.n_slots):
            fresh = latest[slot] >= begin
            begin = slot if fresh else begin
            group[slot] = group[slot - 1] + fresh
        return group


def line_exchange(side: int, *, closed: bool, halves: int) -> LineExchange:
    """An exchange in as few slots as the busiest link has messages.

    Parameters
    ----------
    side : int
        At least 2.
    closed : bool
        A ring; otherwise a path.
    halves : int
        1, or 2 if messages come in two halves, each taking a slot of its own. Rings of even length need 2.

    Returns
    -------
    LineExchange
        halves * floor(side^2 / 4) slots on a path, halves * (side^2 - side % 2) / 8 on a ring.

    Notes
    -----
    Path: where messages wait for a link, the one with the farthest end goes first; the middle link then never
    idles, and the last messages across it have one hop to go. Ring: everything moves its first hop, then
    its second and so on; in each slot all nodes do the same, so that all links are busy. Messages for the
    opposite node go one half up, one down.

    Examples
    --------
    >>> line_exchange(5, closed=False, halves=1).n_slots, line_exchange(6, closed=True, halves=2).n_slots
    (6, 9)
    """
    hops = _ring(side, halves) if closed else _path(side, halves)
    start, end, half, at, way, slot = np.array(hops, dtype=np.int64).T
    order = np.lexsort((slot, start * side + end))
    columns = (values[order] for values in (start, end, half, at, way, slot))
    return LineExchange(side, int(slot.max()) + 1, *columns)


def _ring(side: int, halves: int) -> list[tuple[int, ...]]:
    hops: list[tuple[int, ...]] = []
    slot = 0
    for hop in range(side // 2):
        for apart in range(hop + 1, side // 2 + 1):
            tied = 2 * apart == side
            assert not tied or halves == 2
            for half in range(halves):
                for start in range(side):
                    for way in (1, -1):
                        if tied and half != (way < 0):
                            continue
                        end, at = (start + way * apart) % side, (start + way * hop) % side
                        hops.append((start, end, half, at, way, slot if tied else slot + half))
            slot += 1 if tied else halves
    return hops


def _path(side: int, halves: int) -> list[tuple[int, ...]]:
    """Upwards by simulation, downwards as its mirror image."""
    waiting = [
        [(end, at, half) for end in range(at + 1, side) for half in range(halves)] for at in range(side)
    ]
    last = side - 1
    hops: list[tuple[int, ...]] = []
    slot = 0
    while any(waiting):
        moved = []
        for at, queue in enumerate(waiting):
            if queue:
                end, start, half = queue.pop(queue.index(max(queue)))
                hops.append((start, end, half, at, 1, slot))
                hops.append((last - start, last - end, half, last - at, -1, slot))
                moved.append((end, start, half, at + 1))
        for end, start, half, at in moved:
            if at != end:
                waiting[at].append((end, start, half))
        slot += 1
    return hops
