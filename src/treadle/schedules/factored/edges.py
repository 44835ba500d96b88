"""Single edges of a piece's trees: into a given child, or out of one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.factored.formula_trees import FormulaTrees
from treadle.schedules.factored.piece_trees import CirculantTrees, PieceTrees, TableTrees, ragged

_CELLS = 2**22  # rows times children that are looked at together


@dataclass(frozen=True, eq=False)
class PieceEdges:
    """Edges of unit trees of a piece, arrays of one length.

    Parameters
    ----------
    root, unit : arrays of int64
        The unit tree: its root child and number.
    parent, child : arrays of int64
        The children that the edge joins.
    path, first, last : arrays of int64
        As of `treadle.schedules.factored.PieceRows`.
    """

    root: Int64Array
    unit: Int64Array
    parent: Int64Array
    child: Int64Array
    path: Int64Array
    first: Int64Array
    last: Int64Array


def unit_trees(trees: PieceTrees) -> tuple[Int64Array, Int64Array]:
    """Root and number of all unit trees of a piece."""
    counts = trees.root_units
    roots = np.repeat(np.arange(len(counts)), counts)
    return roots, ragged(np.zeros(len(counts), dtype=np.int64), counts)


def edges_into(trees: PieceTrees, roots: Int64Array, units: Int64Array, child: int) -> PieceEdges:
    """The edge of each unit tree `units[i]` of `roots[i]` into a child that is not its root."""
    if isinstance(trees, CirculantTrees):
        return _circulant_edges(trees, roots, units, np.full(len(roots), child))
    if isinstance(trees, FormulaTrees):
        parent, path, first, last = trees.edges_into(roots, units, child)
        return PieceEdges(roots, units, parent, np.full(len(roots), child), path, first, last)
    if isinstance(trees, TableTrees):
        row, skip = trees.find(roots, units)
        return PieceEdges(
            root=roots,
            unit=units,
            parent=trees.parent[row, child].astype(np.int64),
            child=np.full(len(roots), child),
            path=trees.path[row, child].astype(np.int64),
            first=trees.first[row, child] + skip,
            last=trees.last[row, child] + skip,
        )
    parts = []
    for begin, end in _batches(trees, len(roots)):
        rows = trees.rows(roots[begin:end], units[begin:end])
        columns = (rows.parent, rows.path, rows.first, rows.last)
        parts.append(np.stack([column[:, child].astype(np.int64) for column in columns]))
    parent, path, first, last = np.concatenate([np.zeros((4, 0), dtype=np.int64), *parts], axis=1)
    return PieceEdges(roots, units, parent, np.full(len(roots), child), path, first, last)


def edges_out_of(trees: PieceTrees, child: int) -> PieceEdges:
    """All edges out of a child, of all unit trees."""
    if isinstance(trees, CirculantTrees):
        n, r = trees.n_children, trees.native_units
        others = np.delete(np.arange(n), child)
        roots = np.full(r * (n - 1), child)
        return _circulant_edges(trees, roots, np.repeat(np.arange(r), n - 1), np.tile(others, r))
    if isinstance(trees, TableTrees):
        return _table_edges(trees, child)
    if isinstance(trees, FormulaTrees):
        all_roots, all_units = trees.trees_out_of(child)
    else:
        all_roots, all_units = unit_trees(trees)
    parts = []
    for begin, end in _batches(trees, len(all_roots)):
        rows = trees.rows(all_roots[begin:end], all_units[begin:end])
        line, target = np.nonzero(rows.parent == child)
        at = begin + line
        parts.append(
            np.stack(
                [all_roots[at], all_units[at], np.full(len(at), child), target]
                + [column[line, target] for column in (rows.path, rows.first, rows.last)]
            )
        )
    return PieceEdges(*np.concatenate([np.zeros((7, 0), dtype=np.int64), *parts], axis=1))


def _batches(trees: PieceTrees, total: int) -> list[tuple[int, int]]:
    step = max(1, _CELLS // len(trees.root_units))
    return [(begin, min(begin + step, total)) for begin in range(0, total, step)]


def _table_edges(trees: TableTrees, child: int) -> PieceEdges:
    row, target = np.nonzero(trees.parent == child)
    number = np.cumsum(trees.units) - trees.units  # unit trees before each row, all roots together
    begin = number - number[np.searchsorted(trees.root, trees.root)]
    count = trees.units[row]
    skip = ragged(np.zeros(len(row), dtype=np.int64), count)
    row, target = np.repeat(row, count), np.repeat(target, count)
    return PieceEdges(
        root=trees.root[row].astype(np.int64),
        unit=begin[row] + skip,
        parent=np.full(len(row), child),
        child=target,
        path=trees.path[row, target].astype(np.int64),
        first=trees.first[row, target] + skip,
        last=trees.last[row, target] + skip,
    )


def _circulant_edges(
    trees: CirculantTrees, roots: Int64Array, units: Int64Array, children: Int64Array
) -> PieceEdges:
    """Edges of stars: exit unit i of the root is entry unit i of the child."""
    n, g = trees.n_children, trees.block
    distance = (children - roots) % n
    number = units // g * g * (n - 1) + (distance - 1) * g + units % g
    ends = []
    for first, offset, child in (
        (trees.out_first, trees.out_offset, roots),
        (trees.in_first, trees.in_offset, children),
    ):
        column = np.zeros(len(number), dtype=np.int64)
        for later in range(1, first.shape[1] - 1):
            column += number >= first[child, later]
        ends.append((child * offset.shape[1] + column, offset[child, column] + number - first[child, column]))
    (source, leaves), (sink, enters) = ends
    return PieceEdges(roots, units, roots, children, source * trees.in_links.size + sink, leaves, enters)
