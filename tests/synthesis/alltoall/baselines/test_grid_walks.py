"""Grids by their links, and walks and exchanges along their axes: every path and message by definition."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.alltoall.baselines.dimension_order import dimension_order
from treadle.synthesis.alltoall.baselines.grid_phases import (
    grid_exchange,
    hypercube_exchange,
    mesh_exchange,
    torus_exchange,
)
from treadle.synthesis.alltoall.baselines.grids import _shapes, find_grid, mesh_torus_or_hypercube
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology

ALLTOALL = CollectiveKind.ALLTOALL


def grid(sides: tuple[int, ...], wraps: tuple[bool, ...], seed: int = 0) -> Topology:
    """Nodes in row-major order, links in any."""
    arcs = set()
    places = list(product(*map(range, sides)))
    for place in places:
        for axis, (side, closed) in enumerate(zip(sides, wraps, strict=True)):
            for way in (1, -1):
                moved = place[axis] + way
                if closed or 0 <= moved < side:
                    other = (*place[:axis], moved % side, *place[axis + 1 :])
                    arcs.add((places.index(place), places.index(other)))
    order = np.random.default_rng(seed).permutation(len(arcs))
    ends = [sorted(arcs)[number] for number in order]
    return from_arcs("grid", [tail for tail, _ in ends], [head for _, head in ends], n=len(places))


SHAPES = [
    ((3, 4), (True, False)),
    ((2, 5), (False, True)),
    ((4, 2, 3), (True, False, False)),
    ((5,), (False,)),
]


@pytest.mark.parametrize(("sides", "wraps"), SHAPES)
def test_links_up_and_down_every_axis(sides: tuple[int, ...], wraps: tuple[bool, ...]) -> None:
    fabric = grid(sides, wraps)
    found = find_grid(fabric, "it")
    assert (found.sides, found.wraps, found.n_axes) == (sides, wraps, len(sides))
    for node, place in enumerate(product(*map(range, sides))):
        assert found.places[:, node].tolist() == list(place)
        for axis, (side, closed) in enumerate(zip(sides, wraps, strict=True)):
            for links, way in ((found.up, 1), (found.down, -1)):
                link, moved = int(links[axis, node]), place[axis] + way
                if not closed and not 0 <= moved < side:
                    assert link == -1
                    continue
                other = (*place[:axis], moved % side, *place[axis + 1 :])
                assert fabric.tails[link] == node
                assert fabric.heads[link] == np.ravel_multi_index(other, sides)


def test_shapes_that_the_neighbours_of_the_first_node_allow() -> None:
    """1, 3 and 9 of 12: rows of 3, open as 2 is none, in columns of 4, closed."""
    assert list(_shapes({1, 3, 9}, 1, 12)) == [((4, 3), (True, False))]
    assert list(_shapes({1, 2}, 1, 4)) == [((2, 2), (False, False))]
    assert list(_shapes({1, 3}, 1, 4)) == [((4,), (True,))]
    assert list(_shapes({1}, 1, 4)) == [((4,), (False,))]
    assert list(_shapes({2}, 1, 4)) == []
    assert list(_shapes({1, 2}, 1, 3)) == [((3,), (True,))]


def test_what_is_no_grid() -> None:
    words = "is not a mesh, torus or hypercube in row-major order without parallel links"
    doubled = from_arcs("doubled", [0, 1, 0], [1, 0, 1], n=2)
    with pytest.raises(ScheduleError, match=f"^it: doubled {re.escape(words)}$"):
        find_grid(doubled, "it")
    looped = from_arcs("looped", [0, 1, 1], [1, 0, 1], n=2)
    assert find_grid(looped, "it").sides == (2,)
    assert mesh_torus_or_hypercube(looped, Collective(ALLTOALL, (0, 1))) is None
    refusal = mesh_torus_or_hypercube(doubled, Collective(ALLTOALL, (0, 1)))
    assert str(refusal).endswith(words)
    cases = (
        (torus_exchange, "mesh(3, 2)", "torus-exchange: {} does not wrap on every axis; use mesh-exchange"),
        (mesh_exchange, "torus(3, 2)", "mesh-exchange: {} wraps around, expected a mesh; use torus-exchange"),
        (hypercube_exchange, "mesh(2, 3)", "hypercube-exchange: {} has sides (2, 3), expected 2 everywhere"),
        (mesh_exchange, "mesh(129)", "mesh-exchange: side 129, at most 128 can be scheduled"),
    )
    for generate, name, message in cases:
        fabric = parse(name)
        with pytest.raises(ScheduleError, match=f"^{re.escape(message.format(name))}$"):
            generate(fabric, Collective(ALLTOALL, tuple(range(fabric.n_nodes))))
    # open sides of 2 are those of a torus too
    fabric = parse("mesh(2, 2)")
    assert torus_exchange(fabric, Collective(ALLTOALL, (0, 1, 2, 3))).n_steps == 2


def sparse(n: int) -> Collective:
    """Ranks in another order than nodes, uneven demands, some none."""
    rng = np.random.default_rng(n)
    matrix = rng.integers(0, 3, (n, n))
    matrix[0, 1] += 1
    return Collective(ALLTOALL, tuple(rng.permutation(n).tolist()), demands=Demands(matrix))


def walks(
    start: tuple[int, ...],
    end: tuple[int, ...],
    axes: list[int],
    sides: tuple[int, ...],
    wraps: tuple[bool, ...],
) -> dict[tuple[tuple[int, ...], ...], Fraction]:
    """Places on the way of each path and its share: axis by axis, the shorter way round or both."""
    found: dict[tuple[tuple[int, ...], ...], Fraction] = {(start,): Fraction(1)}
    for axis in axes:
        apart, side = end[axis] - start[axis], sides[axis]
        options = [apart]
        if wraps[axis]:
            up = apart % side
            options = [up] if 2 * up < side else [up - side] if 2 * up > side else [up, up - side]
        longer: dict[tuple[tuple[int, ...], ...], Fraction] = {}
        for path, share in found.items():
            for steps in options:
                way, sign = list(path), 1 if steps > 0 else -1
                for _ in range(abs(steps)):
                    at = way[-1]
                    way.append((*at[:axis], (at[axis] + sign) % side, *at[axis + 1 :]))
                longer[tuple(way)] = share / len(options)
        found = longer
    return found


@pytest.mark.parametrize(
    ("sides", "wraps"), [((3, 4), (False, True)), ((4, 3), (True, True)), ((2, 4), (False, False))]
)
def test_walks_correct_one_coordinate_after_another(sides: tuple[int, ...], wraps: tuple[bool, ...]) -> None:
    fabric, some = grid(sides, wraps, 1), sparse(sides[0] * sides[1])
    made = dimension_order(fabric, some)
    places = list(product(*map(range, sides)))
    demand = some.pair_demands.between
    expected, found = {}, {}
    for source, target in zip(*np.nonzero(demand), strict=True):
        ends = places[some.ranks[source]], places[some.ranks[target]]
        for way, share in walks(*ends, [1, 0], sides, wraps).items():
            expected[int(source), int(target), way] = share * int(demand[source, target])
    for path in range(made.n_paths):
        links = made.path(path)
        way = (places[int(fabric.tails[links[0]])], *(places[int(head)] for head in fabric.heads[links]))
        pair = int(made.source[path]), int(made.target[path])
        found[(*pair, way)] = Fraction(int(made.units[path]), made.n_chunks)
    assert found == expected
    assert made.n_chunks == 2 ** sum(w and side % 2 == 0 for side, w in zip(sides, wraps, strict=True))


@pytest.mark.parametrize(
    ("sides", "wraps"),
    [
        ((3, 3), (True, True)),
        ((4, 3), (True, True)),
        ((4, 4), (True, True)),
        ((3, 4), (False, False)),
        ((2, 2, 2), (False,) * 3),
        ((3, 2), (True, False)),
    ],
)
def test_parts_of_shards_go_along_the_axes_in_turn(sides: tuple[int, ...], wraps: tuple[bool, ...]) -> None:
    """Part c corrects axis c first; in phase f it moves along axis c + f only, towards its target."""
    fabric, some = grid(sides, wraps, 2), sparse(int(np.prod(sides)))
    made = grid_exchange("it", find_grid(fabric, "it"), some)
    sends, count = made.sends, len(sides)
    halves = sends.n_chunks // count
    assert halves == 1 + any(w and side % 2 == 0 for side, w in zip(sides, wraps, strict=True))
    assert sends.n_steps % count == 0
    places = list(product(*map(range, sides)))
    source, target = np.nonzero(some.pair_demands.between)
    assert made.targets.tolist() == target.tolist()
    at = {
        (shard, chunk): places[some.ranks[one]]
        for shard, one in enumerate(source)
        for chunk in range(sends.n_chunks)
    }
    for send, step in enumerate(sends.send_steps().tolist()):
        link, shard = int(sends.link[send]), int(sends.shard[send])
        goal = places[some.ranks[target[shard]]]
        for chunk in range(int(sends.low[send]), int(sends.high[send])):
            part, phase = chunk // halves, step // (sends.n_steps // count)
            axis = (part + phase) % count
            here = at[shard, chunk]
            assert here == places[int(fabric.tails[link])]
            there = places[int(fabric.heads[link])]
            assert [a for a in range(count) if here[a] != there[a]] == [axis]
            left = [(goal[axis] - place[axis]) % sides[axis] for place in (here, there)]
            if wraps[axis]:
                distance = [min(one, sides[axis] - one) for one in left]
            else:
                distance = [abs(goal[axis] - place[axis]) for place in (here, there)]
            assert distance[1] == distance[0] - 1
            if wraps[axis] and 2 * left[0] == sides[axis]:  # half goes up and half down
                assert left[1] == left[0] + (-1, 1)[chunk % halves]
            at[shard, chunk] = there
    assert all(place == places[some.ranks[target[shard]]] for (shard, _), place in at.items())
