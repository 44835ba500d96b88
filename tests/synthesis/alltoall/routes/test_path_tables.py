"""Tables of paths, choices among them and rounds of chunks, each against a plain reading of its rule."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import routes_from_paths
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.routes.disjoint_paths import bounded_paths
from treadle.synthesis.alltoall.routes.layered_routes import layered_routes, packed_orders
from treadle.synthesis.alltoall.routes.path_sets import (
    ShortestPaths,
    WeightedPaths,
    from_lists,
)
from treadle.synthesis.alltoall.routes.route_columns import (
    RoutingResult,
)
from treadle.synthesis.alltoall.routes.route_rounds import timed_routes
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder

ALLTOALL = CollectiveKind.ALLTOALL


def random_graph(seed: int, n: int = 5) -> Topology:
    rng = np.random.default_rng([seed, 23])
    tails = [*range(n), *rng.integers(0, n, 7).tolist()]
    heads = [*((node + 1) % n for node in range(n)), *rng.integers(0, n, 7).tolist()]
    builder = TopologyBuilder("random")
    for node in range(n):
        builder.compute(f"n{node}")
    for tail, head in zip(tails, heads, strict=True):
        if tail != head:
            builder.link(f"n{tail}", f"n{head}", int(rng.integers(1, 5)))
    return builder.build()


def sparse(seed: int, n: int = 5) -> Collective:
    rng = np.random.default_rng([seed, 24])
    matrix = rng.integers(0, 4, (n, n))
    matrix[0, 1] += 1
    return Collective(ALLTOALL, tuple(rng.permutation(n).tolist()), demands=Demands(matrix))


@pytest.mark.parametrize("seed", range(3))
def test_shortest_paths_from_every_rank(seed: int) -> None:
    graph, some = random_graph(seed), sparse(seed)
    lengths = np.random.default_rng(seed).integers(1, 6, graph.n_links).astype(float)
    finder = ShortestPaths(graph, some)
    found = finder.search(lengths)
    for row, node in enumerate(some.ranks):
        best = np.full(5, np.inf)
        best[node] = 0
        for _ in range(5):
            for link, (tail, head) in enumerate(zip(graph.tails, graph.heads, strict=True)):
                best[head] = min(best[head], best[tail] + lengths[link])
        assert found.distance[row].tolist() == best.tolist() == finder.distances(lengths)[row].tolist()
        for head in range(5):
            if head != node:
                # of tight links into a node the first
                tight = [
                    link
                    for link in range(graph.n_links)
                    if graph.heads[link] == head and best[graph.tails[link]] + lengths[link] == best[head]
                ]
                assert found.into[row, head] == tight[0]
    # lengths that vanish beside others: paths still lead back to their sources
    tiny = np.where(np.arange(graph.n_links) % 2, 1.0, 1e-30)
    source, target = (ends.ravel() for ends in np.meshgrid(np.arange(5), np.arange(5), indexing="ij"))
    other = source != target
    rows = finder.search(tiny).paths(source[other], target[other])
    for one, two, row in zip(source[other], target[other], rows.tolist(), strict=True):
        links = [link for link in row if link >= 0]
        nodes = [int(graph.tails[links[0]]), *graph.heads[links].tolist()]
        assert (nodes[0], nodes[-1]) == (some.ranks[one], some.ranks[two])
        assert nodes[1:-1] == graph.tails[links[1:]].tolist()
        assert len(set(nodes)) == len(nodes)


def rounds_slowly(graph: Topology, made: object, most: int) -> list[list[int]]:
    """In each round all paths with chunks left, the most urgent first, take what is free."""
    left, rounds = made.units.copy(), []  # type: ignore[attr-defined]
    n, m = made.n_ranks, graph.n_links  # type: ignore[attr-defined]
    source, target = made.source.tolist(), made.target.tolist()  # type: ignore[attr-defined]
    needs = [
        [*made.path(path).tolist(), m + source[path], m + n + target[path]]  # type: ignore[attr-defined]
        for path in range(len(left))
    ]
    room = [1] * m + [most] * (2 * n)
    while left.any():
        work = [0.0] * len(room)
        for path, own in enumerate(needs):
            for need in own:
                work[need] += left[path]
        order = sorted(
            np.flatnonzero(left).tolist(),
            key=lambda path: (
                -max(work[need] / room[need] for need in needs[path]),
                -len(needs[path]),
                (target[path] - source[path]) % n,
            ),
        )
        free, taken = list(room), []
        for path in order:
            if all(free[need] for need in needs[path]):
                taken.append(path)
                for need in needs[path]:
                    free[need] -= 1
        left[taken] -= 1
        rounds.append(taken)
    return rounds


@pytest.mark.parametrize(("seed", "most"), [(0, 1), (1, 2), (2, 3), (3, 1)])
def test_rounds_are_filled_by_what_is_most_urgent(seed: int, most: int) -> None:
    graph, some = random_graph(seed), sparse(seed)
    paths = bounded_paths(graph, some, slack=1, most=3)
    rng = np.random.default_rng(seed)
    made = routes_from_paths(
        5,
        1,
        [
            (int(s), int(t), int(rng.integers(1, 4)), 0, paths.links_of(number).tolist())
            for number, (s, t) in enumerate(zip(paths.source, paths.target, strict=True))
        ],
    )
    found = timed_routes(graph, made, max_flows=most)
    assert [found.path[found.span(number)].tolist() for number in range(found.n_rounds)] == rounds_slowly(
        graph, made, most
    )


def test_layers_packed_by_first_fit() -> None:
    """Three paths of two links wait in a circle: one order holds two of them."""
    paths = from_lists([(0, 2, [0, 1]), (1, 0, [1, 2]), (2, 1, [2, 0])])
    base = RoutingResult(1.0, 1.0, WeightedPaths(paths, np.ones(3)), np.ones(3), 1)
    orders, fits = packed_orders(base, 3, 1)
    assert not fits
    assert orders.tolist() == [[0, 1, 2]]
    orders, fits = packed_orders(base, 3, 3)
    assert fits
    assert orders[0].tolist() == [0, 1, 2]
    place = np.argsort(orders[1])
    assert place[2] < place[0]
    assert orders[2].tolist() == [0, 1, 2]
    with pytest.raises(ScheduleError, match=r"^layers: at most 0, expected at least 1$"):
        layered_routes(parse("ring(3)"), on_all_ranks(parse("ring(3)"), ALLTOALL), 0)
