"""Egress and ingress units of an outermost subproblem's children, in the order in which trees by formula use
them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, offsets_of, sums_of
from treadle.schedules.factored.subproblem_trees import ragged
from treadle.synthesis.trees.tight_cuts.closed_forms.boundary_runs import BoundaryRuns

Recipe = list[tuple[int, int, int]]
"""Parts of an owner's runs in the order in which they are used: (run, units skipped, units)."""

MOST_PLACES = 2**23
"""Unit trees up to which forms list a place for each; some hundred bytes a tree while they are made."""


@dataclass(frozen=True)
class Side:
    """Runs of units that leave (or enter) n children, by owner, supplier and inner link.

    Parameters
    ----------
    runs : BoundaryRuns
    start : array of int64, shape (n + 1,)
        First run of each owner.
    units : array of int64, shape (n,)
        Units of each owner.
    """

    runs: BoundaryRuns
    start: Int64Array
    units: Int64Array

    @staticmethod
    def of(runs: BoundaryRuns, n: int, chosen: BoolArray | None = None) -> Side:
        """Runs in any order; those chosen."""
        order = np.lexsort((runs.offset, runs.link, runs.inner_link, runs.supplier, runs.owner))
        order = order if chosen is None else order[chosen[order]]
        runs = BoundaryRuns(**{key: column[order] for key, column in vars(runs).items()})
        start = np.searchsorted(runs.owner, np.arange(n + 1))
        before = offsets_of(runs.units)
        return Side(runs, start, np.diff(before[start]))

    def by_supplier(self, groups: list[Int64Array], block: int) -> list[Int64Array]:
        """Blocks of units by each child of each owner."""
        spans = (slice(*ends) for ends in pairwise(self.start.tolist()))
        totals = self.units // block
        return [
            sums_of(len(sizes), self.runs.supplier[mine], self.runs.units[mine]) // block
            if len(sizes) > 1
            else totals[owner : owner + 1]
            for owner, (sizes, mine) in enumerate(zip(groups, spans, strict=True))
        ]

    def columns(self, recipes: list[Recipe], used: Int64Array) -> tuple[Int32Array, Int64Array, Int64Array]:
        """Links, first units and offsets of each owner's columns: its runs by its recipe, `used` units."""
        n = len(recipes)
        width = max(max(len(recipe) for recipe in recipes), 1)
        links = np.zeros((n, width), dtype=np.int32)
        offsets, sizes = np.zeros((2, n, width), dtype=np.int64)
        alike: dict[int, list[int]] = {}
        for owner, recipe in enumerate(recipes):
            alike.setdefault(id(recipe), []).append(owner)
        for owners in alike.values():
            run, skip, units = np.array(recipes[owners[0]], dtype=np.int64).reshape(-1, 3).T
            rows = self.start[owners][:, None] + run
            links[owners, : len(run)] = self.runs.link[rows]
            offsets[owners, : len(run)] = self.runs.offset[rows] + skip
            sizes[owners, : len(run)] = units
        return links, np.minimum(offsets_of(sizes), used[:, None]), offsets


def positions_in_turn(sizes: Int64Array, turns: Int64Array) -> Int64Array:
    """Place of each tree if groups of these sizes come in these turns."""
    begin = np.empty_like(sizes)
    begin[turns] = np.cumsum(sizes[turns]) - sizes[turns]
    return ragged(begin, sizes)


def own_first(own: list[int], supplier: list[int], units: list[int]) -> Recipe:
    """Parts of runs: for each supplier in turn what its own trees need of its runs, then all the rest.

    Parameters
    ----------
    own : list of int
        Units that the trees of each supplier take.
    supplier, units : lists of int
        Of the runs, suppliers rising.

    Notes
    -----
    What a supplier's own runs lack is taken at its turn from the runs that have units to spare.
    """
    rest = list(units)
    supplied = [0] * len(own)
    for one, size in zip(supplier, units, strict=True):
        supplied[one] += size
    surplus = [max(0, have - need) for have, need in zip(supplied, own, strict=True)]
    recipe: Recipe = []

    def take(run: int, wanted: int) -> int:
        part = min(wanted, rest[run])
        skip = units[run] - rest[run]
        rest[run] -= part
        if part and recipe and recipe[-1][0] == run:
            recipe[-1] = (run, recipe[-1][1], recipe[-1][2] + part)  # a run is always used in order
        elif part:
            recipe.append((run, skip, part))
        return wanted - part

    for turn, need in enumerate(own):
        wanted = need
        for run, one in enumerate(supplier):
            if one == turn:
                wanted = take(run, wanted)
        for run, one in enumerate(supplier):
            part = min(wanted, surplus[one])
            left = take(run, part)
            surplus[one] -= part - left
            wanted -= part - left
    for run in range(len(units)):
        take(run, rest[run])
    return recipe
