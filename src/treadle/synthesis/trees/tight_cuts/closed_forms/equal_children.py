"""Direct construction of the outermost subproblem: equal children that send directly to each other."""

from __future__ import annotations

import math

import numpy as np

from treadle.arrays import Int64Array, sums_of
from treadle.context import context
from treadle.schedules.factored import CirculantTrees, Subproblem
from treadle.synthesis.trees.tight_cuts.closed_forms.boundary_runs import (
    BoundaryRuns,
    boundary_columns,
    boundary_runs,
    side_tables,
)
from treadle.synthesis.trees.tight_cuts.near_egress import near_egress
from treadle.synthesis.trees.tight_cuts.subproblems import Cutting, LocalSubproblem
from treadle.unsupported import Unsupported


def circulant_trees(
    piece: LocalSubproblem, cutting: Cutting, solved: dict[int, Subproblem], block: int
) -> CirculantTrees | Unsupported:
    """The trees of the outermost subproblem if its children are equal and joined by relays alone, or why not.

    Parameters
    ----------
    piece : LocalSubproblem
        Class of subproblem 0.
    cutting : Cutting
    solved : mapping of kind to Subproblem
        Of the children that are sets.
    block : int
        Divides the native unit trees of every rank.

    Raises
    ------
    TimeLimitError
        When the deadline passed.

    Notes
    -----
    Units are ordered by the child's child that supplies them, so that a unit tree leaves a box, where it can,
    by the rank that is its root, else by ranks near to it. If the planes (relays) do not agree in that order,
    they come first.
    """
    n = piece.n_children
    if piece.has_outside or n < 2 or len(np.unique(piece.native)) != 1:
        return Unsupported("its children have unequal numbers of trees")
    native = int(piece.native[0])
    if np.any((piece.tails < n) & (piece.heads < n)):  # links between relays are not needed
        return Unsupported("some links join two children")
    out, into = (boundary_runs(piece, cutting, solved, leaving=leaving) for leaving in (True, False))
    for runs in (out, into):
        totals = np.bincount(runs.owner, weights=runs.units, minlength=n)
        if np.any(totals != native * (n - 1)):
            return Unsupported("its children do not need just what enters and leaves them")
        planes, place = np.unique(runs.plane, return_inverse=True)
        # some child has no unit on some plane, or not as many as the others
        if (
            n * len(planes) > len(runs.owner)
            or np.ptp(sums_of((n, len(planes)), (runs.owner, place.ravel()), runs.units), axis=0).any()
        ):
            return Unsupported("its planes carry unequal bandwidth to the children")
    out, block = _near_first(out, cutting, solved, n - 1, block)
    for plane_first in (False, True):
        context().report("units of equal children", int(plane_first), 2)
        tables = [boundary_columns(runs, n, plane_first=plane_first) for runs in (out, into)]
        steps = {step for table in tables for step in table[3]}
        if len(steps) == 1:
            columns = side_tables(*(table[:3] for table in tables))
            return CirculantTrees(n_children=n, native_units=native, block=block, **columns)
    return Unsupported("its planes carry unequal bandwidth to the children")


def _near_first(
    runs: BoundaryRuns, cutting: Cutting, solved: dict[int, Subproblem], deliveries: int, block: int
) -> tuple[BoundaryRuns, int]:
    """Egress of sets whose ranks do not all supply their own trees, in the order of `near_egress`.

    `supplier` is the place in that order then, and blocks are as small as different trees require. The runs
    are those of `boundary_runs`, in its order.
    """
    codes = cutting.children[: int(cutting.child_offset[1])]
    kinds = cutting.kind[~codes[codes < 0].astype(np.int64)]
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
            place = np.tile(np.arange(len(row)), count)
            parts.append(np.stack([rows.ravel(), *np.tile([skip, units], count), place]))
        begin += size * count
    row, skip, units, place = np.concatenate(parts, axis=1)
    if len(row) == len(runs.owner) and not skip.any() and np.array_equal(place, runs.supplier):
        return runs, block
    offset = runs.offset[row] + skip
    owner, inner, link, plane = (some[row] for some in (runs.owner, runs.inner_link, runs.link, runs.plane))
    return BoundaryRuns(owner, place, inner, link, offset, units, plane), block
