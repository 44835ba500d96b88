"""Costs of Cayley digraphs: against the general routine, the batch, all link subsets, and known values."""

from fractions import Fraction
from itertools import combinations

import networkx as nx
import numpy as np
import pytest

from treadle.errors import TopologyError
from treadle.finder.searches.cayley_batch import GroupTable, batch_costs, batch_distances
from treadle.finder.searches.cayley_groups import groups_of_order
from treadle.finder.searches.cayley_value import cayley_value, load_scale
from treadle.synthesis.steps.bfb.value import bfb_reduce_scatter_value, bfb_value
from treadle.topologies.catalogue.cayley import CayleyGraph, cayley_graph
from treadle.topologies.topology import Topology


def loads_by_subsets(topology: Topology, node: int) -> list[Fraction]:
    """Theorem 19 word for word: the largest (jobs that fit into P) / |P|, over every set P of in-links."""
    digraph = nx.MultiDiGraph(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    distance = nx.single_source_shortest_path_length(digraph.reverse(), node)
    links = np.flatnonzero(topology.heads == node).tolist()
    to_tail = {
        e: nx.single_source_shortest_path_length(digraph.reverse(), int(topology.tails[e])) for e in links
    }
    loads = []
    for step in range(1, max(distance.values()) + 1):
        sources = [source for source, t in distance.items() if t == step]
        jobs = [{e for e in links if to_tail[e][source] == step - 1} for source in sources]
        sets = [set(some) for size in range(1, len(links) + 1) for some in combinations(links, size)]
        loads.append(max(Fraction(sum(job <= some for job in jobs), len(some)) for some in sets))
    return loads


def random_graphs(n: int, degree: int, count: int, seed: int) -> list[CayleyGraph]:
    rng = np.random.default_rng(seed)
    groups = groups_of_order(n, seed=0)
    graphs: list[CayleyGraph] = []
    while len(graphs) < count:
        named = groups[rng.integers(len(groups))]
        generators = tuple(rng.integers(1, n, degree).tolist())
        try:
            graphs.append(cayley_graph(named.expression(generators)))
        except TopologyError:
            continue
    return graphs


@pytest.mark.parametrize(("n", "degree"), [(12, 2), (18, 3), (24, 4), (32, 4)])
def test_loads_are_the_largest_over_link_subsets(n: int, degree: int) -> None:
    for graph in random_graphs(n, degree, 3, seed=n):
        value, topology = cayley_value(graph), graph.topology()
        assert list(value.allgather_loads) == loads_by_subsets(topology, 0)
        assert list(value.reduce_scatter_loads) == loads_by_subsets(topology.transpose(), n // 2)


@pytest.mark.parametrize(("n", "degree"), [(16, 2), (27, 3), (48, 4), (64, 4), (40, 6), (56, 8), (128, 5)])
def test_one_node_stands_for_all(n: int, degree: int) -> None:
    for graph in random_graphs(n, degree, 8, seed=degree):
        value, topology = cayley_value(graph), graph.topology()
        assert value.allgather_loads == bfb_value(topology).loads
        assert value.reduce_scatter_loads == bfb_reduce_scatter_value(topology).loads
        assert sum(value.distance_counts) == n


def test_transposes_can_be_worse() -> None:
    values = [cayley_value(graph) for graph in random_graphs(64, 4, 30, seed=4)]
    assert any(value.allgather_t_b < value.reduce_scatter_t_b for value in values)
    assert any(value.allgather_t_b > value.reduce_scatter_t_b for value in values)
    assert all(value.t_b == max(value.allgather_t_b, value.reduce_scatter_t_b) for value in values)


@pytest.mark.parametrize(("n", "degree"), [(20, 3), (64, 4), (81, 2), (36, 7)])
def test_batches_agree_with_single_values(n: int, degree: int) -> None:
    rng = np.random.default_rng(degree)
    for named in groups_of_order(n, seed=1)[::9]:
        table = GroupTable(named.group)
        assert np.array_equal(table.products, named.group.table())
        sets = rng.integers(1, n, size=(40, degree))
        distance = batch_distances(table, sets, 12)
        complete = (distance >= 0).all(axis=1)
        if not complete.any():
            continue
        sets, distance = sets[complete], distance[complete]
        gather = batch_costs(table, table.products, sets, distance)
        scatter = batch_costs(table, table.reversed_products, sets, distance)
        for i in range(0, len(sets), 7):
            value = cayley_value(cayley_graph(named.expression(tuple(sets[i].tolist()))))
            assert value.t_l == distance[i].max()
            assert sum(value.allgather_loads) * load_scale(degree) == gather[i]
            assert sum(value.reduce_scatter_loads) * load_scale(degree) == scatter[i]


@pytest.mark.parametrize(
    ("expression", "t_l", "t_b"),
    [
        # Theorem 22: two offsets are bandwidth-optimal.
        ('abelian_cayley("128", 8, 120, 9, 119)', 8, Fraction(127, 128)),
        # Counterexamples to Conjecture 1: U(2) = 3/2 above 8/6 and 3/8.
        ('abelian_cayley("15", 1, 14, 4, 11, 5, 10)', 2, Fraction(1)),
        ('abelian_cayley("12", 1, 11, 3, 9, 4, 8, 5, 7)', 2, Fraction(1)),
        # The ring: one shard a step.
        ('abelian_cayley("9", 1)', 8, Fraction(8, 9)),
    ],
)
def test_known_values(expression: str, t_l: int, t_b: Fraction) -> None:
    value = cayley_value(cayley_graph(expression))
    assert (value.t_l, value.t_b) == (t_l, t_b)


def test_absurd_degrees_are_refused() -> None:
    graph = cayley_graph(f'abelian_cayley("20", {", ".join(str(i) for i in range(1, 14))})')
    with pytest.raises(TopologyError, match="degree 13"):
        cayley_value(graph)


@pytest.mark.parametrize("n", [8, 12, 16, 18, 20, 24, 27, 30])
def test_enumerated_groups_satisfy_the_axioms(n: int) -> None:
    groups = groups_of_order(n, seed=0)
    assert groups == groups_of_order(n, seed=0)
    for named in groups:
        table = named.group.table()
        assert named.group.order == n
        assert np.array_equal(table[table], table[:, table])
        assert np.array_equal(np.sort(table, axis=1), np.broadcast_to(np.arange(n), (n, n)))
        everything = cayley_graph(named.expression(tuple(range(1, n))))
        assert everything.group == named.group
