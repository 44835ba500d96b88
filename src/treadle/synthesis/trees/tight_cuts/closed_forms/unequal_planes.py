"""Closed form of an outermost piece with several planes that serve its children unequally.

Most children have equally many trees; others are few, such as ranks that failures cut off from their boxes.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array, positions_of, sums_of
from treadle.context import context
from treadle.schedules.factored import PlaneTrees, Subproblem
from treadle.synthesis.trees.tight_cuts.closed_forms.boundary_runs import boundary_runs, side_tables
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_allocation import Changes, plane_allocation
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_relays import Meetings, deliveries
from treadle.synthesis.trees.tight_cuts.closed_forms.unit_order import (
    MOST_PLACES,
    Recipe,
    Side,
    own_first,
    positions_in_turn,
    tree_groups,
)
from treadle.synthesis.trees.tight_cuts.subproblems import Cutting, LocalSubproblem
from treadle.unsupported import Unsupported

_MOST_UNUSUAL = 4  # at most every fourth child has another number of trees than most


def plane_trees(
    piece: LocalSubproblem, cutting: Cutting, solved: dict[int, Subproblem], block: int
) -> PlaneTrees | Unsupported:
    """The trees of the outermost piece if most children have equally many and send straight, or why not.

    Parameters
    ----------
    piece, cutting, solved, block, watch
        As of `treadle.synthesis.trees.tight_cuts.closed_forms.equal_children.circulant_trees`.

    Notes
    -----
    Source: docs/algorithms/decomposition.md, proposition 14, lemma 15 and what follows them. Trees of ranks
    that leave by the same plane stand together, so that most trees leave by their own rank.
    """
    n = piece.n_children
    if piece.has_outside or n < 2:
        return Unsupported("it is not the outermost piece")
    values, counts = np.unique(piece.native, return_counts=True)
    trees = int(values[np.argmax(counts)])
    if not trees or n - counts.max() > n // _MOST_UNUSUAL:
        return Unsupported("its children have unequal numbers of trees")
    if trees > MOST_PLACES:
        return Unsupported(f"{trees} trees of a child are too many to list the place of each")
    if np.any((piece.tails < n) & (piece.heads < n)):
        return Unsupported("some links join two children")
    out, into = (
        Side.of(boundary_runs(piece, cutting, solved, leaving=leaving), n) for leaving in (True, False)
    )
    total = int(piece.native.sum())
    if np.any(into.units != total - piece.native) or int(out.units.sum()) != total * (n - 1):
        return Unsupported("its children do not need just what enters and leaves them")
    if np.any(out.units % block) or np.any(out.units < piece.native):
        return Unsupported("some child cannot be left by all its trees")
    planes = np.unique(np.concatenate([out.runs.plane, into.runs.plane]))
    on_plane = [np.searchsorted(planes, side.runs.plane) for side in (out, into)]
    sums = [
        sums_of((n, len(planes)), (side.runs.owner, plane), side.runs.units)
        for side, plane in zip((out, into), on_plane, strict=True)
    ]
    if np.any(sums[0].sum(axis=0) != sums[1].sum(axis=0)):
        return Unsupported("a relay has unequal capacity in and out")
    others = deliveries(piece.native // block, out.units // block, Meetings(sums[0] > 0, sums[1] > 0))
    if isinstance(others, Unsupported):
        return others
    root, child, by = (end.astype(np.int64) for end in (others.root, others.child, others.by))
    units = np.repeat([-block, block], len(root))
    changes = Changes.of(np.concatenate([root, by]), np.concatenate([child, child]), units, n)
    shares = plane_allocation(sums[0], sums[1], piece.native, changes)
    if isinstance(shares, Unsupported):
        return shares
    groups = [one for one in tree_groups(cutting, solved, piece.native, 1) if one.sum() == trees]
    sizes = groups[0] if len({one.tobytes() for one in groups}) == 1 else np.array([trees])
    context().report("units of children", 0, n)
    # suppliers in the order of the planes by which they mostly send
    supplier = np.minimum(out.runs.supplier, len(sizes) - 1)
    supplied = sums_of((len(sizes), len(planes)), (supplier, on_plane[0]), out.runs.units)
    turns = np.argsort(np.argmax(supplied, axis=1), kind="stable")
    needs = _needs(sums[0], sizes[turns])
    leaving = out.columns(_recipes(out, planes, turns, needs), out.units)
    entering = into.columns(_recipes(into, planes, turns, 0 * needs), into.units)
    return PlaneTrees(
        **side_tables(leaving, entering),
        native_units=piece.native,
        block=block,
        place=positions_in_turn(sizes, turns),
        group=shares.group,
        group_units=shares.group_units,
        pair_root=shares.pair_root,
        pair_child=shares.pair_child,
        pair_units=shares.pair_units,
        relay_root=others.root,
        relay_block=others.block,
        relay_child=others.child,
        relay_by=others.by,
    )


def _needs(sums: Int64Array, sizes: Int64Array) -> Int64Array:
    """Units that trees of suppliers (in their turns) send by each plane, about; (n, planes, suppliers)."""
    n = len(sums)
    stop = np.cumsum(sums, axis=1)[:, :, None]
    start = stop - sums[:, :, None]
    end = np.cumsum(sizes) * (n - 1)
    begin = end - sizes * (n - 1)
    needs: Int64Array = np.clip(np.minimum(stop, end) - np.maximum(start, begin), 0, None)
    return needs


def _recipes(side: Side, planes: Int64Array, turns: Int64Array, needs: Int64Array) -> list[Recipe]:
    """Runs of each owner, plane by plane, each plane's in the order of its suppliers' turns."""
    turn = positions_of(len(turns), turns)
    runs = side.runs
    turn_of = turn[np.minimum(runs.supplier, len(turns) - 1)]
    plane_of = np.searchsorted(planes, runs.plane)
    key = np.stack([turn_of, plane_of, runs.units], axis=1)
    bounds = side.start.tolist()
    known: dict[tuple[bytes, bytes], Recipe] = {}
    recipes = []
    for owner in range(len(side.units)):
        span = slice(bounds[owner], bounds[owner + 1])
        name = (key[span].tobytes(), needs[owner].tobytes())
        if name not in known:
            recipe: Recipe = []
            for plane in range(len(planes)):
                mine = np.flatnonzero(plane_of[span] == plane)
                mine = mine[np.argsort(turn_of[span][mine], kind="stable")]
                part = own_first(
                    needs[owner, plane].tolist(),
                    turn_of[span][mine].tolist(),
                    runs.units[span][mine].tolist(),
                )
                recipe += [(int(mine[run]), skip, units) for run, skip, units in part]
            known[name] = recipe
        recipes.append(known[name])
    return recipes
