"""Stars of one or several switches whose links have just the capacity that trees by formula take."""

from __future__ import annotations

import itertools
import random

import numpy as np

from reference.formula_checks import planes_star
from treadle.arrays import Int64Array
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.factored import (
    PlaneTrees,
    RelayTrees,
)
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.tight_cuts.closed_forms.boundary_runs import Outermost
from treadle.synthesis.trees.tight_cuts.closed_forms.one_relay import relay_trees
from treadle.synthesis.trees.tight_cuts.closed_forms.unequal_planes import plane_trees
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.subproblems import cut
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.unsupported import Unsupported


def star(exits: list[int], entries: list[int]) -> Topology:
    """Ranks around one switch; bandwidths out and in."""
    builder = TopologyBuilder("star")
    names = [builder.compute(f"r{i}") for i in range(len(exits))]
    switch = builder.switch("sw")
    for name, out, into in zip(names, exits, entries, strict=True):
        if out:
            builder.link(name, switch, bandwidth=out)
        if into:
            builder.link(switch, name, bandwidth=into)
    return builder.build()


def relayed_star(
    weights: list[int], exits: list[int], block: int = 1
) -> tuple[Topology, Collective, RelayTrees | Unsupported]:
    """A star whose links have just the capacity units given; a rank is the root of `weights` unit trees."""
    total = sum(weights)
    topology = star(exits, [total - weight for weight in weights])
    ranks = tuple(range(len(weights)))
    collective = Collective(CollectiveKind.ALLGATHER, ranks, weights=tuple(weights))
    problem = instance_of(topology, collective)
    family = Family(np.array([-1], dtype=np.int32), np.zeros(problem.n_nodes, dtype=np.int32))
    cutting = cut(problem, family, problem.bandwidths, np.array(weights))
    return topology, collective, relay_trees(Outermost.of(cutting, {}, block))


def relay_sample() -> tuple[Topology, Collective, RelayTrees]:
    """Child 1 makes a delivery for child 0."""
    topology, collective, trees = relayed_star([3, 1, 2], [5, 3, 4])
    assert isinstance(trees, RelayTrees)
    assert trees.relay_root.tolist() == [0]
    return topology, collective, trees


def shared_star(
    out: Int64Array, into: Int64Array, trees: int, block: int = 1
) -> tuple[Topology, Collective, PlaneTrees | Unsupported]:
    """Plane trees on such a star, whose links have just the capacity units given."""
    topology = planes_star(out, into)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    problem = instance_of(topology, collective)
    family = Family(np.array([-1], dtype=np.int32), np.zeros(problem.n_nodes, dtype=np.int32))
    cutting = cut(problem, family, problem.bandwidths, np.full(len(out), trees))
    return topology, collective, plane_trees(Outermost.of(cutting, {}, block))


def spread_at_random(rng: random.Random, n: int, planes: int, trees: int) -> Int64Array:
    """Units that each child sends to each other by each plane, with planes that some children hardly use."""
    odds = [[rng.choice([1, 1, 1, 4]) for _ in range(planes)] for _ in range(n)]
    table = np.zeros((planes, n, n), dtype=np.int64)
    for x, y in itertools.permutations(range(n), 2):
        weights = [a * b for a, b in zip(odds[x], odds[y], strict=True)]
        for plane in rng.choices(range(planes), weights, k=trees):
            table[plane, x, y] += 1
    return table


def plane_sample() -> tuple[Topology, Collective, PlaneTrees]:
    """Four ranks with two trees each, in three groups; six pairs are given."""
    sums = np.array([[4, 2], [3, 3], [3, 3], [2, 4]])
    topology, collective, trees = shared_star(sums, sums, 2)
    assert isinstance(trees, PlaneTrees)
    assert len(trees.pair_root) > 1
    return topology, collective, trees
