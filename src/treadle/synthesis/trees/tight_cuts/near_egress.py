"""Egress units by which a subproblem's native trees leave: as near to their roots as the units allow.

Theorem 4 lets any tree use any egress unit. A tree that leaves a set h hops from its root is h hops later
everywhere outside, so units are assigned by flows under limits of 0, 1, ... hops: the latest egress is as
early as can be.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import numpy as np

from treadle.arrays import Int64Array, sums_of
from treadle.schedules.factored import Crossings, Subproblem, TableTrees

_MOST_CHILDREN = 256  # beyond, units are used in the order of their suppliers


def near_egress(piece: Subproblem, deliveries: int) -> tuple[Int64Array, int] | None:
    """Return a subproblem's egress in the order in which its native trees use it.

    Parameters
    ----------
    piece : Subproblem
        Its egress units are as many as the deliveries of its native trees.
    deliveries : int
        Egress units that each native unit tree takes.

    Returns
    -------
    tuple of (array of int64, shape (parts, 3), int) or None
        Row of the egress, units of it that are skipped, units that are used; unit trees are equal in runs of
        multiples of the second value. None where every child supplies just what its own trees take, the order
        of suppliers is as good, or the subproblem's trees are not a table.

    Notes
    -----
    A child that lacks egress, since its link to the outside failed, sends through others. A tree is late by
    the hops from its root to the supplier. With limits of 0, 1, ... hops, as much as can be is assigned, by
    paths that augment a flow from trees to suppliers: so the latest egress is as early as possible. In a
    chain of neighbours each takes over for the one before it, all of them a hop late.
    """
    trees, rows, n = piece.trees, piece.exits, piece.n_children
    have = sums_of(n, rows.child, rows.units)
    if not isinstance(trees, TableTrees) or n > _MOST_CHILDREN or np.all(piece.native * deliveries == have):
        return None
    before = np.cumsum(trees.units) - trees.units
    # a root's first units are its native trees; those after them came in and leave by no exit
    rest = piece.native[trees.root] - (before - before[np.searchsorted(trees.root, trees.root)])
    native = np.flatnonzero(rest > 0)
    units = np.minimum(trees.units, rest)[native]
    depth = trees.row_depths[native]
    need = units * deliveries
    flow = assigned(need.tolist(), have.tolist(), depth)
    used = [(taker, supplier) for taker, taken in enumerate(flow) for supplier, some in taken.items() if some]
    # the greatest depth if takers one after the other take units of suppliers one after the other
    ends = np.cumsum(need), np.cumsum(have)
    starts = np.union1d(*ends)
    starts = np.concatenate([[0], starts[(starts > 0) & (starts < ends[0][-1])]])
    in_order = depth[tuple(np.searchsorted(end, starts, side="right") for end in ends)].max()
    if in_order <= max(depth[pair] for pair in used):
        return None
    first_links = rows.path_links[rows.path_offset[rows.path]]
    order = np.lexsort((rows.offset, rows.link, first_links, rows.child))
    return _parts(flow, depth, order, rows), int(np.gcd.reduce(units))


def assigned(need: list[int], have: list[int], depth: Int64Array) -> list[dict[int, int]]:
    """Return the units of suppliers for each taker that minimize the greatest depth, shape (takers,
    suppliers)."""
    need, have = need.copy(), have.copy()
    flow: list[dict[int, int]] = [{} for _ in need]
    users: list[set[int]] = [set() for _ in have]
    # augmenting paths never give up what is assigned, so each limit ends with a maximum flow within it
    for limit in np.unique(depth).tolist():
        near = [np.flatnonzero(row <= limit).tolist() for row in depth]
        for taker in range(len(need)):
            while need[taker] and (path := _path(taker, near, have, users)):
                last = path[-1][1]
                lost = [(one, supplier) for (_, supplier), (one, _) in pairwise(path)]
                units = min(need[taker], have[last], *(flow[one][supplier] for one, supplier in lost))
                for one, supplier in path:
                    flow[one][supplier] = flow[one].get(supplier, 0) + units
                    users[supplier].add(one)
                for one, supplier in lost:
                    flow[one][supplier] -= units
                    if not flow[one][supplier]:
                        users[supplier].discard(one)
                need[taker] -= units
                have[last] -= units
        if not any(need):
            break
    return flow


def _path(taker: int, near: list[list[int]], have: list[int], users: list[set[int]]) -> list[tuple[int, int]]:
    """Return takers and their new suppliers: each taker but the first leaves the supplier before."""
    came: dict[int, tuple[int, int]] = {}  # supplier -> taker, and the supplier that this one leaves
    # breadth first: the shortest path makes the fewest takers change their suppliers
    queue = deque([(taker, -1)])
    seen = {taker}
    while queue:
        one, left = queue.popleft()
        for supplier in near[one]:
            if supplier in came:
                continue
            came[supplier] = (one, left)
            if have[supplier]:
                path = []
                while supplier >= 0:
                    one, left = came[supplier]
                    path.append((one, supplier))
                    supplier = left
                return path[::-1]
            for other in sorted(users[supplier] - seen):
                seen.add(other)
                queue.append((other, supplier))
    return []


def _parts(flow: list[dict[int, int]], depth: Int64Array, order: Int64Array, rows: Crossings) -> Int64Array:
    """Return the supply of each taker, nearest suppliers first, as parts of rows."""
    at = np.searchsorted(rows.child[order], np.arange(depth.shape[1])).tolist()
    skip, size, parts = [0] * len(at), rows.units[order].tolist(), []
    for taker, taken in enumerate(flow):
        hops = depth[taker].tolist()
        for supplier in sorted(taken, key=lambda one: (hops[one], one)):
            left = taken[supplier]
            while left:
                row = at[supplier]
                part = min(left, size[row] - skip[supplier])
                parts.append((int(order[row]), skip[supplier], part))
                left -= part
                skip[supplier] += part
                if skip[supplier] == size[row]:
                    at[supplier], skip[supplier] = row + 1, 0
    return np.array(parts, dtype=np.int64).reshape(-1, 3)
