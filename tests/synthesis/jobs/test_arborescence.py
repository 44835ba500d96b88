"""Cheapest spanning out-trees against all out-trees that there are."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from treadle.errors import InfeasibleError
from treadle.synthesis.jobs.arborescence import least_arborescence


def hangs_together(parent: tuple[int, ...], root: int) -> bool:
    """Whether every node leads up to the root."""
    for start in range(len(parent)):
        node, steps = start, 0
        while node != root and steps < len(parent):
            node, steps = parent[node], steps + 1
        if node != root:
            return False
    return True


def least_cost(cost: NDArray[np.float64], root: int) -> float:
    """Over all choices of a parent for each node; infinite where no tree reaches all of them."""
    n = len(cost)
    choices = [[-1] if node == root else [other for other in range(n) if other != node] for node in range(n)]
    return min(
        (
            sum(float(cost[above, node]) for node, above in enumerate(parent) if above >= 0)
            for parent in product(*choices)
            if hangs_together(parent, root)
        ),
        default=np.inf,
    )


@pytest.mark.parametrize("seed", range(36))
def test_no_tree_is_cheaper(seed: int) -> None:
    rng = np.random.default_rng([seed, 41])
    n = int(rng.integers(2, 6))
    cost = rng.integers(0, (3, 12)[seed % 2], (n, n)).astype(np.float64)
    cost[rng.random((n, n)) < (0.0, 0.35, 0.55)[seed % 3]] = np.inf
    given, root = cost.copy(), int(rng.integers(n))
    least = least_cost(cost, root)
    if np.isinf(least):
        with pytest.raises(InfeasibleError, match=rf"^node \d cannot be reached from node {root}$"):
            least_arborescence(cost, root)
        return
    parent = least_arborescence(cost, root)
    assert np.array_equal(cost, given)  # the costs are the caller's
    assert parent[root] == -1
    assert hangs_together(tuple(parent), root)
    assert sum(cost[above, node] for node, above in enumerate(parent) if above >= 0) == least


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


def test_what_a_cycle_cannot_be_reached_from_names_its_first_node() -> None:
    cost = np.full((4, 4), np.inf)
    cost[2, 3] = cost[3, 2] = 1
    cost[0, 1] = 1
    with pytest.raises(InfeasibleError, match=r"^node 2 cannot be reached from node 0$"):
        least_arborescence(cost, 0)
    cost[1, 2] = np.inf
    cost[0, 1] = np.inf
    with pytest.raises(InfeasibleError, match=r"^node 1 cannot be reached from node 0$"):
        least_arborescence(cost, 0)
