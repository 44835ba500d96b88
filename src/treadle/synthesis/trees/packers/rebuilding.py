"""Reduce tree heights in a digraph: entire trees are rebuilt in the free capacity that the others leave."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.engine import core, run_until
from treadle.synthesis.core_values.tree_values import SearchLimits, TreeRows
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.packers.local_search import MAX_CELLS, default_steps, packing_height
from treadle.synthesis.trees.packers.tree_packing import Packing, rank_arcs, tree_rows
from treadle.synthesis.trees.switch_removal import LogicalGraph

_SPLIT = 4
"""Parts, on average, that trees with large multiplicities are split into at most."""


@dataclass(frozen=True)
class RebuiltTrees:
    """A packing after the search.

    Parameters
    ----------
    packing : Packing
    before, after : int
        Heights in hops.
    regrown, swaps, splits : int
        Trees rebuilt, arcs that trees took from others, and trees split in two.
    work : int
        Steps.
    """

    packing: Packing
    before: int
    after: int
    regrown: int = 0
    swaps: int = 0
    splits: int = 0
    work: int = 0


def rebuild_trees(
    problem: Instance, graph: LogicalGraph, packing: Packing, *, lowest: int = 1, max_work: int | None = None
) -> RebuiltTrees:
    """Reduce the height of a packing within the capacities of its graph; the height never increases.

    The search ends at the height bound `lowest`, or after `max_work` steps, by default `default_steps`.

    A tree that is removed can be rebuilt in the free capacity that the others leave, breadth-first: its
    height is as small as it can be for these others. For a limit of the height this is done with all trees
    above it. Full arcs that would have reduced a node's depth become expensive, and trees within the limit
    are rebuilt by hops and prices as long as they stay within it. What is left takes single full arcs from
    trees that find another path. The limit falls by a quarter of what is above the bound at a time.
    """
    before = packing_height(packing)
    n, trees = len(problem.terminals), len(packing.root)
    if before <= lowest or trees * n > MAX_CELLS:
        return RebuiltTrees(packing, before, before)
    limits = SearchLimits(
        height=lowest,
        max_work=default_steps(packing) if max_work is None else max_work,
        max_cells=min(MAX_CELLS, _SPLIT * trees * n),
        seed=0,
    )
    rows, (first, after, *counts) = run_until(
        "growing trees anew",
        lambda control: core.regrow_forest(n, rank_arcs(problem, graph), tree_rows(packing), limits, control),
    )
    assert first == before
    lower = packing if after == before else Packing.by_root(TreeRows(*rows), n)
    return RebuiltTrees(lower, before, after, *counts)
