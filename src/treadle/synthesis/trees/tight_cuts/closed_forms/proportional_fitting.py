"""Traffic between children behind a relay: tables of given sums, in proportion to both ends.

Iterative proportional fitting (Deming and Stephan 1940) leads to row and column sums that are given by
scaling both sides in turn; the table is rounded down, what is missing is assigned greedily, and alternating
paths mend the rest. Source: docs/algorithms/decomposition.md, section 6.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.synthesis.trees.tight_cuts.closed_forms.plane_tables import mend

_ROUNDS = 200
_NEAR = 1e-9


def fitted_table(out: Int64Array, into: Int64Array) -> Int64Array | None:
    """A table of these sums of rows and columns, near to u_x v_y, 0 on its diagonal; None if none is found.

    Parameters
    ----------
    out, into : arrays of int64, shape (n,)
        Of equal sum.

    Raises
    ------
    TimeLimitError
        When the deadline passed.

    Notes
    -----
    Source: docs/algorithms/decomposition.md, section 6. Iterative proportional fitting, without the
    diagonal; what the floors leave goes row by row to the columns that lack most (Gale and Ryser), and
    alternating paths mend what the diagonal spoils.
    """
    n = len(out)
    wanted = _proportional(out, into)
    table = np.floor(wanted + _NEAR).astype(np.int64)
    np.fill_diagonal(table, 0)
    rows, columns = out - table.sum(axis=1), into - table.sum(axis=0)
    barred = (into == 0) | (columns <= 0)
    for x in np.argsort(-rows, kind="stable").tolist():
        if rows[x] <= 0 or not out[x]:
            continue
        lack = np.where(barred, -1.0, columns + 0.5 * (wanted[x] - table[x]))
        lack[x] = -1
        best = np.argsort(-lack, kind="stable")[: int(rows[x])]
        best = best[columns[best] > 0]
        best = best[best != x]
        table[x, best] += 1
        columns[best] -= 1
        rows[x] -= len(best)
    most = int(max(out.max(initial=0), 1))
    room = np.where(np.outer(out > 0, into > 0), most, 0)
    np.fill_diagonal(room, 0)
    return table if n < 2 or mend(table, rows, columns, room) else None


def _proportional(out: Int64Array, into: Int64Array) -> NDArray[np.floating]:
    """u_x v_y off the diagonal, with these row and column sums as far as they converge."""
    u, v = out.astype(float), into / max(1.0, float(into.sum()))
    for _ in range(_ROUNDS):
        old = v
        u = np.where(out > 0, out / np.maximum(v.sum() - v, _NEAR), 0)
        v = np.where(into > 0, into / np.maximum(u.sum() - u, _NEAR), 0)
        if np.all(np.abs(v - old) <= _NEAR * v):
            break
    u = np.where(out > 0, out / np.maximum(v.sum() - v, _NEAR), 0)
    table = np.outer(u, v)
    np.fill_diagonal(table, 0)
    return table
