"""Which number of trees is taken: powers of two of chunks, limits, capacities that switches can pass on."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.trees import (
    TreeBudget,
    synthesise,
)
from treadle.synthesis.trees.fixed_trees import fixed_trees_optimum, floor_capacities
from treadle.synthesis.trees.instance import Instance, find_violated_cut, instance_of
from treadle.synthesis.trees.optimality import instance_optimum
from treadle.topologies import Topology, TopologyBuilder
from treadle.topologies.transforms.balance import balanced_capacities
from treadle.verification.schedules import verify


def cut_holds(problem: Instance, capacities: np.ndarray, trees: int) -> bool:
    """Condition C by brute force: every set that leaves out a rank has enough capacity out of it."""
    nodes = range(problem.n_nodes)
    weight = dict(zip(problem.terminals.tolist(), problem.weights.tolist(), strict=True))
    for size in range(1, problem.n_nodes):
        for inside in combinations(nodes, size):
            if set(weight) <= set(inside):
                continue
            leaving = sum(
                int(c)
                for t, h, c in zip(problem.tails, problem.heads, capacities, strict=True)
                if t in inside and h not in inside
            )
            if leaving < trees * sum(weight.get(v, 0) for v in inside):
                return False
    return True


def holds(problem: Instance, scale: Fraction, trees: int) -> bool:
    """Whether some whole capacities up to the floors are balanced at relays and hold the trees."""
    floors = floor_capacities(problem.bandwidths, scale).tolist()
    for choice in product(*(range(floor + 1) for floor in floors)):
        surplus = np.zeros(problem.n_nodes, dtype=int)
        np.add.at(surplus, problem.heads, choice)
        np.subtract.at(surplus, problem.tails, choice)
        if not surplus[problem.relays].any() and cut_holds(problem, np.array(choice), trees):
            return True
    return False


def linked(*links: tuple[str, str, int]) -> Topology:
    """Nodes g* are ranks, s* switches."""
    builder = TopologyBuilder("linked")
    for name in sorted({name for tail, head, _ in links for name in (tail, head)}):
        builder.compute(name) if name.startswith("g") else builder.switch(name)
    for tail, head, bandwidth in links:
        builder.link(tail, head, bandwidth)
    return builder.build()


PARALLEL = linked(
    ("g1", "s0", 2), ("s0", "g0", 2), ("g0", "g1", 2), ("g0", "s0", 6), ("s0", "g1", 5), ("s0", "g1", 1)
)  # fmt: skip
JOINED = linked(
    ("g0", "s0", 5), ("s0", "g1", 5), ("g1", "g0", 5), ("g1", "s0", 8), ("s0", "g0", 4), ("s0", "g0", 4)
)  # fmt: skip
BACK = linked(
    ("s0", "g0", 6), ("g0", "g1", 8), ("g1", "s0", 6), ("g1", "g0", 4), ("g0", "s0", 5), ("g0", "s0", 5),
    ("s0", "g1", 10),
)  # fmt: skip
NOT_AT_ALL = linked(
    ("g2", "g1", 10), ("g1", "g0", 5), ("g0", "s0", 5), ("s0", "g2", 8), ("g1", "s0", 3), ("g1", "s0", 4),
    ("s0", "g0", 4),
)  # fmt: skip


@pytest.mark.parametrize(
    ("topology", "trees", "loss"),
    [
        (PARALLEL, 1, 0),
        (JOINED, 1, 0),
        (JOINED, 2, 0),
        (BACK, 1, 0),
        (NOT_AT_ALL, 1, Fraction(1, 4)),
        (NOT_AT_ALL, 2, Fraction(1, 6)),
    ],
)
def test_no_smaller_scale_has_capacities_that_switches_pass_on(
    topology: Topology, trees: int, loss: Fraction
) -> None:
    """The floors of the paper's scale are uneven there, and taking off surplus hurts; by brute force."""
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    problem = instance_of(topology, collective)
    fixed = fixed_trees_optimum(problem, instance_optimum(problem), trees)
    floors = floor_capacities(problem.bandwidths, fixed.scale)
    trimmed = balanced_capacities(problem.tails, problem.heads, floors, problem.relays.tolist())
    assert find_violated_cut(problem, trimmed, multiplicity=trees) is not None
    made = synthesise(topology, collective, budget=TreeBudget(trees=trees))
    assert made.trees_per_root == trees
    assert 1 - made.algbw / fixed.algbw == loss
    assert bool(loss) == "".join(made.notes).startswith("no capacities up to floor(U b)")
    assert not verify(topology, collective, made.schedule, claimed_algbw=made.algbw).violations
    scale = Fraction(len(collective.ranks) * trees) / made.algbw
    widths = set(problem.bandwidths.tolist())
    below = max(Fraction(j, b) for b in widths for j in range(int(scale * b) + 1) if Fraction(j, b) < scale)
    assert holds(problem, scale, trees)
    assert not holds(problem, below, trees)
