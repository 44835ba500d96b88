"""The cheapest trees within a height by branch and bound, and what no trees within it exceed."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.few import height_bound
from treadle.synthesis.trees.few.bounded_height_lp import BoundedHeightLp, bounded_height_trees
from treadle.synthesis.trees.few.height_bound import bounded, least_tree
from treadle.synthesis.trees.few.hop_prices import Floats
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.topologies.topology import TopologyBuilder

FAR = np.inf


def cheapest(cost: Floats, root: int, height: int) -> float:
    """Of all trees, one by one."""
    n, best = len(cost), FAR
    for above in product(range(n), repeat=n - 1):
        parent = [*above[:root], -1, *above[root:]]
        total = sum(cost[one, rank] for rank, one in enumerate(parent) if one >= 0)
        best = min(best, float(total) if max(hops(parent, rank) for rank in range(n)) <= height else FAR)
    return best


def hops(parent: list[int], rank: int) -> int:
    found = 0
    while parent[rank] >= 0 and found <= len(parent):
        rank, found = parent[rank], found + 1
    return found


@pytest.mark.parametrize(("root", "height"), [(0, 1), (3, 1), (0, 2), (4, 2), (2, 3), (1, 4)])
def test_the_cheapest_tree_of_all(root: int, height: int) -> None:
    """Whole costs: the bound is the cost of the cheapest tree, and the tree is one of those."""
    chance = np.random.default_rng(10 * root + height)
    cost = chance.integers(1, 90, (5, 5)).astype(float)
    cost[chance.random((5, 5)) < 0.2] = FAR
    cost[root, :] = np.where(np.isfinite(cost[root]), cost[root], 97)
    np.fill_diagonal(cost, FAR)
    least, parent = least_tree(cost, root, height)
    assert parent is not None
    assert least == cheapest(cost, root, height)
    assert [rank for rank in range(5) if parent[rank] < 0] == [root]
    assert sum(cost[one, rank] for rank, one in enumerate(parent.tolist()) if one >= 0) == least
    assert max(hops(parent.tolist(), rank) for rank in range(5)) <= height


def test_no_tree_is_that_low() -> None:
    line = np.array([[FAR, 3, FAR], [FAR, FAR, 5], [FAR, FAR, FAR]])
    assert least_tree(line, 0, 1)[1] is None
    least, parent = least_tree(line, 0, 2)
    assert least == 8
    assert parent is not None
    assert parent.tolist() == [-1, 0, 1]


def one_way_ring(*, weights: tuple[int, ...]) -> Instance:
    """0 -> 1 -> 2 -> 0 of 6, 10 and 15 bytes/s."""
    builder = TopologyBuilder("ring")
    for name in "abc":
        builder.compute(name)
    for pair, bandwidth in (("ab", 6), ("bc", 10), ("ca", 15)):
        builder.link(pair[0], pair[1], bandwidth)
    collective = Collective(CollectiveKind.ALLGATHER, (0, 1, 2), weights=weights)
    return instance_of(builder.build(), collective)


@pytest.mark.parametrize("weights", [(1, 1, 1), (3, 1, 0), (1, 5, 2), (0, 1, 0)])
def test_a_ring_has_one_tree_of_each_root(weights: tuple[int, ...]) -> None:
    """The bound is what the links of the ring hold: each is crossed by all data but the next rank's."""
    rate = min(
        Fraction(bandwidth, sum(weights) - weights[head])
        for bandwidth, head in ((6, 1), (10, 2), (15, 0))
        if sum(weights) > weights[head]
    )
    found = bounded_height_trees(one_way_ring(weights=weights), 2, rounds=5)
    assert len(found.trees) == sum(weight > 0 for weight in weights)
    assert found.shares.tolist() == pytest.approx([weight for weight in weights if weight])
    assert 15 / found.time == pytest.approx(float(rate))
    best = bounded(found, rounds=4)
    assert best is not None
    # prices are whole millionths
    assert rate <= best.rate <= rate * (1 + Fraction(1, 10**5))
    assert 15 / best.found.time == pytest.approx(float(rate))
    assert best.found.program is found.program


def test_bounds_are_for_few_ranks_and_low_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three ranks and height 2 are 18 places."""
    found = bounded_height_trees(one_way_ring(weights=(1, 1, 1)), 2, rounds=1)
    monkeypatch.setattr(height_bound, "MOST_PLACES", 17)
    assert bounded(found) is None
    monkeypatch.setattr(height_bound, "MOST_PLACES", 18)
    assert bounded(found, rounds=1) is not None


def test_missing_trees_are_added() -> None:
    """A program of nothing but stars learns the better trees from branch and bound."""
    builder = TopologyBuilder("fan")
    for name in "abcd":
        builder.compute(name)
    for pair, bandwidth in (("ab", 9), ("ac", 2), ("ad", 2), ("bc", 6), ("bd", 5), ("cd", 3)):
        builder.link(pair[0], pair[1], bandwidth)
    problem = instance_of(
        builder.build(), Collective(CollectiveKind.ALLGATHER, (0, 1, 2, 3), weights=(1, 0, 0, 0))
    )
    found = bounded_height_trees(problem, 1, rounds=2)
    assert 9 / found.time == pytest.approx(2)
    program = BoundedHeightLp(problem, 2)
    assert program.add_tree(0, np.array([-1, 0, 0, 0]), np.ones(6))
    assert not program.add_tree(0, np.array([-1, 0, 0, 0]), np.ones(6))
    values, duals, _ = program.solve()
    begun = type(found)(program, values[1:], float(values[0]), duals)
    best = bounded(begun)
    assert best is not None
    # the links into c hold 2 + 6 and those into d 2 + 5 + 3, that into b 9: trees within height 2 reach 8
    assert 9 / best.found.time == pytest.approx(8, rel=1e-4)
    assert 8 <= best.rate <= 8.001
    assert best.found.shares.sum() == pytest.approx(1)
    for tree in best.found.trees:
        assert max(hops(tree.parent.tolist(), rank) for rank in range(4)) <= 2
