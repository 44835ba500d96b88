"""Check of the trees of an outermost piece that a formula gives: why they span, and which units they use.

*Relay exchange.* A block with m deliveries given away makes D = n - 1 - m >= 1 itself, the rest is made by
its relays: n - 1 in all, dealt one to each other child. Relay i is served by the root if i <= D, else by
relay i - 1, which makes at least one delivery and comes earlier. So every child has one supplier that has the
data. Deliveries of a child are numbered without gaps, own ones first; blocks arrive at a child numbered
without gaps. So it is enough that the numbers of exit and entry units are those of deliveries and arrivals.

*Plane exchange.* See `PlaneExchange`: each pair of children splits its trees among the planes, so every tree
is a star. Row and column sums of a plane's table are the numbers of its exit and entry units.

Shares no code with the generators or the expansion; `treadle.schedules.verify` is the way in.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.factored import ExchangeColumns, RelayExchange


def exchange_faults(trees: ExchangeColumns) -> list[str]:
    """What is wrong with an exchange by itself; empty if its trees span and use each unit once."""
    if isinstance(trees, RelayExchange):
        return _relay_faults(trees)
    return [f"no proof is known for trees of type {type(trees).__name__}"]


def exchange_depth(trees: ExchangeColumns) -> int:
    """Tree edges from a root to the farthest child, at most; of a correct exchange."""
    if not isinstance(trees, RelayExchange) or not len(trees.relay_root):
        return 1
    _, group = _groups(trees)
    relays = np.bincount(group)
    direct = len(trees.native_units) - 1 - np.bincount(group, weights=trees.relay_count).astype(np.int64)
    return int(np.where(relays <= direct, 2, relays - direct + 2).max())


def _groups(trees: RelayExchange) -> tuple[Int64Array, Int64Array]:
    """The different (root, block) pairs that have relays, and which of them each row is for."""
    pairs = np.stack([trees.relay_root.astype(np.int64), trees.relay_block], axis=1)
    found, group = np.unique(pairs, axis=0, return_inverse=True)
    return found, group.ravel()


def _relay_faults(trees: RelayExchange) -> list[str]:
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
    for what, first, used in (
        ("exit", trees.out_first, made),
        ("entry", trees.in_first, blocks.sum() - blocks),
    ):
        faults += [
            f"child {wrong} has {first[wrong, -1]} {what} units; trees take {used[wrong] * g}"
            for wrong in np.flatnonzero(first[:, -1] != used * g)[:1]
        ]
    return faults
