"""Lower trees of a digraph: whole trees are grown anew in the room that the others leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
        Trees grown anew, arcs that trees took from others, and trees cut in two.
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
    problem: Instance,
    graph: LogicalGraph,
    packing: Packing,
    *,
    lowest: int = 1,
    max_work: int | None = None,
    seed: int = 0,
) -> RebuiltTrees:
    """The packing made lower within the capacities of its graph; never higher than it was.

    Parameters
    ----------
    problem : Instance
    graph : LogicalGraph
    packing : Packing
        Trees of the graph, within its capacities.
    lowest : int
        A bound of the height: the search ends when it is met.
    max_work : int, optional
        Steps; default as in local search, `default_steps`.
    seed : int
        Breaks ties. The same arguments give the same trees.

    Notes
    -----
    A tree that is taken out can be grown again in the room that the others leave, breadth-first: it is as low
    as it can be for these others. For a limit of the height this is done with all trees above it. Full arcs
    that would have lifted a node become dear, and trees within the limit are grown anew by hops and prices as
    long as they stay within it. What is left takes single full arcs from trees that find another way. Limits
    fall by a quarter of what is above the bound at a time.
    """
    before = packing_height(packing)
    n, trees = len(problem.terminals), len(packing.root)
    if before <= lowest or trees * n > MAX_CELLS:
        return RebuiltTrees(packing, before, before)
    limits = SearchLimits(
        height=lowest,
        max_work=default_steps(packing) if max_work is None else max_work,
        max_cells=min(MAX_CELLS, _SPLIT * trees * n),
        seed=seed,
    )
    rows, (first, after, regrown, swaps, splits, work) = run_until(
        "growing trees anew",
        lambda control: core.regrow_forest(n, rank_arcs(problem, graph), tree_rows(packing), limits, control),
    )
    assert first == before
    if after == before:
        return RebuiltTrees(packing, before, after, regrown, swaps, splits, work)
    lower = TreeRows(*rows)
    order = np.argsort(lower.root, kind="stable")
    parents = lower.parent.reshape(len(order), n)[order]
    lowered = Packing(lower.root[order], lower.multiplicity[order], parents, speculative=0, exact=0)
    return RebuiltTrees(lowered, before, after, regrown, swaps, splits, work)
