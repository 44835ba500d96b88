"""Trees of small height routed directly on the physical network: no switch removal or packing; fast,
incomplete."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from treadle.arrays import Int64Array
from treadle.engine import core, run_core
from treadle.synthesis.core_values.tree_values import RoutedForest
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.packers.local_search import MAX_CELLS, from_routed_forest, ranked_fabric
from treadle.synthesis.trees.packers.tree_packing import Packing
from treadle.synthesis.trees.switch_removal import LogicalGraph

HEIGHTS = 3
"""Heights that are tried by default, from the bound on."""

ROUNDS = 30
"""Rounds of ripping up overloaded edges, at each height."""

WORK = 10**8
"""Steps after which a height is given up; counted, not timed, so results do not vary."""

_OK = 0


@dataclass(frozen=True)
class HeightFirst:
    """Outcome of height-first packing.

    Parameters
    ----------
    graph : LogicalGraph, optional
        The paths in use; None if no height succeeded.
    packing : Packing, optional
    outcome : str
        Height and work, or why no height succeeded.
    """

    graph: LogicalGraph | None
    packing: Packing | None
    outcome: str


def pack_height_first(
    problem: Instance, capacities: Int64Array, multiplicities: Int64Array, *, heights: range
) -> HeightFirst:
    """Route r(v) spanning out-trees rooted at each terminal, within the first of the heights that succeeds.

    In every tree the ranks join by their distance from the root, switch by switch; the first rank below a
    switch differs from tree to tree. A rank's parent is a rank at one of its small switches, the root or
    one of a few others, by the path whose links are cheapest: (1 + 3 load / capacity) / capacity, and more
    where a link is overloaded or was so in earlier rounds. Edges over overloaded links are ripped up and
    rerouted, as in negotiated congestion routing (L. McMurchie and C. Ebeling, "PathFinder", FPGA 1995).
    """
    n, trees = len(problem.terminals), int(multiplicities.sum())
    if trees * n > MAX_CELLS or n >= 2**16 - 1:
        return HeightFirst(None, None, f"not tried: {trees} unit trees of {n} ranks are too many")
    fabric = ranked_fabric(problem, capacities)
    left = 0
    for height in heights:
        status, forest, (overload, rounds, reroutes, _) = run_core(
            "height-first", partial(core.low_forest, fabric, multiplicities, height, ROUNDS, WORK, 0)
        )
        if status == _OK:
            outcome = f"made the forest: height {height}, {reroutes} edges rerouted in {rounds} rounds"
            return HeightFirst(*from_routed_forest(problem, RoutedForest.of(forest)), outcome)
        left = overload
    if not heights:
        return HeightFirst(None, None, "not tried: no forest is lower")
    reason = f"{left} units too many on their links" if left else "some rank finds no path"
    return HeightFirst(None, None, f"failed: {reason} at height {heights[-1]}")
