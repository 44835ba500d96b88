"""Tables of what small numbers of children send each other by planes, by searches of alternating paths."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Int64Array
from treadle.context import context
from treadle.unsupported import Unsupported

MOST_VISITS = 2**17
"""Rows and columns that searches of alternating paths may look at in all, for a plane."""

Table = NDArray[np.signedinteger]


def plane_tables(
    out: Int64Array, into: Int64Array, sent: Int64Array, near: Int64Array
) -> Int64Array | Unsupported:
    """Return the units that children send each other by each plane, shape (planes, n, n), or why not.

    Parameters
    ----------
    out, into : arrays of int64, shape (n, planes)
        Units that leave and enter each child by each plane.
    sent : array of int64, shape (n, n)
        What each child sends to each other in all; none to itself.
    near : array of int64, shape (planes, n, n)
        A table to begin with, whose sums may be off.

    Raises
    ------
    TimeLimitError
        When the deadline passed.

    Notes
    -----
    Source: docs/proofs/decomposition.md, after proposition 14. Planes are peeled off one by one; with two
    planes a failure proves that what children send each other cannot be divided.
    """
    planes = out.shape[1]
    tables = np.empty_like(near)
    room = sent.copy()
    for plane in range(planes - 1):
        context().report("planes shared by children", plane, planes)
        table = np.minimum(near[plane], room)
        last = _without_later_plane(out[:, plane + 1 :] > 0, into[:, plane + 1 :] > 0)
        is_full = _fill(table, out[:, plane], into[:, plane], room, last)
        if not is_full:
            known = "there is no direct forest" if planes == 2 else "peeling them one by one fails"
            known = "searches of paths take too long" if is_full is None else known
            return Unsupported(f"its planes carry unequal bandwidth to the children, and {known}")
        tables[plane] = table
        room = room - table
    tables[-1] = room
    return tables


def _without_later_plane(out: BoolArray, into: BoolArray) -> tuple[Int64Array, Int64Array]:
    """Return pairs of children that no later plane joins."""
    n, some = len(out), np.flatnonzero(~(out & into).all(axis=1))
    ways_out, ways_in = out.astype(np.float32), into.T.astype(np.float32)
    tall = np.argwhere(ways_out @ ways_in[:, some] == 0)
    wide = np.argwhere(ways_out[some] @ ways_in == 0)
    pairs = np.concatenate([tall[:, 0] * n + some[tall[:, 1]], some[wide[:, 0]] * n + wide[:, 1]])
    row, column = np.divmod(np.unique(pairs), n)
    return row[row != column], column[row != column]


def _fill(
    table: Table, out: Int64Array, into: Int64Array, room: Table, last: tuple[Int64Array, Int64Array]
) -> bool | None:
    """Change a table, nowhere above `room`, so that it has these row and column sums, and all the capacity of
    the pairs whose last plane this is; False if it cannot be, None if that takes too long.
    """
    fixed = room[last]
    out, into = out.copy(), into.copy()
    np.subtract.at(out, last[0], fixed)
    np.subtract.at(into, last[1], fixed)
    if min(out.min(), into.min()) < 0:
        return False
    rest = room.copy()
    rest[last] = table[last] = 0
    is_full = mend(table, out - table.sum(axis=1), into - table.sum(axis=0), rest)
    table[last] = fixed
    return is_full


def mend(table: Table, rows: Int64Array, columns: Int64Array, room: Table) -> bool | None:
    """Alternating paths until no row and no column needs anything; False if one that is due is missing, None
    if searches take too long.
    """
    n, visits = len(table), 0
    needs = np.concatenate([rows, -columns])  # paths lead from positive needs to negative ones
    for source in np.flatnonzero(needs > 0).tolist():
        while needs[source] > 0:
            context().report("planes shared by children", source, n)
            path, visited = _path(table, needs, room, source)
            visits += visited
            if not path:
                return False
            if visits > MOST_VISITS:
                return None
            amount = min(int(needs[source]), -int(needs[path[-1]]))
            steps = pairwise(path)
            cells = [(one, other - n, 1) if one < n else (other, one - n, -1) for one, other in steps]
            for row, column, sign in cells:
                old = int(table[row, column])
                amount = min(amount, int(room[row, column]) - old if sign > 0 else old)
            for row, column, sign in cells:
                table[row, column] += sign * amount
            needs[source] -= amount
            needs[path[-1]] += amount
    return True


def _path(table: Table, needs: Int64Array, room: Table, source: int) -> tuple[list[int], int]:
    """Nodes of a path, none if there is none, and how many were looked at: row x is x, column y is n + y; to
    columns cells are raised, to rows lowered.
    """
    n, visited = len(table), 0
    above = np.full(2 * n, -1, dtype=np.int64)
    above[source] = source
    queue = deque([source])
    while queue:
        node = queue.popleft()
        visited += 1
        if node < n:
            free = table[node] < room[node]
            free[node] = False
            reached = n + np.flatnonzero(free & (above[n:] < 0))
        else:
            reached = np.flatnonzero((table[:, node - n] > 0) & (above[:n] < 0))
        above[reached] = node
        ends = reached[needs[reached] < 0]
        if len(ends):
            path = [int(ends[np.argmin(needs[ends])])]
            while path[-1] != source:
                path.append(int(above[path[-1]]))
            return path[::-1], visited
        queue.extend(reached.tolist())
    return [], visited
