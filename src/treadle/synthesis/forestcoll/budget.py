"""How many trees a forest may have."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.errors import ScheduleError

MAX_EXACT_TREES = 64
"""By default the exact optimum is built up to this many trees per rank."""

DEFAULT_SCAN = 10
"""Beyond that, the best number of trees per rank up to this one is taken."""


@dataclass(frozen=True)
class TreeBudget:
    """How many trees per root to use.

    Parameters
    ----------
    trees : int, optional
        Just this many (fixed k).
    max_trees : int, optional
        The best number up to this one; fewest at equal throughput.
    exact : bool
        The optimum, however many trees it takes.

    Notes
    -----
    At most one may be given. None: the optimum if it needs at most 64 trees per rank, else the best with at
    most 10 per rank (a single root may have those of all ranks, up to 64).
    """

    trees: int | None = None
    max_trees: int | None = None
    exact: bool = False

    def __post_init__(self) -> None:
        if (self.trees is not None) + (self.max_trees is not None) + self.exact > 1:
            raise ScheduleError("give at most one of trees, max_trees and exact")
        for name in ("trees", "max_trees"):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= 2**20:
                raise ScheduleError(f"{name}: expected 1 to 2**20, found {value}")
