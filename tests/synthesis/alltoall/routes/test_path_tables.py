"""Tables of paths, choices among them and rounds of chunks, each against a plain reading of its rule."""

from __future__ import annotations

import re

import numpy as np
import pytest

from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import routes_from_paths
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.routes import route_rounds, virtual_channels
from treadle.synthesis.alltoall.routes.disjoint_paths import bounded_paths
from treadle.synthesis.alltoall.routes.layered_routes import layered_routes, packed_orders
from treadle.synthesis.alltoall.routes.path_sets import (
    PathSet,
    ShortestPaths,
    WeightedPaths,
    check_paths,
    fingerprints,
    from_lists,
    path_rows,
    path_set,
    turned,
    walk_back,
)
from treadle.synthesis.alltoall.routes.restricted_master import PathRestrictedMaster, weighted
from treadle.synthesis.alltoall.routes.route_columns import (
    RoutingResult,
    _PathColumns,
    _shortest_few,
    single_paths,
)
from treadle.synthesis.alltoall.routes.route_rounds import _fill_round, timed_routes
from treadle.synthesis.alltoall.routes.virtual_channels import shared_waits_cycle
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
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


def test_paths_are_sorted_by_pair_and_kept_once() -> None:
    rows = np.array([[3, 1], [2, -1], [3, 1], [2, -1], [5, 4]])
    found = path_set(np.array([1, 0, 1, 1, 1]), np.array([0, 2, 0, 2, 0]), rows)
    assert (found.source.tolist(), found.target.tolist()) == ([0, 1, 1, 1], [2, 0, 0, 2])
    assert [found.links_of(number).tolist() for number in range(4)] == [[2], [3, 1], [5, 4], [2]]
    assert found.hops.tolist() == [1, 2, 2, 1]
    assert found.owner.tolist() == [0, 1, 1, 2, 2, 3]
    assert path_rows(found).tolist() == [[2, -1], [3, 1], [5, 4], [2, -1]]
    few = found.take(np.array([0, 2]))
    assert (few.target.tolist(), few.offset.tolist(), few.links.tolist()) == ([2, 0], [0, 1, 3], [2, 5, 4])
    prints = fingerprints(found.source, found.target, path_rows(found))
    assert len(set(prints.tolist())) == 4
    # links of a simple path tell it apart in any order of padding
    padded = np.pad(path_rows(found), ((0, 0), (0, 3)), constant_values=-1)
    assert fingerprints(found.source, found.target, padded).tolist() == prints.tolist()
    # one round of splitmix64 of (source << 32 | target), plus that of each link with the highest bit set

    def mixed(value: int) -> int:
        value = value * 0x9E3779B97F4A7C15 % 2**64
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        value = (value ^ value >> 27) * 0x94D049BB133111EB % 2**64
        return value ^ value >> 31

    assert int(prints[1]) == (mixed(1 << 32) + mixed(3 ^ 2**63) + mixed(1 ^ 2**63)) % 2**64


def test_loads_and_rates_of_weighted_paths() -> None:
    graph = from_arcs("graph", [0, 1, 0], [1, 2, 2], n=3)
    routing = WeightedPaths(from_lists([(0, 1, [0]), (0, 2, [0, 1]), (0, 2, [2])]), np.array([1.0, 2.5, 0.5]))
    assert routing.loads(4).tolist() == [3.5, 2.5, 0.5, 0]
    assert routing.rate(graph) == pytest.approx(1 / 3.5)


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


def test_walks_back_that_do_not_end() -> None:
    """Links 0 to 1 and 1 to 2, and from 2 back to 1; node 2 is reached from 1 alone."""
    tails = np.array([0, 1, 2])
    rows = walk_back(np.array([[-1, 0, 1]]), tails, np.array([0, 0]), np.array([0, 0]), np.array([2, 1]))
    assert rows.tolist() == [[0, 1], [0, -1]]
    assert walk_back(np.array([[-1, 0, 1]]), tails, np.array([0]), np.array([2]), np.array([2])).shape == (
        1,
        0,
    )
    message = "paths: some rank cannot be reached from another; connect the fabric"
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        walk_back(np.array([[-1, 2, 1]]), tails, np.array([0]), np.array([0]), np.array([2]))
    assert turned(np.array([[4, 5, 6], [7, -1, -1], [8, 9, -1]])).tolist() == [
        [6, 5, 4],
        [7, -1, -1],
        [9, 8, -1],
    ]


def test_paths_that_do_not_fit_the_demands() -> None:
    some = Collective(ALLTOALL, (0, 1, 2), demands=Demands(np.array([[0, 1, 3], [0, 0, 0], [0, 2, 0]])))
    paths = from_lists([(0, 1, [0]), (0, 2, [1]), (2, 1, [2]), (2, 1, [3])])
    assert check_paths(some, paths).tolist() == [0, 1, 2, 2]
    message = "paths: some join ranks without demand; drop them"
    for extra in ((1, 0, [5]), (2, 2, [5]), (0, 0, [5])):
        with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
            check_paths(some, from_lists([(0, 1, [0]), (0, 2, [1]), (2, 1, [2]), extra]))
    message = "paths: rank 2 has none to rank 1, expected at least one"
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        check_paths(some, paths.take(np.array([0, 1])))


def chosen_slowly(paths: PathSet, pair: np.ndarray, demand: np.ndarray, bandwidth: np.ndarray) -> list[int]:
    """Each pair in turn moves to the path that adds least to the loads' 4th, 12th and 30th powers."""
    own = [np.flatnonzero(pair == number).tolist() for number in range(len(demand))]
    chosen = [rows[0] for rows in own]
    time = np.zeros(len(bandwidth))

    def add(number: int, sign: int) -> None:
        for link in paths.links_of(chosen[number]).tolist():
            time[link] += sign * demand[number] / bandwidth[link]

    for number in range(len(demand)):
        add(number, 1)
    for power in (4, 12, 30):
        scale = time.max()
        for number in np.random.default_rng(0).permutation(len(demand)).tolist():
            if len(own[number]) > 1:
                add(number, -1)
                costs = [
                    sum(
                        ((time[link] + demand[number] / bandwidth[link]) / scale) ** power
                        - (time[link] / scale) ** power
                        for link in paths.links_of(path).tolist()
                    )
                    for path in own[number]
                ]
                chosen[number] = own[number][int(np.argmin(costs))]
                add(number, 1)
    return chosen


@pytest.mark.parametrize("seed", range(5))
def test_single_paths_by_steeper_and_steeper_loads(seed: int) -> None:
    graph, some = random_graph(seed), sparse(seed)
    paths = bounded_paths(graph, some, slack=1, most=5)
    pair = check_paths(some, paths)
    demand = some.pair_demands.between[some.pair_demands.between > 0] * (1 + 0.01 * np.arange(pair[-1] + 1))
    bandwidth = graph.bandwidths.astype(float)
    found = single_paths(paths, pair, demand, bandwidth)
    assert found.tolist() == chosen_slowly(paths, pair, demand, bandwidth)


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


def test_rounds_of_many_chunks_are_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 700 and 300 chunks over two links, two rounds of 256 are alike at first; a third would not be."""
    graph = from_arcs("pair", [0, 0], [1, 1], n=2)
    made = routes_from_paths(2, 1000, [(0, 1, 700, 0, [0]), (0, 1, 300, 0, [1])])
    found = timed_routes(graph, made, max_flows=1)
    assert found.n_rounds == 1000
    assert np.bincount(found.path).tolist() == [700, 300]
    both = timed_routes(graph, made, max_flows=2)
    assert both.n_rounds == 700
    monkeypatch.setattr(route_rounds, "_MOST_CHUNKS", 1000)
    assert timed_routes(graph, made, max_flows=2).n_rounds == 700
    monkeypatch.setattr(route_rounds, "_MOST_CHUNKS", 999)
    message = "rounds: 1000 chunks, at most 999 can be placed; use fewer a pair"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        timed_routes(graph, made, max_flows=2)
    with pytest.raises(ScheduleError, match=r"^rounds: at most 0 flows per host, expected at least 1$"):
        timed_routes(graph, made, max_flows=0)


def test_rows_fit_together_in_order_over_many_blocks() -> None:
    rng = np.random.default_rng(4)
    needs = rng.integers(0, 150, (600, 3))
    needs = needs[[len(set(row)) == 3 for row in needs.tolist()]]
    capacity = rng.integers(1, 4, 150)
    free, expected = capacity.tolist(), []
    for number, row in enumerate(needs.tolist()):
        if all(free[need] for need in row):
            expected.append(number)
            for need in row:
                free[need] -= 1
    assert expected[-1] > 256
    assert _fill_round(needs, capacity).tolist() == expected


def test_waits_that_all_routings_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """One way round four links wait in a circle; a cut circle does not, nor one whose links need not wait."""
    ring = parse("ring(4, bidirectional=False)")
    everyone = on_all_ranks(ring, ALLTOALL)
    assert shared_waits_cycle(ring, everyone)
    near = np.roll(np.eye(4, dtype=np.int64), 1, axis=1)
    assert not shared_waits_cycle(ring, Collective(ALLTOALL, (0, 1, 2, 3), demands=Demands(near)))
    two = np.roll(np.eye(4, dtype=np.int64), 2, axis=1)
    assert shared_waits_cycle(ring, Collective(ALLTOALL, (0, 1, 2, 3), demands=Demands(two)))
    two[3] = 0
    assert not shared_waits_cycle(ring, Collective(ALLTOALL, (0, 1, 2, 3), demands=Demands(two)))
    assert not shared_waits_cycle(parse("ring(4)"), on_all_ranks(parse("ring(4)"), ALLTOALL))
    # four waits, four ranks
    monkeypatch.setattr(virtual_channels, "_MOST_WORK", 64)
    assert shared_waits_cycle(ring, everyone)
    monkeypatch.setattr(virtual_channels, "_MOST_WORK", 63)
    assert not shared_waits_cycle(ring, everyone)


def test_the_shortest_few_of_every_pair() -> None:
    paths = from_lists([(0, 1, [0]), (0, 1, [1]), (0, 1, [2]), (1, 0, [3]), (1, 0, [0, 1])])
    few = _shortest_few(paths, np.array([3.0, 1.0, 2.0, 5.0]), 2)
    assert few.links.tolist() == [1, 2, 3, 0, 1]
    one = _shortest_few(paths, np.array([3.0, 1.0, 2.0, 5.0]), 1)
    assert one.links.tolist() == [1, 0, 1]  # 3 + 1 is less than 5


def test_prices_of_paths_and_the_bound_that_they_prove() -> None:
    """Lengths of 1, 2 and 9 on a one-way path of links of 4 and 2 and one of 1 past it."""
    builder = TopologyBuilder("three")
    for name in "abc":
        builder.compute(name)
    for ends, width in (("ab", 4), ("bc", 2), ("ac", 1)):
        builder.link(ends[0], ends[1], width)
    graph = builder.build()
    some = Collective(ALLTOALL, (0, 1, 2), demands=Demands(np.array([[0, 1, 3], [0, 0, 0], [0, 0, 0]])))
    columns = _PathColumns(graph, some, ShortestPaths(graph, some))
    assert columns.in_bytes(np.array([1.0, 2.0, 9.0])).tolist() == pytest.approx([1 / 17, 2 / 17, 9 / 17])
    lengths = np.array([1.0, 2.0, 9.0])
    more = lengths + 1e-7 * 4
    proved, new = columns.price(lengths)
    assert proved == pytest.approx(float(more @ np.array([4, 2, 1])) / (more[0] + 3 * (more[0] + more[1])))
    assert new == 2
    assert columns.price(lengths)[1] == 0
    assert columns.price(np.array([9.0, 9.0, 1.0]))[1] == 1
    assert columns.master.n_columns == 3
    assert columns.master.demand.tolist() == pytest.approx([1 / 3, 1])
    solution = columns.master.solve()
    # x by b: (1 + x) / 4, x / 2 and 3 - x of 1, best where the last two are equal: 2 each
    assert columns.rate(solution) == pytest.approx(1)
    routing = columns.routing(solution)
    assert routing.rate(graph) == pytest.approx(1)
    assert dict(
        zip(map(tuple, path_rows(routing.paths).tolist()), routing.weights.tolist(), strict=True)
    ) == {
        (0, -1): pytest.approx(1),
        (0, 1): pytest.approx(2),
        (2, -1): pytest.approx(1),
    }
    assert RoutingResult(4.0, 5.0, routing, lengths, 1).gap == 0.25


def test_weights_are_scaled_to_the_demands() -> None:
    paths = from_lists([(0, 1, [0]), (0, 1, [1]), (1, 0, [2]), (1, 0, [3])])
    found = weighted(paths, np.array([0, 0, 1, 1]), np.array([0.5, 0.49, 1e-10, 1.01]), np.array([3, 4]))
    assert found.paths.links.tolist() == [0, 1, 3]
    assert found.weights.tolist() == pytest.approx([3 * 0.5 / 0.99, 3 * 0.49 / 0.99, 4])


def test_columns_of_the_master_are_basic_or_nothing() -> None:
    ring = parse("ring(3)")
    everyone = on_all_ranks(ring, ALLTOALL)
    master = PathRestrictedMaster(ring, everyone)
    paths = bounded_paths(ring, everyone, slack=1)
    master.add(paths, check_paths(everyone, paths))
    assert (master.n_columns, master.n_pairs, master.n_links) == (12, 6, 6)
    solution = master.solve()
    assert solution.time == pytest.approx(1)
    assert (solution.lengths @ master.bandwidth) == pytest.approx(1)
    columns, rows = master.basis()
    assert int(columns.sum() + rows.sum()) == 12
    assert columns[0]
    assert not solution.weights[~columns[1:]].any()


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
