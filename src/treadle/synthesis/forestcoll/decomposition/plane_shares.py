"""How children divide the trees that they send each other among planes: tables with given sums and bounds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Int32Array, Int64Array
from treadle.synthesis.watch import UNWATCHED, Watch

MOST_CHILDREN = 2**14
"""Tables of children times children are not begun beyond this."""

MOST_VISITS = 2**17
"""Rows and columns that searches of alternating paths may look at in all, for a plane."""

_MUCH = 32  # units that a row and a column need before paths between them are taken many at a time
_TURNS = 16

Table = NDArray[np.signedinteger]
_GOLDEN = 0.6180339887498949  # fractional parts of its multiples are spread evenly


@dataclass(frozen=True)
class Shares:
    """n_s(x, y), columns as in `treadle.schedules.factored.planes.PlaneExchange`."""

    base: Int64Array
    pair_root: Int32Array
    pair_child: Int32Array
    pair_units: Int64Array


def plane_shares(
    out: Int64Array,
    into: Int64Array,
    trees: int,
    watch: Watch = UNWATCHED,
    *,
    sent: Table | None = None,
    whole: BoolArray | None = None,
) -> Shares | str:
    """Units that each child sends to each other by each plane, or why there are none.

    Parameters
    ----------
    out, into : arrays of int64, shape (n, planes)
        Units that leave and enter each child by each plane; in all what it sends and is sent.
    trees : int
        What most children send to each other.
    watch : Watch
    sent : array of signed integers, shape (n, n), optional
        What each child sends to each other, nothing to itself; default `trees`.
    whole : array of bool, shape (n,), optional
        Children all of whose pairs are to be listed.

    Raises
    ------
    TimeLimitError
        When the deadline passed.

    Notes
    -----
    Source: docs/algorithms/decomposition.md, after proposition 14. Planes are peeled off one by one; with two
    planes a failure proves that what children send each other cannot be divided. Memory: planes - 1 tables of
    n * n small integers.
    """
    n, planes = out.shape
    if n > MOST_CHILDREN:
        return f"more than {MOST_CHILDREN} children share planes unequally"
    most = trees if sent is None else max(trees, int(sent.max()))
    kind = np.min_scalar_type(-most - 1)  # holds counts up to `most`
    if most >= 2**30:
        return "too many trees for planes that serve the children unequally"
    base = _bases(out, into, trees)
    tables: list[Table] = []
    given = None if sent is None else sent.astype(kind)
    room: Table = np.broadcast_to(np.array(trees, dtype=kind), (n, n)) if given is None else given
    for plane in range(planes - 1):
        watch.beat("planes shared by children", plane, planes)
        table = _circulant(base[plane].astype(kind))
        if plane or given is not None:
            np.minimum(table, room, out=table)  # planes before may have left less than the base
        last = _without_later_plane(out[:, plane + 1 :] > 0, into[:, plane + 1 :] > 0)
        is_full = _fill_all(table, out[:, plane], into[:, plane], room, last, watch)
        if not is_full:
            known = "there is no direct forest" if planes == 2 else "peeling them one by one fails"
            known = "searches of paths take too long" if is_full is None else known
            return f"its planes serve the children unequally, and {known}"
        tables.append(table)
        if plane < planes - 2:
            room = room - table
    return _as_pairs(base, tables, trees, given, np.zeros(n, dtype=bool) if whole is None else whole)


def _without_later_plane(out: BoolArray, into: BoolArray) -> tuple[Int64Array, Int64Array]:
    """Pairs of children that no later plane joins."""
    n = len(out)
    some = np.flatnonzero(~(out & into).all(axis=1))
    tall = np.argwhere(out.astype(np.float32) @ into[some].T.astype(np.float32) == 0)
    wide = np.argwhere(out[some].astype(np.float32) @ into.T.astype(np.float32) == 0)
    pairs = np.concatenate([tall[:, 0] * n + some[tall[:, 1]], some[wide[:, 0]] * n + wide[:, 1]])
    row, column = np.divmod(np.unique(pairs), n)
    return row[row != column], column[row != column]


def _fill_all(
    table: Table,
    out: Int64Array,
    into: Int64Array,
    room: Table,
    last: tuple[Int64Array, Int64Array],
    watch: Watch,
) -> bool | None:
    """As `_fill`, with all the room of the pairs whose last plane this is."""
    if not len(last[0]):
        return _fill(table, out, into, room, watch)
    fixed = room[last].astype(np.int64)
    out, into = out.copy(), into.copy()
    np.subtract.at(out, last[0], fixed)
    np.subtract.at(into, last[1], fixed)
    if min(out.min(), into.min()) < 0:
        return False
    rest = room.copy()
    rest[last] = table[last] = 0
    is_full = _fill(table, out, into, rest, watch)
    table[last] = fixed
    return is_full


def _bases(out: Int64Array, into: Int64Array, trees: int) -> Int64Array:
    """n_s by distance as most children need it, shape (planes, n)."""
    n, planes = out.shape
    base = np.zeros((planes, n), dtype=np.int64)
    wanted, used = 0, np.zeros(n - 1, dtype=np.int64)
    for plane in range(planes - 1):
        usual, special = _usual(out[:, plane], into[:, plane])
        _, more_in = _tilts(out[special, plane] - usual[0], into[special, plane] - usual[1], n)
        wanted += min(max(round(usual[0] - float(more_in.sum())), 0), trees * (n - 1))
        even = np.diff(np.arange(n) * min(wanted, trees * (n - 1)) // (n - 1))
        base[plane, 1:] = np.clip(even - used, 0, trees - used)
        used += base[plane, 1:]
    base[-1, 1:] = trees - used
    return base


def _usual(out: Int64Array, into: Int64Array) -> tuple[tuple[int, int], Int64Array]:
    """The sums that most children have, and the children with others."""
    sums, place, counts = np.unique(
        np.stack([out, into], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    most = int(np.argmax(counts))
    return (int(sums[most, 0]), int(sums[most, 1])), np.flatnonzero(place.ravel() != most)


def _tilts(
    more_out: Int64Array, more_in: Int64Array, n: int
) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """What special children add to each cell of their row, and of their column, if all is spread evenly."""
    if n < 3:
        return np.zeros(len(more_out)), np.zeros(len(more_in))
    scale = (n - 1.0) ** 2 - 1
    return (more_out * (n - 1.0) + more_in) / scale, (more_in * (n - 1.0) + more_out) / scale


def _circulant(base: Table) -> Table:
    """base[y - x mod n] at x, y."""
    n = len(base)
    windows = np.lib.stride_tricks.sliding_window_view(np.concatenate([base, base]), n)
    return windows[n:0:-1].copy()


def _fill(table: Table, out: Int64Array, into: Int64Array, room: Table, watch: Watch) -> bool | None:
    """Change a table, nowhere above `room`, so that it has these row and column sums; False if it cannot be,
    None if that takes too long.
    """
    _tilt(table, out, into, room)
    # sums of 2**14 numbers of 16 bits fit 32, which is faster
    kind = np.int32 if table.itemsize < 4 else np.int64
    rows = out - table.sum(axis=1, dtype=kind)
    columns = into - table.sum(axis=0, dtype=kind)
    for sign in (1, -1):
        _match(table, rows, columns, room, sign)
        _exchange(table, rows, columns, room, sign)
    return mend(table, rows, columns, room, watch)


def _tilt(table: Table, out: Int64Array, into: Int64Array, room: Table) -> None:
    """Give special children's rows and columns their sums, spread evenly, as far as bounds allow."""
    n = len(table)
    usual, special = _usual(out, into)
    s, h = len(special), n - len(special)
    if not s or not h:
        return
    others = np.setdiff1d(np.arange(n), special)
    base = int(table[others[0]].sum(dtype=np.int64))
    by_row, by_column = _tilts(out[special] - usual[0], into[special] - usual[1], n)
    distance = (np.arange(s) - np.arange(s)[:, None]) % s
    more = np.floor(by_row[:, None] + by_column + distance * _GOLDEN % 1).astype(np.int64)
    more[distance == 0] = 0
    if s > 1:
        # so much among themselves that other rows and columns come out even
        gap = int(out[special].sum()) - s * base - h * (usual[1] - base) - int(more.sum())
        each, rest = divmod(gap, s * (s - 1))
        place = (distance - 1) * s + np.arange(s)[:, None]
        more += np.where(distance > 0, each + (place < rest), 0)
    square = np.ix_(special, special)
    table[square] = np.clip(table[square] + more, 0, room[square])
    table[special, special] = 0
    wide = np.ix_(special, others)
    lack = out[special] - table[special].sum(axis=1, dtype=np.int64)
    table[wide] = np.clip(table[wide] + _dealt(lack, h), 0, room[wide])
    tall = np.ix_(others, special)
    lack = into[special] - table[:, special].sum(axis=0, dtype=np.int64)
    table[tall] = np.clip(table[tall] + _dealt(lack, h).T, 0, room[tall])
    # what special children send, or are sent, may leave no choice
    most = room[special].sum(axis=1, dtype=np.int64), room[:, special].sum(axis=0, dtype=np.int64)
    for row in special[(out[special] == 0) | (out[special] == most[0])].tolist():
        table[row] = room[row] if out[row] else 0
    for column in special[(into[special] == 0) | (into[special] == most[1])].tolist():
        table[:, column] = room[:, column] if into[column] else 0


def _dealt(totals: Int64Array, width: int) -> Int32Array:
    """Rows of these sums, even in every row and, all rows together, in every column."""
    each, rest = np.divmod(totals, width)
    start = (np.cumsum(rest) - rest) % width
    dealt = np.repeat(each.astype(np.int32)[:, None], width, axis=1)
    for row, begin, size in zip(dealt, start.tolist(), rest.tolist(), strict=True):
        row[begin : begin + size] += 1
        row[: max(begin + size - width, 0)] += 1
    return dealt


def _match(table: Table, rows: Int64Array, columns: Int64Array, room: Table, sign: int) -> None:
    """Raise (lower) cells whose row and column both need it, many at a time; needs are kept up to date."""
    for shift in range(1, 9):
        row = np.repeat(np.arange(len(rows)), np.clip(sign * rows, 0, None))
        column = np.repeat(np.arange(len(rows)), np.clip(sign * columns, 0, None))
        size = min(len(row), len(column))
        if not size:
            return
        row, column = row[:size], np.roll(column, shift * shift)[:size]
        _, first = np.unique(row * len(rows) + column, return_index=True)
        row, column = row[first], column[first]
        old = table[row, column]
        free = (row != column) & ((old < room[row, column]) if sign > 0 else (old > 0))
        row, column = row[free], column[free]
        table[row, column] += sign
        np.subtract.at(rows, row, sign)
        np.subtract.at(columns, column, sign)


def _exchange(table: Table, rows: Int64Array, columns: Int64Array, room: Table, sign: int) -> None:
    """Paths of three steps from a row to a column that both need much, many at a time: raise (lower) cells of
    the row, lower (raise) others in those columns, and raise (lower) those rows' cells in the column.
    """

    def may(row: int | Int64Array, column: int | Int64Array, change: int) -> BoolArray:
        old = table[row, column]
        free: BoolArray = old < room[row, column] if change > 0 else old > 0
        return free

    everyone = np.arange(len(rows))
    for a in np.flatnonzero(sign * rows >= _MUCH).tolist():
        for b in np.flatnonzero(sign * columns >= _MUCH).tolist():
            if sign * rows[a] <= 0:
                break
            through = np.flatnonzero(may(a, everyone, sign) & (everyone != a) & (everyone != b))
            by = np.flatnonzero(may(everyone, b, sign) & (everyone != a) & (everyone != b))
            for turn in range(_TURNS):
                wanted = min(sign * int(rows[a]), sign * int(columns[b]), len(through), len(by))
                if wanted <= 0:
                    break
                size = min(len(through), len(by))
                y, x = np.roll(through, turn)[:size], by[:size]
                good = np.flatnonzero((x != y) & may(x, y, -sign))[:wanted]
                table[a, y[good]] += sign
                table[x[good], y[good]] -= sign
                table[x[good], b] += sign
                rows[a] -= sign * len(good)
                columns[b] -= sign * len(good)
                left = np.ones((2, len(rows)), dtype=bool)
                left[0, y[good]], left[1, x[good]] = False, False
                through, by = through[left[0, through]], by[left[1, by]]


def mend(
    table: Table, rows: Int64Array, columns: Int64Array, room: Table, watch: Watch = UNWATCHED
) -> bool | None:
    """Alternating paths until no row and no column needs anything; False if one that is due is missing, None
    if searches take too long.
    """
    n, visits = len(table), 0
    needs = np.concatenate([rows, -columns])  # paths lead from positive needs to negative ones
    for source in np.flatnonzero(needs > 0).tolist():
        while needs[source] > 0:
            watch.beat("planes shared by children", source, n)
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


def _as_pairs(
    base: Int64Array, tables: list[Table], trees: int, sent: Table | None, whole: BoolArray
) -> Shares:
    """Cells in which some table differs from the base, and those of the rows asked for."""
    n = base.shape[1]
    places: list[Int32Array] = []  # x n + y < 2**28; pages that are new cost more than arithmetic
    step = max(1, 2**19 // n)  # rows that caches hold
    usual = [
        np.lib.stride_tricks.sliding_window_view(np.concatenate([one, one]).astype(table.dtype), n)[n:0:-1]
        for one, table in zip(base, tables, strict=False)
    ]
    for begin in range(0, n, step):
        rows = slice(begin, begin + step)
        differs = np.zeros((min(step, n - begin), n), dtype=bool) if sent is None else sent[rows] != trees
        for table, even in zip(tables, usual, strict=True):
            differs |= table[rows] != even[rows]
        differs[whole[rows]] = True
        np.fill_diagonal(differs[:, begin:], False)
        places.append((np.flatnonzero(differs) + begin * n).astype(np.int32))
    ends = np.cumsum([0, *map(len, places)]).tolist()
    root, child = np.empty(ends[-1], dtype=np.int32), np.empty(ends[-1], dtype=np.int32)
    units = np.empty((ends[-1], len(base)), dtype=np.int64)
    for place, start, stop in zip(places, ends, ends[1:], strict=False):
        rest, here = units[start:stop, -1], slice(start, stop)
        np.divmod(place, n, out=(root[here], child[here]))
        rest[:] = trees if sent is None else sent.ravel()[place]
        for plane, table in enumerate(tables):
            units[here, plane] = table.ravel()[place]
            rest -= units[here, plane]
    for column in (root, child, units):
        column.setflags(write=False)  # values that hold them need no copies
    return Shares(base, root, child, units)
