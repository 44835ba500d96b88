"""Cheapest spanning out-trees against all out-trees that there are."""

from __future__ import annotations

import numpy as np

from treadle.synthesis.jobs.arborescence import least_arborescence


def test_cycles_within_cycles_are_opened_where_the_tree_enters() -> None:
    """1 and 2 are cheapest to each other, then both together and 3; the root enters at 3."""
    cost = np.full((4, 4), np.inf)
    cost[1, 2] = cost[2, 1] = 1
    cost[2, 3], cost[3, 1] = 3, 4
    cost[0, 1], cost[0, 2], cost[0, 3] = 20, 21, 15
    # 15 to enter at 3, 4 on to 1, 1 on to 2; by way of 1: 20 + 1 + 3
    assert least_arborescence(cost, 0) == [-1, 3, 1, 0]
    cost[0, 3] = 20
    # 20 + 4 + 1 by way of 3 is more than 20 + 1 + 3 by way of 1
    assert least_arborescence(cost, 0) == [-1, 0, 1, 2]
