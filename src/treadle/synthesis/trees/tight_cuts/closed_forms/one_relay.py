"""Closed form of an outermost piece with one relay: children of any multiplicity, some helped by others."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array, sums_of
from treadle.context import context
from treadle.schedules.factored import RelayTrees, Subproblem
from treadle.synthesis.trees.tight_cuts.closed_forms.boundary_runs import boundary_runs, side_tables
from treadle.synthesis.trees.tight_cuts.closed_forms.unit_order import (
    Recipe,
    Side,
    own_first,
    tree_groups,
)
from treadle.synthesis.trees.tight_cuts.subproblems import Cutting, LocalSubproblem
from treadle.unsupported import Unsupported

_BEAT = 1024  # steps between looks at the clock


def relay_trees(
    piece: LocalSubproblem, cutting: Cutting, solved: dict[int, Subproblem], block: int
) -> RelayTrees | Unsupported:
    """The trees of the outermost piece if one relay joins its children, or why not.

    Parameters
    ----------
    piece, cutting, solved, block, watch
        As of `treadle.synthesis.trees.tight_cuts.closed_forms.equal_children.circulant_trees`.

    Notes
    -----
    Source: docs/algorithms/decomposition.md, theorem 13. A child gives away deliveries of those of its trees
    whose roots lack exits, and exit units are ordered so that a tree leaves by its own rank, where it can.
    """
    n = piece.n_children
    if piece.has_outside or n < 2:
        return Unsupported("it is not the outermost piece")
    if np.any((piece.tails < n) == (piece.heads < n)):
        return Unsupported("its links do not all join a child and a relay")
    if len(np.unique(np.maximum(piece.tails, piece.heads))) != 1:
        return Unsupported("more than one relay joins its children")
    out, into = (
        Side.of(boundary_runs(piece, cutting, solved, leaving=leaving), n) for leaving in (True, False)
    )
    groups = tree_groups(cutting, solved, piece.native // block, block)
    return trees_on_one_relay(piece, block, out, into, groups)


def trees_on_one_relay(
    piece: LocalSubproblem, block: int, out: Side, into: Side, groups: list[Int64Array]
) -> RelayTrees | Unsupported:
    """The trees of children, as many as `piece.native`, by units that one relay joins, or why there are none.

    Parameters
    ----------
    piece : LocalSubproblem
    block : int
        Divides the trees in all groups.
    out, into : Side
        What leaves and enters the children.
    groups : list of arrays of int64
        For each child the blocks of each of its own children, one after the other.
    """
    n = piece.n_children
    needed = piece.native.sum() - piece.native
    if np.any(into.units < needed):
        return Unsupported("some child cannot be entered by all trees of others")
    blocks, exits = piece.native // block, out.units // block
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
        if not child % _BEAT:
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
    entering = []
    units_in, starts_in = into.runs.units.tolist(), into.start.tolist()
    for child in range(n):
        sizes_in = tuple(units_in[starts_in[child] : starts_in[child + 1]])
        entering.append(plain.setdefault(sizes_in, [(run, 0, size) for run, size in enumerate(sizes_in)]))
    return RelayTrees(
        **side_tables(out.columns(recipes, used), into.columns(entering, needed)),
        native_units=piece.native,
        block=block,
        relay_root=root.astype(np.int32),
        relay_block=relayed,
        relay_child=helper.astype(np.int32),
        relay_count=count,
    )


def given_away(
    blocks: Int64Array, exits: Int64Array, groups: list[Int64Array], supplied: list[Int64Array]
) -> list[list[tuple[int, int]]]:
    """Deliveries that each child's blocks give away: (block, how many), blocks rising.

    Parameters
    ----------
    blocks : array of int64, shape (n,)
        Blocks of trees of each child.
    exits : array of int64, shape (n,)
        Deliveries that may leave it.
    groups : list of arrays of int64
        For each child the blocks of each of its own children, one after the other.
    supplied : list of arrays of int64
        For each child the deliveries that may leave it by each of these.
    """
    n = len(blocks)
    known: dict[tuple[int, bytes, bytes], list[tuple[int, int]]] = {}
    found: list[list[tuple[int, int]]] = []
    for lack, sizes, rooms in zip((blocks * (n - 1) - exits).tolist(), groups, supplied, strict=True):
        key = (lack, sizes.tobytes(), rooms.tobytes())
        if key not in known:
            known[key] = _spread(lack, sizes.tolist(), rooms.tolist(), n) if lack > 0 else []
        found.append(known[key])
    return found


def _spread(lack: int, sizes: list[int], rooms: list[int], n: int) -> list[tuple[int, int]]:
    """Deliveries that blocks give away, at most n - 2 each: first as many as their own roots lack."""
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
    """Children with spare exits for all deliveries that blocks give away.

    Parameters
    ----------
    blocks, exits : arrays of int64, shape (n,)
        ``exits >= blocks``, and in all as many exits as deliveries, or more.
    given : list of lists of (block, deliveries)
        At most n - 2 for a block, and nothing of children that have spare exits.

    Notes
    -----
    Source: docs/algorithms/decomposition.md, theorem 13. A relay whose spare exits do not suffice is joined
    by the next one if the root can send to both, or if it has no tree; otherwise it takes all, and one of its
    own trees gives away what it lacks then.
    """
    n = len(blocks)
    spare = exits - blocks * (n - 1)
    helpers = np.flatnonzero(spare > 0).tolist()
    rest = spare.tolist()
    own = blocks.tolist()
    rows: list[tuple[int, int, int, int]] = []
    place = 0
    queue = [(x, t, m) for x, items in enumerate(given) for t, m in items][::-1]
    while queue:
        if not len(queue) % _BEAT:
            context().report("relays of children", len(rows), len(rows) + len(queue))
        root, block, wanted = queue.pop()
        direct, count = n - 1 - wanted, 0
        while wanted:
            helper = helpers[place]
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
                place += 1
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    # stable: relays of a block stay in order
    return table[np.lexsort((table[:, 1], table[:, 0]))].T
