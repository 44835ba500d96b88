"""Edges of one rank in the trees of a factored forest, found without writing the trees out.

A rank sees the subproblems around it, from the innermost outwards. An edge of a subproblem is an edge of the
rank if the child that holds the rank is at its end, and its capacity unit there leads to the rank. Time and
memory are in proportion to the unit trees and to their edges at the rank and at the subproblems around it,
not to trees times ranks.

The depth of an edge is its *slot*. A subproblem's own trees are walked hop by hop. Each hop takes one slot,
and as many as the trees within a child may need before the next hop. So the slot of an edge follows from the
hops to its child in the subproblem that joins its ends and in those around it: both ends get the same number
without looking at the rest of the tree, and an edge further down has a greater one.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array, offsets_of, positions_of
from treadle.errors import ScheduleError
from treadle.schedules.factored.expansion import LayerExpansion, misfit, path_ends
from treadle.schedules.factored.index import LayerIndex
from treadle.schedules.factored.layers import Crossings, Layer, Subproblem
from treadle.schedules.factored.subproblem_trees import (
    SubproblemEdges,
    TreeNumbers,
    UnitRuns,
    find_sorted,
    ragged,
    unit_trees,
)
from treadle.schedules.trees.forest import RoleEdges, Roles

_MAX_UNITS = 2**27
"""Largest number of unit trees that are looked at one by one."""

LinkUnits = tuple[Int64Array, Int64Array]
"""Links of the fabric, and a capacity unit of each."""


def roles_of(views: list[RankView], root_multiplicity: Int64Array) -> Roles:
    """Return the edges of a rank, whose views are given, in all unit trees.

    Runs of edges are cut where their slot changes. ScheduleError if the subproblems do not fit together, or a
    component has 2**27 unit trees or more.

    With w(P) slots per hop in subproblem P and j(P) hops from P's root child to the child that holds a rank,
    the rank is reached in slot ``sum of j(P) w(P)`` over the subproblems P around it. Time is linear in the
    unit trees.
    """
    edges = [(view.up(), view.down()) for view in views]
    up, down = (_grouped(list(parts)) for parts in zip(*edges, strict=True))
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
    width = np.ones(layer.n_subproblems, dtype=np.int64)
    for number in range(layer.n_subproblems - 1, 0, -1):  # the subproblems inside have greater numbers
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


def _grouped(parts: list[Int64Array]) -> RoleEdges:
    """Sort edges, and merge those of consecutive unit trees that are equal; depths are 0.

    Each part has the rows root, unit, peer and path, with a column for each edge of a single unit tree.
    """
    root, unit, peer, path = np.concatenate(parts, axis=1)
    order = np.lexsort((unit, path, peer, root))
    root, unit, peer, path = (column[order] for column in (root, unit, peer, path))
    joins = (root[1:] == root[:-1]) & (peer[1:] == peer[:-1]) & (path[1:] == path[:-1])
    joins &= unit[1:] == unit[:-1] + 1
    first = np.flatnonzero(np.concatenate([[True], ~joins])[: len(root)])
    units = np.diff(np.append(first, len(root)))
    order = np.lexsort((peer[first], unit[first], root[first]))
    first = first[order]
    return RoleEdges(root[first], unit[first], units[order], peer[first], path[first], np.zeros_like(first))


class _Surrounding:
    """A subproblem around the rank, and its child that holds the rank."""

    def __init__(self, index: LayerIndex, piece: int, child: int) -> None:
        layer = index.layer
        self.piece = piece
        self.child = child
        self.kind: Subproblem = layer.pieces[layer.kind[piece]]
        self.trees = self.kind.trees
        span = slice(int(layer.link_offset[piece]), int(layer.link_offset[piece + 1]))
        self.links = layer.links[span].astype(np.int64)
        self.first_slot = span.start
        rows = self.kind.entrances
        self._by_unit = UnitRuns(rows.child, rows.root_unit, np.arange(len(rows.link)))
        self._entrances = self._by_inner(rows, inwards=True)
        self._exits = self._by_inner(self.kind.exits, inwards=False)

    def _by_inner(self, rows: Crossings, *, inwards: bool) -> UnitRuns:
        """Cut links of the child by their capacity units there."""
        mine = np.flatnonzero(rows.child == self.child)
        ends = rows.path_offset[1:] - 1 if inwards else rows.path_offset[:-1]
        return UnitRuns(rows.path_links[ends[rows.path[mine]]], rows.inner[mine], mine)

    def local(self, links: Int64Array) -> Int64Array:
        """Return the local numbers of links of the fabric that cross into the subproblem."""
        at = find_sorted(self.links, links)
        if np.any(at < 0):
            raise misfit(f"a link that crosses into subproblem {self.piece} is missing from its links")
        return at

    def entered_by(self, roots: Int64Array, units: Int64Array) -> LinkUnits:
        """Return the link and unit by which unit trees that are not native enter the subproblem."""
        rows = self.kind.entrances
        row, skip = self._by_unit.find(roots, units)
        if len(row) and (row.min() < 0 or np.any(skip >= rows.units[row])):
            raise misfit(f"a unit tree of subproblem {self.piece} is neither native nor enters by a link")
        return self.links[rows.link[row]], rows.offset[row] + skip

    def outside(
        self, ends: LinkUnits, *, inwards: bool
    ) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """Follow units at the child's boundary to the subproblem's own boundary.

        Return which units are there as well, their link and unit at that boundary, and inwards the unit tree.
        Inwards all units must be there.
        """
        rows, runs = (self.kind.entrances, self._entrances) if inwards else (self.kind.exits, self._exits)
        row, skip = runs.find(self.local(ends[0]), ends[1])
        hit = np.flatnonzero(row >= 0)
        hit = hit[skip[hit] < rows.units[row[hit]]]
        if inwards and len(hit) < len(row):
            raise misfit(f"no tree of subproblem {self.piece} takes some units that its children expect")
        row, skip = row[hit], skip[hit]
        return hit, self.links[rows.link[row]], rows.offset[row] + skip, rows.root_unit[row] + skip


class RankView:
    """One component of a forest from the point of view of a rank.

    Parameters
    ----------
    layer : LayerExpansion
    rank : int
    before : array of int64, shape (N,)
        Unit trees of each rank in the components before.
    first_path : int
        Number of paths in the components before.

    Attributes
    ----------
    places : list
        The subproblems around the rank, from the inside out.
    """

    def __init__(self, layer: LayerExpansion, rank: int, before: Int64Array, first_path: int) -> None:
        self._codes = layer.codes
        self._index = index = layer.index
        self.rank = rank
        self.before = before
        self._first_path = first_path
        piece, child = int(index.piece_of_rank[rank]), int(index.child_of_rank[rank])
        self.places = [_Surrounding(index, piece, child)]
        while piece:
            piece, child = int(index.layer.outer[piece]), int(index.child_of_piece[piece])
            self.places.append(_Surrounding(index, piece, child))
        total = int(self.places[0].trees.root_units.sum())
        if total > _MAX_UNITS:
            raise ScheduleError(f"factored forest: {total} unit trees; roles are for {_MAX_UNITS} at most")

    @property
    def layer(self) -> Layer:
        """The component."""
        return self._index.layer

    def common_level(self, ranks: Int64Array) -> Int64Array:
        """Return for each rank the index in `places` of the innermost that holds it too."""
        level = positions_of(self.layer.n_subproblems, [place.piece for place in self.places])
        piece = self._index.piece_of_rank[ranks]
        while len(piece) and level[piece].min() < 0:
            piece = np.where(level[piece] < 0, self.layer.outer[piece], piece)
        return level[piece]

    def up(self) -> Int64Array:
        """Return the edges to parents, as a part for `_grouped`."""
        inmost = self.places[0]
        roots, units = unit_trees(inmost.trees)
        others = roots != inmost.child
        parts = [self._edges_into(0, roots[others], units[others], None)]
        entered = np.arange(inmost.kind.native[inmost.child], inmost.trees.root_units[inmost.child])
        links, offsets = inmost.entered_by(np.full(len(entered), inmost.child), entered)
        for level, place in enumerate(self.places[1:], start=1):
            root, unit = place.trees.owners(place.local(links).astype(np.int32), offsets)
            mine, rest = np.flatnonzero(root >= 0), np.flatnonzero(root < 0)
            ends = links[mine], offsets[mine]
            parts.append(self._edges_into(level, root[mine].astype(np.int64), unit[mine], ends))
            _, links, offsets, _ = place.outside((links[rest], offsets[rest]), inwards=True)
        return np.concatenate(parts, axis=1)

    def _edges_into(
        self, level: int, roots: Int64Array, units: Int64Array, ends: LinkUnits | None
    ) -> Int64Array:
        place = self.places[level]
        parent, *columns = place.trees.edges_into(roots, units, place.child)
        edges = SubproblemEdges(roots, units, parent, np.full(len(roots), place.child), *columns)
        return self._columns(level, edges, ends, up=True)

    def down(self) -> Int64Array:
        """Return the edges to children, as a part for `_grouped`."""
        inmost = self.places[0]
        parts = [self._columns(0, inmost.trees.edges_out_of(inmost.child), None, up=False)]
        rows = inmost.kind.exits
        mine = np.flatnonzero(rows.child == inmost.child)
        links = np.repeat(inmost.links[rows.link[mine]], rows.units[mine])
        offsets = ragged(rows.offset[mine], rows.units[mine])
        for level, place in enumerate(self.places[1:], start=1):
            edges = place.trees.edges_out_of(place.child)
            first_link = path_ends(place.trees, edges.path)[0]
            runs = UnitRuns(first_link, edges.first, np.arange(len(first_link)))
            found, skip = runs.find(place.local(links), offsets)
            used = np.flatnonzero((found >= 0) & (skip == 0))
            edges = SubproblemEdges(**{key: column[found[used]] for key, column in vars(edges).items()})
            parts.append(self._columns(level, edges, (links[used], offsets[used]), up=False))
            rest = np.delete(np.arange(len(links)), used)
            _, links, offsets, _ = place.outside((links[rest], offsets[rest]), inwards=False)
        return np.concatenate(parts, axis=1)

    def _columns(self, level: int, edges: SubproblemEdges, ends: LinkUnits | None, *, up: bool) -> Int64Array:
        """Return root, unit, peer and path of edges of a subproblem.

        Their near ends are capacity units of links that cross into the child; the rank itself without `ends`.
        """
        place = self.places[level]
        child, unit = (edges.parent, edges.first) if up else (edges.child, edges.last)
        far, peer = self._far_end(place, child, edges.path, unit, inwards=not up)
        near = np.full(len(peer), -1, dtype=np.int64)
        if ends is not None:
            near = self._near_end(level, ends, inwards=up)
        exit_row, entry_row = (far, near) if up else (near, far)
        path = self._codes.encode(np.full(len(peer), place.piece), edges.path, exit_row, entry_row)
        root, unit = self.identify(level, edges.root, edges.unit)
        return np.stack([root, unit + self.before[root], peer, path + self._first_path])

    def _near_end(self, level: int, ends: LinkUnits, *, inwards: bool) -> Int64Array:
        """Return the boundary rows that join units of crossing links to the rank."""
        inner = self.places[level - 1]
        borders = self._index.entrances if inwards else self._index.exits
        row = self._index.find_rows(borders, inner.first_slot + inner.local(ends[0]), ends[1])
        if len(row) and (row.min() < 0 or np.any(borders.rank[row] != self.rank)):
            raise misfit(f"subproblem {inner.piece} has a unit at its boundary that leads to no rank")
        return row

    def _far_end(
        self, place: _Surrounding, child: Int64Array, path: Int64Array, unit: Int64Array, *, inwards: bool
    ) -> tuple[Int64Array, Int64Array]:
        """Return the boundary rows (-1 for ranks) at the other end of edges, and the ranks there."""
        index, layer = self._index, self._index.layer
        codes = layer.children[layer.child_offset[place.piece] + child].astype(np.int64)
        row = np.full(len(codes), -1, dtype=np.int64)
        deep = np.flatnonzero(codes < 0)
        if len(deep):
            link = place.first_slot + path_ends(place.trees, path[deep])[1 if inwards else 0]
            borders = index.entrances if inwards else index.exits
            row[deep] = index.find_child_rows(borders, link, ~codes[deep], unit[deep])
            if row[deep].min() < 0:
                raise misfit(f"a subproblem within subproblem {place.piece} has no crossing for some unit")
            codes[deep] = borders.rank[row[deep]]
        return row, codes

    def identify(self, level: int, root: Int64Array, unit: Int64Array) -> TreeNumbers:
        """Return the root rank of unit trees of a subproblem, and their numbers among its trees."""
        ranks, numbers = np.empty(len(root), dtype=np.int64), np.empty(len(root), dtype=np.int64)
        waiting = np.arange(len(root))
        while True:
            place = self.places[level]
            native = unit < place.kind.native[root]
            done = waiting[native]
            ranks[done], numbers[done] = self._native(place, root[native], unit[native])
            waiting, root, unit = waiting[~native], root[~native], unit[~native]
            if not len(waiting):
                return ranks, numbers
            if level + 1 == len(self.places):
                raise misfit("the outermost subproblem has trees that are not native")
            level += 1
            root, unit = self.owners(self.places[level], place.entered_by(root, unit))

    def owners(self, place: _Surrounding, ends: LinkUnits) -> TreeNumbers:
        """Return the trees of a subproblem that enter its child by units of links, from inside or outside."""
        found, unit = place.trees.owners(place.local(ends[0]).astype(np.int32), ends[1])
        root = found.astype(np.int64)
        rest = np.flatnonzero(root < 0)
        *_, unit[rest] = place.outside((ends[0][rest], ends[1][rest]), inwards=True)
        root[rest] = place.child
        return root, unit

    def _native(self, place: _Surrounding, root: Int64Array, unit: Int64Array) -> TreeNumbers:
        """Return the ranks and their unit trees that are native unit trees of a subproblem."""
        index, layer = self._index, self._index.layer
        codes = layer.children[layer.child_offset[place.piece] + root].astype(np.int64)
        unit = unit.copy()
        while len(deep := np.flatnonzero(codes < 0)):
            piece = ~codes[deep]
            base = index.child_base[layer.kind[piece]]
            number = index.native_before[base] + unit[deep]
            child = np.searchsorted(index.native_before, number, side="right") - 1
            unit[deep] = number - index.native_before[child]
            codes[deep] = layer.children[layer.child_offset[piece] + child - base]
        return codes, unit
