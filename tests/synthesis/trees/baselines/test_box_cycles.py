"""Boxes of odd fabrics, and cycles inside them against all cycles one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np
import pytest

from shortcuts.switched_ranks import in_boxes
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.baselines import boxes as module
from treadle.synthesis.trees.baselines.boxes import CycleFinder, direct_arcs, find_boxes, hamiltonian_order
from treadle.synthesis.trees.baselines.ring import box_cycles, ring_orders
from treadle.topologies.topology import Topology, TopologyBuilder


def boxes_of(topology: Topology, ranks: Sequence[int] | None = None) -> tuple[tuple[int, ...], ...]:
    nodes = tuple(topology.compute_nodes.tolist() if ranks is None else ranks)
    return find_boxes(topology, Collective(CollectiveKind.ALLGATHER, nodes))


def networked(*boxes: tuple[int, int], joined: bool = True, inside: int = 100) -> Topology:
    """Boxes of (ranks, bandwidth of their links to the network); a switch in each."""
    builder = TopologyBuilder("networked")
    builder.switch("network")
    if not joined:
        builder.switch("other")
    for number, (size, bandwidth) in enumerate(boxes):
        builder.switch(f"s{number}")
        for place in range(size):
            name = builder.compute(f"g{number}.{place}")
            builder.duplex(name, f"s{number}", inside)
            builder.duplex(name, "network" if joined or number < 2 else "other", bandwidth)
    if not joined:
        builder.duplex("g0.0", "other", min(bandwidth for _, bandwidth in boxes))
    return builder.build()


@pytest.mark.parametrize(
    ("fabric", "found"),
    [
        (in_boxes(2, 3, 1), ((0, 1), (2, 3, 4), (5,))),
        (in_boxes(1, 1), ((0, 1),)),  # every rank alone: one box
        (networked((2, 20), (2, 20), (2, 10)), ((0, 1), (2, 3), (4, 5))),  # faster cards, same network
        (networked((2, 20), (2, 20), (2, 20)), ((0, 1), (2, 3), (4, 5))),
        (networked((2, 20), (2, 20), (4, 10)), ((0, 1, 2, 3), (4, 5, 6, 7))),  # sizes differ less so
        (networked((2, 20), (2, 20), (3, 10)), ((0, 1, 2, 3), (4, 5, 6))),  # by one either way
        (networked((2, 20), (2, 20), (2, 10), joined=False), ((0, 1, 2, 3), (4, 5))),
        (networked((1, 20), (1, 20), (1, 10)), ((0, 1), (2,))),
        (networked((2, 20), (2, 20), (1, 10)), ((0, 1, 2, 3), (4,))),  # no box of one rank for that
    ],
)
def test_boxes(fabric: Topology, found: tuple[tuple[int, ...], ...]) -> None:
    assert boxes_of(fabric) == found


def test_ranks_out_of_order() -> None:
    """Boxes by their first rank, ranks rising; nodes 2, 3 and 5, 6, 7 are the boxes."""
    fabric = in_boxes(2, 3)
    assert fabric.compute_nodes.tolist() == [2, 3, 5, 6, 7]
    assert boxes_of(fabric, (7, 3, 5, 2, 6)) == ((0, 2, 4), (1, 3))


def test_neighbours_are_in_one_box() -> None:
    """Parallel links count together: 3 and 3 are wider than 5; two boxes with a direct link are one."""
    builder = TopologyBuilder("direct")
    for name in "abcd":
        builder.compute(name)
    for one, other, bandwidth in (("a", "b", 3), ("a", "b", 3), ("c", "d", 5), ("a", "a", 90)):
        builder.duplex(one, other, bandwidth)
    builder.switch("s")
    for name in "abcd":
        builder.duplex(name, "s", 1)
    fabric = builder.build()
    assert boxes_of(fabric) == ((0, 1), (2, 3))
    assert boxes_of(fabric, (3, 0, 2, 1)) == ((0, 2), (1, 3))
    collective = Collective(CollectiveKind.ALLGATHER, (3, 0, 2), forwarders=(1,))
    assert direct_arcs(fabric, collective) == {0: {2: 5}, 1: {}, 2: {0: 5}}
    whole = Collective(CollectiveKind.ALLGATHER, (0, 1, 2, 3))
    assert direct_arcs(fabric, whole) == {0: {1: 6}, 1: {0: 6}, 2: {3: 5}, 3: {2: 5}}


def test_arcs_of_links_one_way() -> None:
    builder = TopologyBuilder("one way")
    for name in "abc":
        builder.compute(name)
    for tail, head, bandwidth in (("a", "b", 3), ("c", "b", 4), ("a", "b", 5), ("b", "b", 9)):
        builder.link(tail, head, bandwidth)
    arcs = direct_arcs(builder.build(), Collective(CollectiveKind.ALLGATHER, (2, 1, 0)))
    assert arcs == {0: {1: 4}, 1: {}, 2: {1: 8}}


def random_graph(seed: int, n: int) -> dict[int, list[int]]:
    chance = np.random.default_rng(seed)
    found = {u: [v for v in range(n) if v != u and chance.random() < 0.45] for u in range(n)}
    return {u: chance.permutation(row).tolist() for u, row in found.items()}


def first_order(
    neighbours: Mapping[int, Sequence[int]], path: list[int], end: int | None
) -> tuple[int, ...] | None:
    """Depth first; neighbours with the fewest ways onward first, then in their order."""
    n = len(neighbours)
    if len(path) == n:
        done = path[-1] == end if end is not None else path[0] in neighbours[path[-1]]
        return tuple(path) if done else None
    free = [v for v in neighbours[path[-1]] if v not in path and (v != end or len(path) == n - 1)]
    for v in sorted(free, key=lambda v: sum(w not in path for w in neighbours[v])):
        found = first_order(neighbours, [*path, v], end)
        if found:
            return found
    return None


@pytest.mark.parametrize("end", [None, 4])
@pytest.mark.parametrize("n", [5, 6, 7])
def test_the_first_order_that_is_found(n: int, end: int | None) -> None:
    seen = set()
    for seed in range(25):
        graph = random_graph(seed, n)
        found = hamiltonian_order(graph, 1, end)
        assert found == first_order(graph, [1], end)
        seen.add(found is None)
    assert seen == {True, False}


def test_the_search_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path of four needs a look at each of its ranks."""
    line = {0: [1], 1: [0, 2], 2: [1, 3], 3: [2, 0]}
    for limit, found in ((4, (0, 1, 2, 3)), (3, None)):
        monkeypatch.setattr(module, "SEARCH_LIMIT", limit)
        assert hamiltonian_order(line, 0) == found
        assert hamiltonian_order(line, 0, 3) == found
    assert hamiltonian_order({0: []}, 0, 0) == (0,)
    assert hamiltonian_order({0: []}, 0) is None


def random_arcs(seed: int, n: int) -> dict[int, dict[int, int]]:
    chance = np.random.default_rng(seed)
    return {
        u: {v: int(chance.integers(1, 7)) for v in range(n) if v != u and chance.random() < 0.75}
        for u in range(n)
    }


@pytest.mark.parametrize("end", [None, 2])
@pytest.mark.parametrize("seed", range(4))
def test_the_next_order_loads_links_least(seed: int, end: int | None) -> None:
    """Of all orders, by (load + 1) / bandwidth on their way; counted in both directions."""
    n = 5
    arcs = random_arcs(seed, n)
    finder = CycleFinder(range(n), arcs, variant=seed)
    assert finder.degree == max(map(len, arcs.values()))
    loads = {(u, v): 0 for u in range(n) for v in arcs[u]}
    for _ in range(4):
        worst = []
        for order in permutations(range(n)):
            walk = [*order, order[0]] if end is None else list(order)
            if (
                order[0] == 1
                and (end is None or order[-1] == end)
                and all(hop in loads for hop in pairwise(walk))
            ):
                worst.append(max(Fraction(loads[u, v] + 1, arcs[u][v]) for u, v in pairwise(walk)))
        found = finder.next_order(1, end)
        if not worst:
            assert found is None
            return
        assert found is not None
        assert sorted(found) == list(range(n))
        walk = [*found, found[0]] if end is None else list(found)
        assert max(Fraction(loads[u, v] + 1, arcs[u][v]) for u, v in pairwise(walk)) == min(worst)
        for u, v in pairwise(walk):
            loads[u, v] += 1
            if (v, u) in loads:
                loads[v, u] += 1
        assert finder.relative_load == max(Fraction(load, arcs[u][v]) for (u, v), load in loads.items())
        backwards = [hop[::-1] for hop in pairwise([*found, found[0]])]
        assert finder.is_reversible(found) is all(hop in loads for hop in backwards)


def test_two_ranks() -> None:
    """A cycle of two takes both links, and as many backwards; a path takes one."""
    finder = CycleFinder((3, 8), {3: {8: 2}, 8: {3: 4}, 5: {3: 1}})
    assert finder.degree == 1
    assert finder.relative_load == 0
    assert finder.next_order(3) == (3, 8)
    assert not finder.is_reversible((3, 8))
    assert finder.relative_load == 1  # two of two
    for load in (1, 1, Fraction(5, 4)):  # the link back has 3, 4 and 5 of four
        assert finder.next_order(8, 3) == (8, 3)
        assert finder.relative_load == load


def test_cycles_of_a_box() -> None:
    """Both directions of each; as many as are faster together, of the links that the ranks have."""
    ring = {i: {(i + 1) % 5: 2, (i - 1) % 5: 2} for i in range(5)}
    assert box_cycles(range(5), ring) == ((0, 1, 2, 3, 4), (0, 4, 3, 2, 1))
    one_way = {i: {(i + 1) % 4: 3} for i in range(4)}
    assert box_cycles(range(4), one_way) == ((0, 1, 2, 3),)
    assert box_cycles((0, 1, 2), {0: {1: 1}, 1: {0: 1, 2: 1}, 2: {1: 1}}) == ()
    assert box_cycles((0, 1), {0: {}, 1: {}}) == ()
    # all pairs of five are two cycles, ten links each way in all, every one used
    whole = {u: {v: 1 for v in range(5) if v != u} for u in range(5)}
    found = box_cycles(range(5), whole)
    hops = [hop for order in found for hop in pairwise([*order, order[0]])]
    assert len(found) == 4
    assert sorted(hops) == [(u, v) for u in range(5) for v in range(5) if u != v]
    assert all(found[i + 1] == (found[i][0], *found[i][:0:-1]) for i in (0, 2))


@pytest.mark.parametrize(
    "sizes", [(3, 3), (4, 4), (3, 3, 3), (2, 3, 4), (5, 3), (1, 2), (4, 4, 4, 4), (4, 5, 6)]
)
def test_rings_through_boxes_with_switches(sizes: tuple[int, ...]) -> None:
    """Ring j leaves a box at the place where it enters the next, from j on; downwards in between."""
    fabric = in_boxes(*sizes)
    nodes = tuple(fabric.compute_nodes.tolist())
    orders = ring_orders(fabric, Collective(CollectiveKind.ALLGATHER, nodes))
    assert len(orders) == min(sizes)
    starts = np.cumsum([0, *sizes]).tolist()
    n = len(sizes)
    shift = [i % 2 for i in range(n)]
    shift[-1] = 2 if n % 2 else 1
    for j, order in enumerate(orders):
        assert sorted(order) == list(range(sum(sizes)))
        for i, size in enumerate(sizes):
            box = [rank - starts[i] for rank in order[starts[i] : starts[i + 1]]]
            first, last = (j + shift[i]) % size, (j + shift[(i + 1) % n]) % size
            down = [(first - step) % size for step in range(1, size)]
            if first != last:
                down = [place for place in down if place != last] + [last]
            assert box == [first, *down]


def test_rings_of_one_box_with_a_switch() -> None:
    """As many as a rank has links out; here two from rank 1 and one from the others."""
    builder = TopologyBuilder("one")
    builder.switch("s")
    for name in "abc":
        builder.compute(name)
        builder.duplex(name, "s", 7)
    builder.duplex("b", "s", 7)
    orders = ring_orders(builder.build(), Collective(CollectiveKind.ALLGATHER, (3, 2, 1)))
    assert orders == ((0, 1, 2), (0, 1, 2))


@pytest.mark.parametrize(
    ("widths", "lanes"),
    [
        # 0 to 1 and 2 to 3 the long way round, walked from either end
        ((9, 9, 9, 9), [(0, 3, 2, 1), (1, 2, 3, 0), (2, 1, 0, 3), (3, 0, 1, 2)]),
        ((1, 1, 1, 1), [(0, 3, 2, 1), (1, 2, 3, 0), (2, 1, 0, 3), (3, 0, 1, 2)]),
        # 1 to 2 and 3 to 0: the narrow links are taken once, not twice
        ((8, 4, 8, 4), [(0, 1, 2, 3), (1, 0, 3, 2), (2, 3, 0, 1), (3, 2, 1, 0)]),
        # of an odd number the cycle from each rank on
        ((9, 9, 9), [(0, 1, 2), (1, 2, 0), (2, 0, 1)]),
        (
            (9, 7, 8, 6, 5),
            [(0, 1, 2, 3, 4), (1, 2, 3, 4, 0), (2, 3, 4, 0, 1), (3, 4, 0, 1, 2), (4, 0, 1, 2, 3)],
        ),
    ],
)
def test_rings_through_boxes_of_direct_links(widths: Sequence[int], lanes: Sequence[tuple[int, ...]]) -> None:
    """Two boxes, each a ring of direct links; the second is walked backwards."""
    n, builder = len(widths), TopologyBuilder("linked")
    builder.switch("network")
    for box in range(2):
        for place in range(n):
            builder.compute(f"g{box}.{place}")
            builder.duplex(f"g{box}.{place}", "network", 1)
        for place, bandwidth in enumerate(widths):
            builder.duplex(f"g{box}.{place}", f"g{box}.{(place + 1) % n}", bandwidth)
    fabric = builder.build()
    nodes = tuple(fabric.compute_nodes.tolist())
    orders = ring_orders(fabric, Collective(CollectiveKind.ALLGATHER, nodes))
    assert orders == tuple((*lane, *(n + rank for rank in lane[::-1])) for lane in lanes)
