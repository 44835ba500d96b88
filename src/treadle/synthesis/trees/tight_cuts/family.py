"""Laminar families of node sets, and the subproblems that they split a flow problem into.

Any two sets of a family are disjoint or nested. Contracting what lies outside of a set, and each largest set
inside it, leaves its subproblem; the cut condition holds for the fabric if and only if it holds in every
subproblem, if all sets are tight (Theorem 5). Source: docs/proofs/decomposition.md, sections 2 and 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, sums_of


@dataclass(frozen=True, eq=False)
class Family:
    """Sets of nodes, any two of them nested or apart; number 0 is the whole fabric.

    Parameters
    ----------
    outer : array of int32, shape (s,)
        The smallest set around each one, of a smaller number; -1 at number 0.
    innermost : array of int32, shape (n,)
        The smallest set that holds each node.
    """

    outer: Int32Array
    innermost: Int32Array

    @staticmethod
    def from_levels(n_nodes: int, levels: Sequence[Int32Array]) -> Family:
        """Partial partitions of the nodes (-1: in no set), from the inside out, each a union of the last."""
        innermost = np.zeros(n_nodes, dtype=np.int32)
        outer = [np.array([-1], dtype=np.int32)]
        placed = 1
        for level in reversed(levels):  # from the outside in: later sets lie within earlier ones
            inside = np.flatnonzero(level >= 0)
            count = int(level.max(initial=-1)) + 1
            around = np.zeros(count, dtype=np.int32)
            around[level[inside]] = innermost[inside]
            outer.append(around)
            innermost[inside] = placed + level[inside]
            placed += count
        return Family(np.concatenate(outer), innermost).compact()

    @property
    def n_sets(self) -> int:
        """Number of sets, the whole fabric among them."""
        return len(self.outer)

    @cached_property
    def depth(self) -> Int32Array:
        """Number of sets around each one, shape (s,)."""
        depth = np.zeros(self.n_sets, dtype=np.int32)
        place = self.outer.copy()
        while np.any(place >= 0):
            depth[place >= 0] += 1
            place = np.where(place >= 0, self.outer[place], -1).astype(np.int32)
        return depth

    @cached_property
    def ancestors(self) -> Int32Array:
        """The set of each depth that holds each node, -1 where there is none, shape (levels, n)."""
        levels = int(self.depth.max()) + 1
        table = np.full((levels, len(self.innermost)), -1, dtype=np.int32)
        place = self.innermost.copy()
        nodes = np.arange(len(place))
        while (live := place >= 0).any():
            table[self.depth[place[live]], nodes[live]] = place[live]
            place = np.where(live, self.outer[np.maximum(place, 0)], -1).astype(np.int32)
        return table

    def without(self, dropped: BoolArray) -> Family:
        """The family without some sets; their nodes belong to the sets around them."""
        place = np.arange(self.n_sets, dtype=np.int32)
        while (gone := dropped[place]).any():
            place = np.where(gone, self.outer[place], place).astype(np.int32)
        number = (np.cumsum(~dropped) - 1).astype(np.int32)
        # the last number is for what set 0 lies in: nothing
        outer = np.append(number, -1)[np.append(place, -1)[self.outer[~dropped]]]
        return Family(outer.astype(np.int32), number[place[self.innermost]])

    def compact(self) -> Family:
        """The family without sets that hold just what one set within them holds."""
        own = np.bincount(self.innermost, minlength=self.n_sets)
        inner = np.bincount(self.outer[1:], minlength=self.n_sets)
        single = (own == 0) & (inner == 1)
        # set 0 is the whole fabric, whatever it holds
        single[0] = False
        return self.without(single) if single.any() else self

    def members(self, number: int) -> Int32Array:
        """Nodes of a set."""
        return np.flatnonzero(self.ancestors[self.depth[number]] == number).astype(np.int32)

    def sums(self, values: Int64Array) -> Int64Array:
        """Sum of node values over each set, shape (s,)."""
        rows, nodes = np.nonzero(self.ancestors >= 0)
        return sums_of(self.n_sets, self.ancestors[rows, nodes], values[nodes])
