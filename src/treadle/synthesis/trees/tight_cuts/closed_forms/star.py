"""The simplest subproblem: one relay joins all children, which can send their trees directly to most
others."""

from __future__ import annotations

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, offsets_of, sums_of
from treadle.synthesis.core_values.tree_values import TreeRows
from treadle.synthesis.trees.packers.tree_packing import Packing
from treadle.synthesis.trees.switch_removal import LogicalGraph, logical_graph
from treadle.synthesis.trees.tight_cuts.proportion import in_proportion, quotas
from treadle.synthesis.trees.tight_cuts.subproblems import LocalSubproblem


def star_trees(local: LocalSubproblem) -> tuple[LogicalGraph, Packing] | None:
    """Return arcs and trees of a subproblem whose children can send their unit trees directly; else None.

    The cut condition must hold. With r'(y) = native and entering units at child y, n children and R' = sum of
    r', the links of y to and from the relay need r'(y) (n - 1) and R' - r'(y) units. Nothing has to be split
    then: an arc y -> x through the relay has r'(y) units, and what crosses the boundary does so on the
    children's own links, or on those of the relay (`_shared_border`). A child that lacks units leaves a
    delivery of some trees to children that have units to spare (`_helpers`).
    """
    n = local.n_children
    relays = np.unique(np.concatenate([local.tails, local.heads]))
    relays = relays[(relays >= n) & (relays < n + local.n_relays)]
    if len(relays) != 1 or n < 2:
        return None
    relay = int(relays[0])
    out = _sums(local, local.tails, local.heads == relay)
    into = _sums(local, local.heads, local.tails == relay)
    crossing = np.flatnonzero((local.tails != relay) & (local.heads != relay))
    ends = np.maximum(local.tails[crossing], local.heads[crossing])
    if len(crossing) and (not local.has_outside or np.any(ends != local.outside)):
        return None  # links between children
    inwards = crossing[local.tails[crossing] == local.outside]
    units = local.native + sums_of(n, local.heads[inwards], local.capacity[inwards])
    entering, leaving = (int(side[n:].sum()) for side in (out, into))
    room = out[:n] - units * (n - 1)
    helpers = np.zeros((4, 0), dtype=np.int64)
    if entering or leaving:
        shared = _shared_border(local.native, units, room, entering, leaving)
        if shared is None:
            return None
        left, entered = shared
    elif room.sum() < 0 or np.any(room + units < 0) or (n < 3 and room.min() < 0):
        return None
    else:
        left = entered = np.zeros(n, dtype=np.int64)
        helpers = _helpers(room)
    if np.any(into[:n] < local.total - units):
        return None
    tail, head = np.nonzero(~np.eye(n, dtype=bool))
    away = np.full(n, local.outside)
    tail, head = np.concatenate([tail, np.arange(n), away]), np.concatenate([head, away, np.arange(n)])
    between = np.repeat((units + entered)[:, None], n, axis=1)
    owner, helper, child, count = helpers
    np.subtract.at(between, (owner, child), count)
    np.add.at(between, (helper, child), count)
    sizes = np.concatenate([between[~np.eye(n, dtype=bool)], left, entered])
    some = np.flatnonzero(sizes)
    arc, first, last, size = _assigned(local, relay, tail[some], head[some], sizes[some])
    lengths = np.concatenate([np.full(len(arc), 2), np.ones(len(crossing), dtype=np.int64)])
    graph = logical_graph(
        np.concatenate([tail[some][arc], local.tails[crossing]]),
        np.concatenate([head[some][arc], local.heads[crossing]]),
        np.concatenate([size, local.capacity[crossing]]),
        np.arange(len(lengths)),
        offsets_of(lengths),
        np.concatenate([np.stack([first, last], axis=1).ravel(), crossing]).astype(np.int32),
    )
    return graph, star_packing(units + entered, helpers)


def _helpers(room: Int64Array) -> Int64Array:
    """Return deliveries that children leave to others, rows: root child, helper, receiving child, trees.

    `room` is what each child can send beyond its own trees' deliveries, less than 0 where it lacks units.
    """
    n = len(room)
    stops = [np.cumsum(np.maximum(side, 0)) for side in (-room, room)]
    stop = np.unique(np.concatenate(stops))
    stop = stop[(stop > 0) & (stop <= stops[0][-1])]
    owner, helper = (np.searchsorted(side, stop) for side in stops)
    child = (helper + 1) % n
    child = np.where(child == owner, (child + 1) % n, child)
    return np.stack([owner, helper, child, np.diff(stop, prepend=0)])


def _sums(local: LocalSubproblem, ends: Int32Array, chosen: BoolArray) -> Int64Array:
    """Return the capacity of the chosen links by their ends: children, then the outside if there is one."""
    sums = sums_of(local.n_nodes, ends[chosen], local.capacity[chosen])
    return np.concatenate([sums[: local.n_children], sums[local.n_children + local.n_relays :]])


def _shared_border(
    native: Int64Array, units: Int64Array, room: Int64Array, entering: int, leaving: int
) -> tuple[Int64Array, Int64Array] | None:
    """Return units of the relay's outside links that each child supplies, and takes in; or None.

    A child with d entered and x leaving units sends (units + d) (n - 1) + x. It supplies what its native
    trees take of what leaves, as far as it can, and takes in what it can pass on then.
    """
    n = len(units)
    if room.min() < 0:
        return None
    own = in_proportion(native, np.full(n, leaving), np.full(n, max(1, int(native.sum()))))
    entered, rest = np.divmod(np.maximum(room - own, 0), n - 1)
    more = entering - int(entered.sum())
    if more > 0:  # take in one more each, where least is missing for it
        order = np.argsort(-rest, kind="stable")
        entered[order[(entered[order] + 1) * (n - 1) <= room[order]][:more]] += 1
    elif more < 0:
        stop = np.cumsum(entered)
        entered = np.diff(in_proportion(stop, np.full(n, entering), np.full(n, stop[-1])), prepend=0)
    room = room - entered * (n - 1)
    left = np.minimum(own, room)
    lack = leaving - int(left.sum())
    before = np.cumsum(room - left) - (room - left)
    left += np.clip(lack - before, 0, room - left)
    return (left, entered) if left.sum() == leaving and entered.sum() == entering else None


def _assigned(
    local: LocalSubproblem, relay: int, tail: Int64Array, head: Int64Array, units: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array, Int64Array]:
    """Cut arcs through the relay into parts of one link each way: arc, both links, units."""
    cuts = [np.stack([np.arange(len(tail)), np.zeros(len(tail), dtype=np.int64)])]
    sides = []
    for node, ends, chosen in (
        (tail, local.tails, local.heads == relay),
        (head, local.heads, local.tails == relay),
    ):
        used = sums_of(local.n_nodes, node, units)
        links = np.flatnonzero(chosen)
        links = links[np.argsort(ends[links], kind="stable")]
        stop = np.cumsum(quotas(local.capacity[links], ends[links], used))
        order = np.argsort(node, kind="stable")
        start = np.empty_like(units)
        start[order] = np.cumsum(units[order]) - units[order]
        place = np.searchsorted(start[order], stop, side="right") - 1
        arc = order[place]
        cuts.append(np.stack([arc, stop - start[arc]]))
        sides.append((links, stop, start))
    arc, skip = np.unique(np.concatenate(cuts, axis=1), axis=1)
    kept = skip < units[arc]
    arc, skip = arc[kept], skip[kept]
    ends_at = np.where(np.append(arc[1:] != arc[:-1], True), units[arc], np.append(skip[1:], 0))
    first, last = (
        links[np.searchsorted(stop, start[arc] + skip, side="right")] for links, stop, start in sides
    )
    return arc, first, last, ends_at - skip


def star_packing(multiplicities: Int64Array, helpers: Int64Array) -> Packing:
    """Return a weighted star for every child with unit trees, and one for each helper (see `_helpers`)."""
    n = len(multiplicities)
    owner, helper, child, count = helpers
    own = multiplicities - sums_of(n, owner, count)
    some = np.flatnonzero(own)
    root = np.concatenate([some, owner]).astype(np.int32)
    parent: Int32Array = np.repeat(root[:, None], n, axis=1)
    parent[np.arange(len(root)), root] = -1
    parent[len(some) + np.arange(len(owner)), child] = helper
    return Packing.by_root(TreeRows(root, np.concatenate([own[some], count]), parent), n)
