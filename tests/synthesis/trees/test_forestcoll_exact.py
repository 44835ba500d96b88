"""ForestColl against slow references: linear program, all cuts, brute-force packing, random fabrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.allgather_lp import lp_rate
from samples.strategies import (
    collectives,
    eulerian_topologies,
    relay_balanced_topologies,
)
from treadle.engine import core
from treadle.errors import InfeasibleError
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind, on_all_ranks
from treadle.synthesis.trees import TreeBudget, synthesise
from treadle.synthesis.trees.fixed_trees import (
    exact_scale,
    floor_capacities,
)
from treadle.synthesis.trees.instance import find_violated_cut, instance_of
from treadle.synthesis.trees.optimality import instance_optimum
from treadle.synthesis.trees.switch_removal import remove_switches, rooted_fabric
from treadle.topologies import Topology, TopologyBuilder, parse
from treadle.verification.schedules import verify

ONE_WAY = tuple(kind for kind in SPANNING_KINDS if kind is not CollectiveKind.ALLREDUCE)


@settings(max_examples=30)
@given(st.data())
def test_random_eulerian_fabrics_reach_the_lp_bound(data: st.DataObject) -> None:
    topology = data.draw(eulerian_topologies(compute=(2, 6), switches=(1, 4)))
    collective = data.draw(collectives(topology, kinds=ONE_WAY))
    result = synthesise(topology, collective, budget=TreeBudget(exact=True))
    turned = topology.transpose() if collective.kind.reduces else topology
    rate = lp_rate(turned, collective.ranks, collective.shard_weights)
    assert result.bound is not None
    best = result.bound.algbw / sum(collective.shard_weights)
    assert float(best) == pytest.approx(rate, rel=1e-6)
    report = verify(
        topology,
        collective,
        result.schedule,
        claimed_algbw=result.bound.algbw,
        claimed_optimal_algbw=result.bound.algbw,
        certificate=result.bound.certificate,
    )
    assert not report.violations


def test_cuts_are_compared_in_128_bits_or_not_at_all() -> None:
    problem = instance_of(parse("ring(4)"), on_all_ranks(parse("ring(4)"), CollectiveKind.ALLGATHER))
    capacities = problem.bandwidths * 2**50
    # each rank gets 2**51 over its two links, and needs 3 times the rate
    for rate, is_violated in ((Fraction(2**51, 3), False), (Fraction(2**59 + 1, 3 * 2**8), True)):
        assert (find_violated_cut(problem, capacities, rate=rate) is not None) is is_violated
    for rate in (Fraction(2**75, 2**62 - 1), Fraction(1, 2**63), Fraction(2**125)):
        with pytest.raises(InfeasibleError, match="too many digits"):
            find_violated_cut(problem, problem.bandwidths * 2**61, rate=rate)


@settings(max_examples=30)
@given(
    st.one_of(
        eulerian_topologies(compute=(2, 5), switches=(1, 5), extra_cycles=6), relay_balanced_topologies()
    )
)
def test_exact_splitting_alone_removes_switches_too(topology: Topology) -> None:
    """The bulk plan never needs Theorem 28 on small fabrics, so it is switched off here."""
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    problem = instance_of(topology, collective)
    fixed = exact_scale(problem, instance_optimum(problem))
    capacities = floor_capacities(problem.bandwidths, fixed.scale)
    multiplicities = problem.weights * fixed.trees
    graph = remove_switches(problem, capacities, multiplicities, mend_limit=0)
    logical = replace(
        problem, tails=graph.tails, heads=graph.heads, bandwidths=graph.capacities, weights=multiplicities
    )
    assert find_violated_cut(logical, graph.capacities) is None
    check_paths(topology, capacities, graph)


def check_paths(topology: Topology, capacities: np.ndarray, graph: object) -> None:
    """Segments sum to the arcs' capacities, run from tail to head, and use no link beyond its capacity."""
    used = np.zeros(topology.n_links, dtype=np.int64)
    for arc in range(len(graph.tails)):
        span = range(int(graph.segment_offset[arc]), int(graph.segment_offset[arc + 1]))
        assert sum(int(graph.segment_units[i]) for i in span) == graph.capacities[arc]
        for i in span:
            path = int(graph.segment_path[i])
            links = graph.path_links[int(graph.path_offset[path]) : int(graph.path_offset[path + 1])]
            assert topology.tails[links[0]] == graph.tails[arc]
            assert topology.heads[links[-1]] == graph.heads[arc]
            assert np.array_equal(topology.heads[links[:-1]], topology.tails[links[1:]])
            used[links] += graph.segment_units[i]
    assert np.all(used <= capacities)


def subsets(nodes: range) -> Iterator[set[int]]:
    for size in range(1, len(nodes)):
        for chosen in combinations(nodes, size):
            yield set(chosen)


@settings(max_examples=30)
@given(st.data())
def test_gamma_of_theorem_28_equals_brute_force_over_cuts(data: st.DataObject) -> None:
    topology = data.draw(eulerian_topologies(compute=(2, 4), switches=(1, 3)))
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    problem = instance_of(topology, collective)
    fixed = exact_scale(problem, instance_optimum(problem))
    capacities = floor_capacities(problem.bandwidths, fixed.scale)
    multiplicities = problem.weights * fixed.trees
    w = data.draw(st.sampled_from(topology.switches.tolist()))
    links = list(zip(topology.tails.tolist(), topology.heads.tolist(), capacities.tolist(), strict=True))
    u = data.draw(st.sampled_from([tail for tail, head, _ in links if head == w]))
    t = data.draw(st.sampled_from([head for tail, head, _ in links if tail == w]))
    gamma = min(
        sum(c for tail, head, c in links if (tail, head) == (u, w)),
        sum(c for tail, head, c in links if (tail, head) == (w, t)),
    )
    ranks = set(collective.ranks)
    for inside in subsets(range(topology.n_nodes)):
        affected = (u in inside) == (t in inside) != (w in inside)
        if ranks <= inside or not affected:
            continue
        leaving = sum(c for tail, head, c in links if tail in inside and head not in inside)
        gamma = min(gamma, leaving - fixed.trees * len(ranks & inside))
    assert core.split_amount(rooted_fabric(problem, capacities, multiplicities), u, w, t) == gamma


def test_more_units_than_64_bits_hold_are_refused() -> None:
    builder = TopologyBuilder("ring")
    for name in ("a", "b", "c"):
        builder.compute(name)
    builder.duplex("a", "b", 2**50)
    builder.duplex("b", "c", 1)
    builder.duplex("c", "a", 1)
    topology = builder.build()
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    with pytest.raises(InfeasibleError, match="limit the trees"):
        synthesise(topology, collective, budget=TreeBudget(trees=2**20))
    assert synthesise(topology, collective, budget=TreeBudget(trees=2)).algbw == 3
