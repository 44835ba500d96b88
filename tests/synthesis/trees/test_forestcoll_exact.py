"""ForestColl against slow references: linear program, all cuts, brute-force packing, random fabrics."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reference.allgather_lp import lp_rate
from reference.optimum import optimal_rate
from samples.strategies import (
    collectives,
    digraphs,
    eulerian_topologies,
    relay_balanced_topologies,
    symmetric_topologies,
)
from treadle.engine import core
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.trees import TreeBudget, optimum, pack_forest, synthesise
from treadle.synthesis.trees.fixed_trees import (
    best_first,
    exact_scale,
    fixed_trees_optimum,
    floor_capacities,
)
from treadle.synthesis.trees.instance import find_violated_cut, instance_of
from treadle.synthesis.trees.optimality import instance_optimum
from treadle.synthesis.trees.packers.tree_packing import pack_trees, to_forest
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


@settings(max_examples=30)
@given(eulerian_topologies(compute=(2, 5), switches=(0, 3)))
def test_optimum_equals_the_networkx_reference(topology: Topology) -> None:
    rate, _ = optimal_rate(topology)
    assert optimum(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER)).rate == rate


@settings(max_examples=15)
@given(st.data())
def test_switch_free_digraphs_need_no_balance(data: st.DataObject) -> None:
    topology = data.draw(digraphs())
    collective = data.draw(collectives(topology, kinds=ONE_WAY))
    result = synthesise(topology, collective, budget=TreeBudget(exact=True))
    report = verify(topology, collective, result.schedule, claimed_algbw=result.bound.algbw)
    assert not report.violations


@settings(max_examples=20)
@given(symmetric_topologies(switches=(1, 3)), st.integers(1, 6))
def test_fixed_trees_are_exact_and_within_theorem_35(topology: Topology, trees: int) -> None:
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    result = synthesise(topology, collective, budget=TreeBudget(trees=trees))
    assert not verify(topology, collective, result.schedule, claimed_algbw=result.algbw).violations
    # times for M = 1: U*/(N k) <= 1/(N x*) + 1/(N k min b)
    n = collective.n_ranks
    slowest = int(topology.bandwidths.min())
    assert 1 / result.algbw <= 1 / result.bound.algbw + Fraction(1, n * trees * slowest)
    # least U: with any smaller one the capacities fall and some cut is violated
    problem = instance_of(topology, collective)
    fixed = fixed_trees_optimum(problem, instance_optimum(problem), trees)
    assert (
        find_violated_cut(problem, floor_capacities(problem.bandwidths, fixed.scale), multiplicity=trees)
        is None
    )
    smaller = fixed.scale - Fraction(1, 10**6)
    lower = floor_capacities(problem.bandwidths, smaller)
    assert find_violated_cut(problem, lower, multiplicity=trees) is not None


def test_cuts_are_compared_in_128_bits_or_not_at_all() -> None:
    problem = instance_of(parse("ring(4)"), on_all_ranks(parse("ring(4)"), CollectiveKind.ALLGATHER))
    capacities = problem.bandwidths * 2**50
    # each rank gets 2**51 over its two links, and needs 3 times the rate
    for rate, is_violated in ((Fraction(2**51, 3), False), (Fraction(2**59 + 1, 3 * 2**8), True)):
        assert (find_violated_cut(problem, capacities, rate=rate) is not None) is is_violated
    for rate in (Fraction(2**75, 2**62 - 1), Fraction(1, 2**63), Fraction(2**125)):
        with pytest.raises(InfeasibleError, match="too many digits"):
            find_violated_cut(problem, problem.bandwidths * 2**61, rate=rate)


@settings(max_examples=20)
@given(symmetric_topologies(switches=(0, 3)))
def test_numbers_of_trees_come_best_first(topology: Topology) -> None:
    """What cuts of other numbers bound is left for later, and each number's optimum stays its own."""
    problem = instance_of(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    best = instance_optimum(problem)
    alone = [fixed_trees_optimum(problem, best, trees) for trees in range(1, 8)]
    assert list(best_first(problem, best, range(1, 8))) == sorted(
        alone, key=lambda one: (-one.algbw, one.trees)
    )
    given_too = best_first(problem, best, range(2, 8), alone[:1])
    assert next(given_too) == max(alone, key=lambda one: (one.algbw, -one.trees))


@settings(max_examples=25)
@given(st.data())
def test_only_switches_need_balance(data: st.DataObject) -> None:
    topology = data.draw(relay_balanced_topologies())
    collective = data.draw(collectives(topology, kinds=ONE_WAY))
    result = synthesise(topology, collective, budget=TreeBudget(exact=True))
    report = verify(
        topology,
        collective,
        result.schedule,
        claimed_algbw=result.bound.algbw,
        claimed_optimal_algbw=result.bound.algbw,
        certificate=result.bound.certificate,
    )
    assert not report.violations


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


@settings(max_examples=15)
@given(st.data())
def test_exact_growth_alone_packs_all_trees(data: st.DataObject) -> None:
    """Greedy trees nearly always pass on small fabrics, so they are switched off here."""
    topology = data.draw(digraphs(compute=(3, 7), extra_links=16))
    collective = data.draw(collectives(topology, kinds=ONE_WAY))
    problem = instance_of(topology, collective)
    best = instance_optimum(problem)
    fixed = exact_scale(problem, best)
    capacities = floor_capacities(problem.bandwidths, fixed.scale)
    multiplicities = problem.weights * fixed.trees
    graph = remove_switches(problem, capacities, multiplicities)
    packing = pack_trees(problem, graph, multiplicities, speculate=False)
    assert packing.speculative == 0
    assert packing.exact == multiplicities.sum()
    forest = to_forest(problem, graph, packing)
    out = collective.kind.broadcasts
    schedule = ForestSchedule(
        collective.kind, reduce=None if out else forest, broadcast=forest if out else None
    )
    assert not verify(topology, collective, schedule, claimed_algbw=best.algbw).violations


def test_paths_do_not_come_back_to_a_switch() -> None:
    topology = parse("fat_tree(4)")
    result = synthesise(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    forest = result.schedule.broadcast
    assert forest is not None
    for number in range(forest.n_paths):
        heads = topology.heads[forest.path(number)].tolist()
        assert len(set(heads)) == len(heads)


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


def arborescences(n: int, arcs: list[tuple[int, int]], root: int) -> list[tuple[int, ...]]:
    """Every spanning out-tree as the arcs it uses."""
    others = [v for v in range(n) if v != root]
    found = []
    for choice in product(*[[i for i, (_, head) in enumerate(arcs) if head == v] for v in others]):
        parent = {arcs[i][1]: arcs[i][0] for i in choice}
        if all(reaches(v, root, parent) for v in others):
            found.append(choice)
    return found


def reaches(v: int, root: int, parent: dict[int, int]) -> bool:
    for _ in range(len(parent) + 1):
        if v == root:
            return True
        v = parent[v]
    return False


def can_pack(capacities: list[int], demands: list[list[tuple[int, ...]]]) -> bool:
    if not demands:
        return True
    for tree in demands[0]:
        if all(capacities[i] > 0 for i in tree):
            left = [c - (i in tree) for i, c in enumerate(capacities)]
            if can_pack(left, demands[1:]):
                return True
    return False


@settings(max_examples=50)
@given(st.data())
def test_packing_succeeds_just_where_brute_force_does(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 4))
    arcs = data.draw(
        st.lists(
            st.sampled_from([(u, v) for u in range(n) for v in range(n) if u != v]), min_size=1, unique=True
        )
    )
    capacities = data.draw(st.lists(st.integers(1, 2), min_size=len(arcs), max_size=len(arcs)))
    roots = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n).filter(any))
    assume(sum(roots) <= 4)
    builder = TopologyBuilder("packing")
    for v in range(n):
        builder.compute(str(v))
    for (u, v), capacity in zip(arcs, capacities, strict=True):
        builder.link(str(u), str(v), capacity)
    topology = builder.build()
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    trees = [arborescences(n, arcs, v) for v in range(n) for _ in range(roots[v])]
    if not can_pack(capacities, trees):
        with pytest.raises(InfeasibleError):
            pack_forest(topology, collective, roots)
        return
    forest = pack_forest(topology, collective, roots)
    assert forest.root_multiplicity.tolist() == roots
    load = np.zeros(len(arcs), dtype=np.int64)
    for v in range(n):
        for tree in forest.trees(v):
            for entry in range(len(tree.entry_path)):
                load[forest.path(int(tree.entry_path[entry]))] += tree.entry_units[entry]
    assert np.all(load <= capacities)


def star(bandwidths: list[tuple[int, int]]) -> Topology:
    builder = TopologyBuilder("star")
    for i in range(len(bandwidths)):
        builder.compute(f"gpu{i}")
    builder.switch("switch")
    for i, (out, into) in enumerate(bandwidths):
        builder.link(f"gpu{i}", "switch", out)
        builder.link("switch", f"gpu{i}", into)
    return builder.build()


def test_unequal_shards_shift_the_optimum() -> None:
    topology = star([(6, 6)] * 3)
    even = optimum(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    assert even.algbw == 9
    heavy = Collective(CollectiveKind.ALLGATHER, (0, 1, 2), weights=(4, 1, 1))
    # rank 1 lacks 5 of 6 parts, and takes 6 bytes/s: 36/5; rank 0's own 4 parts leave at 6 bytes/s: 9
    assert optimum(topology, heavy).algbw == Fraction(36, 5)
    result = synthesise(topology, heavy, budget=TreeBudget(exact=True))
    assert not verify(topology, heavy, result.schedule, claimed_algbw=Fraction(36, 5)).violations


def test_a_rank_without_data_roots_no_tree() -> None:
    topology = star([(6, 6)] * 3)
    collective = Collective(CollectiveKind.ALLGATHER, (0, 1, 2), weights=(1, 0, 1))
    result = synthesise(topology, collective)
    assert result.schedule.root_multiplicity[1] == 0
    assert not verify(topology, collective, result.schedule, claimed_algbw=result.algbw).violations


def test_forwarders_relay_and_hold_no_data() -> None:
    builder = TopologyBuilder("line")
    for name in ("a", "middle", "b"):
        builder.compute(name)
    builder.duplex("a", "middle", 4)
    builder.duplex("middle", "b", 4)
    topology = builder.build()
    collective = Collective(CollectiveKind.ALLGATHER, (0, 2), forwarders=(1,))
    result = synthesise(topology, collective)
    assert result.algbw == 8
    assert not verify(topology, collective, result.schedule, claimed_algbw=Fraction(8)).violations
    with pytest.raises(ScheduleError, match="neither a rank nor a forwarder"):
        synthesise(topology, Collective(CollectiveKind.ALLGATHER, (0, 2)))


def test_unbalanced_switch_is_named_with_both_sums() -> None:
    topology = star([(5, 6), (6, 6)])
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    assert optimum(topology, collective).algbw == 10
    with pytest.raises(InfeasibleError, match=r"'switch' is not Eulerian: 11 in, 12 out"):
        synthesise(topology, collective)


def test_unreachable_rank_is_named() -> None:
    builder = TopologyBuilder("one way")
    builder.compute("a")
    builder.compute("b")
    builder.link("a", "b", 1)
    topology = builder.build()
    with pytest.raises(InfeasibleError, match="'b' cannot reach rank 'a'"):
        optimum(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))
    reached = optimum(topology, on_all_ranks(topology, CollectiveKind.BROADCAST, root=0))
    assert reached.algbw == 1


@pytest.mark.parametrize("bandwidth", [2**50, 2**50 - 27, 2**49 + 1])
def test_huge_bandwidths_are_exact(bandwidth: int) -> None:
    topology = star([(bandwidth, bandwidth)] * 5 + [(2**50 - 35, 2**50 - 35)] * 2)
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    best = optimum(topology, collective)
    assert best.algbw == Fraction(7 * min(bandwidth, 2**50 - 35), 6)
    result = synthesise(topology, collective)
    assert not verify(topology, collective, result.schedule, claimed_algbw=result.algbw).violations


def test_a_port_that_outweighs_all_others_by_far() -> None:
    """Proportional fitting of the split plan diverges here; the plan must stay within the ports' units."""
    builder = TopologyBuilder("lopsided")
    builder.compute("a")
    builder.compute("b")
    builder.switch("switch")
    builder.link("a", "switch", 1154274912637)
    builder.link("switch", "a", 1154274912638)
    builder.link("b", "switch", 1)
    builder.link("a", "b", 3)
    builder.link("b", "a", 1)
    topology = builder.build()
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    result = synthesise(topology, collective, budget=TreeBudget(exact=True))
    assert result.algbw == 4
    assert not verify(topology, collective, result.schedule, claimed_algbw=Fraction(4)).violations


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


def test_parallel_links_and_self_loops() -> None:
    builder = TopologyBuilder("multi")
    builder.compute("a")
    builder.compute("b")
    builder.duplex("a", "b", 3)
    builder.duplex("a", "b", 4)
    builder.link("a", "a", 100)
    topology = builder.build()
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    result = synthesise(topology, collective)
    assert result.algbw == 14
    assert not verify(topology, collective, result.schedule, claimed_algbw=Fraction(14)).violations


def test_contradictory_tree_budgets_are_refused() -> None:
    with pytest.raises(ScheduleError, match="at most one"):
        TreeBudget(trees=3, exact=True)
    with pytest.raises(ScheduleError, match="expected 1 to"):
        TreeBudget(trees=0)
