"""Vertex matching against an independent checker, brute force and exact growth."""

from __future__ import annotations

import random
from functools import partial
from itertools import product

import numpy as np
import pytest

from reference.packing_checker import SmallDigraph, faults, random_eulerian
from treadle.context import Context, TimeLimitError, under
from treadle.engine import core, run_core
from treadle.synthesis.core_values.tree_values import Arcs
from treadle.synthesis.trees.packers.vertex_matching import (
    Digraph,
    Matched,
    Start,
    height_bound,
    match_vertices,
)
from treadle.topologies import parse

SEEDS = range(80)


def digraph(instance: SmallDigraph) -> Digraph:
    arcs = sorted(instance.capacity)
    return Digraph(
        np.array(instance.roots, dtype=np.int64),
        np.array([tail for tail, _ in arcs], dtype=np.int32),
        np.array([head for _, head in arcs], dtype=np.int32),
        np.array([instance.capacity[arc] for arc in arcs], dtype=np.int64),
    )


def fabric(name: str, trees: int, capacity: int) -> SmallDigraph:
    topology = parse(name)
    arcs = zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)
    return SmallDigraph((trees,) * topology.n_nodes, dict.fromkeys(arcs, capacity))


def check(instance: SmallDigraph, found: Matched) -> list[str]:
    return faults(instance, found.root.tolist(), found.multiplicity.tolist(), found.parent.tolist())


@pytest.mark.parametrize("start", list(Start))
def test_packings_of_random_tight_digraphs_are_valid(start: Start) -> None:
    """Some cut is tight in every one; a failure is allowed, a wrong packing never."""
    failed = 0
    for seed in SEEDS:
        instance = random_eulerian(seed)
        found = match_vertices(digraph(instance), start=start)
        if found.failure:
            failed += 1
            assert len(found.root) == 0
            assert found.overload > 0
        else:
            assert not check(instance, found), seed
            assert found.overload == 0
    assert failed <= 0.05 * len(SEEDS)


def test_exact_growth_packs_what_the_cuts_allow() -> None:
    """The judge of last resort agrees with Edmonds's condition, which all instances satisfy."""
    for seed in SEEDS:
        instance = random_eulerian(seed)
        graph = digraph(instance)
        arcs = Arcs(graph.tails, graph.heads, graph.capacities)
        status, (root, multiplicity, parent), _ = run_core(
            "packing", partial(core.pack, graph.multiplicities, arcs, False)
        )
        assert status == 0
        parents = parent.reshape(len(root), graph.n_nodes).tolist()
        assert not faults(instance, root.tolist(), multiplicity.tolist(), parents)


def test_infeasible_digraphs_never_get_a_packing() -> None:
    refused = 0
    for seed in SEEDS:
        instance = random_eulerian(seed)
        v = random.Random(seed).randrange(instance.n_nodes)
        more = SmallDigraph(
            tuple(r + (1 if u == v else 0) for u, r in enumerate(instance.roots)), instance.capacity
        )
        if more.slack() >= 0:
            continue
        refused += 1
        for start in Start:
            found = match_vertices(digraph(more), start=start)
            assert found.failure
            assert len(found.parent) == 0
    assert refused > 50


def test_heights_of_the_smallest_digraphs_are_not_below_brute_force() -> None:
    """On three nodes every choice of trees can be tried: none is lower than the bound."""
    for seed in SEEDS:
        instance = random_eulerian(seed)
        if instance.n_nodes != 3 or sum(instance.roots) > 3:
            continue
        found = match_vertices(digraph(instance))
        units = [v for v, r in enumerate(instance.roots) for _ in range(r)]
        options = []
        for root in units:
            others = [v for v in range(3) if v != root]
            choices = []
            for pair in product(range(3), repeat=2):
                above = [-1, -1, -1]
                above[others[0]], above[others[1]] = pair
                choices.append(above)
            options.append(choices)
        valid = [
            chosen
            for chosen in product(*options)
            if not faults(instance, units, [1] * len(units), list(chosen))
        ]
        assert valid, "Edmonds's condition holds, so some packing exists"
        lowest = min(max(_height(above) for above in chosen) for chosen in valid)
        graph = digraph(instance)
        nodes = np.arange(3, dtype=np.int32)
        roots = nodes[graph.multiplicities > 0]
        assert height_bound(3, graph.tails, graph.heads, nodes, roots) <= lowest
        assert found.failure or found.height >= lowest


def _height(above: list[int]) -> int:
    def depth(v: int) -> int:
        return 0 if above[v] < 0 else 1 + depth(above[v])

    return max(depth(v) for v in range(len(above)))


@pytest.mark.parametrize(
    ("name", "trees", "capacity", "height"),
    [
        ("torus(4,4)", 4, 15, 4),
        ("hypercube(4)", 4, 15, 4),
        ("torus(3,3,3)", 6, 26, 3),
        ("torus(8,16)", 4, 127, 12),
        ("ring(9)", 1, 4, 4),
    ],
)
def test_direct_connect_fabrics_are_as_low_as_their_diameter(
    name: str, trees: int, capacity: int, height: int
) -> None:
    """Every in-arc is full: d * capacity = trees * (N - 1), so the optimum is attained."""
    instance = fabric(name, trees, capacity)
    graph = digraph(instance)
    found = match_vertices(graph, detours=False, first_height=height, last_height=height)
    assert found.failure == ""
    assert found.height == height
    assert not check(instance, found)
    nodes = np.arange(graph.n_nodes, dtype=np.int32)
    assert height_bound(graph.n_nodes, graph.tails, graph.heads, nodes, nodes) == height


def test_detours_solve_what_matching_alone_does_not() -> None:
    alone = {s for s in SEEDS if match_vertices(digraph(random_eulerian(s)), detours=False).failure}
    both = {s for s in alone if match_vertices(digraph(random_eulerian(s))).failure}
    assert len(both) < len(alone)


def test_bundles_stay_together() -> None:
    instance = fabric("hypercube(3)", 6, 14)
    found = match_vertices(digraph(instance), unit=2)
    assert found.failure == ""
    assert not np.any(found.multiplicity % 2)
    assert not check(instance, found)


def test_the_same_arguments_give_the_same_trees() -> None:
    graph = digraph(fabric("torus(4,6)", 4, 23))
    for start in Start:
        one, other = (match_vertices(graph, start=start, seed=5) for _ in range(2))
        assert np.array_equal(one.parent, other.parent)
        assert one.work == other.work
    seeds = {match_vertices(graph, seed=seed).parent.tobytes() for seed in range(4)}
    assert len(seeds) > 1


def test_limits_end_an_attempt() -> None:
    graph = digraph(fabric("torus(16,16)", 4, 255))
    found = match_vertices(graph, max_work=1000)
    assert found.failure.startswith("gave up after")
    with pytest.raises(TimeLimitError), under(Context(deadline=0.0)):
        match_vertices(graph, start=Start.PRICED)


def test_equal_trees_are_kept_once_however_many_they_are() -> None:
    graph = Digraph(
        np.array([2**40, 0], dtype=np.int64),
        np.array([0, 1], dtype=np.int32),
        np.array([1, 0], dtype=np.int32),
        np.array([2**40, 2**40], dtype=np.int64),
    )
    found = match_vertices(graph)
    assert found.failure == ""
    assert found.multiplicity.tolist() == [2**40]


def test_bundles_are_split_where_only_some_of_their_trees_fit() -> None:
    """Every arc of a torus takes 15 of 60 trees, and 4 trees of a root are equal nearly everywhere."""
    instance = fabric("torus(4,4)", 4, 15)
    found = match_vertices(digraph(instance), detours=False)
    assert found.failure == ""
    assert found.splits > 0
    assert 16 < len(found.root) < 48
    assert not check(instance, found)


def test_very_many_different_multiplicities() -> None:
    """Too many weights for tables of each: 200 of them at nodes of 199 arcs, one of these too narrow."""
    n, chance = 200, random.Random(1)
    roots = tuple(chance.sample(range(1, n + 1), n))
    capacity = {(u, v): roots[u] for u in range(n) for v in range(n) if u != v}
    for v in range(n):
        narrow, wide = chance.sample([u for u in range(n) if u != v and roots[u] > 1], 2)
        capacity[narrow, v] -= 1
        capacity[wide, v] += 1
    instance = SmallDigraph(roots, capacity)
    found = match_vertices(digraph(instance))
    assert found.failure == ""
    assert found.splits >= n / 2
    assert not check(instance, found)


def test_graphs_that_are_too_large_are_refused() -> None:
    ring = np.arange(2**16, dtype=np.int32)
    graph = Digraph(np.ones(2**16, dtype=np.int64), ring, np.roll(ring, -1), np.ones(2**16, dtype=np.int64))
    assert "too many" in match_vertices(graph).failure


def test_unreachable_nodes_are_a_failure() -> None:
    one_way = SmallDigraph((0, 1), {(0, 1): 3})
    for start in Start:
        assert match_vertices(digraph(one_way), start=start).failure == "some node is not reached"


def test_the_checker_sees_every_mutation() -> None:
    """A parent changed to another node breaks spanning, or a capacity, or is a packing by brute force."""
    rejected = 0
    for seed in list(SEEDS)[:30]:
        instance = random_eulerian(seed)
        found = match_vertices(digraph(instance))
        if found.failure:
            continue
        root, multiplicity = found.root.tolist(), found.multiplicity.tolist()
        for t in range(len(root)):
            for v in range(instance.n_nodes):
                parents = found.parent.tolist()
                if v == root[t]:
                    parents[t][v] = (v + 1) % instance.n_nodes
                else:
                    parents[t][v] = v
                assert faults(instance, root, multiplicity, parents)
                rejected += 1
        assert faults(instance, root, [m + 1 for m in multiplicity], found.parent.tolist())
        assert faults(instance, root[1:], multiplicity[1:], found.parent.tolist()[1:])
    assert rejected > 250
