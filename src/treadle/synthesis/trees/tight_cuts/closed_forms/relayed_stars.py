"""An outermost subproblem of unequal children behind several relays: a table of trees of two hops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array, sums_of
from treadle.context import context
from treadle.engine import core, run_core
from treadle.schedules.factored import TableTrees
from treadle.synthesis.core_values.tree_values import TreeRows
from treadle.synthesis.trees.tight_cuts.closed_forms.boundary_runs import BoundaryRuns, Outermost
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_tables import mend
from treadle.synthesis.trees.tight_cuts.closed_forms.unit_assignment import UnitPool
from treadle.unsupported import Unsupported

_ROUNDS = 200
_NEAR = 1e-9

MOST_CELLS = 2**24
"""Trees with multiplicity times children that are written out."""

MOST_UNEVEN_CELLS = 2**19
"""The same of children with different numbers of trees: 256 boxes, one with 37 times as many, take 5 s."""

_WORK_PER_CELL = 500
_LEAST_WORK = 10**7


def relayed_stars(outer: Outermost) -> TableTrees | Unsupported:
    """Return the trees of the outermost subproblem, at most two hops each, or why there are none.

    What children send each other by a relay is in proportion to what both have there (`fitted_table`); then
    every child's suppliers are matched to trees. A failure does not prove that there is no such forest.
    Source: docs/proofs/decomposition.md, section 6.
    """
    n, runs = outer.local.n_children, (outer.out, outer.into)
    if n < 3:
        return Unsupported("it is not the outermost subproblem with several children")
    bundle = int(np.gcd.reduce(np.concatenate([[outer.block], *(side.units for side in runs)])))
    trees = outer.local.native // bundle
    most = MOST_CELLS if trees.min() == trees.max() else MOST_UNEVEN_CELLS
    if int(trees.sum()) * n > most:
        return Unsupported(f"{n} children with {int(trees.sum())} trees are too many for a table")
    leaving, entering = (sums // bundle for sums in outer.sums)
    if np.any(leaving.sum(axis=0) != entering.sum(axis=0)):
        return Unsupported("a relay has unequal capacity in and out")
    if np.any(entering.sum(axis=1) < trees.sum() - trees):
        return Unsupported("some child cannot be entered by all trees of others")
    tables = []
    for sides in zip(leaving.T, entering.T, strict=True):
        table = fitted_table(*sides)
        if table is None:
            return Unsupported("a relay has too much capacity to one child")
        tables.append(table)
    shares = np.stack(tables)
    if int(shares.sum()) > MOST_CELLS:  # `_table` lists each unit, far more than trees where links are wide
        return Unsupported(f"{int(shares.sum())} units of capacity are too many for a table")
    found = _packed(trees, shares.sum(axis=0))
    if isinstance(found, Unsupported):
        return found
    context().report("paths of trees", 0, 1)
    # sizes in bundles, and planes numbered from 0
    numbers = (np.searchsorted(outer.planes, side.plane) for side in runs)
    out, into = (
        replace(side, plane=plane, units=side.units // bundle)
        for side, plane in zip(runs, numbers, strict=True)
    )
    return _table(*found, shares, out, into, outer.groups(bundle), bundle)


def _packed(trees: Int64Array, capacity: Int64Array) -> tuple[Int32Array, Int32Array] | Unsupported:
    """Return root and parents of each tree, by roots, within the capacities of pairs."""
    n, cells = len(trees), int(trees.sum()) * len(trees)
    status, rows, _ = run_core(
        "trees of two hops",
        lambda control: core.relayed_stars(
            n,
            trees,
            np.ascontiguousarray(capacity, dtype=np.int64).ravel(),
            max(_LEAST_WORK, _WORK_PER_CELL * cells),
            control,
        ),
    )
    if status:
        return Unsupported("trees of two hops do not fit what children send each other in proportion")
    found = TreeRows(*rows)
    return (
        np.repeat(found.root, found.multiplicity),
        np.repeat(found.parent.reshape(-1, n), found.multiplicity, axis=0),
    )


def _table(
    root: Int32Array,
    parent: Int32Array,
    shares: Int64Array,
    out: BoundaryRuns,
    into: BoundaryRuns,
    groups: list[Int64Array],
    bundle: int,
) -> TableTrees:
    """Return the trees with the links of all edges: a tree leaves by its own rank where possible."""
    n, relays = parent.shape[1], len(shares)
    tree, child = np.nonzero(parent >= 0)
    above = parent[tree, child].astype(np.int64)
    home = np.concatenate([np.repeat(np.arange(len(group)), group) for group in groups])
    is_direct = above == root[tree]
    direct, relayed = np.flatnonzero(is_direct), np.flatnonzero(~is_direct)
    # which relay each edge passes: for trees of their own root's, then for those that came by some rank
    pair = above * n + child
    cells = np.tile(np.arange(n * n), relays)
    by_relay = UnitPool.of(cells, np.repeat(np.arange(relays), n * n), shares.ravel())
    # not every rank that has trees need supply or be entered
    width = max(*(1 + int(side.supplier.max(initial=0)) for side in (out, into)), *map(len, groups))
    # the relay by which each rank of each child mostly sends, by child times width plus rank
    places = out.owner * width + out.supplier, out.plane
    usual = np.argmax(sums_of((n * width, relays), places, out.units), axis=1)
    passed, entry, leaving = np.empty((3, len(tree)), dtype=np.int64)
    entries = UnitPool.of(into.owner * relays + into.plane, into.supplier, into.units, mixed=True)
    leaving[direct] = home[tree[direct]]
    for some in (direct, relayed):
        if some is relayed and len(some):
            # the rank of the supplier by which the tree came
            place = np.full(parent.shape, -1, dtype=np.int64)
            place[tree[direct], child[direct]] = into.supplier[entries.run[entry[direct]]]
            leaving[some] = place[tree[some], above[some]]
        wanted = usual[above[some] * width + leaving[some]]
        passed[some] = by_relay.kind[by_relay.assign(pair[some], wanted)]
        entry[some] = entries.assign(child[some] * relays + passed[some], np.full(len(some), width))
    exits = UnitPool.of(out.owner * relays + out.plane, out.supplier, out.units)
    exit_ = exits.assign(above * relays + passed, leaving)
    return _rows(root, parent, (tree, child), (out, exits, exit_), (into, entries, entry), bundle)


def _rows(
    root: Int32Array,
    parent: Int32Array,
    cells: tuple[Int64Array, Int64Array],
    leaves: tuple[BoundaryRuns, UnitPool, Int64Array],
    enters: tuple[BoundaryRuns, UnitPool, Int64Array],
    bundle: int,
) -> TableTrees:
    """Return a row for each tree; paths are pairs of links."""
    links, units = [], []
    for runs, assigned, of in (leaves, enters):
        run = assigned.run[of]
        links.append(runs.link[run])
        units.append(runs.offset[run] + assigned.place[of] * bundle)
    code = links[0] * (int(links[1].max(initial=0)) + 1) + links[1]
    names, first, path = np.unique(code, return_index=True, return_inverse=True)
    tables = np.full((3, *parent.shape), -1, dtype=np.int64)
    for table, values in zip(tables, (*units, path.ravel()), strict=True):
        table[cells] = values
    return TableTrees(
        root=root,
        units=np.full(len(root), bundle, dtype=np.int64),
        parent=parent,
        path=tables[2].astype(np.int32),
        first=tables[0],
        last=tables[1],
        path_offset=2 * np.arange(len(names) + 1),
        path_table=np.stack([side[first] for side in links], axis=1).ravel().astype(np.int32),
    )


def fitted_table(out: Int64Array, into: Int64Array) -> Int64Array | None:
    """A table of these sums of rows and columns, near to u_x v_y, 0 on its diagonal; None if none is found.

    Parameters
    ----------
    out, into : arrays of int64, shape (n,)
        Of equal sum.

    Raises
    ------
    TimeLimitError
        When the deadline passed.

    Notes
    -----
    Source: docs/proofs/decomposition.md, section 6. Iterative proportional fitting, without the
    diagonal; what the floors leave goes row by row to the columns that lack most (Gale and Ryser), and
    alternating paths repair the diagonal.
    """
    n = len(out)
    wanted = _proportional(out, into)
    table = np.floor(wanted + _NEAR).astype(np.int64)
    np.fill_diagonal(table, 0)
    rows, columns = out - table.sum(axis=1), into - table.sum(axis=0)
    barred = (into == 0) | (columns <= 0)
    for x in np.argsort(-rows, kind="stable").tolist():
        if rows[x] <= 0 or not out[x]:
            continue
        lack = np.where(barred, -1.0, columns + 0.5 * (wanted[x] - table[x]))
        lack[x] = -1
        best = np.argsort(-lack, kind="stable")[: int(rows[x])]
        best = best[columns[best] > 0]
        best = best[best != x]
        table[x, best] += 1
        columns[best] -= 1
        rows[x] -= len(best)
    most = int(max(out.max(initial=0), 1))
    room = np.where(np.outer(out > 0, into > 0), most, 0)
    np.fill_diagonal(room, 0)
    return table if n < 2 or mend(table, rows, columns, room) else None


def _proportional(out: Int64Array, into: Int64Array) -> NDArray[np.floating]:
    """u_x v_y off the diagonal, with these row and column sums as far as they converge."""
    u, v = out.astype(float), into / max(1.0, float(into.sum()))
    for _ in range(_ROUNDS):
        old = v
        u = np.where(out > 0, out / np.maximum(v.sum() - v, _NEAR), 0)
        v = np.where(into > 0, into / np.maximum(u.sum() - u, _NEAR), 0)
        if np.all(np.abs(v - old) <= _NEAR * v):
            break
    u = np.where(out > 0, out / np.maximum(v.sum() - v, _NEAR), 0)
    table = np.outer(u, v)
    np.fill_diagonal(table, 0)
    return table
