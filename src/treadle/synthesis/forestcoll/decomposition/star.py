"""The simplest piece: one relay that joins all children with room to spare, and a border without relays."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.synthesis.forestcoll.decomposition.pieces import LocalPiece
from treadle.synthesis.forestcoll.switch_removal import LogicalGraph
from treadle.synthesis.forestcoll.tree_packing import Packing


def star_graph(piece: LocalPiece) -> LogicalGraph | None:
    """Arcs of a piece in which every child may send all its unit trees straight to all others; else None.

    Parameters
    ----------
    piece : LocalPiece
        Condition C must hold.

    Notes
    -----
    With r'(y) = native and entering units at child y, n children and R' = sum of r', the links of y to and
    from the relay need r'(y) (n - 1) and R' - r'(y) units. Nothing has to be split then: an arc y -> x
    through the relay has r'(y) units, and what crosses the border does so on the children's own links.
    """
    n = piece.n_children
    out, into = _spokes(piece)
    if out is None or into is None or n < 2:
        return None
    crossing = (piece.tails == piece.outside) | (piece.heads == piece.outside)
    if not piece.has_outside:
        crossing[:] = False
    if np.count_nonzero(crossing) + 2 * n != len(piece.tails):
        return None  # links between children, or parallel ones to the relay
    units = piece.native.copy()
    entering = piece.has_outside & (piece.tails == piece.outside)
    np.add.at(units, piece.heads[entering], piece.capacity[entering])
    if np.any(piece.capacity[out] < units * (n - 1)) or np.any(piece.capacity[into] < units.sum() - units):
        return None
    tail, head = np.nonzero(~np.eye(n, dtype=bool) & (units > 0)[:, None])
    links = np.flatnonzero(crossing)
    pairs = np.stack([out[tail], into[head]], axis=1).ravel()
    return _graph(
        np.concatenate([tail, piece.tails[links]]),
        np.concatenate([head, piece.heads[links]]),
        np.concatenate([units[tail], piece.capacity[links]]),
        np.concatenate([np.full(len(tail), 2), np.ones(len(links), dtype=np.int64)]),
        np.concatenate([pairs, links]),
    )


def _spokes(piece: LocalPiece) -> tuple[Int64Array | None, Int64Array | None]:
    """The link of every child to the only relay, and the one back; None if there is not one of each."""
    relays = np.unique(np.concatenate([piece.tails, piece.heads]))
    n = piece.n_children
    relays = relays[(relays >= n) & (relays < n + piece.n_relays)]
    if len(relays) != 1:
        return None, None
    found = []
    for near, far in ((piece.tails, piece.heads), (piece.heads, piece.tails)):
        links = np.flatnonzero(far == relays[0])
        order = links[np.argsort(near[links])]
        found.append(order if np.array_equal(near[order], np.arange(n)) else None)
    return found[0], found[1]


def _graph(
    tails: Int64Array, heads: Int64Array, capacities: Int64Array, lengths: Int64Array, links: Int64Array
) -> LogicalGraph:
    """One arc per pair of ends, with a path for each row given."""
    order = np.lexsort((heads, tails))
    fresh = np.ones(len(order), dtype=bool)
    ends = tails[order], heads[order]
    fresh[1:] = (ends[0][1:] != ends[0][:-1]) | (ends[1][1:] != ends[1][:-1])
    arcs = np.flatnonzero(fresh)
    return LogicalGraph(
        tails=ends[0][arcs].astype(np.int32),
        heads=ends[1][arcs].astype(np.int32),
        capacities=np.add.reduceat(capacities[order], arcs),
        segment_offset=np.append(arcs, len(order)).astype(np.int64),
        segment_path=order.astype(np.int32),
        segment_units=capacities[order],
        path_offset=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        path_links=links.astype(np.int32),
        cuts_mended=0,
        exact_splits=0,
    )


def star_packing(multiplicities: Int64Array) -> Packing:
    """One weighted star for every child with unit trees."""
    n = len(multiplicities)
    root = np.flatnonzero(multiplicities).astype(np.int32)
    parent: Int32Array = np.repeat(root[:, None], n, axis=1).astype(np.int32)
    parent[np.arange(len(root)), root] = -1
    return Packing(root, multiplicities[root], parent, speculative=0, exact=0)
