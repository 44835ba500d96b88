"""Following of the parents of trees, for the checks that trees span.

Shares no code with the generators.
"""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int32Array, Int64Array


def follow_parents(
    parent: Int64Array | Int32Array, roots: Int64Array
) -> tuple[Int64Array | Int32Array, Int64Array]:
    """Return the last ancestor of each node and the number of edges to it, doubling the stride each time.

    Parameters
    ----------
    parent : array of integers, shape (trees, n)
        Negative for nodes without a parent.
    roots : array of int64, shape (trees, 1)
        Nodes whose parents are not followed.
    """
    nodes = np.arange(parent.shape[1])
    above = np.where((nodes == roots) | (parent < 0), nodes, parent)
    depth = (nodes != roots).astype(np.int64)
    for _ in range(len(nodes).bit_length()):
        if np.array_equal(above, np.broadcast_to(roots, above.shape)):
            break
        depth += np.take_along_axis(depth, above, axis=1)
        above = np.take_along_axis(above, above, axis=1)
    return above, depth
