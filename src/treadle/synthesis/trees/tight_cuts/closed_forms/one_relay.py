"""Direct construction of an outermost subproblem with one relay: children of any multiplicity, some helped by
others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np

from treadle.arrays import Int64Array, sums_of
from treadle.context import context
from treadle.schedules.factored import RelayTrees
from treadle.synthesis.trees.tight_cuts.closed_forms.boundary_runs import Outermost, side_tables
from treadle.synthesis.trees.tight_cuts.closed_forms.unit_order import (
    Recipe,
    Side,
    own_first,
)
from treadle.synthesis.trees.tight_cuts.subproblems import LocalSubproblem
from treadle.unsupported import Unsupported

_REPORTED = 1024  # steps between reports


def relay_trees(outer: Outermost) -> RelayTrees | Unsupported:
    """Return the trees of the outermost subproblem if one relay joins its children, or why there are none.

    A child gives away deliveries of those of its trees whose roots lack egress, and egress units are ordered
    so that a tree leaves by its own rank where possible (docs/proofs/decomposition.md, theorem 13).
    """
    local, n = outer.local, outer.local.n_children
    if np.any((local.tails >= n) & (local.heads >= n)):
        return Unsupported("its links do not all join a child and a relay")
    if len(outer.planes) != 1:
        return Unsupported("more than one relay joins its children")
    out, into = (Side.of(runs, n) for runs in (outer.out, outer.into))
    return trees_on_one_relay(local, outer.block, out, into, outer.groups(outer.block))


def trees_on_one_relay(
    local: LocalSubproblem, block: int, out: Side, into: Side, groups: list[Int64Array]
) -> RelayTrees | Unsupported:
    """Return the native trees of children by units that one relay joins, or why there are none.

    `block` divides the trees in all groups, which are the blocks of each child's own children in turn.
    """
    n, native = local.n_children, local.native
    needed = native.sum() - native
    if np.any(into.units < needed):
        return Unsupported("some child cannot be entered by all trees of others")
    blocks, exits = native // block, out.units // block
    if np.any(exits < blocks) or int(exits.sum()) < int(blocks.sum()) * (n - 1):
        return Unsupported("some child cannot be left by all its trees, or too few units leave all of them")
    given = given_away(blocks, exits, groups, out.by_supplier(groups, block))
    root, relayed, helper, count = assign_relays(blocks, exits, given)
    used = (blocks * (n - 1) - sums_of(n, root, count) + sums_of(n, helper, count)) * block
    bounds = np.searchsorted(root, np.arange(n + 1)).tolist()
    leaving: dict[tuple[bytes, ...], Recipe] = {}
    plain: dict[tuple[int, ...], Recipe] = {}
    recipes: list[Recipe] = []
    starts, runs = out.start.tolist(), out.units.tolist()
    for child, sizes in enumerate(groups):
        if not child % _REPORTED:
            context().report("units of children", child, n)
        span = slice(starts[child], starts[child + 1])
        if span.stop - span.start == 1:  # the only run is used in order
            recipes.append(plain.setdefault((runs[child],), [(0, 0, runs[child])]))
            continue
        mine = slice(bounds[child], bounds[child + 1])
        own = sizes * (n - 1)
        np.subtract.at(own, np.searchsorted(np.cumsum(sizes), relayed[mine], side="right"), count[mine])
        supplier, units = out.runs.supplier[span], out.runs.units[span]
        key = (own.tobytes(), supplier.tobytes(), units.tobytes())
        if key not in leaving:
            leaving[key] = own_first((own * block).tolist(), supplier.tolist(), units.tolist())
        recipes.append(leaving[key])
    entering, units_in = [], into.runs.units.tolist()
    for start, stop in pairwise(into.start.tolist()):
        sizes_in = tuple(units_in[start:stop])
        entering.append(plain.setdefault(sizes_in, [(run, 0, size) for run, size in enumerate(sizes_in)]))
    return RelayTrees(
        **side_tables(out.columns(recipes, used), into.columns(entering, needed)),
        native_units=native,
        block=block,
        relay_root=root.astype(np.int32),
        relay_block=relayed,
        relay_child=helper.astype(np.int32),
        relay_count=count,
    )


def given_away(
    blocks: Int64Array, exits: Int64Array, groups: list[Int64Array], supplied: list[Int64Array]
) -> list[list[tuple[int, int]]]:
    """Return the deliveries that each child's blocks give away: (block, number), blocks rising.

    A child has `blocks` blocks of trees, `groups` of its own children in turn; `exits` deliveries may leave
    it, `supplied` by each of these.
    """
    n = len(blocks)
    spread, lacks = cache(_spread), np.maximum(blocks * (n - 1) - exits, 0).tolist()
    return [
        spread(lack, tuple(sizes.tolist()), tuple(rooms.tolist()), n)
        for lack, sizes, rooms in zip(lacks, groups, supplied, strict=True)
    ]


def _spread(lack: int, sizes: Sequence[int], rooms: Sequence[int], n: int) -> list[tuple[int, int]]:
    """Return deliveries that blocks give away, at most n - 2 each: first as many as their own roots lack."""
    given: dict[int, int] = {}
    for only_own in (True, False):
        start = 0
        for size, room in zip(sizes, rooms, strict=True):
            short = max(0, size * (n - 1) - room) if only_own else lack
            for block in range(start, start + size):
                part = min(short, lack, n - 2 - given.get(block, 0))
                if part <= 0:
                    if min(short, lack) <= 0:
                        break
                    continue
                given[block] = given.get(block, 0) + part
                short -= part
                lack -= part
            start += size
    assert not lack
    return sorted(given.items())


def assign_relays(blocks: Int64Array, exits: Int64Array, given: list[list[tuple[int, int]]]) -> Int64Array:
    """Return helpers for all deliveries that blocks give away: root, block, helper, number; shape (4, rows).

    Each of `exits` is at least `blocks`, and in total there is egress for all deliveries. Blocks give away at
    most n - 2 each, and none of children that have spare egress.

    A helper whose spare egress does not suffice is joined by the next one if the root can send to both, or if
    it has no tree; otherwise it takes all, and one of its own trees gives away what it then lacks. Source:
    docs/proofs/decomposition.md, theorem 13.
    """
    n = len(blocks)
    spare = exits - blocks * (n - 1)
    helpers = np.flatnonzero(spare > 0).tolist()
    rest, own, turn = spare.tolist(), blocks.tolist(), 0
    rows: list[tuple[int, int, int, int]] = []
    queue = [(x, t, m) for x, items in enumerate(given) for t, m in items][::-1]
    while queue:
        if not len(queue) % _REPORTED:
            context().report("relays of children", len(rows), len(rows) + len(queue))
        root, block, wanted = queue.pop()
        direct, count = n - 1 - wanted, 0
        while wanted:
            helper = helpers[turn]
            room = rest[helper]
            overdraft = room < wanted and own[helper] > 0 and count + 2 > direct
            taken = wanted if overdraft else min(room, wanted)
            rows.append((root, block, helper, taken))
            wanted -= taken
            count += 1
            rest[helper] = max(0, room - taken)
            if taken > room:
                queue.append((helper, own[helper] - 1, taken - room))
            if not rest[helper]:
                turn += 1
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    # stable: helpers of a block stay in order
    return table[np.lexsort((table[:, 1], table[:, 0]))].T
