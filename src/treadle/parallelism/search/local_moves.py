"""Plans made better by changing one node at a time (iterated conditional modes) under the true objective.

A plan that exceeds the memory limit is led below it at a price per byte, first about what the weights of the
bound ask, then twice that and so on: a plan that at once took whatever saves most bytes would lose more time
than it must. At the end excess counts first and the objective second.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.arrays import BoolArray
from treadle.parallelism.search.factor_graph import FloatArray
from treadle.parallelism.search.minimax import Minimax
from treadle.parallelism.search.slices import Slice

LEAST_GAIN = 1e-9
"""Relative gain of a move worth making: less may be rounding, and go round in circles."""


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
    now = list(labels)
    if price > 0:
        for raised in range(6):
            _sweep(part, aim, now, price * 2.0**raised, n_sweeps)
            if aim.fits(part.graph.amounts(part.plan(now))):
                break
    _sweep(part, aim, now, np.inf, n_sweeps)
    return now


def _sweep(part: Slice, aim: Minimax, now: list[int], price: float, n_sweeps: int) -> None:
    """Moves at one price, infinity for excess first, until no node has a better state; changes `now`."""
    for _ in range(n_sweeps):
        changed = False
        amounts = part.graph.amounts(part.plan(now))  # anew in each pass: differences pile up rounding
        for node, size in enumerate(part.sizes):
            if size == 1:
                continue
            choices, allowed = part.choices(node, now)
            totals = amounts + (choices - choices[now[node]])
            best = _best(aim, totals, allowed, now[node], price)
            if best != now[node]:
                now[node], amounts, changed = best, totals[best], True
        if not changed:
            return


def _best(aim: Minimax, totals: FloatArray, allowed: BoolArray, old: int, price: float) -> int:
    values, excess = aim.values(totals), aim.excess(totals)
    values[~allowed] = np.inf
    excess[~allowed] = np.inf
    if np.isfinite(price):
        merit = values + price * excess
        best = int(merit.argmin())
        return best if merit[best] < merit[old] * (1 - LEAST_GAIN) else old
    best = int(np.lexsort((values, excess))[0])
    if excess[best] < excess[old] * (1 - LEAST_GAIN):
        return best
    return best if excess[best] <= excess[old] and values[best] < values[old] * (1 - LEAST_GAIN) else old
