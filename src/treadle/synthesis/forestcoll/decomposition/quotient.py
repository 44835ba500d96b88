"""A fabric with node sets contracted to points: what the search for sets works on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array
from treadle.synthesis.forestcoll.instance import Instance


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
        is_point = np.zeros(problem.n_nodes, dtype=bool)
        is_point[problem.terminals] = True
        weight = np.zeros(problem.n_nodes, dtype=np.int64)
        weight[problem.terminals] = problem.weights
        keep = problem.tails != problem.heads
        return Quotient(
            np.arange(problem.n_nodes, dtype=np.int32),
            is_point,
            weight,
            problem.tails[keep],
            problem.heads[keep],
            problem.bandwidths[keep],
        )

    @property
    def n_nodes(self) -> int:
        """Points and relays that are in no set."""
        return len(self.is_point)

    @cached_property
    def _pairs(self) -> tuple[Int64Array, Int64Array]:
        """Joined pairs of nodes as keys, both ways round, and each link's place among them."""
        n = self.n_nodes
        tails, heads = self.tails.astype(np.int64), self.heads.astype(np.int64)
        keys, place = np.unique(np.concatenate([tails * n + heads, heads * n + tails]), return_inverse=True)
        return keys, place

    @cached_property
    def neighbours(self) -> tuple[Int64Array, Int64Array]:
        """Each joined pair of nodes, both ways round."""
        return np.divmod(self._pairs[0], self.n_nodes)

    @cached_property
    def widths(self) -> Int64Array:
        """Bandwidth between each pair of `neighbours`, both directions together."""
        keys, place = self._pairs
        both = np.concatenate([self.bandwidths, self.bandwidths])
        return np.bincount(place, weights=both, minlength=len(keys)).astype(np.int64)

    @cached_property
    def entering(self) -> Int64Array:
        """b-(v) of each node."""
        total = np.zeros(self.n_nodes, dtype=np.int64)
        np.add.at(total, self.heads, self.bandwidths)
        return total

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
        weight = np.zeros(size, dtype=np.int64)
        np.add.at(weight, number, self.weight)
        tails, heads = number[self.tails], number[self.heads]
        keep = tails != heads
        return Quotient(number[self.point], is_point, weight, tails[keep], heads[keep], self.bandwidths[keep])
