"""Clusters in fabrics of equal links: found where planted, not elsewhere; optima like the pipeline's."""

from __future__ import annotations

import numpy as np
import pytest

from samples.clustered_fabrics import clustered
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.trees.fixed_trees import floor_capacities
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.optimality import optimum
from treadle.synthesis.trees.tight_cuts.balancing import balance_capacities
from treadle.synthesis.trees.tight_cuts.sets.detection import detect
from treadle.topologies import Topology


def gathered(topology: Topology) -> Collective:
    return on_all_ranks(topology, CollectiveKind.ALLGATHER)


def posed(topology: Topology) -> Instance:
    return instance_of(topology, gathered(topology))


def entering(problem: Instance, capacities: np.ndarray, nodes: list[int]) -> int:
    inside = np.zeros(problem.n_nodes, dtype=bool)
    inside[nodes] = True
    return int(capacities[inside[problem.heads] & ~inside[problem.tails]].sum())


@pytest.mark.parametrize("seed", range(15))
def test_trimming_leaves_ranks_sets_and_guarded_cuts_what_they_need(seed: int) -> None:
    topology, planted = clustered(seed)
    problem = posed(topology)
    family = detect(problem)
    rate = optimum(topology, gathered(topology)).rate
    capacities = floor_capacities(problem.bandwidths, 60 / rate)
    ones = np.full(len(problem.terminals), 60)
    guarded = sorted({*planted[0], *planted[1]})
    trimmed = balance_capacities(problem, family, capacities, ones, [guarded])
    assert np.all(trimmed.capacities <= capacities)
    total = 60 * problem.n_nodes
    for number in np.flatnonzero(~trimmed.failed[1:]) + 1:
        members = family.members(int(number)).tolist()
        others = sorted(set(range(problem.n_nodes)) - set(members))
        assert entering(problem, trimmed.capacities, members) == total - 60 * len(members)
        assert entering(problem, trimmed.capacities, others) >= 60 * len(members)
    for node in range(problem.n_nodes):
        assert entering(problem, trimmed.capacities, [node]) >= total - 60
    assert entering(problem, trimmed.capacities, guarded) >= total - 60 * len(guarded)
