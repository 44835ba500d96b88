"""Direct construction of an outermost subproblem with several planes of unequal bandwidth to its children.

Most children have equally many trees; others are few, such as ranks that failures cut off from their boxes.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array, positions_of, sums_of
from treadle.context import context
from treadle.schedules.factored import PlaneTrees
from treadle.synthesis.trees.tight_cuts.closed_forms.boundary_runs import Outermost, side_tables
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_allocation import Changes, plane_allocation
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_relays import Meetings, deliveries
from treadle.synthesis.trees.tight_cuts.closed_forms.unit_order import (
    MOST_PLACES,
    Recipe,
    Side,
    own_first,
    positions_in_turn,
)
from treadle.unsupported import Unsupported

_MOST_UNUSUAL = 4  # at most every fourth child has another number of trees than most


def plane_trees(outer: Outermost) -> PlaneTrees | Unsupported:
    """Return the trees of the outermost subproblem if most children have equally many, or why there are none.

    Trees of ranks that leave by the same plane are adjacent, so that most trees leave by their own rank.
    Source: docs/proofs/decomposition.md, proposition 14, lemma 15 and what follows them.
    """
    n, native, block = outer.local.n_children, outer.local.native, outer.block
    values, counts = np.unique(native, return_counts=True)
    trees, total = int(values[np.argmax(counts)]), int(native.sum())
    if not trees or n - counts.max() > n // _MOST_UNUSUAL:
        return Unsupported("its children have unequal numbers of trees")
    if trees > MOST_PLACES:
        return Unsupported(f"{trees} trees of a child are too many to list the place of each")
    out, into = (Side.of(runs, n) for runs in (outer.out, outer.into))
    if np.any(into.units != total - native) or int(out.units.sum()) != total * (n - 1):
        return Unsupported("its children do not need just what enters and leaves them")
    if np.any(out.units % block) or np.any(out.units < native):
        return Unsupported("some child cannot be left by all its trees")
    planes, sums = outer.planes, outer.sums
    if np.any(sums[0].sum(axis=0) != sums[1].sum(axis=0)):
        return Unsupported("a relay has unequal capacity in and out")
    others = deliveries(native // block, out.units // block, Meetings(sums[0] > 0, sums[1] > 0))
    if isinstance(others, Unsupported):
        return others
    root, child, by = (end.astype(np.int64) for end in (others.root, others.child, others.by))
    units = np.repeat([-block, block], len(root))
    changes = Changes.of(np.concatenate([root, by]), np.concatenate([child, child]), units, n)
    shares = plane_allocation(*sums, native, changes)
    if isinstance(shares, Unsupported):
        return shares
    groups = [group for group in outer.groups(1) if group.sum() == trees]
    sizes = groups[0] if len({group.tobytes() for group in groups}) == 1 else np.array([trees])
    context().report("units of children", 0, n)
    # suppliers in the order of the planes by which they mostly send
    supplier = np.minimum(out.runs.supplier, len(sizes) - 1)
    cells = supplier, np.searchsorted(planes, out.runs.plane)
    supplied = sums_of((len(sizes), len(planes)), cells, out.runs.units)
    turns = np.argsort(np.argmax(supplied, axis=1), kind="stable")
    needs = _needs(sums[0], sizes[turns])
    leaving = out.columns(_recipes(out, planes, turns, needs), out.units)
    entering = into.columns(_recipes(into, planes, turns, 0 * needs), into.units)
    return PlaneTrees(
        **side_tables(leaving, entering),
        native_units=native,
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
    """Return about how many units trees of suppliers, in turn, send by each plane; (n, planes, suppliers)."""
    n = len(sums)
    stop = np.cumsum(sums, axis=1)[:, :, None]
    start = stop - sums[:, :, None]
    end = np.cumsum(sizes) * (n - 1)
    begin = end - sizes * (n - 1)
    needs: Int64Array = np.clip(np.minimum(stop, end) - np.maximum(start, begin), 0, None)
    return needs


def _recipes(side: Side, planes: Int64Array, turns: Int64Array, needs: Int64Array) -> list[Recipe]:
    """Return the runs of each owner by plane, then by the turns of their suppliers."""
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
