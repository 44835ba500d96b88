"""Pairs, groups, cuts, trees and shares of odd fabrics, by hand and against brute force."""

from __future__ import annotations

from functools import partial

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.allreduce.in_network_trees import in_network_tree
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork, network_of
from treadle.topologies.topology import Topology, TopologyBuilder

K = CollectiveKind


def allreduce(topology: Topology, ranks: tuple[int, ...] | None = None) -> Collective:
    return Collective(K.ALLREDUCE, ranks or tuple(topology.compute_nodes.tolist()))


def star(*widths: int, up: int = 0, multicast: bool = True, aggregation: bool = True) -> Topology:
    """Ranks r0, r1, ... at a switch that is asked, node 0, by links of these widths; r0's up by `up` more."""
    builder = TopologyBuilder("star")
    builder.switch("s", multicast=multicast, aggregation=aggregation)
    for rank, width in enumerate(widths):
        builder.compute(f"r{rank}")
        builder.link(f"r{rank}", "s", width + (up if rank == 0 else 0))
        builder.link("s", f"r{rank}", width)
    return builder.build()


def network(topology: Topology) -> PairNetwork:
    return network_of(topology, allreduce(topology))


def test_trees_that_ask() -> None:
    """With the group an operation is shorter than three sends; without it, or for two, sends are."""
    whole = network(star(2, 2, 2, 2))
    finder = partial(in_network_tree, whole)
    lengths = [3, 1, 3, 1, 3, 1, 3, 1]  # dear ways up, cheap ways down
    tree = finder(lengths, [], whole.groups)
    assert tree is not None
    assert tree.operations == ((whole.groups[0], tree.root),)
    assert tree.length(whole, [3] * 8) == 3 * 5
    plain = finder(lengths, [], [])
    assert plain is not None
    assert plain.operations == ()
    assert sum(lengths[pair] * n for pair, n in plain.crossings().items()) == 3 * (3 + 1)
    weighed = finder(lengths, [], whole.groups, [5, 5, 0, 5])
    assert weighed is not None
    assert weighed.root == whole.ranks[2]


def test_an_operation_for_one_rank_is_a_path() -> None:
    """r1 has the data from r0 for nothing; r2 alone is served by the group, by the way up of r0 and down."""
    builder = TopologyBuilder("three")
    builder.switch("s", multicast=True)
    for rank in range(3):
        builder.duplex(builder.compute(f"r{rank}"), "s", 2)
    builder.duplex("r0", "r1", 2)
    whole = network(builder.build())
    lengths = [5, 2, 5, 2, 5, 2, 0, 0]
    tree = in_network_tree(whole, lengths, [], whole.groups, [0, 9, 9])
    assert tree is not None
    assert (tree.root, tree.operations) == (1, ())
    assert sorted(tree.edges) == [(1, 2, (6,)), (1, 3, (0, 5))]
