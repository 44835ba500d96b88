"""Fewer different trees at equal loads and height: swaps that make the trees of a root alike."""

from __future__ import annotations

import numpy as np

from treadle.engine import core, run_until
from treadle.synthesis.core_values.tree_values import RoutedForest, SearchLimits
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.packers.local_search import (
    from_routed_forest,
    link_units,
    packing_height,
    ranked_fabric,
    routed_forest,
)
from treadle.synthesis.trees.packers.tree_packing import Packing
from treadle.synthesis.trees.switch_removal import LogicalGraph

MAX_CELLS = 2**18
"""Trees times ranks up to which swaps are looked for: a second or two."""

_WORK_PER_CELL = 400


def gather_trees(
    problem: Instance, graph: LogicalGraph, packing: Packing, *, seed: int = 0
) -> tuple[LogicalGraph, Packing]:
    """The forest with fewer different trees, none higher than the highest was; itself if none were found.

    Parameters
    ----------
    problem : Instance
    graph : LogicalGraph
    packing : Packing
        Trees of the graph, within its capacities.
    seed : int
        Breaks ties. The same arguments give the same trees.

    Notes
    -----
    First, swaps between trees of two roots (as those of local search: no link's load changes), which
    raise the sum over roots, nodes and parents of the squares of units: so a node comes to hang on few
    different parents in the trees of a root. Then the trees of each root are made equal to one tree after the
    other: the one whose rarest edge is most frequent, breadth-first and within the height. From its root down
    every node gets its parent from a tree that can take the parent it has.
    """
    n, roots = len(problem.terminals), len(np.unique(packing.root))
    if len(packing.root) == roots or len(packing.root) * n > MAX_CELLS:
        return graph, packing
    limits = SearchLimits(
        height=packing_height(packing),
        max_work=_WORK_PER_CELL * len(packing.root) * n,
        max_cells=2 * MAX_CELLS,
        seed=seed,
    )
    fabric = ranked_fabric(problem, link_units(graph, len(problem.tails)))
    status, forest, _ = run_until(
        "equal trees",
        lambda control: core.gather_forest(fabric, routed_forest(problem, graph, packing), limits, control),
    )
    if status == 0:
        new_graph, gathered = from_routed_forest(problem, RoutedForest.of(forest))
        if len(gathered.root) < len(packing.root):
            return new_graph, gathered
    return graph, packing
