"""Closed forms of the outermost piece: equal children that send straight to each other."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array, distinct_rows, offsets_of
from treadle.refusal import Refusal
from treadle.schedules.factored import CirculantExchange, Crossings, Piece
from treadle.synthesis.trees.tight_cuts.near_exits import near_exits
from treadle.synthesis.trees.tight_cuts.pieces import Cutting, LocalPiece
from treadle.synthesis.watch import UNWATCHED, Watch


@dataclass(frozen=True)
class UnitRuns:
    """Runs of capacity units that leave (or enter) the children of a piece, any order.

    Parameters
    ----------
    owner : array of int64, shape (c,)
        Child of the piece.
    supplier : array of int64, shape (c,)
        Child of that child which supplies them (or which they lead to).
    door : array of int64, shape (c,)
        That child's own link on the way.
    link : array of int64, shape (c,)
        Local link of the piece.
    offset, units : arrays of int64, shape (c,)
    plane : array of int64, shape (c,)
        Relay at the link's other end.
    """

    owner: Int64Array
    supplier: Int64Array
    door: Int64Array
    link: Int64Array
    offset: Int64Array
    units: Int64Array
    plane: Int64Array


def circulant_exchange(
    piece: LocalPiece, cutting: Cutting, solved: dict[int, Piece], block: int, watch: Watch = UNWATCHED
) -> CirculantExchange | Refusal:
    """The trees of the outermost piece if its children are equal and joined by relays alone, or why not.

    Parameters
    ----------
    piece : LocalPiece
        Kind of piece 0.
    cutting : Cutting
    solved : mapping of kind to Piece
        Of the children that are sets.
    block : int
        Divides the native unit trees of every rank.
    watch : Watch

    Raises
    ------
    TimeLimitError
        When the deadline passed.

    Notes
    -----
    Units are ordered by the child's child that supplies them, so that a unit tree leaves a box, where it can,
    by the rank that is its root, else by ranks near to it. If the planes (relays) do not agree in that order,
    they come first.
    """
    n = piece.n_children
    if piece.has_outside or n < 2 or len(np.unique(piece.native)) != 1:
        return Refusal("its children have unequal numbers of trees")
    native = int(piece.native[0])
    if np.any((piece.tails < n) & (piece.heads < n)):  # links between relays are not needed
        return Refusal("some links join two children")
    out, into = (unit_runs(piece, cutting, solved, leaving=leaving) for leaving in (True, False))
    for runs in (out, into):
        totals = np.bincount(runs.owner, weights=runs.units, minlength=n)
        if np.any(totals != native * (n - 1)):
            return Refusal("its children do not need just what enters and leaves them")
        if not _same_planes(runs, n):
            return Refusal("its planes serve the children unequally")
    out, block = _near_first(out, cutting, solved, n - 1, block)
    for plane_first in (False, True):
        watch.beat("units of equal children", int(plane_first), 2)
        tables = [unit_columns(runs, n, plane_first=plane_first) for runs in (out, into)]
        steps = {step for table in tables for step in table[3]}
        if len(steps) == 1:
            (out_links, out_first, out_offset, _), (in_links, in_first, in_offset, _) = tables
            return CirculantExchange(
                n, native, block, out_links, in_links, out_first, in_first, out_offset, in_offset
            )
    return Refusal("its planes serve the children unequally")


def unit_runs(piece: LocalPiece, cutting: Cutting, solved: dict[int, Piece], *, leaving: bool) -> UnitRuns:
    """What leaves (enters) each child: of a rank its links whole, of a set its exits (entrances)."""
    start, end = int(cutting.child_offset[0]), int(cutting.child_offset[1])
    codes = cutting.children[start:end]
    links = cutting.links[: int(cutting.link_offset[1])]
    owners, suppliers, doors, locals_, offsets, units = [], [], [], [], [], []
    ends = piece.tails if leaving else piece.heads
    of_rank = np.flatnonzero(np.isin(ends, np.flatnonzero(codes >= 0)))
    owners.append(ends[of_rank].astype(np.int64))
    suppliers.append(np.zeros(len(of_rank), dtype=np.int64))
    doors.append(np.zeros(len(of_rank), dtype=np.int64))
    locals_.append(of_rank)
    offsets.append(np.zeros(len(of_rank), dtype=np.int64))
    units.append(piece.capacity[of_rank])
    is_set = np.flatnonzero(codes < 0)
    numbers = ~codes[is_set].astype(np.int64)
    for kind in np.unique(cutting.kind[numbers]).tolist():
        chosen = cutting.kind[numbers] == kind
        rows: Crossings = solved[kind].exits if leaving else solved[kind].entrances
        count = int(chosen.sum())
        places = cutting.link_offset[numbers[chosen]][:, None] + rows.link
        locals_.append(np.searchsorted(links, cutting.links[places]).ravel())
        owners.append(np.repeat(is_set[chosen], len(rows.link)))
        suppliers.append(np.tile(rows.child.astype(np.int64), count))
        ends_at = rows.path_offset[rows.path] if leaving else rows.path_offset[rows.path + 1] - 1
        doors.append(np.tile(rows.path_links[ends_at].astype(np.int64), count))
        offsets.append(np.tile(rows.offset, count))
        units.append(np.tile(rows.units, count))
    link = np.concatenate(locals_)
    return UnitRuns(
        np.concatenate(owners),
        np.concatenate(suppliers),
        np.concatenate(doors),
        link,
        np.concatenate(offsets),
        np.concatenate(units),
        (piece.heads if leaving else piece.tails)[link].astype(np.int64),
    )


def _near_first(
    runs: UnitRuns, cutting: Cutting, solved: dict[int, Piece], deliveries: int, block: int
) -> tuple[UnitRuns, int]:
    """What leaves sets whose ranks do not all supply their own trees, in the order of `near_exits`.

    `supplier` is the place in that order then, and blocks are as small as trees that differ ask for. The runs
    are those of `unit_runs`, in its order.
    """
    codes = cutting.children[: int(cutting.child_offset[1])]
    kinds = cutting.kind[~codes[codes < 0].astype(np.int64)]
    begin = len(runs.owner) - sum(len(solved[kind].exits.link) for kind in kinds.tolist())
    whole = np.arange(begin)
    parts = [np.stack([whole, np.zeros_like(whole), runs.units[:begin], runs.supplier[:begin]])]
    for kind, count in zip(*(some.tolist() for some in np.unique(kinds, return_counts=True)), strict=True):
        size = len(solved[kind].exits.link)
        order = near_exits(solved[kind], deliveries)
        rows = begin + size * np.arange(count)
        if order is None:
            row = np.arange(begin, begin + size * count)
            parts.append(np.stack([row, np.zeros_like(row), runs.units[row], runs.supplier[row]]))
        else:
            row, skip, units = order[0].T
            block = math.gcd(block, order[1])
            place = np.tile(np.arange(len(row)), count)
            parts.append(np.stack([(rows[:, None] + row).ravel(), *np.tile([skip, units], count), place]))
        begin += size * count
    row, skip, units, place = np.concatenate(parts, axis=1)
    if len(row) == len(runs.owner) and not skip.any() and np.array_equal(place, runs.supplier):
        return runs, block
    offset = runs.offset[row] + skip
    owner, door, link, plane = (some[row] for some in (runs.owner, runs.door, runs.link, runs.plane))
    return UnitRuns(owner, place, door, link, offset, units, plane), block


def _same_planes(runs: UnitRuns, n: int) -> bool:
    """Whether every child has as many units on each plane as the others."""
    planes, place = np.unique(runs.plane, return_inverse=True)
    if n * len(planes) > len(runs.owner):  # some child has no unit on some plane
        return False
    units = np.zeros(n * len(planes), dtype=np.int64)
    np.add.at(units, runs.owner * len(planes) + place, runs.units)
    table = units.reshape(n, len(planes))
    return bool(np.all(table == table[0]))


def unit_columns(
    runs: UnitRuns, n: int, *, plane_first: bool
) -> tuple[Int32Array, Int64Array, Int64Array, set[tuple[tuple[int, int], ...]]]:
    """Columns of each child: links, first units, offsets; and the different orders of planes."""
    keys = [runs.offset, runs.link, runs.door, runs.supplier, runs.owner]
    if plane_first:
        keys.insert(4, runs.plane)
    order = np.lexsort(tuple(keys))
    owner, units = runs.owner[order], runs.units[order]
    counts = np.bincount(owner, minlength=n)
    width = int(counts.max())
    column = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    links = np.zeros((n, width), dtype=np.int32)
    offsets, sizes, planes = (np.zeros((n, width), dtype=np.int64) for _ in range(3))
    links[owner, column] = runs.link[order]
    offsets[owner, column] = runs.offset[order]
    sizes[owner, column] = units
    planes[owner, column] = runs.plane[order]
    first = offsets_of(sizes)
    table = np.concatenate([sizes, planes], axis=1)
    steps = {_steps(row[:width].tolist(), row[width:].tolist()) for row in table[distinct_rows(table)[0]]}
    return links, first, offsets, steps


def _steps(sizes: list[int], planes: list[int]) -> tuple[tuple[int, int], ...]:
    """Runs of units on one plane: (plane, units), neighbours of one plane joined."""
    joined: list[tuple[int, int]] = []
    for size, plane in zip(sizes, planes, strict=True):
        if not size:
            continue
        if joined and joined[-1][0] == plane:
            joined[-1] = (plane, joined[-1][1] + size)
        else:
            joined.append((plane, size))
    return tuple(joined)
