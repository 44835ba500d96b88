"""Growth replayed on a graph of networkx, cable by cable."""

from __future__ import annotations

import csv
import io
from collections import Counter
from fractions import Fraction

import networkx
import pytest

import treadle
from treadle.errors import FormatError, InfeasibleError
from treadle.finder.building.growth import GrowthPlan, _stays_connected, grow
from treadle.finder.cabling import cables
from treadle.topologies import parse


def replayed(plan: GrowthPlan, *, duplex: bool) -> networkx.MultiDiGraph:
    """The fabric after all moves of the file, judged after each; ports are looked after."""
    names, before = plan.topology.node_names, plan.before
    graph = networkx.MultiDiGraph()
    graph.add_nodes_from(before.node_names)
    ports: Counter[tuple[str, str, str]] = Counter()

    def change(one: tuple[str, str], other: tuple[str, str], by: int) -> None:
        for tail, head in ((one, other), (other, one))[: 1 + duplex]:
            ports[(*tail, "sends")] += by
            ports[(*head, "receives")] += by
            if by > 0:
                graph.add_edge(tail[0], head[0])
            else:
                graph.remove_edge(tail[0], head[0])

    for wire in cables(before):
        tail = (before.node_names[wire.tail], str(wire.tail_port))
        head = (before.node_names[wire.head], str(wire.head_port))
        change(tail, head, 1)
        if wire.is_duplex and not duplex:
            change(head, tail, 1)
    for row in csv.DictReader(io.StringIO(plan.csv())):
        one, other = (row["from_node"], row["from_port"]), (row["to_node"], row["to_port"])
        change(one, other, 1 if row["action"] == "add" else -1)
        assert set(ports.values()) <= {0, 1}
        joined = {node for node in graph if graph.in_degree(node) and graph.out_degree(node)}
        assert joined >= set(before.node_names)
        assert networkx.is_strongly_connected(graph.subgraph(joined))
    wanted = Counter(
        (names[a], names[b]) for a, b in zip(plan.topology.tails, plan.topology.heads, strict=True)
    )
    assert Counter(graph.edges()) == wanted
    return graph


@pytest.mark.parametrize(
    ("name", "nodes", "duplex"),
    [("generalized_kautz(3, 12)", 14, False), ("torus(3, 4)", 14, True), ("hypercube(3)", 10, True)],
)
def test_each_move_leaves_everything_connected(name: str, nodes: int, duplex: bool) -> None:
    plan = grow(name, nodes, seed=1)
    graph = replayed(plan, duplex=duplex)
    degree = len(parse(name).tails) // parse(name).n_nodes
    assert {count for _, count in graph.in_degree()} == {count for _, count in graph.out_degree()} == {degree}
    assert plan.is_connected
    assert plan.n_cut == (nodes - parse(name).n_nodes) * (degree // 2 if duplex else degree)
    assert plan.steps >= networkx.diameter(graph)
    assert plan.t_b >= Fraction(nodes - 1, nodes)


def test_the_choice_is_better_than_chance() -> None:
    plans = [grow("torus:4,4", 18, seed=seed) for seed in range(2)]
    assert all(plan.t_b <= 1 + 1 / 18 for plan in plans)


def test_a_ring_of_one_way_links_is_not_connected_meanwhile() -> None:
    plan = grow("directed_circulant(6, 1)", 7)
    assert not plan.is_connected
    assert not _stays_connected(plan.before, plan.moves)


def test_what_cannot_grow() -> None:
    with pytest.raises(InfeasibleError, match="has switches"):
        treadle.grow("star:4", 5)
    with pytest.raises(InfeasibleError, match="odd number of ports"):
        treadle.grow("hypercube:3", 9)
    for nodes in (8, 17):
        with pytest.raises(FormatError, match="expected 9 to 16"):
            treadle.grow("hypercube:3", nodes)
