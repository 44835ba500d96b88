"""The search for violated cuts tells how far it is and can be stopped."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.engine import core
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.core_values.integers import Wide
from treadle.synthesis.core_values.tree_values import Arcs, RootedFabric
from treadle.synthesis.trees import instance as instances
from treadle.synthesis.trees.instance import find_violated_cut, instance_of
from treadle.synthesis.trees.optimality import instance_optimum
from treadle.topologies import hypercube


def searched(*, demand: int, cancelled: int) -> tuple[int, list[int]]:
    """Of hypercube(4) with so many trees at each rank: the sink that fails, and the control array."""
    problem = instance_of(hypercube(4), Collective(CollectiveKind.ALLGATHER, tuple(range(16))))
    control = np.array([cancelled, 0, 0], dtype=np.int64)
    arcs = Arcs(problem.tails, problem.heads, np.full(len(problem.tails), 15, dtype=np.int64))
    fabric = RootedFabric(problem.n_nodes, problem.terminals, problem.weights, arcs)
    failed, _ = core.find_violated_cut(fabric, 1, Wide.of(demand), 0, control)
    return failed, control.tolist()


def test_counts_sinks() -> None:
    assert searched(demand=4, cancelled=0) == (-1, [0, 15, 16])


def test_stops_when_told() -> None:
    assert searched(demand=5, cancelled=0) == (0, [0, 0, 16])  # 75 units enter where 60 can
    assert searched(demand=5, cancelled=1) == (-1, [1, 0, 0])


def test_watched_search_finds_the_same_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = instance_of(hypercube(4), Collective(CollectiveKind.ALLGATHER, tuple(range(16))))
    scarce = problem.bandwidths * 3
    direct = find_violated_cut(problem, scarce), instance_optimum(problem)
    monkeypatch.setattr(instances, "_QUICK", 0)
    found = find_violated_cut(problem, scarce), instance_optimum(problem)
    assert direct[0] is not None
    assert found[0] is not None
    assert direct[0][0] == found[0][0]
    np.testing.assert_array_equal(direct[0][1], found[0][1])
    assert direct[1] == found[1]
