"""Balanced bandwidths below given ones: the highest rate, by a linear program over all cuts as the judge."""

from __future__ import annotations

from itertools import combinations
from random import Random

import numpy as np
import pytest
from scipy.optimize import linprog

from treadle.planning import bound, solve
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees import optimum
from treadle.topologies import Topology, TopologyBuilder

PHASES = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLGATHER)


def collective_on(topology: Topology, kind: CollectiveKind) -> Collective:
    forwarders = tuple(int(node) for node in topology.compute_nodes if node >= 3)
    return Collective(kind, (0, 1, 2), forwarders=forwarders)


def best_rate(topology: Topology, kinds: tuple[CollectiveKind, ...]) -> float:
    """The common rate of the best balanced bandwidths, with every cut a row; 0 if there are none."""
    n, m = topology.n_nodes, topology.n_links
    rows = []
    balance = [
        [*((topology.heads == relay).astype(int) - (topology.tails == relay)), 0] for relay in range(3, n)
    ]
    for kind in kinds:
        outward = kind is CollectiveKind.ALLGATHER
        for size in range(1, n):
            for inside in combinations(range(n), size):
                weight = len({0, 1, 2} & set(inside))
                if weight == 3:
                    continue
                start, end = np.isin(topology.tails, inside), np.isin(topology.heads, inside)
                crossing = start & ~end if outward else end & ~start
                rows.append([*-crossing.astype(int), weight])
    bounds = [*((0, int(b)) for b in topology.bandwidths), (0, None)]
    goal = [0] * m + [-1]
    made = linprog(goal, rows, [0] * len(rows), balance, [0] * len(balance), bounds)
    return float(-made.fun)


@pytest.mark.parametrize("kind", PHASES)
def test_the_optimum_is_what_switches_pass_on_not_what_cuts_let_through(kind: CollectiveKind) -> None:
    """Switches that send more than they receive, or less: the least cut is up to thrice what trees reach."""
    below = 0
    for seed in range(6):
        random, builder = Random(seed), TopologyBuilder(f"star {seed}")
        for name in "abc":
            builder.compute(name)
        for switch in ("s", "t")[: 1 + seed % 2]:
            builder.switch(switch)
            for name in "abc":
                ends = (name, switch) if kind is CollectiveKind.ALLGATHER else (switch, name)
                builder.link(*ends, random.randint(1, 3))
                builder.link(*ends[::-1], random.randint(2, 6))
        topology = builder.build()
        found = bound(topology, kind)
        assert float(found.algbw) == pytest.approx(3 * best_rate(topology, (kind,)), rel=1e-9)
        assert found.bound.is_tight
        assert solve(topology, kind, trim=True, exact=True).is_optimal
        below += found.algbw < optimum(topology, collective_on(topology, kind)).algbw
    assert below > 2


def test_the_largest_total_may_cut_ranks_off() -> None:
    """Taking least leaves no way through s; what the rates need goes first."""
    builder = TopologyBuilder("lost way")
    for name in ("a", "b"):
        builder.compute(name)
    for name in ("s", "t"):
        builder.switch(name)
    builder.link("b", "a", 1)
    builder.link("a", "s", 1)
    builder.link("s", "t", 1)
    builder.link("t", "b", 1)
    builder.link("b", "t", 3)
    builder.link("t", "s", 3)
    builder.link("s", "b", 2)
    topology = builder.build()
    result = solve(topology, "allgather", trim=True)
    assert result.is_optimal
