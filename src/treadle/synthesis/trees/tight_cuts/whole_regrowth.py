"""Factored forests that are much higher than they must be, written out and made lower as a whole.

Trees of pieces are low inside each piece, but their heights add up at every border that a path crosses.
Written out, trees may use whatever capacity is left anywhere. Source: docs/algorithms/decomposition.md,
section 7, and docs/algorithms/packers.md, "Growing trees anew".
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treadle.schedules.factored import FactoredForest, Piece, expand, no_crossings
from treadle.synthesis.trees.fixed_trees import floor_capacities
from treadle.synthesis.trees.heights import lowest_height
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.packers.regrowth import regrow_trees
from treadle.synthesis.trees.packers.tree_packing import from_forest, to_forest
from treadle.synthesis.trees.switch_removal import remove_switches
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.layer_solution import KindReport, layer_of
from treadle.synthesis.trees.tight_cuts.piece_tables import local_instance, table_of
from treadle.synthesis.trees.tight_cuts.pieces import cut
from treadle.verification.factored.height import forest_height

_MOST_RANKS = 1536
"""Beyond, trees written out take too much time and memory."""


def regrow_whole(
    problem: Instance,
    forest: FactoredForest,
    kinds: tuple[KindReport, ...],
    scale: Fraction,
    *,
    times: int = 2,
) -> tuple[FactoredForest, tuple[KindReport, ...]]:
    """A factored forest of one piece, the whole fabric, if that of several pieces is high.

    Parameters
    ----------
    problem : Instance
        Of the forest's direction.
    forest : FactoredForest
    kinds : tuple of KindReport
        Who made the pieces.
    scale : Fraction
        Capacity units per byte/s.
    times : int
        Forests of at most so many times the bound stay as they are.

    Returns
    -------
    tuple of (FactoredForest, tuple of KindReport)
        What was given if it is low enough, nothing is lower, the fabric has relays or too many ranks.

    Notes
    -----
    What every piece keeps to in the factored forest, that its border be tight, is not asked for here: trees
    grow anew in all of the fabric's capacity.
    """
    n = len(problem.terminals)
    if len(problem.relays) or n > _MOST_RANKS:
        return forest, kinds
    capacities = floor_capacities(problem.bandwidths, scale)
    lowest = lowest_height(problem, forest.root_multiplicity, capacities)
    if forest_height(forest.layers).hops <= times * lowest:
        return forest, kinds
    cutting = cut(problem, Family.from_levels(problem.n_nodes, ()), capacities, forest.root_multiplicity)
    (local,) = cutting.kinds
    fabric = local_instance(local)
    graph = remove_switches(fabric, local.capacity, local.native)
    _, packing = from_forest(problem, expand(forest, range(n)))
    found = regrow_trees(fabric, graph, packing, lowest=lowest)
    if found.after >= found.before:
        return forest, kinds
    table = table_of(to_forest(fabric, graph, found.packing), np.zeros(len(local.tails), dtype=np.int64))
    piece = Piece(local.capacity, local.native, table, no_crossings(), no_crossings())
    packers = " and ".join(dict.fromkeys(kind.packer for kind in kinds))
    layers = (layer_of(cutting, [piece]),)
    report = KindReport(1, n, 0, f"{packers}, grown anew")
    return FactoredForest(forest.direction, forest.root_multiplicity, layers), (report,)
