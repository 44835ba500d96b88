"""Slots of a rank's edges in the trees of a factored forest: depths that rise from root to leaves.

A subproblem's own trees are walked hop by hop. Each hop takes one slot, and as many as the trees within a
child may need before the next hop. So the slot of an edge follows from the hops to its child in the
subproblem that joins its ends and in those around it: both ends get the same number without looking at the
rest of the tree, and an edge further down has a greater one.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array, offsets_of
from treadle.schedules.factored.factored_roles import RankView, grouped
from treadle.schedules.factored.layers import Layer
from treadle.schedules.factored.piece_trees import ragged, unit_trees
from treadle.schedules.trees.forest import RoleEdges, Roles


def roles_of(views: list[RankView], root_multiplicity: Int64Array) -> Roles:
    """Return the edges of a rank, whose views are given, in all unit trees.

    Runs of edges are cut where their slot changes. ScheduleError if the subproblems do not fit together, or a component has 2**27 unit trees or more.

    With w(P) slots per hop in subproblem P and j(P) hops from P's root child to the child that holds a rank,
    the rank is reached in slot ``sum of j(P) w(P)`` over the subproblems P around it. Time is linear in the
    unit trees.
    """
    edges = [(view.up(), view.down()) for view in views]
    up, down = (grouped(list(parts)) for parts in zip(*edges, strict=True))
    base = offsets_of(root_multiplicity)
    levels = max(len(view.places) for view in views)
    reached = np.zeros((levels, int(base[-1])), dtype=np.int64)
    layer_of = np.zeros(int(base[-1]), dtype=np.int64)
    widths = np.zeros((len(views), levels), dtype=np.int64)
    for number, view in enumerate(views):
        width = _widths(view.layer)[[place.piece for place in view.places]]
        widths[number, : len(width)] = width
        roots, units, slots = _reached(view, width)
        place = base[roots] + view.before[roots] + units
        reached[: len(slots), place] = slots
        layer_of[place] = number
    run, unit = _by_unit(up, base)
    above = _cut_runs(up, run, reached[0, unit])
    run, unit = _by_unit(down, base)
    level = np.zeros(len(run), dtype=np.int64)
    for number, view in enumerate(views):
        mine = layer_of[unit] == number
        level[mine] = view.common_level(down.peer)[run[mine]]
    return Roles(
        views[0].rank, above, _cut_runs(down, run, reached[level, unit] + widths[layer_of[unit], level])
    )


def _reached(view: RankView, width: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return root and unit of all unit trees of a component, and by level the slot that reaches the child."""
    inmost = view.places[0]
    roots, units = unit_trees(inmost.trees)
    ranks, numbers = view.identify(0, roots, units)
    hops = np.zeros((len(view.places), len(roots)), dtype=np.int64)
    tree = np.arange(len(roots))
    for level, place in enumerate(view.places):
        hops[level, tree] = place.trees.depths(roots, units, place.child)
        # native trees of a subproblem are rooted in it, so they take no hop in those around it
        inner = np.flatnonzero(units >= place.kind.native[roots])
        tree, roots, units = tree[inner], roots[inner], units[inner]
        if not len(tree):
            break
        roots, units = view.owners(view.places[level + 1], place.entered_by(roots, units))
    slots = np.cumsum((hops * width[:, None])[::-1], axis=0)[::-1]
    return ranks, numbers, slots


def _widths(layer: Layer) -> Int64Array:
    """Return the slots of a hop in each subproblem: one, and the most that the trees within a child need."""
    most = np.array([piece.trees.depth for piece in layer.pieces], dtype=np.int64)[layer.kind]
    width = np.ones(layer.n_pieces, dtype=np.int64)
    for number in range(layer.n_pieces - 1, 0, -1):  # the subproblems inside have greater numbers
        outer, need = int(layer.outer[number]), int(most[number] + 1) * int(width[number])
        width[outer] = max(int(width[outer]), need)
    return width


def _by_unit(edges: RoleEdges, base: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the run of each unit tree of each run, and its number among all unit trees."""
    run = np.repeat(np.arange(len(edges.root)), edges.units)
    return run, ragged(base[edges.root] + edges.unit, edges.units)


def _cut_runs(edges: RoleEdges, run: Int64Array, slots: Int64Array) -> RoleEdges:
    """Cut runs where the slots of their unit trees change; `run` and `slots` are by unit tree."""
    is_new = np.ones(len(run), dtype=bool)
    is_new[1:] = (run[1:] != run[:-1]) | (slots[1:] != slots[:-1])
    begin = np.flatnonzero(is_new)
    row = run[begin]
    unit = edges.unit[row] + begin - offsets_of(edges.units)[row]
    units = np.diff(np.append(begin, len(run)))
    columns = edges.root[row], unit, units, edges.peer[row], edges.path[row], slots[begin]
    order = np.lexsort((edges.peer[row], unit, edges.root[row]))
    return RoleEdges(*(column[order] for column in columns))
