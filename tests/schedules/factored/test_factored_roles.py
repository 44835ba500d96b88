"""The roles of a rank are those that it has in the trees written out."""

from __future__ import annotations

import numpy as np
import pytest

from samples import factored_samples as samples
from treadle.errors import ScheduleError
from treadle.schedules.factored import FactoredForest
from treadle.schedules.factored.roles import RoleEdges, roles
from treadle.schedules.trees.forest import Tree

Edge = tuple[int, int, int, tuple[int, ...]]
"""Root, unit, peer, links."""


def _unit_edges(tree: Tree, forest: FactoredForest, first: int) -> dict[int, list[Edge]]:
    """For each rank but the root: its edges to the parent, with the parent as peer, unit by unit."""
    found: dict[int, list[Edge]] = {}
    for rank in np.flatnonzero(tree.parent >= 0).tolist():
        span = slice(int(tree.entry_offset[rank]), int(tree.entry_offset[rank + 1]))
        paths = np.repeat(tree.entry_path[span], tree.entry_units[span]).tolist()
        links = {number: tuple(forest.path(number).tolist()) for number in set(paths)}
        parent = int(tree.parent[rank])
        found[rank] = [(tree.root, first + i, parent, links[number]) for i, number in enumerate(paths)]
    return found


def _expected(forest: FactoredForest) -> tuple[list[set[Edge]], list[set[Edge]]]:
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


def _listed(edges: RoleEdges, forest: FactoredForest) -> list[Edge]:
    return [
        (root, unit + i, peer, tuple(forest.path(path).tolist()))
        for root, unit, units, peer, path in zip(
            *(column.tolist() for column in vars(edges).values()), strict=True
        )
        for i in range(units)
    ]


def _check(forest: FactoredForest) -> None:
    up, down = _expected(forest)
    for rank in range(forest.n_ranks):
        found = roles(forest, rank)
        for edges, expected in ((found.up, up[rank]), (found.down, down[rank])):
            listed = _listed(edges, forest)
            assert len(listed) == len(set(listed))
            assert set(listed) == expected
            keys = list(zip(edges.root.tolist(), edges.unit.tolist(), edges.peer.tolist(), strict=True))
            assert keys == sorted(keys)


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_roles_are_those_of_the_trees(name: str) -> None:
    for forest in samples.SAMPLES[name]()[2].forests:
        _check(forest)


@pytest.mark.parametrize("seed", range(0, 20, 5))
def test_roles_of_random_forests(seed: int) -> None:
    found = [sample for sample in map(samples.random_sample, range(seed, seed + 5)) if sample is not None]
    assert found
    for _, _, schedule in found:
        _check(schedule.forests[0])


def test_equal_edges_of_consecutive_units_are_one_row() -> None:
    forest = samples.single_root()[2].forests[0]
    edges = [roles(forest, rank).up for rank in range(4)]
    assert edges[0].units.sum() == 0
    assert all(one.units.sum() == 4 for one in edges[1:])
    assert any(one.units.max() > 1 for one in edges[1:])


def test_only_ranks_have_roles() -> None:
    with pytest.raises(ScheduleError, match="expected 0 to 3"):
        roles(samples.single_root()[2].forests[0], 4)
