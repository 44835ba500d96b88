"""Pieces whose only relay has room for every tree as a star."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from treadle.synthesis.trees.tight_cuts.closed_forms.star import star_trees
from treadle.synthesis.trees.tight_cuts.subproblem_tables import solve_table
from treadle.synthesis.trees.tight_cuts.subproblems import LocalSubproblem


def box(out: tuple[int, int, int] = (10, 6, 2), into: tuple[int, int, int] = (4, 6, 8)) -> LocalSubproblem:
    """Three children of 5, 3 and 1 unit trees, entering ones included: node 3 is the relay, 4 the outside."""
    links = [(y, 3, out[y]) for y in range(3)] + [(3, y, into[y]) for y in range(3)]
    links += [(4, 0, 4), (4, 1, 2), (0, 4, 6)]
    tails, heads, capacity = (np.array(column) for column in zip(*links, strict=True))
    return LocalSubproblem(
        n_children=3,
        n_relays=1,
        has_outside=True,
        tails=tails.astype(np.int32),
        heads=heads.astype(np.int32),
        capacity=capacity,
        native=np.array([1, 1, 1]),
        total=9,
    )


def test_stars_take_just_what_they_need() -> None:
    found = star_trees(box())
    assert found is not None
    graph = found[0]
    arcs = {
        (int(tail), int(head)): int(units)
        for tail, head, units in zip(graph.tails, graph.heads, graph.capacities, strict=True)
    }
    assert arcs == {
        **{(0, 1): 5, (0, 2): 5, (1, 0): 3, (1, 2): 3, (2, 0): 1, (2, 1): 1},
        **{(4, 0): 4, (4, 1): 2, (0, 4): 6},
    }
    solved, packer = solve_table(box())
    assert packer == "star"
    trees = solved.trees
    assert trees.root_units.tolist() == [5, 3, 1]
    assert trees.rows(np.array([1]), np.array([2])).parent.tolist() == [[1, -1, 1]]


@pytest.mark.parametrize("out", [(9, 7, 2), (9, 6, 3), (9, 5, 4), (5, 8, 5)])
def test_children_help_those_that_lack_units(out: tuple[int, int, int]) -> None:
    """As many units as all need in all, and each child has those that its own trees need to leave it."""
    piece = box(out=out)
    solved, packer = solve_table(piece)
    assert packer == "star"
    trees = solved.trees
    loads = np.zeros(len(piece.tails), dtype=np.int64)
    for root, units in enumerate((5, 3, 1)):
        for unit in range(units):
            rows = trees.rows(np.array([root]), np.array([unit]))
            above = rows.parent[0]
            assert above[root] == -1
            assert all(y == root or root in (above[y], above[above[y]]) for y in range(3))
            offset, links = trees.path_links(rows.path[0][above >= 0])
            np.add.at(loads, links, 1)
            assert np.diff(offset).tolist() == [2, 2]
    assert np.all(loads[:6] <= piece.capacity[:6])


@pytest.mark.parametrize(
    "piece",
    [
        *(box(out=out) for out in ((9, 6, 2), (10, 5, 2), (10, 6, 1))),
        *(box(into=into) for into in ((3, 6, 8), (4, 5, 8), (4, 6, 7))),
    ],
)
def test_one_unit_less_is_no_star(piece: LocalSubproblem) -> None:
    assert star_trees(piece) is None


def test_other_shapes_are_no_stars() -> None:
    piece = box()
    widened = replace(
        piece,
        tails=np.append(piece.tails, np.int32(0)),
        heads=np.append(piece.heads, np.int32(1)),
        capacity=np.append(piece.capacity, 1),
    )
    assert star_trees(widened) is None  # a link between children
    cut_off = np.arange(len(piece.tails)) != 2
    kept = replace(
        piece, tails=piece.tails[cut_off], heads=piece.heads[cut_off], capacity=piece.capacity[cut_off]
    )
    assert star_trees(kept) is None  # a child that cannot send


def pod(exits: list[list[int]], up: int, down: int, native: tuple[int, ...]) -> LocalSubproblem:
    """Children below a switch that alone joins them to the outside; a child's links are as wide each way."""
    n = len(exits)
    links = [(y, n, units) for y, row in enumerate(exits) for units in row]
    links += [(n, y, units) for y, _, units in links] + [(n, n + 1, up), (n + 1, n, down)]
    tails, heads, capacity = (np.array(column) for column in zip(*links, strict=True))
    return LocalSubproblem(
        n_children=n,
        n_relays=1,
        has_outside=True,
        tails=tails.astype(np.int32),
        heads=heads.astype(np.int32),
        capacity=capacity,
        native=np.array(native),
        total=down + sum(native),
    )


@pytest.mark.parametrize(
    ("exits", "native", "pods"),
    [
        ([[7, 7]] * 4, (2, 2, 2, 2), 2),  # equal children
        ([[13, 13]] * 2 + [[26], [27]], (2, 2, 2, 1), 4),  # links of their own, one link, a lone rank
        ([[9, 10, 10]] * 3 + [[30]] * 2, (1, 1, 1, 0, 0), 10),
    ],
)
def test_children_share_the_border_of_their_switch(
    exits: list[list[int]], native: tuple[int, ...], pods: int
) -> None:
    own = sum(native)
    piece = pod(exits, own * (pods - 1), own * (pods - 1), native)
    found = star_trees(piece)
    assert found is not None
    graph = found[0]
    n, loads = piece.n_children, np.zeros(len(piece.tails), dtype=np.int64)
    for path, units in zip(graph.segment_path, graph.segment_units, strict=True):
        np.add.at(loads, graph.path_links[graph.path_offset[path] : graph.path_offset[path + 1]], units)
    assert np.all(loads <= piece.capacity)
    assert loads[-2] == loads[-1] == own * (pods - 1)
    units = np.array(native) + np.bincount(
        graph.heads[graph.tails == n + 1], weights=graph.capacities[graph.tails == n + 1], minlength=n
    ).astype(np.int64)
    assert units.sum() == piece.total
    inner = (graph.tails < n) & (graph.heads < n)
    np.testing.assert_array_equal(graph.capacities[inner], units[graph.tails[inner]])
    leaving = dict(
        zip(graph.tails[graph.heads == n + 1], graph.capacities[graph.heads == n + 1], strict=True)
    )
    # what native trees take, but for a tree more that a child takes in
    assert all(leaving.get(y, 0) >= trees * (pods - 1) - (n - 1) for y, trees in enumerate(native))
    assert solve_table(piece)[1] == "star"


def test_borders_that_children_cannot_serve() -> None:
    assert star_trees(pod([[7, 7]] * 4, 8, 8, (2, 2, 2, 2))) is not None
    assert star_trees(pod([[7, 7]] * 3 + [[7, 6]], 8, 8, (2, 2, 2, 2))) is None
