"""Runs of capacity units at the borders of an outermost piece's children."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from treadle.arrays import Int32Array, Int64Array, distinct_rows, offsets_of
from treadle.schedules.factored import Crossings, Subproblem
from treadle.synthesis.trees.tight_cuts.subproblems import Cutting, LocalSubproblem


@dataclass(frozen=True)
class BoundaryRuns:
    """Runs of capacity units that leave (or enter) the children of a piece, any order.

    Parameters
    ----------
    owner : array of int64, shape (c,)
        Child of the piece.
    supplier : array of int64, shape (c,)
        Child of that child which supplies them (or which they lead to).
    inner_link : array of int64, shape (c,)
        That child's own link on the way.
    link : array of int64, shape (c,)
        Local link of the piece.
    offset, units : arrays of int64, shape (c,)
    plane : array of int64, shape (c,)
        Relay at the link's other end.
    """

    owner: Int64Array
    supplier: Int64Array
    inner_link: Int64Array
    link: Int64Array
    offset: Int64Array
    units: Int64Array
    plane: Int64Array


def boundary_runs(
    piece: LocalSubproblem, cutting: Cutting, solved: dict[int, Subproblem], *, leaving: bool
) -> BoundaryRuns:
    """What leaves (enters) each child: of a rank its links whole, of a set its exits (entrances)."""
    codes = cutting.children[: int(cutting.child_offset[1])]
    links = cutting.links[: int(cutting.link_offset[1])]
    near, far = (piece.tails, piece.heads) if leaving else (piece.heads, piece.tails)
    of_rank = np.flatnonzero(np.isin(near, np.flatnonzero(codes >= 0)))
    none = np.zeros_like(of_rank)
    parts = [np.stack([near[of_rank], none, none, of_rank, none, piece.capacity[of_rank]])]
    is_set = np.flatnonzero(codes < 0)
    numbers = ~codes[is_set].astype(np.int64)
    for kind in np.unique(cutting.kind[numbers]).tolist():
        chosen = cutting.kind[numbers] == kind
        rows: Crossings = solved[kind].exits if leaving else solved[kind].entrances
        places = cutting.link_offset[numbers[chosen]][:, None] + rows.link
        ends_at = rows.path_offset[rows.path] if leaving else rows.path_offset[rows.path + 1] - 1
        of_kind = np.stack([rows.child, rows.path_links[ends_at], rows.offset, rows.units])
        supplier, inner, offset, units = np.tile(of_kind, int(chosen.sum()))
        owner = np.repeat(is_set[chosen], len(rows.link))
        link = np.searchsorted(links, cutting.links[places]).ravel()
        parts.append(np.stack([owner, supplier, inner, link, offset, units]))
    owner, supplier, inner, link, offset, units = np.concatenate(parts, axis=1)
    return BoundaryRuns(owner, supplier, inner, link, offset, units, far[link].astype(np.int64))


def boundary_columns(
    runs: BoundaryRuns, n: int, *, plane_first: bool
) -> tuple[Int32Array, Int64Array, Int64Array, set[tuple[tuple[int, int], ...]]]:
    """Columns of each child: links, first units, offsets; and the different orders of planes."""
    keys = [runs.offset, runs.link, runs.inner_link, runs.supplier, runs.owner]
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
    some = ((plane, size) for size, plane in zip(sizes, planes, strict=True) if size)
    return tuple((plane, sum(size for _, size in run)) for plane, run in groupby(some, itemgetter(0)))


def side_tables(*sides: tuple[Int32Array, Int64Array, Int64Array]) -> dict[str, Any]:
    """Links, first units and offsets of the leaving and the entering side, as trees name them."""
    return {
        f"{side}_{name}": column
        for side, columns in zip(("out", "in"), sides, strict=True)
        for name, column in zip(("links", "first", "offset"), columns, strict=True)
    }
