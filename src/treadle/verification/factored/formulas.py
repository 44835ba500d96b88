"""Check of the trees of an outermost piece that a formula gives: why they span, and which units they use.

*Relay trees.* A block with m deliveries given away makes D = n - 1 - m >= 1 itself, the rest is made by
its relays: n - 1 in all, one to each other child. Relay i is served by the root if i <= D, else by
relay i - 1, which makes at least one delivery and comes earlier. So every child has one supplier that has the
data. Deliveries of a child are numbered without gaps, own ones first; blocks arrive at a child numbered
without gaps. So it is enough that the numbers of exit and entry units are those of deliveries and arrivals.

*Relay planes.* A tree is on one plane, where it is one of relay trees; what leaves and enters a child is
numbered plane by plane.

*Plane trees.* A block of trees reaches a child from its root, or by the one relay that a row names, to
which the root sends itself. What a child sends to another, own trees and others, is numbered without gaps,
and the planes divide it. What leaves (enters) a child by a plane is numbered without gaps, so the sums of
rows (columns) of a plane's table must be the exit (entry) units that lead to its switch.

Shares no code with the generators or the expansion; `treadle.verification.schedules` is the way in.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import BoolArray, Int64Array, offsets_of
from treadle.schedules.factored import FormulaTrees, PlaneTrees, RelayPlanes, RelayTrees


def formula_faults(trees: FormulaTrees) -> list[str]:
    """What is wrong with trees by formula by themselves; empty if its trees span and use each unit once."""
    if isinstance(trees, RelayTrees):
        return _relay_faults(trees)
    if isinstance(trees, PlaneTrees):
        return _plane_faults(trees)
    if isinstance(trees, RelayPlanes):
        return _relay_planes_faults(trees)
    return [f"no proof is known for trees of type {type(trees).__name__}"]


def formula_depth(trees: FormulaTrees) -> int:
    """Tree edges from a root to the farthest child, at most; of correct trees."""
    if isinstance(trees, PlaneTrees):
        return 2 if len(trees.relay_root) else 1
    if isinstance(trees, RelayPlanes):
        return max(map(formula_depth, trees.parts))
    if not isinstance(trees, RelayTrees) or not len(trees.relay_root):
        return 1
    _, group = _groups(trees)
    relays = np.bincount(group)
    direct = len(trees.native_units) - 1 - np.bincount(group, weights=trees.relay_count).astype(np.int64)
    return int(np.where(relays <= direct, 2, relays - direct + 2).max())


def _groups(trees: RelayTrees) -> tuple[Int64Array, Int64Array]:
    """The different (root, block) pairs that have relays, and which of them each row is for."""
    pairs = np.stack([trees.relay_root.astype(np.int64), trees.relay_block], axis=1)
    found, group = np.unique(pairs, axis=0, return_inverse=True)
    return found, group.ravel()


def _relay_faults(trees: RelayTrees) -> list[str]:
    n, g = len(trees.native_units), trees.block
    blocks = trees.native_units // g
    faults = []
    if np.any(trees.native_units % g) or np.any(blocks < 0):
        faults.append(f"unit trees of a child do not come in blocks of {g}")
    root, child, count = trees.relay_root, trees.relay_child, trees.relay_count
    if np.any((trees.relay_block < 0) | (trees.relay_block >= blocks[root])):
        faults.append("a row of relays is for a block that there is not")
    _, group = _groups(trees)
    if np.any(np.diff(group) < 0):
        faults.append("rows of relays are not in the order of roots and blocks")
    if np.any(root == child) or len(set(zip(group.tolist(), child.tolist(), strict=True))) < len(child):
        faults.append("a relay of a block is its root, or comes twice")
    given = np.zeros(len(group), dtype=np.int64)
    np.add.at(given, group, count)
    if np.any(count < 1) or np.any(given > n - 2):
        faults.append(f"a relay makes no delivery, or a block gives away more than {n - 2}")
    if faults:
        return faults
    made = blocks * (n - 1)
    np.subtract.at(made, root, count)
    np.add.at(made, child, count)
    return _unit_faults(trees, made * g, (blocks.sum() - blocks) * g)


def _unit_faults(trees: FormulaTrees, out: Int64Array, into: Int64Array) -> list[str]:
    """Children whose exit or entry units are not as many as their trees take, the first of each side."""
    return [
        f"child {wrong} has {first[wrong, -1]} {what} units; trees take {used[wrong]}"
        for what, first, used in (("exit", trees.out_first, out), ("entry", trees.in_first, into))
        for wrong in np.flatnonzero(first[:, -1] != used)[:1]
    ]


def _relay_planes_faults(trees: RelayPlanes) -> list[str]:
    n, units = trees.plane_units.shape[1], trees.plane_units.sum(axis=0)
    faults = [fault for part in trees.parts for fault in _relay_faults(part)]
    if any(
        not np.array_equal(part.native_units, mine)
        for part, mine in zip(trees.parts, trees.plane_units, strict=True)
    ):
        faults.append("the trees of a plane are not those of its formula")
    child = np.repeat(np.arange(n), units)
    pairs = np.unique(np.stack([child, trees.place], axis=1), axis=0)
    if len(trees.place) != units.sum() or len(pairs) < len(child) or np.any(trees.place >= units[child]):
        faults.append("places of a child are not 0, 1, ..., once each")
    out, into = (sums.sum(axis=1) for sums in _part_sums(trees))
    return faults + _unit_faults(trees, out, into)


def _part_sums(trees: RelayPlanes) -> tuple[Int64Array, Int64Array]:
    """Units that leave and that enter each child by each plane, shape (n, planes)."""
    out, into = ([getattr(part, side)[:, -1] for part in trees.parts] for side in ("out_first", "in_first"))
    return np.stack(out, axis=1), np.stack(into, axis=1)


def _plane_faults(trees: PlaneTrees) -> list[str]:
    n, r, g = len(trees.group), len(trees.place), trees.block
    native = trees.native_units
    faults = []
    if np.any(np.bincount(trees.place, minlength=r) != 1):
        faults.append(f"places are not 0 to {r - 1}, once each")
    if r % g or np.any(native % g) or len(native) != n or np.any(native < 0):
        faults.append(f"unit trees of a child do not come in blocks of {g}")
    root, child, units = trees.pair_root.astype(np.int64), trees.pair_child.astype(np.int64), trees.pair_units
    if np.any(root == child) or not np.all(np.diff(np.sort(root * n + child))):
        faults.append("a pair is a child and itself, or comes twice")
    if np.any(trees.group_units < 0) or np.any(units < 0):
        faults.append("a plane has fewer than no trees of a pair")
    sizes = np.bincount(trees.group, minlength=len(trees.group_units))
    for a, shares in enumerate(trees.group_units):
        others = np.maximum(sizes, sizes[a])
        others[a] -= 1
        sent = np.unique(native[trees.group == a])
        if len(sent) != 1 or np.any(shares.sum(axis=1) != sent * others):
            faults.append(f"planes do not divide the trees of the children of group {a}")
    faults = faults or _delivery_faults(trees) or _sent_faults(trees)
    return faults or _unit_faults(trees, *(sums.sum(axis=1) for sums in _plane_sums(trees)))


def _delivery_faults(trees: PlaneTrees) -> list[str]:
    """Whether each row of relays is a delivery of its own, by a child that the root sends to itself."""
    n = len(trees.group)
    root, child, by = (one.astype(np.int64) for one in (trees.relay_root, trees.relay_child, trees.relay_by))
    faults = []
    if np.any((trees.relay_block < 0) | (trees.relay_block >= trees.native_units[root] // trees.block)):
        faults.append("a row of relays is for a block that there is not")
    if np.any((root == child) | (root == by) | (child == by)):
        faults.append("a relay is the root or the child that it sends to")
    order = np.lexsort((trees.relay_block, child, root))
    if not np.array_equal(order, np.arange(len(root))):
        faults.append("rows of relays are not in the order of roots, children and blocks")
    blocks = np.unique(np.stack([root, trees.relay_block], axis=1), axis=0, return_inverse=True)[1].ravel()
    given, used = blocks * n + child, blocks * n + by
    if len(np.unique(given)) < len(given):
        faults.append("two relays deliver a block to one child")
    if np.any(np.isin(used, given)):
        faults.append("a relay is reached by another relay")
    return faults


def _sent_faults(trees: PlaneTrees) -> list[str]:
    """Whether planes divide what each child sends to each other, itself and for others."""
    n, g = len(trees.group), trees.block
    root, child = trees.pair_root.astype(np.int64), trees.pair_child.astype(np.int64)
    pairs = root * n + child
    place = np.argsort(pairs, kind="stable")  # by far the fastest of those that rise
    more = np.zeros(len(pairs), dtype=np.int64)
    for sender, sign in ((trees.relay_root, -g), (trees.relay_by, g)):
        wanted = sender.astype(np.int64) * n + trees.relay_child
        at = np.minimum(np.searchsorted(pairs[place], wanted), max(len(pairs) - 1, 0))
        if len(wanted) and (not len(pairs) or np.any(pairs[place[at]] != wanted)):
            return ["a pair that relays change has the usual shares of planes"]
        np.add.at(more, place[at], sign)
    more += trees.native_units[root]
    for units in trees.pair_units.T:
        more -= units
    return ["planes do not divide what a child sends to another"] if more.any() else []


def transit_faults(
    trees: FormulaTrees, heads: Int64Array, tails: Int64Array, passable: BoolArray
) -> list[str]:
    """Whether a unit that leaves a child and the one that enters the next meet at a switch, or why not.

    Parameters
    ----------
    trees : FormulaTrees
        Without `formula_faults`.
    heads, tails : arrays of int64
        Nodes of the fabric at the ends of local links.
    passable : array of bool
        By node.

    Notes
    -----
    All units of relay trees pass one switch, and so do all exit and entry units of a plane.
    """
    if isinstance(trees, PlaneTrees):
        sums = _plane_sums(trees)
    elif isinstance(trees, RelayPlanes):
        sums = _part_sums(trees)
    else:
        sums = trees.out_first[:, -1:], trees.in_first[:, -1:]
    sides = (
        (trees.out_first, heads[trees.out_links]),
        (trees.in_first, tails[trees.in_links]),
    )
    nodes: list[list[Int64Array]] = [[] for _ in range(sums[0].shape[1])]
    for (first, node), shares in zip(sides, sums, strict=True):
        stop = np.cumsum(shares, axis=1)
        for plane, met in enumerate(nodes):
            high, low = stop[:, plane, None], (stop - shares)[:, plane, None]
            met.append(node[np.minimum(first[:, 1:], high) > np.maximum(first[:, :-1], low)])
    return [
        f"not all units of plane {plane} pass one switch"
        for plane, met in enumerate(map(np.concatenate, nodes))
        if len(met) and (np.any(met != met[0]) or not passable[met[0]])
    ]


def _plane_sums(trees: PlaneTrees) -> tuple[Int64Array, Int64Array]:
    """Units that leave and that enter each child by each plane, shape (n, planes)."""
    out, into = even_sums(trees, leaving=True), even_sums(trees, leaving=False)
    root, child = trees.pair_root.astype(np.int64), trees.pair_child.astype(np.int64)
    more = trees.pair_units.T - even_units(trees, root, child)
    for plane, change in enumerate(more):
        np.add.at(out[:, plane], root, change)
        np.add.at(into[:, plane], child, change)
    return out, into


def _members(trees: PlaneTrees) -> tuple[Int64Array, Int64Array]:
    """Sizes of groups, and the number of each child in its own."""
    sizes = np.bincount(trees.group, minlength=len(trees.group_units))
    number = np.empty(len(trees.group), dtype=np.int64)
    for group in range(len(sizes)):
        number[trees.group == group] = np.arange(sizes[group])
    return sizes, number


def _turns(group: Int64Array | int, wide: Int64Array) -> Int64Array:
    """Where a narrow group begins in a wide one."""
    return (group * 40503 % 65536) * wide // 65536


def even_units(trees: PlaneTrees, root: Int64Array, child: Int64Array) -> Int64Array:
    """Units of pairs that are not given, by the formula: those by planes up to each, less those before it."""
    sizes, number = _members(trees)
    group = trees.group.astype(np.int64)
    a, b = group[root], group[child]
    swap = sizes[a] > sizes[b]
    one, other = np.where(swap, child, root), np.where(swap, root, child)
    narrow, wide = sizes[group[one]], sizes[group[other]]
    others = np.maximum(wide - (a == b), 1)
    first = np.where(a == b, 1, _turns(group[one], wide))
    turn = (number[other] - number[one] * wide // narrow - first) % wide
    units = np.empty((trees.group_units.shape[2], len(root)), dtype=np.int64)
    total, before = np.zeros(len(root), dtype=np.int64), np.zeros(len(root), dtype=np.int64)
    for plane, row in enumerate(units):
        total += trees.group_units[a, b, plane]
        upto = (total + turn) // others
        row[:] = upto - before
        before = upto
    return units


def even_sums(trees: PlaneTrees, *, leaving: bool) -> Int64Array:
    """Units that leave (enter) each child by each plane, were no pairs given.

    With all of a group that is not smaller a child has just what `group_units` says, with one of equal size
    too. Of a larger group, those children have a unit more than the others whose turn at a child of
    the smaller one comes among the last; in a larger group turns start at different places.
    """
    sizes, number = _members(trees)
    group = trees.group.astype(np.int64)
    sums = np.zeros((len(group), trees.group_units.shape[2]), dtype=np.int64)
    for theirs, size in enumerate(sizes.tolist()):
        shares = trees.group_units[:, theirs] if leaving else trees.group_units[theirs]
        sums += np.where(sizes[:, None] <= size, shares, 0)[group]
        larger = sizes > size
        members = np.flatnonzero(larger[group])
        twice = 2 * sizes * larger  # turns of a group stand there twice, as windows of them may wrap
        begin = np.cumsum(twice) - twice
        wide = sizes[larger]
        starts = begin[larger] + (np.arange(size)[:, None] * wide // size + _turns(theirs, wide)) % wide
        counts = np.bincount(np.concatenate([starts, starts + wide]).ravel(), minlength=2 * int(wide.sum()))
        before = offsets_of(counts)
        mine = group[members]
        each, rest = np.divmod(np.cumsum(shares, axis=1)[mine], sizes[mine, None])
        here = (begin[mine] + number[members] + 1)[:, None]
        upto = each * size + before[here + rest] - before[here]
        sums[members] += np.diff(upto, axis=1, prepend=0)
    return sums
