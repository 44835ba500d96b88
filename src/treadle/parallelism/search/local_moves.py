"""Plans made better by changing one node at a time (iterated conditional modes) under the true objective.

Excess over the memory limit counts first and the objective second, so that a plan that does not fit first
learns to.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.parallelism.search.minimax import Minimax
from treadle.parallelism.search.slices import Slice


def improved(part: Slice, aim: Minimax, labels: Sequence[int], *, n_sweeps: int = 10) -> list[int]:
    """Change one node at a time while a plan of the slice gets better.

    Parameters
    ----------
    labels : sequence of int
        An allowed plan, as places in the slice's domains.
    n_sweeps : int
        Most passes over all nodes.
    """
    now = list(labels)
    amounts = part.graph.amounts(part.plan(now))
    for _ in range(n_sweeps):
        changed = False
        for node, size in enumerate(part.sizes):
            if size == 1:
                continue
            choices, allowed = part.choices(node, now)
            totals = amounts + (choices - choices[now[node]])
            values, excess = aim.values(totals), aim.excess(totals)
            values[~allowed] = np.inf
            excess[~allowed] = np.inf
            order = np.lexsort((values, excess))
            best, old = int(order[0]), now[node]
            gains = excess[old] - excess[best] > 1e-9 * max(aim.limit if np.isfinite(aim.limit) else 0.0, 1.0)
            if gains or (excess[best] <= excess[old] and values[best] < values[old] * (1 - 1e-9)):
                now[node] = best
                amounts = part.graph.amounts(part.plan(now))  # anew: differences would pile up rounding
                changed = True
        if not changed:
            break
    return now
