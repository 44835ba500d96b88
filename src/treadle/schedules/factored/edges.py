"""Single edges of a piece's trees: into a given child, or out of one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.factored.formula_trees import FormulaTrees
from treadle.schedules.factored.subproblem_trees import (
    CirculantTrees,
    ColumnTrees,
    SubproblemTrees,
    TableTrees,
    ragged,
)

_CELLS = 2**22  # rows times children that are looked at together


@dataclass(frozen=True, eq=False)
class SubproblemEdges:
    """Edges of unit trees of a piece, arrays of one length.

    Parameters
    ----------
    root, unit : arrays of int64
        The unit tree: its root child and number.
    parent, child : arrays of int64
        The children that the edge joins.
    path, first, last : arrays of int64
        As of `treadle.schedules.factored.SubproblemRows`.
    """

    root: Int64Array
    unit: Int64Array
    parent: Int64Array
    child: Int64Array
    path: Int64Array
    first: Int64Array
    last: Int64Array


def unit_trees(trees: SubproblemTrees) -> tuple[Int64Array, Int64Array]:
    """Root and number of all unit trees of a piece."""
    counts = trees.root_units
    roots = np.repeat(np.arange(len(counts)), counts)
    return roots, ragged(np.zeros(len(counts), dtype=np.int64), counts)


def edges_into(trees: SubproblemTrees, roots: Int64Array, units: Int64Array, child: int) -> SubproblemEdges:
    """The edge of each unit tree `units[i]` of `roots[i]` into a child that is not its root."""
    if isinstance(trees, TableTrees):
        row, skip = trees.find(roots, units)
        parent, path = (column[row, child].astype(np.int64) for column in (trees.parent, trees.path))
        first, last = (column[row, child] + skip for column in (trees.first, trees.last))
    else:
        assert isinstance(trees, ColumnTrees)
        parent, path, first, last = trees.edges_into(roots, units, child)
    return SubproblemEdges(roots, units, parent, np.full(len(roots), child), path, first, last)


def edges_out_of(trees: SubproblemTrees, child: int) -> SubproblemEdges:
    """All edges out of a child, of all unit trees."""
    if isinstance(trees, CirculantTrees):
        n, r = trees.n_children, trees.native_units
        others = np.delete(np.arange(n), child)
        roots = np.full(r * (n - 1), child)
        units, children = np.repeat(np.arange(r), n - 1), np.tile(others, r)
        return SubproblemEdges(roots, units, roots, children, *trees.edges_into(roots, units, children)[1:])
    if isinstance(trees, TableTrees):
        return _table_edges(trees, child)
    assert isinstance(trees, FormulaTrees)
    all_roots, all_units = trees.trees_out_of(child)
    parts = []
    step = max(1, _CELLS // len(trees.root_units))
    for begin in range(0, len(all_roots), step):
        rows = trees.rows(all_roots[begin : begin + step], all_units[begin : begin + step])
        line, target = np.nonzero(rows.parent == child)
        at = begin + line
        parts.append(
            np.stack(
                [all_roots[at], all_units[at], np.full(len(at), child), target]
                + [column[line, target] for column in (rows.path, rows.first, rows.last)]
            )
        )
    return SubproblemEdges(*np.concatenate([np.zeros((7, 0), dtype=np.int64), *parts], axis=1))


def _table_edges(trees: TableTrees, child: int) -> SubproblemEdges:
    row, target = np.nonzero(trees.parent == child)
    number = np.cumsum(trees.units) - trees.units  # unit trees before each row, all roots together
    begin = number - number[np.searchsorted(trees.root, trees.root)]
    count = trees.units[row]
    skip = ragged(np.zeros(len(row), dtype=np.int64), count)
    row, target = np.repeat(row, count), np.repeat(target, count)
    return SubproblemEdges(
        root=trees.root[row].astype(np.int64),
        unit=begin[row] + skip,
        parent=np.full(len(row), child),
        child=target,
        path=trees.path[row, target].astype(np.int64),
        first=trees.first[row, target] + skip,
        last=trees.last[row, target] + skip,
    )
