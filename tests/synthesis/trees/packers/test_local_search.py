"""Local search: the same throughput and roots, never higher, as low as is known to be possible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.trees import Packer, synthesise
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.packers.tree_packing import from_forest, to_forest
from treadle.topologies import parse


def test_a_forest_as_a_logical_graph_and_back() -> None:
    topology = parse("mi250(1)")
    collective = on_all_ranks(topology, CollectiveKind.REDUCE_SCATTER)
    forest = synthesise(topology, collective, packer=Packer.GROWTH).schedule.forests[0]
    problem = instance_of(topology, collective)
    graph, packing = from_forest(problem, forest)
    assert np.array_equal(to_forest(problem, graph, packing).parent, forest.parent)
    short = replace(graph, segment_units=graph.segment_units - 1)
    with pytest.raises(AssertionError, match="more of a logical arc"):
        to_forest(problem, short, packing)
