"""Placements of ranks: the core's trees against slow ones, and the search against all placements."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from reference.groups.pruned_trees import pruned_tree_figures
from treadle.engine import core
from treadle.finder.rank_order import RankGroups, order_ranks, regular_orders, tree_graph
from treadle.topologies import parse
from treadle.topologies.topology import Topology


def _groups(n: int, size: int, stride: int) -> list[list[int]]:
    block = size * stride
    return [
        list(range(first + lane, first + lane + block, stride))
        for first in range(0, n, block)
        for lane in range(stride)
    ]


@pytest.mark.parametrize("text", ["generalized_kautz(4, 24)", "torus(4, 3, 2)", "jellyfish(24, 3)"])
@pytest.mark.parametrize(("size", "stride"), [(6, 1), (3, 4), (24, 1)])
def test_trees_are_those_of_the_slow_account(text: str, size: int, stride: int) -> None:
    order = np.random.default_rng(0).permutation(24)
    groups = [[int(order[rank]) for rank in group] for group in _groups(24, size, stride)]
    for graph in (parse(text), parse(text).transpose()):
        found = core.tree_figures(tree_graph(graph), np.array(groups, dtype=np.int32))
        assert found == pruned_tree_figures(graph, groups)


def _cost(topology: Topology, kinds: list[RankGroups], nodes: np.ndarray) -> float:
    """By the slow account's trees and their fourth-power mean."""
    total = 0.0
    for size, stride, graph, hop, load, distance in kinds:
        turned = topology.transpose() if graph else topology
        groups = [[int(nodes[rank]) for rank in group] for group in _groups(topology.n_nodes, size, stride)]
        loads: list[int] = []
        _, longest, distances = pruned_tree_figures(turned, groups, loads)
        mean = (sum(value**4 for value in loads) / len(loads)) ** 0.25
        total += hop * longest + load * mean + distance * distances
    return total


def test_no_placement_is_cheaper_than_that_found() -> None:
    """Two groups of three on a one-way graph, sums backwards, against all 720 placements."""
    topology = parse("generalized_kautz(2, 6)")
    kinds = [RankGroups(3, 1, 0, 0.5, 1.0, 0.0), RankGroups(3, 1, 1, 0.5, 2.0, 0.1)]
    found = order_ranks(topology, kinds, work=200_000)
    costs = [_cost(topology, kinds, np.array(nodes)) for nodes in permutations(range(6))]
    # trees are planted in another order by the search: at most what it says
    assert found.cost <= found.own_cost
    assert found.own_cost == pytest.approx(_cost(topology, kinds, np.arange(6)))
    assert found.cost <= min(costs) * (1 + 1e-9)


def test_scattered_groups_are_brought_together() -> None:
    """Four K4 side by side joined in a ring: whoever is numbered across them is put back."""
    topology = parse('with_axes_ordered(cartesian_product(uni_ring(1, 4), complete(4)), "4x4", "1,0")')
    kinds = [RankGroups(4, 1, 0, 1.0, 1.0, 0.0)]
    found = order_ranks(topology, kinds, work=200_000)
    again = order_ranks(topology, kinds, work=200_000)
    assert np.array_equal(found.nodes, again.nodes)
    assert sorted(found.nodes.tolist()) == list(range(16))
    blocks = {frozenset(node % 4 for node in found.nodes[first : first + 4]) for first in range(0, 16, 4)}
    assert blocks == {frozenset([0]), frozenset([1]), frozenset([2]), frozenset([3])}


def test_swaps_find_what_no_regular_placement_has() -> None:
    """The same with nodes numbered at random."""
    order = ",".join(map(str, np.random.default_rng(1).permutation(16).tolist()))
    topology = parse(f'with_nodes_ordered(cartesian_product(uni_ring(1, 4), complete(4)), "{order}")')
    kinds = [RankGroups(4, 1, 0, 1.0, 1.0, 0.0)]
    assert order_ranks(topology, kinds, work=1_000_000).cost == pytest.approx(1 + (3 / 4) ** 0.25)
    assert order_ranks(topology, kinds, work=1).cost > 3


def test_regular_placements_begin_with_the_own_numbers() -> None:
    orders = [tuple(order.tolist()) for order in regular_orders(12)]
    assert orders[0] == tuple(range(12))
    assert len(set(orders)) == len(orders)
    assert all(sorted(order) == list(range(12)) for order in orders)
    assert tuple(rank * 5 % 12 for rank in range(12)) in orders
    assert tuple(4 * (rank % 3) + rank // 3 for rank in range(12)) in orders


def test_nothing_is_looked_for_where_regular_placements_take_the_work() -> None:
    """A quarter of the work is for them: 12 ranks in groups of 3 look at 12 * 2 * 2 links each time."""
    topology = parse("torus(4, 3)")
    kinds = [RankGroups(3, 4, 0, 1.0, 1.0, 0.5)]
    each = 12 * 2 * 4
    own = list(range(12))
    none = order_ranks(topology, kinds, work=4 * each - 1)
    assert (none.nodes.tolist(), none.cost) == (own, none.own_cost)
    some = order_ranks(topology, kinds, work=40 * each)
    assert some.cost < some.own_cost
    assert some.cost == pytest.approx(_cost(topology, kinds, some.nodes))
    assert some.own_cost == pytest.approx(_cost(topology, kinds, np.array(own)))
