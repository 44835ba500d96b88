"""Height-first: trees within the height that was asked for and within capacities, or a reason."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.trees import Packer, synthesise
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.packers.improvement import route_trees
from treadle.synthesis.trees.packers.packed import PackingAttempt
from treadle.topologies import Topology, parse
from treadle.verification.schedules import verify


def instance(topology: Topology) -> Instance:
    return instance_of(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))


@pytest.mark.parametrize(
    ("name", "height"),
    [("leaf_spine(8,4,oversubscription=2)", 2), ("leaf_spine(4,2)", 1), ("fat_tree(4)", 1)],
)
def test_fabrics_whose_ranks_bind(name: str, height: int) -> None:
    topology = parse(name)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    result = synthesise(topology, collective, packer=Packer.HEIGHT_FIRST)
    report = verify(topology, collective, result.schedule, claimed_algbw=result.algbw)
    assert (result.packer, report.height_max, report.violations) == ("height-first", height, ())
    assert result.algbw == result.bound.algbw


def test_tight_boxes_are_left_to_others() -> None:
    topology = parse("mi250(2)")
    problem = instance(topology)
    forest = synthesise(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER), packer=Packer.GROWTH)
    units = forest.schedule.total_units / forest.algbw
    capacities = np.array([int(b * units) for b in problem.bandwidths.tolist()], dtype=np.int64)
    found = route_trees(problem, capacities, forest.schedule.root_multiplicity)
    assert isinstance(found, PackingAttempt)
    assert found.outcome == "not tried: some set of several ranks is tight, and no single rank"
