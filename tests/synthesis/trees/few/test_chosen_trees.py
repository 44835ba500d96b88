"""Whole numbers of trees chosen among a program's: counts of each root, and no better choice by one tree."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.few.bounded_height_lp import (
    BoundedHeightLp,
    BoundedHeightTree,
    BoundedHeightTrees,
    bounded_height_trees,
)
from treadle.synthesis.trees.few.chosen_trees import _Choice, choose_trees
from treadle.synthesis.trees.few.hop_prices import Floats
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.topologies.topology import TopologyBuilder


def odd_mesh(weights: tuple[int, ...]) -> Instance:
    """Four ranks, all pairs linked, each direction at a bandwidth of its own."""
    builder = TopologyBuilder("mesh")
    for name in "abcd":
        builder.compute(name)
    widths = iter((7, 3, 11, 5, 13, 2, 6, 9, 4, 10, 8, 12))
    for one, other in product("abcd", repeat=2):
        if one != other:
            builder.link(one, other, next(widths))
    collective = Collective(CollectiveKind.ALLGATHER, (0, 1, 2, 3), weights=weights)
    return instance_of(builder.build(), collective)


def parallel_links(*bandwidths: int) -> BoundedHeightTrees:
    """A rank sends to another over links side by side: each is a tree, with a share as its bandwidth."""
    builder = TopologyBuilder("pair")
    builder.compute("a")
    builder.compute("b")
    for bandwidth in bandwidths:
        builder.link("a", "b", bandwidth)
    program = BoundedHeightLp(
        instance_of(builder.build(), Collective(CollectiveKind.ALLGATHER, (0, 1), weights=(1, 0))), 1
    )
    for link in range(len(bandwidths)):
        prices = np.full(len(bandwidths), 2.0)
        prices[link] = 1.0
        assert program.add_tree(0, np.array([-1, 0]), prices)
    values, duals, _ = program.solve()
    return BoundedHeightTrees(program, values[1:], float(values[0]), duals)


def counts_of(chosen: list[tuple[BoundedHeightTree, int]]) -> dict[int, int]:
    """Units of each link of a pair."""
    return {int(tree.links[0]): times for tree, times in chosen}


@pytest.mark.parametrize(
    ("bandwidths", "trees", "counts"),
    [
        ((3, 1), 4, {0: 3, 1: 1}),
        ((3, 1), 1, {0: 1}),
        ((3, 1), 2, {0: 2}),  # 2/3 of a second against 1
        ((3, 2), 2, {0: 1, 1: 1}),  # 1/2 against 2/3
        ((5, 3, 2), 10, {0: 5, 1: 3, 2: 2}),
        ((5, 3, 2), 4, {0: 2, 1: 1, 2: 1}),
        ((5, 3, 2), 3, {0: 2, 1: 1}),
        ((2, 7, 4), 5, {0: 1, 1: 3, 2: 1}),  # of 10/13, 35/13 and 20/13: the larger remainders are rounded up
    ],
)
def test_units_over_links_side_by_side(
    bandwidths: tuple[int, ...], trees: int, counts: dict[int, int]
) -> None:
    """By hand: the greatest count over bandwidth is least."""
    assert counts_of(choose_trees(parallel_links(*bandwidths), trees)) == counts


def test_shares_are_rounded_by_largest_remainders() -> None:
    """Of shares 2, 6/5 and 4/5; of 10/13, 35/13 and 20/13."""
    assert _Choice(parallel_links(5, 3, 2), 4).chosen.tolist() == [0, 0, 1, 2]
    assert _Choice(parallel_links(2, 7, 4), 5).chosen.tolist() == [0, 1, 1, 1, 2]


def relative(problem: Instance, trees: list[BoundedHeightTree]) -> Floats:
    loads = np.zeros(len(problem.bandwidths))
    for tree in trees:
        loads[tree.links] += tree.counts
    return loads / problem.bandwidths


@pytest.mark.parametrize(
    ("weights", "trees", "height"), [((1, 1, 1, 1), 1, 2), ((1, 1, 1, 1), 3, 1), ((2, 0, 1, 3), 2, 3)]
)
def test_no_other_tree_in_place_of_one_is_better(weights: tuple[int, ...], trees: int, height: int) -> None:
    problem = odd_mesh(weights)
    found = bounded_height_trees(problem, height, rounds=20)
    chosen = choose_trees(found, trees)
    assert [sum(times for tree, times in chosen if tree.root == rank) for rank in range(4)] == [
        trees * weight for weight in weights
    ]
    assert all(times > 0 for _, times in chosen)
    assert len({id(tree) for tree, _ in chosen}) == len(chosen)
    units = [tree for tree, times in chosen for _ in range(times)]
    worst = float(relative(problem, units).max())
    assert worst >= trees * found.time / 13 * (1 - 1e-6)  # no choice beats the shares
    for place, tree in enumerate(units):
        for other in found.trees:
            if other.root == tree.root:
                changed = relative(problem, [*units[:place], other, *units[place + 1 :]])
                assert float(changed.max()) >= worst * (1 - 1e-9)


def test_the_best_of_all_choices_of_two_roots() -> None:
    """Every pair of trees of the two roots, one by one."""
    problem = odd_mesh((1, 0, 0, 1))
    found = bounded_height_trees(problem, 2, rounds=20)
    (one, _), (other, _) = choose_trees(found, 1)
    least = min(
        float(relative(problem, [first, second]).max())
        for first, second in product(found.trees, repeat=2)
        if (first.root, second.root) == (0, 3)
    )
    assert (one.root, other.root) == (0, 3)
    assert float(relative(problem, [one, other]).max()) <= least * (1 + 1e-9)
