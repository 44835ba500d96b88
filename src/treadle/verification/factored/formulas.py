"""Check of the trees by formula of an outermost subproblem: that they span, and which units they use.

*Relay trees.* A block with m deliveries given away makes D = n - 1 - m >= 1 itself, the rest is made by
its relays: n - 1 in all, one to each other child. Relay i is supplied by the root if i <= D, else by
relay i - 1, which makes at least one delivery and comes earlier. So every child has one supplier that has the
data. Deliveries of a child are numbered without gaps, own ones first; blocks arrive at a child numbered
without gaps. So it is enough that the numbers of egress and ingress units are those of deliveries and
arrivals.

*Relay planes.* A tree is on one plane, where it is one of relay trees; the units that leave and enter a child
are numbered plane by plane.

*Plane trees.* A block of trees reaches a child from its root, or by the one relay that a row names, to
which the root sends itself. The trees that a child sends to another, own trees and others, are numbered
without gaps, and the planes divide them. The units that leave (enter) a child by a plane are numbered without
gaps, so the sums of rows (columns) of the table of a plane must be the egress (ingress) units that lead to
its switch.

The classes of the trees check the tables of relays, pairs, blocks and places on construction; here units are
counted again. Shares no code with the generators or the expansion. `treadle.verification.schedules.verify` is
the entry point.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, offsets_of
from treadle.schedules.factored import (
    CirculantTrees,
    FormulaTrees,
    PlaneTrees,
    RelayPlanes,
    RelayTrees,
    SubproblemTrees,
)

_Side = tuple[Int32Array, Int64Array, Int64Array]


def sides_of(trees: CirculantTrees | FormulaTrees) -> tuple[_Side, _Side]:
    """Return the links, first units and offsets of the egress columns and of the ingress columns."""
    return (
        (trees.out_links, trees.out_first, trees.out_offset),
        (trees.in_links, trees.in_first, trees.in_offset),
    )


def formula_faults(trees: SubproblemTrees) -> list[str]:
    """Return the faults of trees by formula; none if the trees span and use each unit once."""
    if isinstance(trees, CirculantTrees):  # checked when they are made
        return []
    if isinstance(trees, RelayPlanes):
        faults = [fault for part in trees.parts for fault in formula_faults(part)]
        if not np.array_equal(np.stack([part.native_units for part in trees.parts]), trees.plane_units):
            faults.append("the trees of a plane are not those of its formula")
        if faults:
            return faults
    elif not isinstance(trees, PlaneTrees | RelayTrees):
        return [f"no proof is known for trees of type {type(trees).__name__}"]
    firsts = (("egress", trees.out_first), ("ingress", trees.in_first))
    return [
        f"child {wrong} has {first[wrong, -1]} {side} units; trees use {used[wrong].sum()}"
        for (side, first), used in zip(firsts, _unit_sums(trees), strict=True)
        for wrong in np.flatnonzero(first[:, -1] != used.sum(axis=1))[:1]
    ]


def formula_depth(trees: FormulaTrees) -> int:
    """Return the maximum number of tree edges from a root to a child, for correct trees."""
    if isinstance(trees, PlaneTrees):
        return 2 if len(trees.relay_root) else 1
    if isinstance(trees, RelayPlanes):
        return max(map(formula_depth, trees.parts))
    if not isinstance(trees, RelayTrees) or not len(trees.relay_root):
        return 1
    blocks = np.stack([trees.relay_root.astype(np.int64), trees.relay_block], axis=1)
    group = np.unique(blocks, axis=0, return_inverse=True)[1].ravel()
    relays = np.bincount(group)
    direct = len(trees.native_units) - 1 - np.bincount(group, weights=trees.relay_count).astype(np.int64)
    return int(np.where(relays <= direct, 2, relays - direct + 2).max())


def _unit_sums(trees: FormulaTrees) -> tuple[Int64Array, Int64Array]:
    """Return the units that leave and that enter each child by each plane, shape (n, planes)."""
    if isinstance(trees, RelayPlanes):
        out, into = ([sides_of(part)[side][1][:, -1] for part in trees.parts] for side in (0, 1))
        return np.stack(out, axis=1), np.stack(into, axis=1)
    if isinstance(trees, RelayTrees):  # all on one plane
        blocks = trees.native_units // trees.block
        made = blocks * (len(blocks) - 1)
        np.subtract.at(made, trees.relay_root, trees.relay_count)
        np.add.at(made, trees.relay_child, trees.relay_count)
        return made[:, None] * trees.block, (blocks.sum() - blocks)[:, None] * trees.block
    assert isinstance(trees, PlaneTrees)
    sums = even_sums(trees, leaving=True), even_sums(trees, leaving=False)
    root, child = trees.pair_root.astype(np.int64), trees.pair_child.astype(np.int64)
    more = trees.pair_units.T - even_units(trees, root, child)
    for plane, change in enumerate(more):
        np.add.at(sums[0][:, plane], root, change)
        np.add.at(sums[1][:, plane], child, change)
    return sums


def transit_faults(
    trees: FormulaTrees, heads: Int64Array, tails: Int64Array, passable: BoolArray
) -> list[str]:
    """Check that a unit that leaves a child and the one that enters the next meet at a switch.

    Parameters
    ----------
    trees : FormulaTrees
        Without `formula_faults`.
    heads, tails : arrays of int64
        Nodes of the fabric at the ends of local links.
    passable : array of bool
        Whether paths may pass each node.

    Notes
    -----
    All units of relay trees pass one switch, and so do all egress and ingress units of a plane.
    """
    sums = _unit_sums(trees)
    nodes: list[list[Int64Array]] = [[] for _ in range(sums[0].shape[1])]
    for (links, first, _), ends, shares in zip(sides_of(trees), (heads, tails), sums, strict=True):
        node, stop = ends[links], np.cumsum(shares, axis=1)
        for plane, met in enumerate(nodes):
            high, low = stop[:, plane, None], (stop - shares)[:, plane, None]
            met.append(node[np.minimum(first[:, 1:], high) > np.maximum(first[:, :-1], low)])
    return [
        f"not all units of plane {plane} pass one switch"
        for plane, met in enumerate(map(np.concatenate, nodes))
        if len(met) and (np.any(met != met[0]) or not passable[met[0]])
    ]


def _members(trees: PlaneTrees) -> tuple[Int64Array, Int64Array]:
    """Return the sizes of groups, and the number of each child in its group."""
    sizes = np.bincount(trees.group, minlength=len(trees.group_units))
    number = np.empty(len(trees.group), dtype=np.int64)
    for group in range(len(sizes)):
        number[trees.group == group] = np.arange(sizes[group])
    return sizes, number


def _turns(group: Int64Array | int, wide: Int64Array) -> Int64Array:
    """Return the first turn of a narrow group in a wide one."""
    return (group * 40503 % 65536) * wide // 65536


def even_units(trees: PlaneTrees, root: Int64Array, child: Int64Array) -> Int64Array:
    """Return the units by plane of pairs that are not listed, shape (planes, pairs).

    They are the units by planes up to each one, less those before it.
    """
    sizes, number = _members(trees)
    group = trees.group.astype(np.int64)
    a, b = group[root], group[child]
    swap = sizes[a] > sizes[b]
    narrow, wide = np.where(swap, child, root), np.where(swap, root, child)
    n_narrow, n_wide = sizes[group[narrow]], sizes[group[wide]]
    others = np.maximum(n_wide - (a == b), 1)
    first = np.where(a == b, 1, _turns(group[narrow], n_wide))
    turn = (number[wide] - number[narrow] * n_wide // n_narrow - first) % n_wide
    units = np.empty((trees.group_units.shape[2], len(root)), dtype=np.int64)
    total, before = np.zeros(len(root), dtype=np.int64), np.zeros(len(root), dtype=np.int64)
    for plane, row in enumerate(units):  # one at a time to limit the memory
        total += trees.group_units[a, b, plane]
        upto = (total + turn) // others
        row[:] = upto - before
        before = upto
    return units


def even_sums(trees: PlaneTrees, *, leaving: bool) -> Int64Array:
    """Return the units that leave (enter) each child by each plane if no pairs are listed.

    With all children of a group of at least its own size, a child has exactly its `group_units`. In a larger
    group, those children have one unit more than the others whose turn at a child of the smaller group comes
    among the last; in a larger group turns start at different positions.
    """
    sizes, number = _members(trees)
    group = trees.group.astype(np.int64)
    sums = np.zeros((len(group), trees.group_units.shape[2]), dtype=np.int64)
    for peer, size in enumerate(sizes.tolist()):
        shares = trees.group_units[:, peer] if leaving else trees.group_units[peer]
        sums += np.where(sizes[:, None] <= size, shares, 0)[group]
        larger = sizes > size
        members = np.flatnonzero(larger[group])
        twice = 2 * sizes * larger  # turns of a group are listed twice, as windows of them may wrap
        begin = np.cumsum(twice) - twice
        wide = sizes[larger]
        starts = begin[larger] + (np.arange(size)[:, None] * wide // size + _turns(peer, wide)) % wide
        counts = np.bincount(np.concatenate([starts, starts + wide]).ravel(), minlength=2 * int(wide.sum()))
        before = offsets_of(counts)
        mine = group[members]
        each, rest = np.divmod(np.cumsum(shares, axis=1)[mine], sizes[mine, None])
        here = (begin[mine] + number[members] + 1)[:, None]
        upto = each * size + before[here + rest] - before[here]
        sums[members] += np.diff(upto, axis=1, prepend=0)
    return sums
