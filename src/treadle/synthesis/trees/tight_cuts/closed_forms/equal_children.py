"""Direct construction of the outermost subproblem: equal children that send directly to each other."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from treadle.arrays import Int64Array, sums_of
from treadle.context import context
from treadle.schedules.factored import CirculantTrees
from treadle.synthesis.trees.tight_cuts.closed_forms.boundary_runs import (
    BoundaryRuns,
    Outermost,
    boundary_columns,
    side_tables,
)
from treadle.synthesis.trees.tight_cuts.near_egress import near_egress
from treadle.unsupported import Unsupported


def circulant_trees(outer: Outermost) -> CirculantTrees | Unsupported:
    """Return the trees of the outermost subproblem if its children are equal, or why there are none.

    Units are ordered by the child's child that supplies them, so that a unit tree leaves a box by the rank
    that is its root where possible, else by ranks near to it. If the planes (relays) do not agree in that
    order, they come first.
    """
    n, natives = outer.local.n_children, outer.local.native
    if len(np.unique(natives)) != 1:
        return Unsupported("its children have unequal numbers of trees")
    native = int(natives[0])
    for runs in (outer.out, outer.into):
        totals = np.bincount(runs.owner, weights=runs.units, minlength=n)
        if np.any(totals != native * (n - 1)):
            return Unsupported("its children do not need just what enters and leaves them")
        planes, plane = np.unique(runs.plane, return_inverse=True)
        # some child has no unit on some plane, or not as many as the others
        if (
            n * len(planes) > len(runs.owner)
            or np.ptp(sums_of((n, len(planes)), (runs.owner, plane.ravel()), runs.units), axis=0).any()
        ):
            return Unsupported("its planes carry unequal bandwidth to the children")
    out, block = _near_first(outer, n - 1)
    for plane_first in (False, True):
        context().report("units of equal children", int(plane_first), 2)
        tables = [boundary_columns(runs, n, plane_first=plane_first) for runs in (out, outer.into)]
        if len({step for table in tables for step in table[3]}) == 1:
            columns = side_tables(*(table[:3] for table in tables))
            return CirculantTrees(n_children=n, native_units=native, block=block, **columns)
    return Unsupported("its planes carry unequal bandwidth to the children")


def _near_first(outer: Outermost, deliveries: int) -> tuple[BoundaryRuns, int]:
    """Return the egress of sets whose ranks do not all supply their own trees, in the order of `near_egress`.

    `supplier` is then the position in that order, and blocks are as small as different trees require.
    """
    runs, solved, block, codes = outer.out, outer.solved, outer.block, outer.cutting.children_of(0)
    kinds = outer.cutting.kind[~codes[codes < 0].astype(np.int64)]
    # the runs of ranks come first, then those of sets by kind
    begin = len(runs.owner) - sum(len(solved[kind].exits.link) for kind in kinds.tolist())

    def unchanged(row: Int64Array) -> Int64Array:
        return np.stack([row, np.zeros_like(row), runs.units[row], runs.supplier[row]])

    parts = [unchanged(np.arange(begin))]
    for kind, count in zip(*(some.tolist() for some in np.unique(kinds, return_counts=True)), strict=True):
        size = len(solved[kind].exits.link)
        order = near_egress(solved[kind], deliveries)
        if order is None:
            parts.append(unchanged(np.arange(begin, begin + size * count)))
        else:
            row, skip, units = order[0].T
            block = math.gcd(block, order[1])
            rows = (begin + size * np.arange(count))[:, None] + row
            position = np.tile(np.arange(len(row)), count)
            parts.append(np.stack([rows.ravel(), *np.tile([skip, units], count), position]))
        begin += size * count
    row, skip, units, position = np.concatenate(parts, axis=1)
    if len(row) == len(runs.owner) and not skip.any() and np.array_equal(position, runs.supplier):
        return runs, block
    chosen = BoundaryRuns(*(column[row] for column in vars(runs).values()))
    return replace(chosen, supplier=position, offset=chosen.offset + skip, units=units), block
