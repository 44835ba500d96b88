"""A fabric with node sets contracted to points: what the search for sets works on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Int32Array, Int64Array, mask_of, sums_of
from treadle.synthesis.trees.instance import Instance


@dataclass(frozen=True)
class Quotient:
    """The fabric with sets contracted: points are terminals or sets.

    Parameters
    ----------
    point : array of int32, shape (n,)
        Quotient node of each node of the fabric.
    is_point : array of bool, shape (q,)
    weight : array of int64, shape (q,)
        w of each quotient node.
    tails, heads, bandwidths : arrays, shape (m',)
        Links between different quotient nodes.
    """

    point: Int32Array
    is_point: BoolArray
    weight: Int64Array
    tails: Int32Array
    heads: Int32Array
    bandwidths: Int64Array

    @staticmethod
    def of(problem: Instance) -> Quotient:
        """A fabric with nothing contracted."""
        keep = problem.tails != problem.heads
        return Quotient(
            np.arange(problem.n_nodes, dtype=np.int32),
            mask_of(problem.n_nodes, problem.terminals),
            sums_of(problem.n_nodes, problem.terminals, problem.weights),
            problem.tails[keep],
            problem.heads[keep],
            problem.bandwidths[keep],
        )

    @property
    def n_nodes(self) -> int:
        """Points and relays that are in no set."""
        return len(self.is_point)

    @cached_property
    def _pairs(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Joined pairs of nodes, both ways round, and the bandwidth of both directions together; by node."""
        low, high = np.minimum(self.tails, self.heads), np.maximum(self.tails, self.heads)
        pair = low.astype(np.int64) * self.n_nodes + high
        order = np.argsort(pair, kind="stable")
        pair = pair[order]
        starts = np.flatnonzero(np.diff(pair, prepend=-1))
        width = np.add.reduceat(self.bandwidths[order], starts) if len(starts) else self.bandwidths
        low, high = np.divmod(pair[starts], self.n_nodes)
        one, other = np.concatenate([low, high]), np.concatenate([high, low])
        order = np.argsort(one, kind="stable")
        return one[order], other[order], np.concatenate([width, width])[order]

    @property
    def neighbours(self) -> tuple[Int64Array, Int64Array]:
        """Each joined pair of nodes, both ways round; the first ones rise."""
        return self._pairs[:2]

    @property
    def widths(self) -> Int64Array:
        """Bandwidth between each pair of `neighbours`, both directions together."""
        return self._pairs[2]

    @cached_property
    def joined_pairs(self) -> tuple[Int64Array, Int64Array]:
        """Each joined pair of a switch and a point."""
        one, other = self.neighbours
        serves = np.flatnonzero(self.is_point[other] & ~self.is_point[one])
        return one[serves], other[serves]

    @cached_property
    def entering(self) -> NDArray[np.float64]:
        """b-(v) of each node; sums of many links may exceed 64 bits."""
        total = np.bincount(self.heads, weights=self.bandwidths, minlength=self.n_nodes)
        return total.astype(np.float64)

    def need(self, labels: Int32Array) -> float | None:
        """Mean of (W - w(X)) / b-(X) over the sets of a candidate level."""
        count = int(labels.max(initial=-1)) + 1
        if not count:
            return None
        inside = labels >= 0
        weight = np.bincount(labels[inside], weights=self.weight[inside], minlength=count)
        head, tail = labels[self.heads], labels[self.tails]
        enters = (head >= 0) & (head != tail)
        entering = np.bincount(head[enters], weights=self.bandwidths[enters], minlength=count)
        if np.any(entering == 0):
            return None
        return float(np.mean((self.weight.sum() - weight) / entering))

    def contracted(self, labels: Int32Array) -> Quotient:
        """The quotient with the sets of a candidate level as points."""
        count = int(labels.max()) + 1
        outside = labels < 0
        number = np.where(outside, count + np.cumsum(outside) - 1, labels).astype(np.int32)
        size = count + int(outside.sum())
        is_point = np.ones(size, dtype=bool)
        is_point[number[outside]] = self.is_point[outside]
        weight = sums_of(size, number, self.weight)
        tails, heads = number[self.tails], number[self.heads]
        keep = tails != heads
        return Quotient(number[self.point], is_point, weight, tails[keep], heads[keep], self.bandwidths[keep])
