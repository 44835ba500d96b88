"""Colour refinement of directed graphs, and orbits of permutations.

Colours are 64-bit hashes; sums of hashes stand for multisets. Nodes of different colours differ; the converse
is not claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array

Hashes = NDArray[np.uint64]

_OUT, _IN, LINK = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xD6E8FEB86659FD93),
    np.uint64(0xA0761D6478BD642F),
)


def hashed(values: Hashes) -> Hashes:
    """Return the hash of each word; different words have different hashes."""
    return scramble(values + _OUT)


def scramble(values: Hashes) -> Hashes:
    """Apply the finaliser of splitmix64 (Steele, Lea and Flood, 2014) in place: a bijection."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        values ^= values >> np.uint64(shift)
        values *= np.uint64(factor)
    values ^= values >> np.uint64(31)
    return values


@dataclass(frozen=True, eq=False)
class RunSums:
    """Sums of values over the runs of equal keys."""

    order: Int64Array | None
    starts: Int64Array
    keys: Int64Array
    size: int

    @classmethod
    def by(cls, keys: Int64Array, size: int) -> RunSums:
        """Prepare sums for these keys, which are below `size`."""
        order = None if (keys[1:] >= keys[:-1]).all() else np.argsort(keys, kind="stable")
        ordered = keys if order is None else keys[order]
        fresh = np.ones(len(keys), dtype=np.bool_)
        fresh[1:] = ordered[1:] != ordered[:-1]
        starts = np.flatnonzero(fresh)
        return cls(order, starts, ordered[starts], size)

    def __call__(self, values: Hashes) -> Hashes:
        """Return the sum of each key's values, shape (size,)."""
        total = np.zeros(self.size, dtype=np.uint64)
        if len(self.starts):
            total[self.keys] = np.add.reduceat(
                values if self.order is None else values[self.order], self.starts
            )
        return total


@dataclass(frozen=True, eq=False)
class Refinement:
    """The rounds of colour refinement on a digraph.

    Parameters
    ----------
    tails, heads : arrays of int64, shape (P,)
    n_places : int
    """

    tails: Int64Array
    heads: Int64Array
    n_places: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "_out", RunSums.by(self.tails, self.n_places))
        object.__setattr__(self, "_in", RunSums.by(self.heads, self.n_places))

    def pairs(self, places: Hashes, links: Hashes) -> Hashes:
        """Colours of pairs from those of their ends and `links`, shape (P,)."""
        found = scramble(places ^ _OUT)[self.tails]
        found += scramble(places ^ _IN)[self.heads]
        found += links
        return scramble(found)

    def refine_positions(self, places: Hashes, pairs: Hashes) -> Hashes:
        """Colours of places after the next round."""
        out: Hashes = self._out(pairs)  # type: ignore[attr-defined]
        into: Hashes = self._in(pairs)  # type: ignore[attr-defined]
        return scramble(places * LINK + scramble(out * _OUT) + into * _IN)

    def stable(self, places: Hashes, links: Hashes) -> tuple[Hashes, Hashes]:
        """Stable colours of places and pairs, given colours of pairs that stay."""
        count = len(np.unique(places))
        while True:
            pairs = self.pairs(places, links)
            finer = self.refine_positions(places, pairs)
            found = len(np.unique(finer))
            if found == count:
                return places, pairs
            places, count = finer, found


def orbits(n: int, maps: Sequence[NDArray[np.integer]]) -> Int64Array:
    """Return the smallest member of the orbit of each of `n` things under permutations, shape (n,).

    Labels travel along each permutation in steps of 1, 2, 4, ..., so that long cycles take few rounds.

    Examples
    --------
    >>> orbits(4, [[0, 2, 1, 3]]).tolist()
    [0, 1, 1, 3]
    """
    label = np.arange(n, dtype=np.int64)
    while True:
        before = label.copy()
        for given in maps:
            power = step = np.asarray(given, dtype=np.int64)
            # powers of two of a permutation lead round a whole cycle in a logarithm of its length
            while not np.array_equal(label, label[step]):
                label = np.minimum(label, label[power])
                power = power[power]
        if np.array_equal(before, label):
            return label


def join_orbits(label: Int64Array, permutation: Int64Array) -> Int64Array:
    """Return orbits that also join what a further permutation joins."""
    cycle = orbits(len(label), [permutation])
    while True:
        before = label
        # a class reaches into cycles, and a cycle into classes, from any of its members
        for group in (cycle, before):
            lowest = np.full(len(label), len(label), dtype=np.int64)
            np.minimum.at(lowest, group, label)
            label = lowest[group]
        if np.array_equal(before, label):
            return label
