"""The parts of the allreduce synthesis: exact solving, separation, pruning of terminals, shortest trees."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samples.allreduce_fabrics import allreduce, undirected, without_capabilities
from treadle.errors import InfeasibleError
from treadle.math.columns import RestrictedMaster
from treadle.math.exact import solve_exactly
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import Direction, ForestSchedule, TreeSpec, forest_from_trees
from treadle.synthesis.trees import pack_forest
from treadle.synthesis.trees.allreduce import (
    Construction,
    UnitLimits,
    allreduce_bound,
    solve_allreduce,
)
from treadle.synthesis.trees.allreduce import undirected_packing as packing_module
from treadle.synthesis.trees.allreduce.capacities import LinkAllocation, integral_allocation
from treadle.synthesis.trees.allreduce.pair_network import network_of
from treadle.synthesis.trees.allreduce.separation import violated_cuts
from treadle.synthesis.trees.allreduce.steiner_trees import spanning_tree
from treadle.synthesis.trees.allreduce.switch_terminals import prune_to_ranks
from treadle.synthesis.trees.allreduce.tree_schedule import MAX_UNITS, trees_to_schedule
from treadle.synthesis.trees.allreduce.undirected_packing import pack_fabric_trees
from treadle.topologies import Topology, TopologyBuilder, parse
from treadle.topologies.catalogue.platforms import dgx_h100, mi250
from treadle.verification.schedules import verify


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(-9, 9), min_size=n + 1, max_size=n + 1), min_size=n, max_size=n
        )
    )
)
def test_sparse_systems_are_solved_exactly(table: list[list[int]]) -> None:
    matrix = [{j: a for j, a in enumerate(row[:-1]) if a} for row in table]
    rhs = [row[-1] for row in table]
    solution = solve_exactly(matrix, rhs)
    if abs(np.linalg.det(np.array(table, dtype=float)[:, :-1])) < 0.5:
        assert solution is None
    else:
        assert solution is not None
        for row, value in zip(matrix, rhs, strict=True):
            assert sum(a * solution[j] for j, a in row.items()) == value


def test_huge_numbers_use_larger_primes() -> None:
    values = [2**50 - 27, 3**40, 7**25, 10**30 + 57]
    matrix = [{i: value, (i + 1) % 4: 1} for i, value in enumerate(values)]
    solution = solve_exactly(matrix, values)
    assert solution is not None
    assert max(value.denominator for value in solution) > 2**200


def _apart(*links: tuple[str, str]) -> Topology:
    builder = TopologyBuilder("apart")
    for name in "abc":
        builder.compute(name)
    for tail, head in links:
        builder.link(tail, head, 5)
    return builder.build()


@pytest.mark.parametrize("links", [(), (("a", "a"),), (("a", "b"), ("b", "a")), (("a", "b"), ("b", "c"))])
def test_ranks_that_are_not_joined_have_no_allreduce(links: tuple[tuple[str, str], ...]) -> None:
    topology = _apart(*links)
    with pytest.raises(InfeasibleError, match="so no allreduce exists; connect them or drop a rank"):
        allreduce_bound(topology, allreduce(topology))
    with pytest.raises(InfeasibleError, match="so no allreduce exists; connect them or drop a rank"):
        solve_allreduce(topology, allreduce(topology), pack=pack_forest)


def test_a_program_grows_by_rows_and_columns() -> None:
    lp = RestrictedMaster()
    first = lp.add_column(1)
    lp.add_row({first: 3}, 1)
    assert lp.near_optimum()[0] == pytest.approx([1 / 3])
    lp.add_column(1, {0: 1})
    lp.add_row({0: 1, 1: 3}, 2)
    lp.near_optimum()
    vertex = lp.exact_optimum()
    assert vertex is not None
    assert vertex.primal == (Fraction(1, 8), Fraction(5, 8))
    assert vertex.dual == (Fraction(1, 4), Fraction(1, 4))
    lp.add_row({0: 1}, -1)
    with pytest.raises(InfeasibleError, match="linear program: solver ended with kInfeasible"):
        lp.near_optimum()


ARCS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 6)), max_size=20)


@settings(max_examples=60)
@given(ARCS, st.lists(st.integers(0, 4), min_size=3, max_size=3), st.booleans())
def test_violated_cuts_against_networkx(
    arcs: list[tuple[int, int, int]], supplies: list[int], as_floats: bool
) -> None:
    """Three sinks, all of them roots, and three relays."""
    supply = dict(enumerate(supplies))
    graph = nx.DiGraph()
    graph.add_nodes_from([*range(6), "source"])
    for tail, head, capacity in [*arcs, *(("source", node, amount) for node, amount in supply.items())]:
        before = graph.get_edge_data(tail, head, {"capacity": 0})["capacity"]
        graph.add_edge(tail, head, capacity=before + capacity)
    short = [sink for sink in range(3) if nx.maximum_flow_value(graph, "source", sink) < sum(supplies)]
    if as_floats:
        scaled = [(tail, head, capacity / 6) for tail, head, capacity in arcs]
        cuts = violated_cuts(6, scaled, {v: x / 6 for v, x in supply.items()}, range(3), tolerance=1e-9)
    else:
        cuts = violated_cuts(6, arcs, supply, range(3))
    assert bool(cuts) == bool(short)
    for sink in short:
        assert any(sink not in cut for cut in cuts)
    for cut in cuts:
        leaving = sum(capacity for tail, head, capacity in arcs if tail in cut and head not in cut)
        assert leaving < sum(amount for node, amount in supply.items() if node in cut)
        assert not cut.issuperset(range(3))


def test_shortest_trees_against_networkx() -> None:
    rng = np.random.default_rng(3)
    for _ in range(30):
        graph = nx.gnm_random_graph(9, 16, seed=int(rng.integers(1000)))
        if not nx.is_connected(graph):
            continue
        builder = TopologyBuilder("random")
        for node in range(9):
            (builder.compute if node < 5 else builder.switch)(str(node))
        for one, other in graph.edges:
            builder.duplex(str(one), str(other), 1)
        topology = builder.build()
        network = network_of(topology, allreduce(topology))
        drawn = rng.integers(1, 20, network.n_pairs)
        lengths = [int(drawn[min(e, network.reverse[e])]) for e in range(network.n_pairs)]
        for tail, head, length in zip(network.tails, network.heads, lengths, strict=True):
            graph.edges[tail, head]["weight"] = length
        tree = spanning_tree(network, lengths, network.ranks)
        assert tree is not None
        closure = nx.Graph()
        for one, other in combinations(range(5), 2):
            closure.add_edge(one, other, weight=nx.shortest_path_length(graph, one, other, weight="weight"))
        expected = sum(data["weight"] for _, _, data in nx.minimum_spanning_tree(closure).edges(data=True))
        assert sum(lengths[pair] for _, _, pairs in tree.edges for pair in pairs) == expected
        for one, other, pairs in tree.edges:
            assert network.tails[pairs[0]] == one
            assert network.heads[pairs[-1]] == other


def test_switch_leaves_are_cut_off() -> None:
    """A triangle of two ranks and a switch, and a second switch behind it."""
    builder = TopologyBuilder("leaves")
    ranks = builder.compute("a"), builder.compute("b")
    switches = builder.switch("s"), builder.switch("t")
    for one, other in (ranks, (ranks[0], switches[0]), (ranks[1], switches[0]), switches):
        builder.duplex(one, other, 1)
    topology = builder.build()
    network = network_of(topology, allreduce(topology))
    tree = spanning_tree(network, [1] * network.n_pairs, range(4))
    assert tree is not None
    assert [edge[:2] for edge in tree.edges] in ([(0, 1)], [(1, 0)])


@pytest.mark.parametrize(
    "topology",
    [dgx_h100(1, nvls=True), dgx_h100(2, 6, nvls=True), dgx_h100(2, 6, nvls=True, sharp=True)],
    ids=["one box", "NVLS", "both"],
)
def test_undirected_trees_branch_at_capable_switches(topology: Topology) -> None:
    """Without a packer, so that terminals cannot be used."""
    collective = allreduce(topology)
    solution = solve_allreduce(topology, collective)
    assert solution.construction is Construction.TREES
    assert solution.algbw == solution.bound.algbw
    assert solution.algbw > allreduce_bound(without_capabilities(topology), collective).algbw
    assert not verify(topology, collective, solution.schedule, claimed_algbw=solution.algbw).violations


def test_stations_are_left_unit_by_unit() -> None:
    """a - s - {b, c} and a useless terminal t; the edge a-s has two paths that split the units 1 + 2."""
    builder = TopologyBuilder("terminals")
    for name in "abc":
        builder.compute(name)
    for name in "st":
        builder.switch(name, multicast=True, aggregation=True, turns_round=True)
    for bandwidth in (1, 2):
        builder.duplex("a", "s", bandwidth)
    builder.duplex("s", "b", 3)
    builder.duplex("s", "c", 3)
    builder.duplex("s", "t", 3)
    topology = builder.build()
    number = {(topology.link_name(e), int(topology.bandwidths[e])): e for e in range(topology.n_links)}

    def tree(direction: Direction) -> TreeSpec:
        def link(parent: str, child: str, bandwidth: int) -> tuple[tuple[int, ...], int]:
            ends = (parent, child) if direction is Direction.BROADCAST else (child, parent)
            return (number["->".join(ends), bandwidth],), min(bandwidth, 3)

        paths = {
            3: [link("a", "s", 1), link("a", "s", 2)],
            1: [link("s", "b", 3)],
            2: [link("s", "c", 3)],
            4: [link("s", "t", 3)],
        }
        return TreeSpec(root=0, multiplicity=3, parent=[-1, 3, 3, 0, 3], paths=paths)

    forests = [forest_from_trees(direction, 5, [tree(direction)]) for direction in Direction]
    schedule = ForestSchedule(CollectiveKind.ALLREDUCE, reduce=forests[1], broadcast=forests[0])
    pruned = prune_to_ranks(schedule, 3, topology, network_of(topology, allreduce(topology)))
    report = verify(topology, allreduce(topology), pruned, claimed_algbw=Fraction(3))
    assert not report.violations, report.violations
    assert pruned.broadcast is not None
    (only,) = pruned.broadcast.trees(0)
    assert only.parent.tolist() == [-1, 0, 0]
    assert sorted(only.entry_units.tolist()) == [1, 2, 3]


def test_rates_with_huge_denominators_are_rounded_down() -> None:
    topology = undirected(3, [(0, 1, 1), (1, 2, 1), (0, 2, 1)])
    network = network_of(topology, allreduce(topology))
    packing = pack_fabric_trees(network)
    assert packing.rate == Fraction(3, 2)
    shrunk = [
        (tree, rate * Fraction(10**12 - 11 * i, 10**12)) for i, (tree, rate) in enumerate(packing.trees)
    ]
    schedule = trees_to_schedule(topology, network, shrunk)
    assert schedule.total_units <= MAX_UNITS
    report = verify(topology, allreduce(topology), schedule)
    assert not report.violations
    assert report.algbw is not None
    assert report.algbw > Fraction(3, 2) * 10**9 * Fraction(999, 1000)


@pytest.mark.parametrize("max_units", [1, 5, 20])
def test_limited_units_lose_as_little_as_they_must(max_units: int) -> None:
    topology = mi250(2, 8)
    solution = solve_allreduce(topology, allreduce(topology), pack=pack_forest, limits=UnitLimits(max_units))
    assert solution.schedule.total_units <= max_units
    assert not verify(
        topology, allreduce(topology), solution.schedule, claimed_algbw=solution.algbw
    ).violations
    assert solution.algbw >= {1: 16, 5: 80, 20: 128}[max_units] * 10**9


@pytest.mark.parametrize("finer", [1, 3, 10])
def test_shares_become_whole_numbers_without_a_common_divisor(finer: int) -> None:
    """Quarters and halves of links in units of 1/finer: fewest trees, whatever the denominators."""
    fabric = parse("complete(3)")
    network = network_of(fabric, on_all_ranks(fabric, CollectiveKind.ALLREDUCE))
    rates = [Fraction(2, 4 * finer), Fraction(4, 4 * finer), Fraction(3, 4 * finer)]
    link = [Fraction(1 + pair % 2, 4 * finer) for pair in range(len(network.capacity))]
    found = integral_allocation(fabric, network, LinkAllocation(rates, link, link))
    assert found.roots == [2, 4, 3]
    assert set(found.broadcast) == set(found.reduce) == {1, 2}


@pytest.mark.parametrize("most", [1, 2])
def test_trees_visit_the_switches_that_make_them_shorter(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By t from a to b it is farther than straight, 6 to 5; by u to b, c and d it is nearer, 6 to 10."""
    builder = TopologyBuilder("switches")
    for name in "abcd":
        builder.compute(name)
    for name in "tu":
        builder.switch(name, multicast=True, aggregation=True, turns_round=True)
    lengths = []
    for pair, length in (
        ("at", 3),
        ("bt", 3),
        ("ab", 5),
        ("bu", 2),
        ("cu", 2),
        ("du", 2),
        ("bc", 5),
        ("cd", 5),
    ):
        builder.duplex(pair[0], pair[1], 1)
        lengths += [length, length]
    topology = builder.build()
    monkeypatch.setattr(packing_module, "MAX_ENUMERATED_SWITCHES", most)
    search = packing_module._TreeMaster(network_of(topology, allreduce(topology)))
    assert search.is_exhaustive is (most == 2)
    (tree,) = search.candidates(lengths, 0)
    assert tree.length(search.network, lengths) == 11
    assert {node for edge in tree.edges for node in edge[:2]} == {0, 1, 2, 3, 5}
    # tried from the last choice on, where other lengths make t worth while
    lengths[4] = lengths[5] = 7
    (tree,) = search.candidates(lengths, 0)
    assert tree.length(search.network, lengths) == 12


def test_packings_without_an_exact_vertex_fit_the_links() -> None:
    """A triangle of 2, 3 and 4 bytes/s: nine in all for trees of two edges; from floats, made to fit."""
    topology = undirected(3, [(0, 1, 2), (1, 2, 3), (0, 2, 4)])
    network = network_of(topology, allreduce(topology))
    search = packing_module._TreeMaster(network)
    lengths = packing_module._hint_lengths(network, None)
    assert lengths == [1 / b / 3 for b in network.capacity]
    hint = [Fraction(e, 7) for e in range(network.n_pairs)]
    lifted = [float(h) + 1e-4 / b / 3 for h, b in zip(hint, network.capacity, strict=True)]
    assert packing_module._hint_lengths(network, hint) == pytest.approx(lifted, rel=1e-12)
    for dear in range(3):
        weights = [5 if e // 2 == dear else 1 for e in range(6)]
        assert search.add(search.candidates(weights)) == 1
        assert search.add(search.candidates(weights)) == 0  # it is there
        disturbed = search.disturbed(weights, 0.5)
        assert all(w <= d <= 1.5 * w for w, d in zip(weights, disturbed, strict=True))
        assert [disturbed[e] for e in network.reverse] == disturbed
    rate, prices = search.solve()
    assert rate == pytest.approx(4.5)
    assert prices == pytest.approx([0.5] * 6)
    found = search.packing(None, is_priced=True)
    assert (found.rate, found.is_priced) == (Fraction(9, 2), False)
    assert set(found.lengths) == {Fraction(0)}
    load: dict[int, Fraction] = {}
    for tree, part in found.trees:
        for e, often in tree.usage(network).items():
            load[e] = load.get(e, Fraction(0)) + often * part
    assert all(total <= network.capacity[e] for e, total in load.items())
