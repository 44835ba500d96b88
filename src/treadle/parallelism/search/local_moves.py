"""Plans made better by changing one node at a time (iterated conditional modes) under the true objective.

A plan that exceeds the memory limit is led below it at a price per byte, first about what the weights of the
bound ask, then more and more: a plan that immediately took whatever saves most bytes would lose more time
than it must. At the end excess counts first and the objective second.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.engine import core
from treadle.parallelism.search.minimax import Minimax
from treadle.parallelism.search.slices import Slice


def improved(
    part: Slice, aim: Minimax, labels: Sequence[int], *, price: float = 0.0, n_sweeps: int = 10
) -> list[int]:
    """Change one node at a time while a plan of the slice gets better.

    Parameters
    ----------
    labels : sequence of int
        An allowed plan, as places in the slice's domains.
    price : float
        Objective per unit of excess to begin with; 0 where none is known.
    n_sweeps : int
        Most passes over all nodes at each price.
    """
    now, tables = np.array(labels, dtype=np.int32), part.graph.pair_tables
    if price > 0:
        for raised in range(12):
            now = core.improve_plan(
                tables, part.core_domains, aim.core_forms, now, price * 1.4**raised, n_sweeps
            )
            if aim.fits(part.graph.amounts(part.plan(now.tolist()))):
                break
    now = core.improve_plan(tables, part.core_domains, aim.core_forms, now, np.inf, n_sweeps)
    return [int(label) for label in now]
