"""Limits on the number of trees of a forest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError

MAX_TREES = 64
"""Default limit of trees per rank."""

MAX_DYADIC_TREES = 16
"""Limit per rank where throughput is given up for a power of two."""

MOST_SCANNED = 2**12
"""Number of trees searched for the best, if a limit is larger, besides the fewest that attain the optimum."""

FEWEST_OF_ONE = 8
"""Trees of a single root behind switches, if these are lower: where ranks send as much as they receive, one
tree is a chain, and of several each rank sends on one to many."""

DYADIC_LOSS = Fraction(1, 100)
"""Largest loss of plans for a power of two of chunks."""


@dataclass(frozen=True)
class TreeBudget:
    """Number of trees per root to use.

    Parameters
    ----------
    trees : int, optional
        Exactly this many (fixed k).
    max_trees : int, optional
        The best number up to this one; fewest at equal throughput. Beyond `MOST_SCANNED` only the number that
        attains the optimum counts.
    exact : bool
        The optimum, however many trees it takes.
    dyadic_loss : Fraction
        Without any of these: the share of the optimum that may be given up to cut the data into a power of
        two of chunks, which buffers of 2**n elements divide by; 0: none.

    Notes
    -----
    At most one of the first three may be given. None: the optimum if it needs at most 64 trees per rank, else
    the best with at most 64 (on average: a single root may have those of all ranks). With a `dyadic_loss`
    these come after the optimum in a power of two of chunks, and after the fewest chunks, up to 16 per rank,
    that are a power of two and lose less. Nothing is given up where the number of ranks is not a power of
    two: chunks of equal shards then are none either, and chunks of the entire buffer are split again when
    lowered. For a single root a multiple of the number is used if it reduces the height, see `lower_number`.
    """

    trees: int | None = None
    max_trees: int | None = None
    exact: bool = False
    dyadic_loss: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        if (self.trees is not None) + (self.max_trees is not None) + self.exact > 1:
            raise ScheduleError("give at most one of trees, max_trees and exact")
        for name in ("trees", "max_trees"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= 2**20:
                raise ScheduleError(f"{name}: expected 1 to 2**20, found {value}")

    @property
    def is_default(self) -> bool:
        """Whether neither a number nor a limit nor the optimum was given."""
        return self.trees is None and self.max_trees is None and not self.exact

    def dyadic_numbers(self, weights: Sequence[int], per_rank: int) -> list[int]:
        """Trees per unit of weight that make a power of two of equal chunks, rising; none if not wanted.

        Parameters
        ----------
        weights : sequence of int
            Per rank, in lowest terms.
        per_rank : int
            Most trees per rank, on average.

        Examples
        --------
        >>> budget = TreeBudget(dyadic_loss=Fraction(1, 100))
        >>> budget.dyadic_numbers([1, 1, 1, 1], 16), budget.dyadic_numbers([1, 1, 1], 16)
        ([1, 2, 4, 8, 16], [])
        """
        if not self.dyadic_loss or not self.is_default or max(weights) > 1 or not is_dyadic(sum(weights)):
            return []
        most = per_rank * len(weights) // sum(weights)
        return [2**exponent for exponent in range(most.bit_length())]

    def lossy_numbers(self, weights: Sequence[int]) -> list[int]:
        """The `dyadic_numbers` for which a little throughput may be given up."""
        return self.dyadic_numbers(weights, MAX_DYADIC_TREES) if is_dyadic(len(weights)) else []


def lower_number(budget: TreeBudget, weights: Int64Array, trees: int) -> int | None:
    """Multiple of the trees per unit of weight that reduces the height of a single root's trees, if any.

    Returns
    -------
    int or None
        None with several roots, with `FEWEST_OF_ONE` trees or more, or if their number was given.

    Examples
    --------
    >>> lower_number(TreeBudget(), np.array([0, 1, 0]), 3), lower_number(TreeBudget(), np.array([1, 1, 1]), 3)
    (9, None)
    """
    weight = int(weights.sum())
    if not budget.is_default or np.count_nonzero(weights) != 1 or trees * weight >= FEWEST_OF_ONE:
        return None
    return trees * -(-FEWEST_OF_ONE // (trees * weight))


def is_dyadic(number: int) -> bool:
    """Whether a positive number is a power of two."""
    return number & (number - 1) == 0


def most_trees(ranks: int, weight: int) -> int:
    """The default limit per unit of weight, where the exact optimum takes more; `weight` in all."""
    return min(MAX_TREES, max(1, MAX_TREES * ranks // weight))
