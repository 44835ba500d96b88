"""Costs of a batch of Cayley digraphs of one group: the inner loop of the search.

Same numbers as `cayley_value`, from a multiplication table, all candidates side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.finder.searches.cayley_value import scaled_loads
from treadle.topologies.catalogue.finite_groups import FiniteGroup

Int16Array = NDArray[np.int16]


@dataclass(frozen=True)
class GroupTable:
    """A group of at most 32,767 elements with its multiplication table, 2 N^2 bytes, twice."""

    group: FiniteGroup

    @cached_property
    def products(self) -> Int16Array:
        """Entry (a, b) is a b."""
        group, n = self.group, self.group.order
        nodes = np.arange(n)
        # a = (x, 0)(0, y), so that N/k + k rows of products give all N rows by look-up.
        shifts = group.multiply((nodes[:: group.k])[:, None], nodes).astype(np.int16)
        turns = group.multiply(nodes[: group.k, None], nodes)
        return np.take(shifts, turns, axis=1).reshape(n, n)

    @cached_property
    def reversed_products(self) -> Int16Array:
        """Entry (a, b) is b a."""
        return np.ascontiguousarray(self.products.T)

    @cached_property
    def inverses(self) -> Int64Array:
        """Inverse of every element."""
        return self.group.inverse(np.arange(self.group.order))


def batch_distances(table: GroupTable, generators: Int64Array, most: int) -> Int16Array:
    """Return the distances from node 0 for each generator set, -1 where above `most` or not reached.

    Parameters
    ----------
    table : GroupTable
    generators : array of int64, shape (B, d)
    most : int
        Levels to explore.

    Returns
    -------
    array of int16, shape (B, N)
    """
    batch, n = len(generators), table.group.order
    distance = np.full((batch, n), -1, dtype=np.int16)
    flat = distance.reshape(-1)
    distance[:, 0] = 0
    left = np.full(batch, n - 1)
    rows, nodes = np.arange(batch), np.zeros(batch, dtype=np.int64)
    for level in range(1, most + 1):
        reached = rows * n + table.products[generators[rows].T, nodes]
        reached = reached[flat[reached] < 0]
        flat[reached] = level
        found = np.flatnonzero(flat == level)
        rows, nodes = np.divmod(found, n)
        left -= np.bincount(rows, minlength=batch)
        unfinished = left[rows] > 0
        rows, nodes = rows[unfinished], nodes[unfinished]
        if not rows.size:
            break
    return distance


def batch_costs(
    table: GroupTable, products: Int16Array, generators: Int64Array, distance: Int16Array
) -> Int64Array:
    """Return the sum of the loads over the steps times lcm(1, ..., d), for each generator set.

    Parameters
    ----------
    table : GroupTable
    products : array of int16, shape (N, N)
        `table.products` for the allgather, `table.reversed_products` for the reduce-scatter.
    generators : array of int64, shape (B, d)
    distance : array of int16, shape (B, N)
        Complete: no -1.

    Returns
    -------
    array of int64, shape (B,)
    """
    batch, d = generators.shape
    n = table.group.order
    usable = np.zeros((batch, n), dtype=np.int64)
    for link in range(d):
        closer = np.take_along_axis(
            distance, products[table.inverses[generators[:, link]]].astype(np.int64), 1
        )
        usable |= (closer == distance - 1).astype(np.int64) << link
    steps = int(distance.max()) + 1
    place = np.arange(batch)[:, None] * steps + distance
    counts = np.bincount((place << d | usable).ravel(), minlength=batch * steps << d)
    totals: Int64Array = scaled_loads(counts.reshape(batch, steps, 1 << d).astype(np.int64)).sum(axis=1)
    return totals
