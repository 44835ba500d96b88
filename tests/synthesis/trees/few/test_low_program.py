"""The program of trees within a height: its columns, its optimum on small fabrics, what it refuses."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from treadle.context import Context, under
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.few.bounded_height_lp import BoundedHeightLp, bounded_height_trees
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.topologies.topology import Topology, TopologyBuilder


def mesh_of_four() -> Topology:
    """Four ranks, all pairs linked, each direction at a bandwidth of its own."""
    builder = TopologyBuilder("mesh")
    for name in "abcd":
        builder.compute(name)
    widths = iter((7, 3, 11, 5, 13, 2, 6, 9, 4, 10, 8, 12))
    for one, other in product("abcd", repeat=2):
        if one != other:
            builder.link(one, other, next(widths))
    return builder.build()


def problem_of(topology: Topology, weights: tuple[int, ...]) -> Instance:
    ranks = tuple(topology.compute_nodes.tolist())
    return instance_of(topology, Collective(CollectiveKind.ALLGATHER, ranks, weights=weights))


def best_rate(problem: Instance, height: int) -> float:
    """By a linear program over all trees of direct links."""
    n, m = len(problem.terminals), len(problem.tails)
    link_of = {
        pair: e for e, pair in enumerate(zip(problem.tails.tolist(), problem.heads.tolist(), strict=True))
    }
    columns = [np.concatenate([-problem.bandwidths / 1.0, np.zeros(n)])]
    for root in np.flatnonzero(problem.weights).tolist():
        for above in product(range(n), repeat=n - 1):
            parent = [*above[:root], -1, *above[root:]]
            if any(one == rank for rank, one in enumerate(parent)) or not is_low(parent, height):
                continue
            column = np.zeros(m + n)
            for rank, one in enumerate(parent):
                if one >= 0:
                    column[link_of[one, rank]] += 1
            column[m + root] = 1
            columns.append(column)
    table = np.stack(columns, axis=1)
    cost = np.zeros(table.shape[1])
    cost[0] = 1
    done = linprog(cost, table[:m], np.zeros(m), table[m:], problem.weights.astype(float))
    return 1 / float(done.fun)


def is_low(parent: list[int], height: int) -> bool:
    for rank in range(len(parent)):
        at, hops = rank, 0
        while parent[at] >= 0 and hops <= height:
            at, hops = parent[at], hops + 1
        if hops > height:
            return False
    return True


@pytest.mark.parametrize(("weights", "height"), [((1, 1, 1, 1), 1), ((3, 1, 0, 2), 2), ((0, 0, 5, 1), 3)])
def test_the_optimum_of_all_trees(weights: tuple[int, ...], height: int) -> None:
    problem = problem_of(mesh_of_four(), weights)
    found = bounded_height_trees(problem, height)
    assert 13 / found.time == pytest.approx(best_rate(problem, height), rel=2e-3)
    loads, sums = np.zeros(12), np.zeros(4)
    assert len(found.shares) == len(found.trees) == len({str(tree) for tree in found.trees})
    for tree, share in zip(found.trees, found.shares.tolist(), strict=True):
        assert is_low(tree.parent.tolist(), height)
        assert [rank for rank in range(4) if tree.parent[rank] < 0] == [tree.root]
        loads[tree.links] += share * tree.counts
        sums[tree.root] += share
    assert sums == pytest.approx(weights)
    assert (loads / problem.bandwidths).max() == pytest.approx(found.time / 13)
    # prices of links are those of one unit of time
    assert (found.prices >= 0).all()
    assert found.prices @ problem.bandwidths / 13 == pytest.approx(1)


def test_paths_of_a_tree_through_a_switch() -> None:
    """Rank 1 is reached over the switch (links 0 and 3), ranks 0 and 2 pass nothing on; links are counted."""
    builder = TopologyBuilder("star")
    for name in "abc":
        builder.compute(name)
    builder.switch("s")
    for pair, bandwidth in (("as", 4), ("bs", 2), ("cs", 8), ("sb", 4), ("sa", 4), ("sc", 4)):
        builder.link(pair[0], pair[1], bandwidth)
    problem = problem_of(builder.build(), (0, 1, 1))
    program = BoundedHeightLp(problem, 2)
    assert program.roots.tolist() == [1, 2]
    assert program.bandwidths.tolist() == [0.5, 0.25, 1, 0.5, 0.5, 0.5]
    assert program.add_tree(2, np.array([2, 2, -1]), np.ones(6))
    (tree,) = program.trees
    assert (tree.root, tree.parent.tolist(), tree.paths) == (2, [2, 2, -1], ((2, 4), (2, 3), ()))
    assert (tree.links.tolist(), tree.counts.tolist()) == ([2, 3, 4], [2, 1, 1])
    assert program.add_tree(1, np.array([1, -1, 0]), np.ones(6))
    values, duals, worths = program.solve()
    # link 0 holds 1 of 1/2, link 2 holds 2 of 1, links 3 to 5 1, 2, 1 of 1/2: link b -> s 1 of 1/4
    assert values.tolist() == pytest.approx([4, 1, 1])
    assert worths.sum() == pytest.approx(4)
    assert len(duals) == 6
    assert duals @ program.bandwidths == pytest.approx(1)


def test_prices_choose_the_paths() -> None:
    """Two links side by side: the cheap one is taken; the same tree over the other one is new."""
    builder = TopologyBuilder("two")
    builder.compute("a")
    builder.compute("b")
    for pair in ("ab", "ab", "ba"):
        builder.link(pair[0], pair[1], 3)
    program = BoundedHeightLp(problem_of(builder.build(), (1, 0)), 1)
    parent = np.array([-1, 0])
    assert program.add_tree(0, parent, np.array([2.0, 1.0, 1.0]))
    assert program.add_tree(0, parent, np.array([1.0, 2.0, 1.0]))
    assert not program.add_tree(0, parent, np.array([5.0, 6.0, 1.0]))
    assert [tree.paths for tree in program.trees] == [((), (1,)), ((), (0,))]
    assert program.solve()[0].tolist() == pytest.approx([0.5, 0.5, 0.5])


def test_only_cheaper_trees_are_added() -> None:
    problem = problem_of(mesh_of_four(), (1, 0, 0, 1))
    prices = np.ones(12)
    for worths, added in (((3.0, 3.0), 0), ((3.1, 3.0), 1), ((3.0, 3.1), 1), ((3.1, 3.1), 2)):
        program = BoundedHeightLp(problem, 1)  # three hops are the one tree of either root
        number, cheapest = program.add_at(prices, worths=np.array(worths))
        assert number == added == len(program.trees)
        assert cheapest.tolist() == [[-1, 0, 0, 0], [3, 3, 3, -1]]


def test_the_cheapest_of_the_starts_is_told() -> None:
    """A start that no move betters is kept: 1 below 0, 3 below 1, 2 below 3."""
    problem = problem_of(mesh_of_four(), (1, 0, 0, 0))
    prices = np.full(12, 50.0)
    prices[[0, 4, 11]] = 1.0  # a -> b, b -> c, d -> c, in order of pairs ab ac ad ba bc bd ca cb cd da db dc
    prices[5] = 2.0  # b -> d
    program = BoundedHeightLp(problem, 3)
    _, cheapest = program.add_at(prices, starts=np.array([[-1, 0, 3, 1]]))
    assert cheapest.tolist() == [[-1, 0, 1, 1]]
    assert len(program.trees) >= 1


@pytest.mark.parametrize(
    ("pairs", "height", "words"),
    [
        (("ab", "bc", "ca"), 1, "line: some rank is 2 hops from a root, expected trees of height 1"),
        (("ab", "ba", "ca"), 2, "line: some rank cannot be reached, expected trees of height 2"),
    ],
)
def test_ranks_that_are_too_far(pairs: tuple[str, ...], height: int, words: str) -> None:
    builder = TopologyBuilder("line")
    for name in "abc":
        builder.compute(name)
    for pair in pairs:
        builder.link(pair[0], pair[1], 3)
    problem = problem_of(builder.build(), (1, 0, 0))
    with pytest.raises(InfeasibleError) as refused:
        BoundedHeightLp(problem, height)
    assert str(refused.value) == words


def test_a_rank_at_the_height_will_do() -> None:
    builder = TopologyBuilder("line")
    for name in "abc":
        builder.compute(name)
    for pair in ("ab", "bc"):
        builder.link(pair[0], pair[1], 3)
    found = bounded_height_trees(problem_of(builder.build(), (1, 0, 0)), 2)
    assert [tree.parent.tolist() for tree in found.trees] == [[-1, 0, 1]]
    assert (found.time, found.shares.tolist()) == (1, [1])


def test_rounds_are_told() -> None:
    told: list[tuple[str, int, int | None]] = []
    watch = Context(lambda stage, done, total: told.append((stage, done, total)))
    with under(watch):
        bounded_height_trees(problem_of(mesh_of_four(), (1, 1, 1, 1)), 2, rounds=2)
    assert [one for one in told if one[0] == "low trees"] == [("low trees", 0, 2), ("low trees", 1, 2)]
