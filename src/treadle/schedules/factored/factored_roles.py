"""What one rank does in the trees of a factored forest, found without writing the trees out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int64Array, positions_of
from treadle.errors import ScheduleError
from treadle.schedules.factored.edges import SubproblemEdges, edges_into, edges_out_of, unit_trees
from treadle.schedules.factored.expansion import Expansion, LayerExpansion, misfit, path_ends
from treadle.schedules.factored.index import LayerIndex
from treadle.schedules.factored.layers import Crossings, Layer, Subproblem
from treadle.schedules.factored.subproblem_trees import UnitRuns, ragged

_MAX_UNITS = 2**27  # unit trees that are looked at one by one


@dataclass(frozen=True, eq=False)
class UnitEdges:
    """Tree edges at one rank, as `treadle.schedules.trees.forest.RoleEdges`, their depths yet unknown."""

    root: Int64Array
    unit: Int64Array
    units: Int64Array
    peer: Int64Array
    path: Int64Array


def edges_at(expansion: Expansion, rank: int) -> tuple[UnitEdges, UnitEdges]:
    """Edges to the parents and to the children of a rank in all unit trees.

    Time and memory are in proportion to the unit trees, and to their edges at the rank and at the pieces
    around it; not to trees times ranks.

    Raises
    ------
    ScheduleError
        If the pieces do not fit together, or a layer has 2**27 unit trees or more.
    """
    up, down = [], []
    for layer, before, base in expansion.parts():
        view = RankView(layer, rank)
        up.append(_shifted(view.up(), before, base))
        down.append(_shifted(view.down(), before, base))
    return _grouped(up), _grouped(down)


_Columns = tuple[Int64Array, Int64Array, Int64Array, Int64Array, Int64Array]
"""Root, unit, units, peer and path, as of `UnitEdges`."""


def _shifted(columns: _Columns, before: Int64Array, base: int) -> _Columns:
    """Units and paths counted over all layers."""
    root, unit, units, peer, path = columns
    return root, unit + before[root], units, peer, path + base


def _grouped(parts: list[_Columns]) -> UnitEdges:
    """Sorted, with consecutive unit trees that have the same edge put together."""
    root, unit, units, peer, path = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((unit, path, peer, root))
    root, unit, units, peer, path = (column[order] for column in (root, unit, units, peer, path))
    joins = (root[1:] == root[:-1]) & (peer[1:] == peer[:-1]) & (path[1:] == path[:-1])
    joins &= unit[1:] == unit[:-1] + units[:-1]
    first = np.flatnonzero(np.concatenate([[True], ~joins])[: len(root)])
    total = np.add.reduceat(units, first) if len(first) else units
    root, unit, peer, path = root[first], unit[first], peer[first], path[first]
    order = np.lexsort((peer, unit, root))
    return UnitEdges(root[order], unit[order], total[order], peer[order], path[order])


class _Surrounding:
    """A piece around the rank, and which of its children leads to the rank."""

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
        """Crossings at the child by their capacity units there."""
        mine = np.flatnonzero(rows.child == self.child)
        ends = rows.path_offset[1:] - 1 if inwards else rows.path_offset[:-1]
        return UnitRuns(rows.path_links[ends[rows.path[mine]]], rows.inner[mine], mine)

    def local(self, links: Int64Array) -> Int64Array:
        """Local numbers of links of the fabric, which the piece has."""
        at = np.minimum(np.searchsorted(self.links, links), max(len(self.links) - 1, 0))
        if len(links) and (not len(self.links) or np.any(self.links[at] != links)):
            raise misfit(f"a link that crosses into piece {self.piece} is none of its links")
        return at

    def entered_by(self, roots: Int64Array, units: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Link of the fabric and capacity unit by which unit trees that are not native enter the piece."""
        rows = self.kind.entrances
        row, skip = self._by_unit.find(roots, units)
        if len(row) and (row.min() < 0 or np.any(skip >= rows.units[row])):
            raise misfit(f"a unit tree of piece {self.piece} is neither native nor that of an entrance")
        return self.links[rows.link[row]], rows.offset[row] + skip

    def outside(
        self, links: Int64Array, units: Int64Array, *, inwards: bool
    ) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
        """Units at the child's border that are at the piece's own border as well: which ones, link of the
        fabric and capacity unit there, and of entrances the unit tree.
        """
        rows, runs = (self.kind.entrances, self._entrances) if inwards else (self.kind.exits, self._exits)
        row, skip = runs.find(self.local(links), units)
        hit = np.flatnonzero(row >= 0)
        hit = hit[skip[hit] < rows.units[row[hit]]]
        row, skip = row[hit], skip[hit]
        return hit, self.links[rows.link[row]], rows.offset[row] + skip, rows.root_unit[row] + skip


class RankView:
    """One layer as a rank sees it.

    Parameters
    ----------
    layer : LayerExpansion
    rank : int

    Attributes
    ----------
    places : list
        The pieces around the rank, from the inside out.
    """

    def __init__(self, layer: LayerExpansion, rank: int) -> None:
        self._layer = layer
        self._index = layer.index
        self._rank = rank
        # the pieces around a rank, from the inside out
        piece, child = int(layer.index.piece_of_rank[rank]), int(layer.index.child_of_rank[rank])
        found = [_Surrounding(layer.index, piece, child)]
        while piece:
            piece, child = int(layer.index.layer.outer[piece]), int(layer.index.child_of_piece[piece])
            found.append(_Surrounding(layer.index, piece, child))
        self.places = found
        total = int(self.places[0].trees.root_units.sum())
        if total > _MAX_UNITS:
            raise ScheduleError(f"factored forest: {total} unit trees; roles are for {_MAX_UNITS} at most")

    @property
    def layer(self) -> Layer:
        """The layer."""
        return self._index.layer

    def common_level(self, ranks: Int64Array) -> Int64Array:
        """For each rank, which of `places` is the inmost that holds it too."""
        level = positions_of(self.layer.n_subproblems, [place.piece for place in self.places])
        piece = self._index.piece_of_rank[ranks]
        while len(piece) and level[piece].min() < 0:
            piece = np.where(level[piece] < 0, self.layer.outer[piece], piece)
        return level[piece]

    def up(self) -> _Columns:
        """Edges to parents."""
        inmost = self.places[0]
        roots, units = unit_trees(inmost.trees)
        others = roots != inmost.child
        edges = edges_into(inmost.trees, roots[others], units[others], inmost.child)
        parts = [self._columns(0, edges, None, up=True)]
        entered = np.arange(inmost.kind.native[inmost.child], inmost.trees.root_units[inmost.child])
        links, offsets = inmost.entered_by(np.full(len(entered), inmost.child), entered)
        for level, place in enumerate(self.places[1:], start=1):
            root, unit = place.trees.owners(place.local(links).astype(np.int32), offsets)
            mine = np.flatnonzero(root >= 0)
            ends = (links[mine], offsets[mine])
            edges = edges_into(place.trees, root[mine].astype(np.int64), unit[mine], place.child)
            parts.append(self._columns(level, edges, ends, up=True))
            rest = np.flatnonzero(root < 0)
            hit, outer_links, outer_offsets, _ = place.outside(links[rest], offsets[rest], inwards=True)
            if len(hit) < len(rest):
                raise misfit(f"no tree of piece {place.piece} takes some units that its children await")
            links, offsets = outer_links, outer_offsets
        return _joined(parts)

    def down(self) -> _Columns:
        """Edges to children."""
        inmost = self.places[0]
        parts = [self._columns(0, edges_out_of(inmost.trees, inmost.child), None, up=False)]
        rows = inmost.kind.exits
        mine = np.flatnonzero(rows.child == inmost.child)
        links = np.repeat(inmost.links[rows.link[mine]], rows.units[mine])
        offsets = ragged(rows.offset[mine], rows.units[mine])
        for level, place in enumerate(self.places[1:], start=1):
            edges = edges_out_of(place.trees, place.child)
            first_link = path_ends(place.trees, edges.path)[0]
            runs = UnitRuns(first_link, edges.first, np.arange(len(first_link)))
            found, skip = runs.find(place.local(links), offsets)
            used = np.flatnonzero((found >= 0) & (skip == 0))
            edges = SubproblemEdges(**{key: column[found[used]] for key, column in vars(edges).items()})
            parts.append(self._columns(level, edges, (links[used], offsets[used]), up=False))
            rest = np.delete(np.arange(len(links)), used)
            _, links, offsets, _ = place.outside(links[rest], offsets[rest], inwards=False)
        return _joined(parts)

    def _columns(
        self, level: int, edges: SubproblemEdges, ends: tuple[Int64Array, Int64Array] | None, *, up: bool
    ) -> _Columns:
        """Edges of a piece whose near ends are units of crossing links, or the rank itself without `ends`."""
        place = self.places[level]
        child, unit = (edges.parent, edges.first) if up else (edges.child, edges.last)
        far, peer = self._far_end(place, child, edges.path, unit, inwards=not up)
        near = np.full(len(peer), -1, dtype=np.int64)
        if ends is not None:
            near = self._near_end(level, ends, inwards=up)
        exit_row, entry_row = (far, near) if up else (near, far)
        path = self._layer.codes.encode(np.full(len(peer), place.piece), edges.path, exit_row, entry_row)
        root, unit = self.identify(level, edges.root, edges.unit)
        return root, unit, np.ones(len(root), dtype=np.int64), peer, path

    def _near_end(self, level: int, ends: tuple[Int64Array, Int64Array], *, inwards: bool) -> Int64Array:
        """Rows of the borders that join units of crossing links to the rank."""
        inner = self.places[level - 1]
        borders = self._index.entrances if inwards else self._index.exits
        row = self._index.find_rows(borders, inner.first_slot + inner.local(ends[0]), ends[1])
        if len(row) and (row.min() < 0 or np.any(borders.rank[row] != self._rank)):
            raise misfit(f"piece {inner.piece} has a unit at its border that leads to no rank")
        return row

    def _far_end(
        self, place: _Surrounding, child: Int64Array, path: Int64Array, unit: Int64Array, *, inwards: bool
    ) -> tuple[Int64Array, Int64Array]:
        """Rows of the borders (-1 for ranks) at the other end of edges, and the ranks there."""
        index, layer = self._index, self._index.layer
        codes = layer.children[layer.child_offset[place.piece] + child].astype(np.int64)
        row = np.full(len(codes), -1, dtype=np.int64)
        deep = np.flatnonzero(codes < 0)
        if len(deep):
            borders, inner = (
                (index.entrances, index.entrance_slot) if inwards else (index.exits, index.exit_slot)
            )
            link = path_ends(place.trees, path[deep])[1 if inwards else 0]
            slot = inner[place.first_slot + link]
            is_open = (slot >= 0) & (index.piece_of_slot[slot] == ~codes[deep])
            row[deep] = index.find_rows(borders, np.where(is_open, slot, -1), unit[deep])
            if row[deep].min() < 0:
                raise misfit(f"a piece within piece {place.piece} has no crossing for some unit")
            codes[deep] = borders.rank[row[deep]]
        return row, codes

    def identify(self, level: int, root: Int64Array, unit: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Root rank, and number among its trees, of unit trees of a piece around the rank."""
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
                raise misfit("the outermost piece has trees that are not native")
            links, offsets = place.entered_by(root, unit)
            level += 1
            root, unit = self.owners(self.places[level], links, offsets)

    def owners(
        self, place: _Surrounding, links: Int64Array, offsets: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Trees of a piece that enter its child by units of links, from inside or outside."""
        found, unit = place.trees.owners(place.local(links).astype(np.int32), offsets)
        root = found.astype(np.int64)
        rest = np.flatnonzero(root < 0)
        hit, _, _, number = place.outside(links[rest], offsets[rest], inwards=True)
        if len(hit) < len(rest):
            raise misfit(f"no tree of piece {place.piece} takes some units that its children await")
        root[rest], unit[rest] = place.child, number
        return root, unit

    def _native(
        self, place: _Surrounding, root: Int64Array, unit: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Rank and its unit tree that native unit trees of a piece are."""
        index, layer = self._index, self._index.layer
        codes = layer.children[layer.child_offset[place.piece] + root].astype(np.int64)
        unit = unit.copy()
        while True:
            deep = np.flatnonzero(codes < 0)
            if not len(deep):
                return codes, unit
            piece = ~codes[deep]
            base = index.child_base[layer.kind[piece]]
            number = index.native_before[base] + unit[deep]
            child = np.searchsorted(index.native_before, number, side="right") - 1
            unit[deep] = number - index.native_before[child]
            codes[deep] = layer.children[layer.child_offset[piece] + child - base]


def _joined(parts: list[_Columns]) -> _Columns:
    root, unit, units, peer, path = (np.concatenate(column) for column in zip(*parts, strict=True))
    return root, unit, units, peer, path
