"""Runs of capacity units at the boundaries of an outermost subproblem's children."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from treadle.arrays import Int32Array, Int64Array, distinct_rows, offsets_of, sums_of
from treadle.schedules.factored import Crossings, Subproblem
from treadle.synthesis.trees.tight_cuts.subproblems import Cutting, LocalSubproblem


@dataclass(frozen=True)
class BoundaryRuns:
    """Runs of capacity units that leave (or enter) the children of the outermost subproblem, in any order.

    Parameters
    ----------
    owner : array of int64, shape (c,)
        Child of the subproblem.
    supplier : array of int64, shape (c,)
        Child of that child which supplies the units (or to which they lead).
    inner_link : array of int64, shape (c,)
        Link of that child on the path.
    link : array of int64, shape (c,)
        Local link of the subproblem.
    offset, units : arrays of int64, shape (c,)
    plane : array of int64, shape (c,)
        Relay at the other end of the link.
    """

    owner: Int64Array
    supplier: Int64Array
    inner_link: Int64Array
    link: Int64Array
    offset: Int64Array
    units: Int64Array
    plane: Int64Array


@dataclass(frozen=True, eq=False)
class Outermost:
    """The outermost subproblem of a cutting, and the units that leave and enter its children.

    Parameters
    ----------
    cutting : Cutting
    solved : mapping of kind to Subproblem
        Solutions of the children that are sets.
    block : int
        Divides the native unit trees of every rank.
    out, into : BoundaryRuns
    """

    cutting: Cutting
    solved: dict[int, Subproblem]
    block: int
    out: BoundaryRuns
    into: BoundaryRuns

    @staticmethod
    def of(cutting: Cutting, solved: dict[int, Subproblem], block: int) -> Outermost:
        """Return the outermost subproblem, whose links all join a relay."""
        out, into = (_boundary_runs(cutting, solved, leaving=leaving) for leaving in (True, False))
        return Outermost(cutting, solved, block, out, into)

    @property
    def local(self) -> LocalSubproblem:
        """The subproblem in its own numbering."""
        return self.cutting.kinds[int(self.cutting.kind[0])]

    @cached_property
    def planes(self) -> Int64Array:
        """Relays that the links of children lead to, rising."""
        return np.unique(np.concatenate([self.out.plane, self.into.plane]))

    @cached_property
    def sums(self) -> tuple[Int64Array, Int64Array]:
        """Units that leave and that enter each child by each plane, two arrays of shape (n, planes)."""
        shape = self.local.n_children, len(self.planes)
        out, into = (
            sums_of(shape, (side.owner, np.searchsorted(self.planes, side.plane)), side.units)
            for side in (self.out, self.into)
        )
        return out, into

    def groups(self, block: int) -> list[Int64Array]:
        """Return for each child the blocks of trees of each of its own children."""
        blocks = self.local.native // block
        by_kind = {kind: solution.native // block for kind, solution in self.solved.items()}
        return [
            blocks[child : child + 1] if code >= 0 else by_kind[int(self.cutting.kind[~code])]
            for child, code in enumerate(self.cutting.children_of(0).tolist())
        ]


def _boundary_runs(cutting: Cutting, solved: dict[int, Subproblem], *, leaving: bool) -> BoundaryRuns:
    """Return the egress (ingress) of each child: the entire links of a rank, the boundary units of a set."""
    local, codes, links = cutting.kinds[int(cutting.kind[0])], cutting.children_of(0), cutting.links_of(0)
    near, far = (local.tails, local.heads) if leaving else (local.heads, local.tails)
    of_rank = np.flatnonzero(np.isin(near, np.flatnonzero(codes >= 0)))
    none = np.zeros_like(of_rank)
    parts = [np.stack([near[of_rank], none, none, of_rank, none, local.capacity[of_rank]])]
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
    """Return the columns of each child: links, first units, offsets; and the different orders of planes."""
    keys = [runs.offset, runs.link, runs.inner_link, runs.supplier, runs.owner]
    if plane_first:
        keys.insert(4, runs.plane)
    order = np.lexsort(tuple(keys))
    owner, units = runs.owner[order], runs.units[order]
    counts = np.bincount(owner, minlength=n)
    width = int(counts.max())
    column = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    links, offsets, sizes, planes = tables = np.zeros((4, n, width), dtype=np.int64)
    tables[:, owner, column] = runs.link[order], runs.offset[order], units, runs.plane[order]
    table = np.concatenate([sizes, planes], axis=1)
    steps = {_steps(row[:width].tolist(), row[width:].tolist()) for row in table[distinct_rows(table)[0]]}
    return links.astype(np.int32), offsets_of(sizes), offsets, steps


def _steps(sizes: list[int], planes: list[int]) -> tuple[tuple[int, int], ...]:
    """Return the runs of units on one plane as (plane, units)."""
    some = ((plane, size) for size, plane in zip(sizes, planes, strict=True) if size)
    return tuple((plane, sum(size for _, size in run)) for plane, run in groupby(some, itemgetter(0)))


def side_tables(*sides: tuple[Int32Array, Int64Array, Int64Array]) -> dict[str, Any]:
    """Return links, first units and offsets of the leaving and the entering side, by the names of fields."""
    return {
        f"{side}_{name}": column
        for side, columns in zip(("out", "in"), sides, strict=True)
        for name, column in zip(("links", "first", "offset"), columns, strict=True)
    }
