"""Parts of the making of routes: whole shares, orders, layers, cycles, paths of flows; by definition."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import MAX_UNITS
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.routes.cycles import _trimmed, cancel_cycles
from treadle.synthesis.alltoall.routes.disjoint_paths import _walks, bounded_paths, disjoint_paths
from treadle.synthesis.alltoall.routes.extract import extract_paths
from treadle.synthesis.alltoall.routes.integral_units import common_chunks, rounded_routes, rounded_units
from treadle.synthesis.alltoall.routes.link_orders import (
    LayeredPaths,
    _factorisations,
    _steps,
    grid_orders,
    grid_sides,
    layers_of,
    up_down_orders,
)
from treadle.synthesis.alltoall.routes.path_sets import PathSet, WeightedPaths, from_lists
from treadle.synthesis.alltoall.routes.route_units import route_schedule
from treadle.synthesis.alltoall.routes.shortest_paths import split_over_shortest_paths
from treadle.synthesis.alltoall.routes.virtual_channels import (
    ChannelDependencies,
    fill_layers,
    lash_layers,
    waits_of,
)
from treadle.synthesis.runs import first_in_runs
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology, TopologyBuilder

ALLTOALL = CollectiveKind.ALLTOALL


def fabric(*bandwidths: int) -> Topology:
    """Links 0 from a to b, 1 from b to c, 2 from a to c, 3 from b to a."""
    builder = TopologyBuilder("three")
    for name in "abc":
        builder.compute(name)
    for ends, bandwidth in zip(("ab", "bc", "ac", "ba"), bandwidths or (1, 1, 1, 1), strict=True):
        builder.link(ends[0], ends[1], bandwidth)
    return builder.build()


def some() -> Collective:
    """a has 1 for b and 3 for c."""
    return Collective(ALLTOALL, (0, 1, 2), demands=Demands(np.array([[0, 1, 3], [0, 0, 0], [0, 0, 0]])))


def three_paths() -> PathSet:
    return from_lists([(0, 1, [0]), (0, 2, [0, 1]), (0, 2, [2])])


def test_the_fewest_chunks_that_make_shares_whole() -> None:
    assert common_chunks(np.array([1.0, 2.0])) == 1
    assert common_chunks(np.array([1 / 64])) == 64
    assert common_chunks(np.array([1 / 65])) is None
    assert common_chunks(np.array([1 / 65]), limit=65) == 65
    assert common_chunks(np.array([0.5 + 5e-7, 1 / 3])) == 6
    assert common_chunks(np.array([0.5 + 2e-6])) is None


def test_what_is_left_goes_to_the_largest_remainders() -> None:
    pair = np.array([1, 0, 1, 0, 1])
    wanted = np.array([1.2, 2.5, 0.7, 1.5, 2.1])
    # pair 0: 2 and 1 of 4, one left, for the first of equal ones; pair 1: 1, 0, 2 of 4, one left
    assert rounded_units(pair, wanted, np.array([4, 4])).tolist() == [1, 3, 1, 1, 2]
    assert rounded_units(pair, wanted, np.array([5, 5])).tolist() == [2, 3, 1, 2, 2]
    # a millionth below a whole number is that number
    assert rounded_units(np.array([0, 0]), np.array([2 - 5e-7, 0.6]), np.array([2])).tolist() == [2, 0]


def test_routes_of_whole_chunks_or_parts_of_demands() -> None:
    routing = WeightedPaths(three_paths(), np.array([1.0, 2.25, 0.75]))
    made = rounded_routes(some(), routing)
    assert (made.n_chunks, made.units.tolist()) == (4, [4, 9, 3])
    made = rounded_routes(some(), routing, chunks=2)
    assert (made.n_chunks, made.units.tolist()) == (2, [2, 5, 1])  # of 4.5 and 1.5 the first
    made = rounded_routes(some(), routing, parts=4)
    assert (made.n_chunks, made.units.tolist()) == (4, [4, 9, 3])
    made = rounded_routes(some(), routing, parts=1)
    assert (made.units.tolist(), made.path_links.tolist()) == ([1, 3], [0, 0, 1])
    assert made.layer.tolist() == [0, 0]


def test_the_heaviest_paths_stay() -> None:
    pair, weights = np.array([0, 0, 0, 1, 1]), np.array([0.2, 0.5, 0.3, 0.5, 0.5])
    assert first_in_runs(pair, -weights, 1).tolist() == [1, 3]
    assert first_in_runs(pair, -weights, 2).tolist() == [1, 2, 3, 4]


def test_shares_of_paths_on_links_of_unequal_bandwidth() -> None:
    """Links of 4, 2 and 1: 1 + 2 over the first, 2 over the second, 1 over the third take a second."""
    made = route_schedule(fabric(4, 2, 1, 1), some(), three_paths(), np.array([5.0, 2.0, 1.0]))
    assert (made.schedule.n_chunks, made.schedule.units.tolist()) == (1, [1, 2, 1])
    assert made.algbw == 4
    assert made.loss == pytest.approx(0)
    layered = route_schedule(
        fabric(4, 2, 1, 1), some(), three_paths(), np.array([5.0, 2.0, 1.0]), layer=np.array([4, 9, 4])
    )
    assert layered.schedule.layer.tolist() == [0, 1, 0]
    one = route_schedule(
        fabric(4, 2, 1, 1),
        some(),
        three_paths(),
        np.array([5.0, 2.0, 1.0]),
        max_routes=1,
        layer=np.array([4, 9, 4]),
    )
    assert (one.schedule.units.tolist(), one.schedule.layer.tolist()) == ([1, 3], [0, 1])
    assert one.algbw == Fraction(8, 3)
    assert one.loss == pytest.approx(1 / 3)


def test_numbers_of_routes_out_of_range() -> None:
    paths, weights = three_paths(), np.array([1.0, 2.0, 1.0])
    most = route_schedule(fabric(), some(), paths, weights, chunks=MAX_UNITS, max_routes=1)
    assert most.schedule.n_chunks == MAX_UNITS
    for chunks in (0, MAX_UNITS + 1):
        message = f"routes: {chunks} chunks per unit of demand, expected 1 to 2**24"
        with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
            route_schedule(fabric(), some(), paths, weights, chunks=chunks)
    with pytest.raises(ScheduleError, match=r"^routes: at most 0 routes a pair, expected at least 1$"):
        route_schedule(fabric(), some(), paths, weights, max_routes=0)
    message = "routes: expected one finite weight, not negative, for every path"
    for wrong in (weights[:2], weights * np.inf, -weights):
        with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
            route_schedule(fabric(), some(), paths, wrong)


def test_layers_whose_order_paths_climb() -> None:
    """Links in the orders 0 1 2 3 and 3 1 0 2: paths 0 1, 1 0, 3 1 2, 2 1 and a single link."""
    paths = from_lists([(0, 1, [0, 1]), (0, 2, [1, 0]), (0, 3, [3, 1, 2]), (1, 0, [2, 1]), (1, 2, [3])])
    orders = np.array([[0, 1, 2, 3], [3, 1, 0, 2]])
    assert layers_of(paths, orders).tolist() == [0, 1, 1, -1, 0]


def test_grids_by_the_numbers_of_nodes() -> None:
    assert _factorisations(12) == [(12,), (2, 6), (3, 4), (4, 3), (6, 2), (2, 2, 3), (2, 3, 2), (3, 2, 2)]
    assert _factorisations(7) == [(7,)]
    assert _factorisations(1) == []
    found = [grid_sides(parse(text)) for text in ("torus(3, 4)", "mesh(4, 3)", "ring(6)", "hypercube(3)")]
    assert found == [(3, 4), (4, 3), (6,), (2, 2, 2)]
    assert grid_sides(parse("complete(5)")) is None
    mesh = parse("mesh(2, 3)")
    steps = _steps(mesh, (2, 3))
    assert steps is not None
    for link, (dimension, direction, start) in enumerate(zip(*(row.tolist() for row in steps), strict=True)):
        tail, head = (divmod(int(end[link]), 3) for end in (mesh.tails, mesh.heads))
        assert tail[dimension] == start
        assert tail[1 - dimension] == head[1 - dimension]
        moved = head[dimension] - start
        assert direction == (0 if moved == 1 or (dimension == 0 and moved == -1) else 1)
    assert _steps(mesh, (6,)) is None


@pytest.mark.parametrize(("sides", "count"), [((5,), 2), ((3, 4), 24), ((2, 2, 3), 48)])
def test_orders_of_grids_go_group_by_group(sides: tuple[int, ...], count: int) -> None:
    """All permutations of the directions up to two dimensions, else 48; each ring cut somewhere."""
    torus = parse(f"torus({', '.join(map(str, sides))})")
    steps = _steps(torus, sides)
    assert steps is not None
    dimension, direction, start = steps
    orders = grid_orders(torus, sides, np.random.default_rng(3))
    assert orders.shape == (count, torus.n_links)
    groups = (2 * dimension + direction).tolist()
    sequences = set()
    for order in orders:
        assert sorted(order.tolist()) == list(range(torus.n_links))
        kinds = [groups[link] for link in order]
        runs = [kinds[0], *(after for before, after in pairwise(kinds) if after != before)]
        assert len(runs) == len(set(runs))
        sequences.add(tuple(runs))
        for kind in runs:
            side = sides[kind // 2]
            places = [int(start[link]) for link in order if groups[link] == kind]
            steps_on = [(after - before) % side for before, after in pairwise(places)]
            # the same place in all parallel rings, then the next one in the direction
            assert set(steps_on) <= {0, 1 if kind % 2 == 0 else side - 1}
            assert sum(step > 0 for step in steps_on) == side - 1
    if len(sides) < 3:
        assert len(sequences) == count


def climbs(order: np.ndarray, links: list[int]) -> bool:
    place = {int(link): number for number, link in enumerate(order)}
    return all(place[one] < place[other] for one, other in pairwise(links))


def test_climbing_paths_are_shortest_of_those_that_climb() -> None:
    """By trying all simple paths, with two orders and uneven lengths, for ranks in another order."""
    rng = np.random.default_rng(6)
    tails = [0, 1, 2, 3, 4, 0, 2, 1, 4, 3]
    heads = [1, 2, 3, 4, 0, 2, 4, 3, 1, 0]
    graph = from_arcs("graph", tails, heads, n=5)
    ranks = (3, 0, 4, 1, 2)
    everyone = Collective(ALLTOALL, ranks)
    orders = np.array([rng.permutation(10), rng.permutation(10)])
    lengths = rng.integers(1, 9, 10).astype(float)
    found = LayeredPaths(graph, everyone, orders).search(lengths)
    every = bounded_paths(graph, everyone, slack=5, most=10**6)
    best = np.full((5, 5), np.inf)
    for number in range(every.n_paths):
        links = every.links_of(number).tolist()
        if any(climbs(order, links) for order in orders):
            pair = int(every.source[number]), int(every.target[number])
            best[pair] = min(best[pair], lengths[links].sum())
    served = []
    for source in range(5):
        for target in range(5):
            if source != target:
                assert found.distance[source, ranks[target]] == best[source, target]
                if np.isfinite(best[source, target]):
                    served.append((source, target))
    one, other = np.array(served).T
    loads = np.zeros(10)
    for (source, target), row in zip(served, found.paths(one, other).tolist(), strict=True):
        links = [link for link in row if link >= 0]
        assert climbs(orders[found.layer[source, ranks[target]]], links)
        assert lengths[links].sum() == best[source, target]
        assert (tails[links[0]], heads[links[-1]]) == (ranks[source], ranks[target])
        loads[links] += 1
    if len(served) == 20:
        assert LayeredPaths(graph, everyone, orders).loads(lengths).sum() == loads.sum()


def test_up_and_down_from_roots_far_apart() -> None:
    """On a path of four the widest end is first, then the other end."""
    builder = TopologyBuilder("path")
    for name in "abcd":
        builder.compute(name)
    for one, other, width in (("a", "b", 1), ("b", "c", 2), ("c", "d", 9)):
        builder.duplex(one, other, width)
    path = builder.build()
    # links: 0 a-b, 1 b-a, 2 b-c, 3 c-b, 4 c-d, 5 d-c; c is the widest with 11
    (first,) = up_down_orders(path, 1)
    # up to c: from a (the deepest), from b and d; down: from c, then from b
    assert first.tolist()[:1] == [0]
    assert sorted(first.tolist()[1:3]) == [2, 5]
    assert sorted(first.tolist()[3:5]) == [3, 4]
    assert first.tolist()[5:] == [1]
    two = up_down_orders(path, 2)
    assert two[0].tolist() == first.tolist()
    # the farthest from c is a: up to it from d, c, b, and down again
    assert two[1].tolist() == [5, 3, 1, 0, 2, 4]
    assert len(up_down_orders(path, 9)) == 4


def test_waits_that_close_no_circle() -> None:
    waits = ChannelDependencies(5)
    assert waits.add([(3, 1), (1, 0)])
    assert waits.place.index(0) != waits.place.index(1)
    assert waits.place[3] < waits.place[1] < waits.place[0]
    assert not waits.add([(0, 4), (4, 2), (2, 3)])  # all or none
    assert waits.add([(2, 3), (0, 4)])
    assert waits.place[2] < waits.place[3] < waits.place[1] < waits.place[0] < waits.place[4]
    assert not waits.add([(4, 4)])
    assert not waits.add([(4, 2)])
    assert not waits.add([(4, 2)])
    assert waits.add([])


def test_paths_go_into_the_first_layer_without_a_circle() -> None:
    """Three links in a circle: two paths of two links fit together, the third needs a layer of its own."""
    paths = from_lists([(0, 2, [0, 1]), (1, 0, [1, 2]), (2, 1, [2, 0]), (2, 3, [3])])
    assert waits_of(paths) == [[(0, 1)], [(1, 2)], [(2, 0)], []]
    assert lash_layers(paths, 4).tolist() == [0, 0, 1, 0]
    chosen, layers = fill_layers(paths, 4, 1)
    assert (chosen.tolist(), len(layers)) == ([0, 0, -1, 0], 1)
    mixed = from_lists([(0, 1, [0]), (0, 2, [0, 1]), (1, 0, [1, 2, 0]), (2, 1, [2, 0])])
    # long ones first: 1 2 0, then 0 1 does not fit
    assert lash_layers(mixed, 3).tolist() == [0, 1, 0, 0]


def test_links_between_no_two_cycles_are_trimmed() -> None:
    """0 to 1 to 2 and back to 1, then 3: only links 1 and 2 stay, of the first source."""
    tails, heads = np.array([0, 1, 2, 2]), np.array([1, 2, 1, 3])
    used = np.array([[True] * 4, [True, True, False, True]])
    assert _trimmed(tails, heads, used, 4).tolist() == [[False, True, True, False], [False] * 4]
    assert used.all(axis=1).tolist() == [True, False]
    graph = from_arcs("graph", tails.tolist(), heads.tolist(), n=4)
    flows = np.array([[3.0, 5.0, 2.0, 3.0], [1.0, 1.0, 0.0, 1e-13]])
    assert cancel_cycles(graph, flows).tolist() == [[3, 3, 0, 3], [1, 1, 0, 0]]
    assert flows[0].tolist() == [3, 5, 2, 3]
    looped = from_arcs("looped", [0, 0], [0, 1], n=2)
    assert cancel_cycles(looped, np.array([[4.0, 1.0]])).tolist() == [[0, 1]]


@pytest.mark.parametrize("widest", [False, True])
def test_paths_of_a_flow(widest: bool) -> None:
    flows = np.zeros((3, 4))
    flows[0] = [3, 2, 1, 0]
    found = extract_paths(fabric(), some(), flows, widest=widest)
    assert [found.paths.links_of(path).tolist() for path in range(3)] == [[0], [0, 1], [2]]
    assert found.weights.tolist() == pytest.approx([1, 2, 1])
    # up to a twentieth may be lacking; b takes its 1 first, what is left is stretched to the 3 of c
    found = extract_paths(fabric(), some(), flows * 0.951, widest=widest)
    assert found.weights.tolist() == pytest.approx([1, 3 * 1.853 / 2.804, 3 * 0.951 / 2.804])
    message = "extraction: rank 1 gets 0.94 from rank 0, expected 1; give flows that deliver all demands"
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        extract_paths(fabric(), some(), flows * 0.94, widest=widest)
    with pytest.raises(ScheduleError, match=r"^extraction: flows must be finite and not negative$"):
        extract_paths(fabric(), some(), flows - 2e-6, widest=widest)
    assert extract_paths(fabric(), some(), flows - 5e-7, widest=widest).paths.n_paths == 3
    message = "extraction: flows of shape (2, 4), expected (3, 4)"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        extract_paths(fabric(), some(), flows[:2], widest=widest)


def test_disjoint_paths_turn_earlier_ones_over() -> None:
    """The shortest path 0 3 4 1 blocks both others; two of four links each are left without 3 to 4."""
    tails, heads = [0, 3, 4, 0, 5, 4, 6, 3, 2], [3, 4, 1, 5, 4, 2, 1, 6, 1]
    graph = from_arcs("blocked", tails, heads, n=7)
    matrix = np.zeros((7, 7), dtype=np.int64)
    matrix[0, 1] = 1
    pair = Collective(ALLTOALL, tuple(range(7)), demands=Demands(matrix))
    paths = disjoint_paths(graph, pair)
    assert {tuple(paths.links_of(number).tolist()) for number in range(paths.n_paths)} == {
        (0, 7, 6),
        (3, 4, 2),
    }
    assert _walks(fabric(), np.array([0, 1, 2]), 0, 2) == [[2], [0, 1]]


def test_bounded_paths_out_of_range() -> None:
    for slack, most in ((-1, 1), (0, 0)):
        message = f"paths: slack {slack} and {most} paths a pair; expected at least 0 and 1"
        with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
            bounded_paths(fabric(), some(), slack=slack, most=most)
    found = bounded_paths(fabric(), some(), slack=0, most=1)
    assert [found.links_of(path).tolist() for path in range(found.n_paths)] == [[0], [2]]
    found = bounded_paths(fabric(), some(), slack=1, most=2)
    assert found.n_paths == 3
    assert bounded_paths(fabric(), some(), slack=1, most=1).hops.tolist() == [1, 1]


def test_even_splits_over_shortest_paths_and_what_does_not_divide() -> None:
    """Three ways from 0 to 4, one of them over two parallel links: halves of a third, so six chunks."""
    graph = from_arcs("ways", [0, 0, 0, 1, 2, 3, 3], [1, 2, 3, 4, 4, 4, 4], n=5)
    matrix = np.zeros((5, 5), dtype=np.int64)
    matrix[0, 4] = 2
    pair = Collective(ALLTOALL, tuple(range(5)), demands=Demands(matrix))
    made = split_over_shortest_paths(graph, pair)
    found = {tuple(made.path(p).tolist()): int(made.units[p]) for p in range(made.n_paths)}
    assert made.n_chunks == 6
    assert found == {(0, 3): 4, (1, 4): 4, (2, 5): 2, (2, 6): 2}
    exact = split_over_shortest_paths(graph, pair, max_chunks=6)
    assert exact.n_chunks == 6
    coarse = split_over_shortest_paths(graph, pair, max_chunks=5)
    assert coarse.n_chunks == 5
    # the odd one of ten goes to the first way: the turn begins with source + 3 * target, which is 12
    assert {tuple(coarse.path(p).tolist()): int(coarse.units[p]) for p in range(coarse.n_paths)} == {
        (0, 3): 4,
        (1, 4): 3,
        (2, 5): 2,
        (2, 6): 1,
    }
    # from rank 1 it begins with 13: the last way gets it
    turned = Collective(ALLTOALL, (1, 0, 2, 3, 4), demands=Demands(np.roll(matrix, 1, axis=0)))
    coarse = split_over_shortest_paths(graph, turned, max_chunks=5)
    assert {tuple(coarse.path(p).tolist()): int(coarse.units[p]) for p in range(coarse.n_paths)} == {
        (0, 3): 3,
        (1, 4): 3,
        (2, 5): 2,
        (2, 6): 2,
    }
    one = split_over_shortest_paths(graph, pair, max_chunks=1)
    assert one.units.sum() == 2
    everyone = on_all_ranks(parse("hypercube(3)"), ALLTOALL)
    assert split_over_shortest_paths(parse("hypercube(3)"), everyone).n_chunks == 6
    with pytest.raises(ScheduleError, match=r"^chunks: expected at least 1 per unit of demand, found 0$"):
        split_over_shortest_paths(graph, pair, max_chunks=0)
