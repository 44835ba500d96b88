"""Cheap trees within a height: layers, shortest and grown trees, and moves until none is left."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.synthesis.trees.few.hop_prices import Floats
from treadle.synthesis.trees.few.low_pricing import extended_trees, hop_layers, rehung, shortest_trees

FAR = np.inf
LINE = np.array([[FAR, 1, FAR, FAR], [FAR, FAR, 2, FAR], [FAR, FAR, FAR, 4], [FAR, FAR, FAR, FAR]])
"""0 -> 1 -> 2 -> 3."""


def random_costs(seed: int, n: int = 7) -> Floats:
    chance = np.random.default_rng(seed)
    cost = chance.uniform(1, 30, (n, n))
    cost[chance.random((n, n)) < 0.35] = FAR
    np.fill_diagonal(cost, FAR)
    return cost


def depth_of(parent: list[int], rank: int) -> int:
    """Hops to the root; more than ranks on a cycle."""
    hops = 0
    while parent[rank] >= 0 and hops <= len(parent):
        rank, hops = parent[rank], hops + 1
    return hops


def test_layers_of_several_roots() -> None:
    assert hop_layers(LINE, np.array([2, 0, 3])).tolist() == [[-1, -1, 0, 1], [0, 1, 2, 3], [-1, -1, -1, 0]]
    assert hop_layers(LINE, np.zeros(0, dtype=np.int64)).shape == (0, 4)


def test_a_free_hop_is_a_hop() -> None:
    assert hop_layers(np.array([[FAR, 0.0], [FAR, FAR]]), np.array([0])).tolist() == [[0, 1]]


def test_shortest_trees_take_the_cheapest_last_hop() -> None:
    """Rank 3 is two hops away over 1 or 2, rank 4 three hops; a cheap detour of three hops is not taken."""
    cost = np.full((5, 5), FAR)
    cost[0, 1], cost[0, 2], cost[1, 3], cost[2, 3], cost[3, 4] = 9, 1, 5, 6, 1
    cost[1, 2] = cost[4, 3] = 0.5
    assert shortest_trees(cost, np.array([0])).tolist() == [[-1, 0, 0, 1, 3]]
    cost[2, 3] = 4
    assert shortest_trees(cost, np.array([0])).tolist() == [[-1, 0, 0, 2, 3]]


@pytest.mark.parametrize("seed", range(8))
def test_shortest_trees_of_random_costs(seed: int) -> None:
    cost = random_costs(seed)
    roots = np.array([5, 0, 2])
    layers = hop_layers(cost, roots)
    for root, parent, layer in zip(roots.tolist(), shortest_trees(cost, roots).tolist(), layers, strict=True):
        assert parent[root] == -1
        for rank in set(range(7)) - {root}:
            above = [
                one for one in range(7) if layer[one] == layer[rank] - 1 and np.isfinite(cost[one, rank])
            ]
            assert parent[rank] == min(above, key=lambda one: float(cost[one, rank]))


def grown(cost: Floats, root: int, height: int) -> tuple[list[int], bool]:
    """Hop by hop, always the cheapest one to a rank that is not in the tree."""
    n, parent, depth = len(cost), [-1] * len(cost), {root: 0}
    while True:
        hops = [
            (cost[one, rank], one, rank)
            for one in depth
            for rank in range(n)
            if rank not in depth and depth[one] < height and np.isfinite(cost[one, rank])
        ]
        if not hops:
            return parent, len(depth) == n
        _, one, rank = min(hops)
        parent[rank], depth[rank] = one, depth[one] + 1


@pytest.mark.parametrize("height", [1, 2, 3, 6])
def test_grown_trees_hop_by_hop(height: int) -> None:
    seen = set()
    for seed in range(6):
        cost, roots = random_costs(seed), np.array([3, 6, 0, 1])
        if seed % 2:
            cost[3, :] = np.minimum(cost[3, :], 40)  # this one reaches all at once
            cost[3, 3] = FAR
        parents, spans = extended_trees(cost, roots, height)
        for root, parent, spanning in zip(roots.tolist(), parents.tolist(), spans.tolist(), strict=True):
            assert (parent, spanning) == grown(cost, root, height)
            seen.add(spanning)
    assert seen == ({True, False} if height < 3 else {True})


def test_of_equally_cheap_hops_the_one_known_first_is_taken() -> None:
    cost = np.full((3, 3), 2.0)
    np.fill_diagonal(cost, FAR)
    assert extended_trees(cost, np.array([1, 0]), 2)[0].tolist() == [[1, -1, 1], [-1, 0, 0]]
    assert shortest_trees(cost, np.array([2]))[0].tolist() == [2, 2, -1]


def test_growth_stops_at_the_height() -> None:
    assert [a.tolist() for a in extended_trees(LINE, np.array([0]), 3)] == [[[-1, 0, 1, 2]], [True]]
    assert [a.tolist() for a in extended_trees(LINE, np.array([0]), 2)] == [[[-1, 0, 1, -1]], [False]]


def neighbours(parent: list[int], n: int) -> list[list[int]]:
    """Trees that one move makes: a rank goes below another, or takes its parent's place above it."""
    found = []
    for rank in range(n):
        if parent[rank] < 0:
            continue
        found += [
            [one if v == rank else above for v, above in enumerate(parent)]
            for one in range(n)
            if one not in (rank, parent[rank])
        ]
        upper = parent[rank]
        if parent[upper] >= 0:
            turned = list(parent)
            turned[rank], turned[upper] = parent[upper], rank
            found.append(turned)
    return found


def bettered(cost: Floats, parent: list[int], height: int) -> list[int]:
    """The best move of all, again and again; of a move below another rank and a turn alike the former."""

    def price(tree: list[int]) -> float:
        low = max(depth_of(tree, rank) for rank in range(len(tree))) <= height
        return sum(float(cost[above, rank]) for rank, above in enumerate(tree) if above >= 0) if low else FAR

    while True:
        best = min(neighbours(parent, len(parent)), key=price)
        if price(best) >= price(parent) * (1 - 1e-13):
            return parent
        parent = best


@pytest.mark.parametrize("height", [2, 3, 4, 6])
@pytest.mark.parametrize("density", [0.25, 0.45, 0.7])
def test_move_by_move(density: float, height: int) -> None:
    """Trees of several roots at once end as each does by itself; those given stay as they are."""
    chance, n = np.random.default_rng(int(100 * density) + height), 7
    for _ in range(4):
        cost = chance.uniform(1, 40, (n, n))
        cost[chance.random((n, n)) > density] = FAR
        ring = chance.permutation(n)
        cost[ring, np.roll(ring, 1)] = chance.uniform(1, 40, n)
        hub = ring[0]
        cost[hub], cost[:, hub] = chance.uniform(20, 60, (2, n))  # so that height 2 will do
        np.fill_diagonal(cost, FAR)
        starts = shortest_trees(cost, chance.permutation(n))
        given = starts.copy()
        parents, totals = rehung(cost, given, height)
        assert given.tolist() == starts.tolist()
        assert parents.tolist() == [bettered(cost, start, height) for start in starts.tolist()]
        for parent, total in zip(parents.tolist(), totals.tolist(), strict=True):
            hops = [float(cost[above, rank]) for rank, above in enumerate(parent) if above >= 0]
            assert total == pytest.approx(sum(hops), rel=1e-12)


def test_the_best_move_comes_first() -> None:
    """Rank 3 below 1 gains 8, rank 2 below 3 gains 5; after the first the second is too high at height 2."""
    cost = np.full((4, 4), FAR)
    cost[0, 1], cost[0, 2], cost[0, 3] = 1, 6, 9
    cost[1, 3], cost[3, 2] = 1, 1
    start = np.array([[-1, 0, 0, 0]])
    parent, total = rehung(cost, start, 2)
    assert (parent.tolist(), total.tolist()) == ([[-1, 0, 0, 1]], [8])
    parent, total = rehung(cost, start, 3)
    assert (parent.tolist(), total.tolist()) == ([[-1, 0, 3, 1]], [3])


@pytest.mark.parametrize(("gain", "moves"), [(2e-12, False), (2e-9, False), (4e-9, True)])
def test_moves_that_gain_next_to_nothing_are_none(gain: float, moves: bool) -> None:
    """The least is a 10**-12th of what three hops cost on average, which is 3334, and as much again of 1."""
    cost = np.array([[FAR, 1, 5000], [FAR, FAR, 5000 - gain], [FAR, FAR, FAR]])
    parent, _ = rehung(cost, np.array([[-1, 0, 0]]), 2)
    assert parent.tolist() == [[-1, 0, 1 if moves else 0]]


def test_without_hops_nothing_moves() -> None:
    parent, total = rehung(np.full((1, 1), FAR), np.array([[-1]]), 1)
    assert (parent.tolist(), total.tolist()) == ([[-1]], [0])


def test_turns_respect_the_height_of_what_stays_below() -> None:
    """0 -> 1 -> {2, 3}: if 2 takes the place of 1, rank 3 is a hop further down."""
    cost = np.full((4, 4), FAR)
    cost[0, 1], cost[0, 2], cost[1, 2], cost[2, 1], cost[1, 3] = 10, 1, 2, 2, 1
    start = np.array([[-1, 0, 1, 1]])
    high, total = rehung(cost, start, 3)
    assert (high.tolist(), total.tolist()) == ([[-1, 2, 0, 1]], [4])
    # within 2 rank 2 may go below the root, which gains 1
    low, total = rehung(cost, start, 2)
    assert (low.tolist(), total.tolist()) == ([[-1, 0, 0, 1]], [12])
