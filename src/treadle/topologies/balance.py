"""Largest capacities below given ones that balance some nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import highspy
import numpy as np

from treadle.arrays import Int32Array, Int64Array


def balanced_capacities(
    tails: Int32Array, heads: Int32Array, capacities: Int64Array, nodes: Sequence[int]
) -> Int64Array:
    """Lower capacities as little as possible in total so that each of `nodes` has as much in as out.

    Parameters
    ----------
    tails, heads : arrays of int32, shape (m,)
    capacities : array of int64, shape (m,)
    nodes : sequence of int
        Nodes to balance; the others stay as they are.

    Returns
    -------
    array of int64, shape (m,)

    Notes
    -----
    A linear program over a network matrix, so its vertices are integral; it is solved in floats scaled to the
    largest capacity, so differences below about 1e-9 of that may be lost: callers check the balance exactly.
    """
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    m = len(capacities)
    scale = max(1, int(capacities.max(initial=1)))
    upper = capacities / scale
    solver.addVars(m, np.zeros(m), upper.astype(np.float64))
    for column in range(m):
        solver.changeColCost(column, -1.0)
    for node in nodes:
        out = np.flatnonzero((tails == node) & (heads != node))
        into = np.flatnonzero((heads == node) & (tails != node))
        index = np.concatenate([out, into]).astype(np.int32)
        value = np.concatenate([np.ones(len(out)), -np.ones(len(into))])
        solver.addRow(0.0, 0.0, len(index), index, value)
    solver.run()
    solution = np.array(solver.getSolution().col_value)
    lowered: Int64Array = np.minimum(np.rint(solution * scale).astype(np.int64), capacities)
    return lowered
