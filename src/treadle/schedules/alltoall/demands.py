"""Demands of an all-to-all: the amount of data from each rank to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, frozen
from treadle.errors import ScheduleError
from treadle.notebook import displayed, own_repr

MAX_DEMAND = 2**20
"""Largest entry."""


@displayed(own_repr)
@dataclass(frozen=True, eq=False)
class Demands:
    """Relative amounts of data between ranks.

    Parameters
    ----------
    matrix : array of int64, shape (N, N)
        Row i: data of rank i for each rank, 0 to 2**20. The diagonal stays at the rank and counts only in the
        size of the buffer. At least one entry off the diagonal is positive.

    Raises
    ------
    ScheduleError
        If any of the above does not hold.

    Examples
    --------
    >>> Demands([[0, 3], [1, 0]]).buffer_units
    3
    """

    matrix: Int64Array

    def __post_init__(self) -> None:
        raw = np.asarray(self.matrix)
        if raw.dtype.kind not in "iu":
            raise ScheduleError(f"demands: expected integers, found {raw.dtype}; scale the matrix")
        if raw.ndim != 2 or raw.shape[0] != raw.shape[1] or raw.shape[0] < 2:
            raise ScheduleError(
                f"demands: expected a square matrix of at least 2 ranks, found shape {raw.shape}"
            )
        entries = raw if any(raw.strides) else raw[:1, :1]
        least, most = entries.min(), entries.max()
        if least < 0 or most > MAX_DEMAND:
            raise ScheduleError("demands: entries must be integers from 0 to 2**20")
        equal = np.broadcast_to(frozen(entries[0, 0], np.int64), raw.shape)
        object.__setattr__(self, "matrix", equal if least == most else frozen(raw, np.int64))
        if not len(self.senders):
            raise ScheduleError("demands: no rank has data for another; expected a positive entry")

    @property
    def n_ranks(self) -> int:
        """N."""
        return len(self.matrix)

    @property
    def is_uniform(self) -> bool:
        """Whether all entries are equal; then the matrix needs no memory."""
        return not any(self.matrix.strides)

    @property
    def between(self) -> Int64Array:
        """Matrix with a diagonal of zeros: data that crosses the fabric, shape (N, N)."""
        return self.rows(np.arange(self.n_ranks))

    def rows(self, ranks: NDArray[np.integer] | Sequence[int]) -> Int64Array:
        """Return rows of `between`, shape (len(ranks), N)."""
        found: Int64Array = self.matrix[ranks]
        found[np.arange(len(ranks)), ranks] = 0
        return found

    @property
    def senders(self) -> Int64Array:
        """Ranks that have data for others."""
        if self.is_uniform:
            return np.arange(self.n_ranks if self.matrix[0, 0] else 0)
        return np.flatnonzero(self.between.any(axis=1))

    @property
    def n_pairs(self) -> int:
        """Number of pairs of different ranks with a demand."""
        if self.is_uniform:
            return self.n_ranks * (self.n_ranks - 1)
        return int(np.count_nonzero(self.between))

    @property
    def totals(self) -> tuple[Int64Array, Int64Array]:
        """Totals that each rank receives from others and sends to others, each shape (N,)."""
        if self.is_uniform:
            each = np.full(self.n_ranks, (self.n_ranks - 1) * self.matrix[0, 0])
            return each, each
        between = self.between
        return between.sum(axis=0), between.sum(axis=1)

    def is_invariant_under(self, images: NDArray[np.integer]) -> bool:
        """Return whether a map of ranks, -1 for other nodes, maps all demands to equal ones."""
        if (images < 0).any():
            return False
        return self.is_uniform or np.array_equal(self.between[np.ix_(images, images)], self.between)

    @property
    def buffer_units(self) -> int:
        """Size of the largest per-rank buffer, sent or received, in units of demand."""
        diagonal = self.matrix.diagonal()
        return int(max((total + diagonal).max() for total in self.totals))

    @cached_property
    def blocks(self) -> tuple[tuple[int, ...], ...] | None:
        """Groups whose `block_demands` these are, at least two and all of one size; or None.

        Examples
        --------
        >>> block_demands(4, [(0, 2), (1, 3)]).blocks
        ((0, 2), (1, 3))
        """
        if self.is_uniform:
            return None
        first = self.matrix.argmax(axis=1)  # the smallest rank of the group
        _, starts, group_of, sizes = np.unique(
            first, return_index=True, return_inverse=True, return_counts=True
        )
        if len(starts) < 2 or sizes.min() < 2 or sizes.min() < sizes.max():
            return None
        if not np.array_equal(self.matrix, group_of[:, None] == group_of):
            return None
        return tuple(map(tuple, np.argsort(group_of, kind="stable").reshape(len(sizes), -1).tolist()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Demands):
            return NotImplemented
        if self.is_uniform and other.is_uniform:
            return self.n_ranks == other.n_ranks and bool(self.matrix[0, 0] == other.matrix[0, 0])
        return np.array_equal(self.matrix, other.matrix)

    def __hash__(self) -> int:
        return hash((self.n_ranks, self.matrix[0].tobytes()))

    def __repr__(self) -> str:
        return f"<Demands of {self.n_ranks} ranks>"


def uniform_demands(n: int) -> Demands:
    """Return one unit from every rank to every rank, including itself: the plain all-to-all."""
    return Demands(np.broadcast_to(np.int64(1), (n, n)))


def block_demands(n: int, groups: Sequence[Sequence[int]]) -> Demands:
    """Return one unit from every rank to every rank of its group, including itself: concurrent all-to-alls.

    Parameters
    ----------
    n : int
        Number of ranks.
    groups : sequence of sequences of int
        Ranks from 0 to n - 1, each in at most one group. A rank without a group has no data.

    Raises
    ------
    ScheduleError
        If a group names a rank that does not exist or is in another group.

    Examples
    --------
    >>> block_demands(4, [(0, 2), (1, 3)]).matrix.tolist()
    [[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]]
    """
    group_of = np.full(n, -1, dtype=np.int64)
    for number, group in enumerate(groups):
        for rank in group:
            if not 0 <= rank < n or group_of[rank] >= 0:
                raise ScheduleError(
                    f"groups: rank {rank}; expected ranks from 0 to {n - 1}, each in one group"
                )
            group_of[rank] = number
    same_group = (group_of[:, None] == group_of) & (group_of >= 0)
    return Demands(same_group.astype(np.int64))
