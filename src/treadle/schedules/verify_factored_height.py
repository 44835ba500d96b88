"""A bound on the height of factored forests: hops from a root to the farthest rank, piece by piece.

An edge between two pieces starts at the rank that supplies it, which may lie deeper in its piece than the
rank by which the tree came in; how much deeper depends on both. The bound takes the worst pair of a piece,
but for the trees of an exchange, which are followed exactly where they leave the root's piece.

Shares no code with the generators or the expansion; `treadle.schedules.verify` is the way in.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.factored import CirculantExchange, ExchangeColumns, Layer, Piece, TableTrees
from treadle.schedules.verify_factored_exchanges import exchange_depth

_MAX_UNITS = 2**20


def height_bound(layer: Layer) -> int:
    """No tree of a correct layer is higher; exact where all pieces but an outermost exchange hold ranks only,
    and trees within a piece are equally high.
    """
    reach = np.zeros(layer.n_pieces, dtype=np.int64)  # hops from where a tree enters a piece to its ranks
    spread = np.zeros(layer.n_pieces, dtype=np.int64)  # and to the ranks that supply what leaves it
    depth = _levels(layer)
    for level in range(int(depth.max()), -1, -1):
        for kind in np.unique(layer.kind[depth == level]).tolist():
            members = np.flatnonzero((depth == level) & (layer.kind == kind))
            piece = layer.pieces[kind]
            codes = layer.children[layer.child_offset[members][:, None] + np.arange(piece.n_children)]
            inner = np.where(codes < 0, ~codes, 0)
            within = np.where(codes < 0, reach[inner], 0)
            delay = np.where(codes < 0, spread[inner], 0)
            for i, one in enumerate(
                members.tolist() if within.any() or delay.any() else members[:1].tolist()
            ):
                if isinstance(piece.trees, CirculantExchange):
                    reach[one] = _exchange_reach(layer, one, piece.trees, within[i], delay[i])
                elif isinstance(piece.trees, ExchangeColumns):
                    depth_of = exchange_depth(piece.trees)
                    reach[one] = depth_of * (1 + int(delay[i].max())) + int(within[i].max())
                elif isinstance(piece.trees, TableTrees):
                    reach[one], spread[one] = _table_reach(piece, piece.trees, within[i], delay[i])
            if not (within.any() or delay.any()):
                reach[members], spread[members] = reach[members[0]], spread[members[0]]
    return int(reach[0])


def _levels(layer: Layer) -> Int64Array:
    """How many pieces are around each."""
    depth = np.zeros(layer.n_pieces, dtype=np.int64)
    above = layer.outer.astype(np.int64)
    while above.max() >= 0:
        depth += above >= 0
        above = np.where(above >= 0, layer.outer[above], -1)
    return depth


def _depths(trees: TableTrees, delay: Int64Array) -> Int64Array:
    """Hops from the root's entry to each child's, (s, n); a child sends `delay` hops after its entry."""
    s, n = trees.parent.shape
    above = np.where(trees.parent < 0, np.arange(n), trees.parent).astype(np.int64)
    depth = np.where(trees.parent < 0, 0, 1 + delay[above])
    for _ in range(n.bit_length()):
        depth = depth + np.take_along_axis(depth, above, axis=1)
        above = np.take_along_axis(above, above, axis=1)
    hops: Int64Array = depth.reshape(s, n)
    return hops


def _table_reach(piece: Piece, trees: TableTrees, within: Int64Array, delay: Int64Array) -> tuple[int, int]:
    depth = _depths(trees, delay)
    suppliers = np.unique(piece.exits.child)
    return (
        int((depth + within).max(initial=0)),
        int((depth + delay)[:, suppliers].max(initial=0)),
    )


def _exchange_reach(
    layer: Layer, number: int, trees: CirculantExchange, within: Int64Array, delay: Int64Array
) -> int:
    """Stars: out of the root's piece, into any other."""
    late = delay.copy()
    at = int(layer.child_offset[number])
    codes = layer.children[at : at + trees.n_children].astype(np.int64)
    links = layer.links[layer.link_offset[number] : layer.link_offset[number + 1]]
    known: dict[bytes, int] = {}
    for child in np.flatnonzero((codes < 0) & (delay > 0)).tolist():
        inner = int(~codes[child])
        span = slice(int(layer.link_offset[inner]), int(layer.link_offset[inner + 1]))
        local = np.searchsorted(layer.links[span], links[trees.out_links[child]])
        rows = np.stack(
            [local, trees.out_first[child, :-1], trees.out_first[child, 1:], trees.out_offset[child]]
        )
        key = layer.kind[inner].tobytes() + rows.tobytes()
        if key not in known:
            known[key] = _native_delay(layer.pieces[layer.kind[inner]], trees, rows, int(delay[child]))
        late[child] = known[key]
    order = np.argsort(within)
    farthest = np.where(np.arange(len(within)) == order[-1], within[order[-2]], within[order[-1]])
    return int((late + 1 + farthest).max())


def _native_delay(piece: Piece, trees: CirculantExchange, rows: Int64Array, worst: int) -> int:
    """Most hops from a rank to those that send its trees out of its piece; `rows` are runs of exit units.

    `worst` bounds it, and is the answer where the piece holds pieces, is no table, or has very many trees.
    """
    inside = piece.trees
    if not isinstance(inside, TableTrees) or trees.native_units > _MAX_UNITS:
        return worst
    depth = _depths(inside, np.zeros(piece.n_children, dtype=np.int64))
    if piece.n_children > 1 and depth[:, np.unique(piece.exits.child)].max(initial=0) != worst:
        return worst  # some child is a piece
    block = trees.block * (trees.n_children - 1)  # exit units of a block of unit trees
    native_end = np.cumsum(piece.native)
    row_start = np.cumsum(inside.units) - inside.units
    starts = np.searchsorted(inside.root, np.arange(piece.n_children))
    root_start = np.append(row_start, row_start[-1] + inside.units[-1])[starts]
    most = 0
    for local, begin, end, offset in rows.T.tolist():
        mine = np.flatnonzero(
            (piece.exits.link == local)
            & (piece.exits.offset < offset + end - begin)
            & (piece.exits.offset + piece.exits.units > offset)
        )
        for row in mine.tolist() if end > begin else []:
            low = max(int(piece.exits.offset[row]), offset) - offset + begin
            high = (
                min(int(piece.exits.offset[row] + piece.exits.units[row]), offset + end - begin)
                - offset
                + begin
            )
            units = np.arange(low // block * trees.block, ((high - 1) // block + 1) * trees.block)
            root = np.searchsorted(native_end, units, side="right")
            own = units - (native_end - piece.native)[root]
            tree = np.searchsorted(row_start, root_start[root] + own, side="right") - 1
            most = max(most, int(depth[tree, piece.exits.child[row]].max()))
    return most
