"""When a rank's edges come in the trees of a factored forest: slots that rise from root to leaves.

A piece's own trees are walked hop by hop; each hop takes one slot and as many as the trees within a child
may need before the next. So the slot of an edge follows from the hops to its child in the piece that joins
its ends and in those around it: both ends come to the same number without looking at the rest of the tree,
and an edge further down has a greater one.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array, offsets_of
from treadle.schedules.factored.edges import edges_into, unit_trees
from treadle.schedules.factored.expansion import Expansion
from treadle.schedules.factored.factored_roles import RankView, UnitEdges, edges_at
from treadle.schedules.factored.formula_trees import FormulaTrees
from treadle.schedules.factored.layers import Layer
from treadle.schedules.factored.subproblem_trees import CirculantTrees, SubproblemTrees, TableTrees, ragged
from treadle.schedules.trees.forest import RoleEdges, Roles


def roles_of(expansion: Expansion, root_multiplicity: Int64Array, rank: int) -> Roles:
    """What a rank does in all unit trees; runs of edges are cut where the slot, their depth, changes.

    Parameters
    ----------
    expansion : Expansion
    root_multiplicity : array of int64, shape (N,)
        Of its forest.
    rank : int

    Notes
    -----
    With w(P) slots a hop in piece P and j(P) hops from P's root child to the child that holds a rank, the
    rank is reached in slot ``sum of j(P) w(P)`` over the pieces P around it. Time is linear in the unit
    trees.
    """
    up, down = edges_at(expansion, rank)
    base = offsets_of(root_multiplicity)
    views = [(RankView(layer, rank), before) for layer, before, _ in expansion.parts()]
    levels = max(len(view.places) for view, _ in views)
    reached = np.zeros((levels, int(base[-1])), dtype=np.int64)
    layer_of = np.zeros(int(base[-1]), dtype=np.int64)
    widths = np.zeros((len(views), levels), dtype=np.int64)
    for number, (view, before) in enumerate(views):
        width = _widths(view.layer)[[place.piece for place in view.places]]
        widths[number, : len(width)] = width
        roots, units, slots = _reached(view, width)
        place = base[roots] + before[roots] + units
        reached[: len(slots), place] = slots
        layer_of[place] = number
    run, unit = _by_unit(up, base)
    above = _cut_runs(up, run, reached[0, unit])
    run, unit = _by_unit(down, base)
    level = np.zeros(len(run), dtype=np.int64)
    for number, (view, _) in enumerate(views):
        mine = layer_of[unit] == number
        level[mine] = view.common_level(down.peer)[run[mine]]
    return Roles(rank, above, _cut_runs(down, run, reached[level, unit] + widths[layer_of[unit], level]))


def _reached(view: RankView, width: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Root and unit of all unit trees of a layer, and per level the slot in which that child is reached."""
    inmost = view.places[0]
    roots, units = unit_trees(inmost.trees)
    ranks, numbers = view.identify(0, roots, units)
    hops = np.zeros((len(view.places), len(roots)), dtype=np.int64)
    tree = np.arange(len(roots))
    for level, place in enumerate(view.places):
        hops[level, tree] = _depth(place.trees, roots, units, place.child)
        # natives of a piece are rooted in it: the pieces around start with it
        inner = np.flatnonzero(units >= place.kind.native[roots])
        tree, roots, units = tree[inner], roots[inner], units[inner]
        if not len(tree):
            break
        links, offsets = place.entered_by(roots, units)
        roots, units = view.owners(view.places[level + 1], links, offsets)
    slots = np.cumsum((hops * width[:, None])[::-1], axis=0)[::-1]
    return ranks, numbers, slots


def _depth(trees: SubproblemTrees, roots: Int64Array, units: Int64Array, child: int) -> Int64Array:
    """Hops between the root child and a child in unit trees of a piece."""
    if isinstance(trees, CirculantTrees):
        return np.where(roots != child, 1, 0)
    if isinstance(trees, TableTrees):
        row, _ = trees.find(roots, units)
        found: Int64Array = table_depths(trees)[row, child]
        return found
    depth = np.zeros(len(roots), dtype=np.int64)
    rest = np.flatnonzero(roots != child)
    parents = edges_into(trees, roots[rest], units[rest], child).parent
    depth[rest] = 1
    for parent in np.unique(parents[parents != roots[rest]]).tolist():
        mine = rest[parents == parent]
        mine = mine[roots[mine] != parent]
        depth[mine] += _depth(trees, roots[mine], units[mine], parent)
    return depth


def table_depths(trees: TableTrees) -> Int64Array:
    """Hops from the root in each row, shape (s, n)."""
    s, n = trees.parent.shape
    above = np.where(trees.parent < 0, np.arange(n), trees.parent).astype(np.int64)
    depth = (trees.parent >= 0).astype(np.int64)
    for _ in range(n.bit_length()):  # twice as many hops a turn
        depth = depth + np.take_along_axis(depth, above, axis=1)
        above = np.take_along_axis(above, above, axis=1)
    result: Int64Array = depth.reshape(s, n)
    return result


def _widths(layer: Layer) -> Int64Array:
    """Slots that a hop takes in each piece: one, and what the trees within a child need at most."""
    hops = []
    for piece in layer.pieces:
        if isinstance(piece.trees, TableTrees):
            hops.append(int(table_depths(piece.trees).max(initial=0)))
        else:
            hops.append(piece.trees.depth if isinstance(piece.trees, FormulaTrees) else 1)
    most = np.array(hops, dtype=np.int64)[layer.kind]
    width = np.ones(layer.n_subproblems, dtype=np.int64)
    for number in range(layer.n_subproblems - 1, 0, -1):  # the pieces inside have greater numbers
        need = int(most[number] * width[number] + width[number])
        outer = int(layer.outer[number])
        width[outer] = max(int(width[outer]), need)
    return width


def _by_unit(edges: UnitEdges, base: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Run of each unit tree of each run, and its number among all unit trees."""
    run = np.repeat(np.arange(len(edges.root)), edges.units)
    return run, ragged(base[edges.root] + edges.unit, edges.units)


def _cut_runs(edges: UnitEdges, run: Int64Array, slots: Int64Array) -> RoleEdges:
    """Runs cut where the slots of their unit trees change; `run` and `slots` go by unit tree."""
    is_new = np.ones(len(run), dtype=bool)
    is_new[1:] = (run[1:] != run[:-1]) | (slots[1:] != slots[:-1])
    begin = np.flatnonzero(is_new)
    row = run[begin]
    unit = edges.unit[row] + begin - (np.cumsum(edges.units) - edges.units)[row]
    units = np.diff(np.append(begin, len(run)))
    columns = edges.root[row], unit, units, edges.peer[row], edges.path[row], slots[begin]
    order = np.lexsort((edges.peer[row], unit, edges.root[row]))
    return RoleEdges(*(column[order] for column in columns))
