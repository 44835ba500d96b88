"""Trees of the fabric as schedules: units, roots, parallel links; switches and groups as terminals."""

from __future__ import annotations

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.allreduce.pair_network import network_of
from treadle.synthesis.trees.allreduce.rooted_packing import _RootedMaster
from treadle.topologies.topology import TopologyBuilder


def test_trees_that_gain_at_potentials_of_their_roots() -> None:
    """Out-trees pay for the root and are worth 1, in-trees gain what out-trees pay; b is told before a."""
    builder = TopologyBuilder("pair")
    for name in "ab":
        builder.compute(name)
    builder.duplex("a", "b", 1)
    master = _RootedMaster(network_of(builder.build(), Collective(CollectiveKind.ALLREDUCE, (1, 0))))
    assert master.add([1.0, 1.0], [0.0, 0.0]) == 0  # out of neither root at less than 1, into none below 0
    # potentials of b and a: out of a 0.3 - 0.5, into b 0.3 - 0.9
    assert master.add([0.3, 0.3], [0.9, -0.5]) == 2
    assert [(side.stores, tree.root) for side, tree in master._columns] == [(True, 0), (False, 1)]
    assert master.add([0.3, 0.3], [0.9, -0.5]) == 0  # they are there
    # out of b 0.2 + 0.7, into a 0.2 - 0.8
    assert master.add([0.2, 0.2], [0.7, 0.8]) == 2
    assert [(side.stores, tree.root) for side, tree in master._columns[2:]] == [(True, 1), (False, 0)]
