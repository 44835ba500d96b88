"""The roles of a rank are those that it has in the trees written out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from samples.factored import factored_samples as samples
from treadle.errors import ScheduleError
from treadle.schedules.factored import FactoredForest
from treadle.schedules.trees.forest import RoleEdges, Tree, Trees

TWO, PODS = samples.two_boxes, samples.nested_pods
ENTRY = "is neither native nor enters by a link"
Edge = tuple[int, int, int, tuple[int, ...]]
"""Root, unit, peer, links."""


def _unit_edges(tree: Tree, forest: Trees, first: int) -> dict[int, list[Edge]]:
    """For each rank but the root: its edges to the parent, with the parent as peer, unit by unit."""
    found: dict[int, list[Edge]] = {}
    for rank in np.flatnonzero(tree.parent >= 0).tolist():
        span = slice(int(tree.entry_offset[rank]), int(tree.entry_offset[rank + 1]))
        paths = np.repeat(tree.entry_path[span], tree.entry_units[span]).tolist()
        links = {number: tuple(forest.path(number).tolist()) for number in set(paths)}
        parent = int(tree.parent[rank])
        found[rank] = [(tree.root, first + i, parent, links[number]) for i, number in enumerate(paths)]
    return found


def _expected(forest: Trees) -> tuple[list[set[Edge]], list[set[Edge]]]:
    """Edges up and down of every rank, by the trees written out."""
    up: list[set[Edge]] = [set() for _ in range(forest.n_ranks)]
    down: list[set[Edge]] = [set() for _ in range(forest.n_ranks)]
    for root in range(forest.n_ranks):
        first = 0
        for tree in forest.trees(root):
            for rank, edges in _unit_edges(tree, forest, first).items():
                up[rank].update(edges)
                for tree_root, unit, parent, links in edges:
                    down[parent].add((tree_root, unit, rank, links))
            first += tree.multiplicity
    return up, down


def _listed(edges: RoleEdges, forest: Trees) -> list[Edge]:
    return [
        (root, unit + i, peer, tuple(forest.path(path).tolist()))
        for root, unit, units, peer, path in zip(
            *(column.tolist() for column in list(vars(edges).values())[:5]), strict=True
        )
        for i in range(units)
    ]


def _check(forest: Trees) -> None:
    up, down = _expected(forest)
    depths: dict[tuple[int, int, int, int], set[int]] = {}
    for rank in range(forest.n_ranks):
        found = forest.roles(rank)
        for edges, expected in ((found.up, up[rank]), (found.down, down[rank])):
            listed = _listed(edges, forest)
            assert len(listed) == len(set(listed))
            assert set(listed) == expected
            keys = list(zip(edges.root.tolist(), edges.unit.tolist(), edges.peer.tolist(), strict=True))
            assert keys == sorted(keys)
            for (root, unit, peer, _), depth in zip(listed, np.repeat(edges.depth, edges.units), strict=True):
                child, parent = (rank, peer) if edges is found.up else (peer, rank)
                depths.setdefault((root, unit, child, parent), set()).add(int(depth))
    # both ends of an edge say the same, and the edge above has less
    assert all(len(found) == 1 for found in depths.values())
    reached = {(root, unit, child): depth for (root, unit, child, _), (depth,) in depths.items()}
    for (root, unit, _, parent), (depth,) in depths.items():
        assert depth > (0 if parent == root else reached[root, unit, parent])


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_roles_are_those_of_the_trees(name: str) -> None:
    for forest in samples.SAMPLES[name]()[2].forests:
        _check(forest)
        _check(forest.explicit())


@pytest.mark.parametrize("seed", range(0, 10, 5))
def test_roles_of_random_forests(seed: int) -> None:
    found = [sample for sample in map(samples.random_sample, range(seed, seed + 5)) if sample is not None]
    assert found
    for _, _, schedule in found:
        _check(schedule.forests[0])
        _check(schedule.forests[0].explicit())


def test_equal_edges_of_consecutive_units_are_one_row() -> None:
    forest = samples.single_root()[2].forests[0]
    edges = [forest.roles(rank).up for rank in range(4)]
    assert edges[0].units.sum() == 0
    assert all(one.units.sum() == 4 for one in edges[1:])
    assert any(one.units.max() > 1 for one in edges[1:])


def _damaged(forest: FactoredForest, kind: int, side: str, **changes: tuple[int, int]) -> FactoredForest:
    """One crossing of a kind of piece changed: by column, its row and what is added there."""
    (layer,) = forest.layers
    rows = getattr(layer.pieces[kind], side)
    columns = {key: np.array(getattr(rows, key)) for key in changes}
    for key, (row, more) in changes.items():
        columns[key][row] += more
    pieces = [*layer.pieces]
    pieces[kind] = replace(pieces[kind], **{side: replace(rows, **columns)})
    return replace(forest, layers=(replace(layer, pieces=tuple(pieces)),))


@pytest.mark.parametrize(
    ("sample", "kind", "side", "changes", "rank", "said"),
    [
        (TWO, 1, "entrances", {"child": (0, 1)}, 0, "a unit tree of subproblem 1 " + ENTRY),
        (TWO, 1, "entrances", {"child": (0, 1)}, 3, "a unit tree of subproblem 2 " + ENTRY),
        (PODS, 2, "entrances", {"child": (0, 1)}, 4, "a unit tree of subproblem 5 " + ENTRY),
        (
            PODS,
            1,
            "entrances",
            {"child": (0, 1)},
            0,
            "no tree of subproblem 1 takes some units that its children expect",
        ),
        (
            PODS,
            1,
            "entrances",
            {"offset": (0, 1)},
            5,
            "subproblem 2 has a unit at its boundary that leads to no rank",
        ),
        (
            PODS,
            2,
            "entrances",
            {"units": (0, -1)},
            2,
            "a subproblem within subproblem 1 has no crossing for some unit",
        ),
    ],
)
def test_pieces_that_do_not_fit_have_no_roles(
    sample: Any, kind: int, side: str, changes: dict[str, tuple[int, int]], rank: int, said: str
) -> None:
    forest = _damaged(sample()[2].forests[0], kind, side, **changes)
    with pytest.raises(ScheduleError) as caught:
        forest.roles(rank)
    assert str(caught.value) == f"factored forest: {said}; treadle verify says what is wrong"


def test_a_unit_tree_that_a_table_lacks_has_no_roles() -> None:
    forest = _damaged(PODS()[2].forests[0], 1, "entrances", root_unit=(1, 1))
    with pytest.raises(ScheduleError) as caught:
        forest.roles(3)
    assert str(caught.value) == "table of trees: child 1 has 4 unit trees, none of number 4"
