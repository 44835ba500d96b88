"""Factored forests of one piece, the whole fabric: written out, or as circulant trees."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from treadle.schedules.collective import CollectiveKind
from treadle.schedules.factored import (
    CirculantTrees,
    FactoredForest,
    FactoredSchedule,
    Layer,
    Subproblem,
    SubproblemTrees,
    TableTrees,
    no_crossings,
)
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule
from treadle.topologies.topology import Topology


def as_one_piece(schedule: ForestSchedule, topology: Topology) -> FactoredSchedule:
    """The schedule with each of its forests as one piece."""
    parts = {forest.direction.value: _one_piece(forest, topology) for forest in schedule.forests}
    return FactoredSchedule(schedule.kind, **parts)


def _one_piece(forest: Forest, topology: Topology) -> FactoredForest:
    """Rows are cut wherever some edge changes its path; capacity units are dealt out row by row."""
    used = np.zeros(topology.n_links, dtype=np.int64)
    paths = [forest.path(number) for number in range(forest.n_paths)]
    if forest.direction is Direction.REDUCE:
        paths = [path[::-1] for path in paths]
    roots, units, parents, numbers, first, last = [], [], [], [], [], []
    for root in range(forest.n_ranks):
        for tree in forest.trees(root):
            spans = [
                slice(int(a), int(b))
                for a, b in zip(tree.entry_offset[:-1], tree.entry_offset[1:], strict=True)
            ]
            cuts = {0, *(int(end) for span in spans for end in np.cumsum(tree.entry_units[span]))}
            bounds = sorted(cuts)
            for low, high in pairwise(bounds):
                row = np.full((3, forest.n_ranks), -1, dtype=np.int64)
                for rank, span in enumerate(spans):
                    if rank == root:
                        continue
                    ends = np.cumsum(tree.entry_units[span])
                    path = int(tree.entry_path[span][np.searchsorted(ends, low, side="right")])
                    row[:, rank] = path, used[paths[path][0]], used[paths[path][-1]]
                    used[paths[path]] += high - low
                roots.append(root)
                units.append(high - low)
                parents.append(tree.parent)
                numbers.append(row[0])
                first.append(row[1])
                last.append(row[2])
    table = TableTrees(
        root=np.array(roots),
        units=np.array(units),
        parent=np.array(parents),
        path=np.array(numbers),
        first=np.array(first),
        last=np.array(last),
        path_offset=np.concatenate([[0], np.cumsum([len(path) for path in paths])]),
        path_table=np.concatenate(paths),
    )
    return _whole(forest.direction, table, forest.root_multiplicity, used)


def _whole(
    direction: Direction, trees: SubproblemTrees, native: np.ndarray, capacity: np.ndarray
) -> FactoredForest:
    n, m = len(native), len(capacity)
    layer = Layer(
        pieces=(Subproblem(capacity, native, trees, no_crossings(), no_crossings()),),
        kind=np.zeros(1, dtype=np.int32),
        outer=np.array([-1]),
        child_offset=np.array([0, n]),
        children=np.arange(n),
        link_offset=np.array([0, m]),
        links=np.arange(m),
    )
    return FactoredForest(direction, native, (layer,))


def trees_on_star(topology: Topology, units: int = 1) -> FactoredSchedule:
    """Allgather of GPUs around one switch: everyone sends to all others through it."""
    (switch,) = topology.switches.tolist()
    nodes = topology.compute_nodes
    n = len(nodes)
    out = [int(np.flatnonzero((topology.tails == node) & (topology.heads == switch))[0]) for node in nodes]
    back = [int(np.flatnonzero((topology.heads == node) & (topology.tails == switch))[0]) for node in nodes]
    starts = np.tile([0, units * (n - 1)], (n, 1))
    trees = CirculantTrees(
        n_children=n,
        native_units=units,
        block=1,
        out_links=np.array(out).reshape(n, 1),
        in_links=np.array(back).reshape(n, 1),
        out_first=starts,
        in_first=starts,
        out_offset=np.zeros((n, 1), dtype=np.int64),
        in_offset=np.zeros((n, 1), dtype=np.int64),
    )
    capacity = np.zeros(topology.n_links, dtype=np.int64)
    capacity[out + back] = units * (n - 1)
    forest = _whole(Direction.BROADCAST, trees, np.full(n, units), capacity)
    return FactoredSchedule(CollectiveKind.ALLGATHER, broadcast=forest)
