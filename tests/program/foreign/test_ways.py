"""Physical ways: the fewest links, then the widest, and all that are equal."""

from __future__ import annotations

import itertools

import networkx as nx
import pytest

from treadle.program.foreign.physical_paths import MOST_WAYS, PhysicalPaths
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.topologies import TopologyBuilder, parse
from treadle.topologies.topology import Topology


def ways(fabric: Topology) -> PhysicalPaths:
    return PhysicalPaths(fabric, on_all_ranks(fabric, CollectiveKind.ALLGATHER))


def names(fabric: Topology, links: tuple[int, ...]) -> list[str]:
    return [fabric.link_name(link) for link in links]


def two_planes(*, thin: int = 10) -> Topology:
    """Two ranks at two switches each, one of them slower, and a long way through both."""
    builder = TopologyBuilder("planes")
    builder.compute("a")
    builder.compute("b")
    for name, width in (("s", 10), ("t", thin)):
        builder.switch(name)
        builder.duplex("a", name, width)
        builder.duplex(name, "b", width)
    builder.duplex("s", "t", 1000)
    return builder.build()


def test_equal_planes_are_all_found() -> None:
    fabric = two_planes()
    found = ways(fabric).between(0, 1)
    assert [names(fabric, links) for links in found] == [["a->s", "s->b"], ["a->t", "t->b"]]


def test_of_the_shortest_the_widest() -> None:
    fabric = two_planes(thin=9)
    assert [names(fabric, links) for links in ways(fabric).between(0, 1)] == [["a->s", "s->b"]]


def test_a_long_way_is_not_taken_though_it_is_wider() -> None:
    builder = TopologyBuilder("detour")
    builder.compute("a")
    builder.compute("b")
    builder.switch("s")
    builder.duplex("a", "b", 1)
    builder.duplex("a", "s", 100)
    builder.duplex("s", "b", 100)
    fabric = builder.build()
    assert [names(fabric, links) for links in ways(fabric).between(0, 1)] == [["a->b"]]


def test_ranks_do_not_pass_on_and_forwarders_do() -> None:
    fabric = parse("ring(4)")
    assert ways(fabric).between(0, 2) == ()
    forwarding = Collective(CollectiveKind.ALLGATHER, (0, 2), forwarders=(1, 3))
    assert len(PhysicalPaths(fabric, forwarding).between(0, 1)) == 2


@pytest.mark.parametrize("name", ["dgx_a100(2)", "mi250(1)", "torus(3,3)", "fat_tree(4)"])
def test_against_all_shortest_paths(name: str) -> None:
    """networkx lists the shortest paths of the fabric without its other ranks; links in parallel multiply."""
    fabric = parse(name)
    found = ways(fabric)
    ranks = fabric.compute_nodes.tolist()
    width: dict[tuple[int, int], list[int]] = {}
    for tail, head, rate in zip(
        fabric.tails.tolist(), fabric.heads.tolist(), fabric.bandwidths.tolist(), strict=True
    ):
        width.setdefault((tail, head), []).append(rate)
    for one in range(0, len(ranks), 3):
        for other in range(len(ranks)):
            if one == other:
                continue
            graph = nx.DiGraph(list(width))
            graph.add_nodes_from(range(fabric.n_nodes))
            graph.remove_nodes_from(set(ranks) - {ranks[one], ranks[other]})
            expected: dict[tuple[int, ...], int] = {}
            if nx.has_path(graph, ranks[one], ranks[other]):
                for path in nx.all_shortest_paths(graph, ranks[one], ranks[other]):
                    for links in _parallel(fabric, path):
                        expected[links] = min(int(fabric.bandwidths[link]) for link in links)
            widest = {links for links, rate in expected.items() if rate == max(expected.values())}
            assert set(found.between(one, other)) == widest or len(widest) > MOST_WAYS


def _parallel(fabric: Topology, path: list[int]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for tail, head in itertools.pairwise(path):
        links = [i for i in range(fabric.n_links) if (fabric.tails[i], fabric.heads[i]) == (tail, head)]
        found = [(*way, link) for way in found for link in links]
    return found


def test_ways_along_named_nodes() -> None:
    fabric = two_planes()
    s, t = fabric.node_index("s"), fabric.node_index("t")
    along = ways(fabric).along(0, 1, [s, t])
    assert [names(fabric, links) for links in along] == [["a->s", "s->t", "t->b"]]
    assert ways(fabric).along(1, 1, [s, s]) == ()
