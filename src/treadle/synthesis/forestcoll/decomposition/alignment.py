"""Which path a tree takes between two sets: one that leaves by the rank where the data came in, if it can."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array
from treadle.schedules.factored import Crossings, Piece
from treadle.schedules.forest import Forest, Tree

NOBODY = -1
"""Label of a rank, and of links that several members of a set share."""


@dataclass(frozen=True)
class Doors:
    """Which member of each child, if that is a set, a local link or a native unit tree belongs to.

    Parameters
    ----------
    leaves, enters : array of int32, shape (l,)
        Child of the child that supplies (takes in) what the link carries; `NOBODY` if none alone.
    natives : tuple of array of int64
        Of each child: native unit trees of its children in turn; empty for a rank.
    """

    leaves: Int32Array
    enters: Int32Array
    natives: tuple[Int64Array, ...]


def doors_of(n_links: int, children: list[tuple[Piece, Int64Array] | None]) -> Doors:
    """The doors of a piece.

    Parameters
    ----------
    n_links : int
    children : list of (Piece, array of int64) or None
        Of each child that is a set: its kind, and this piece's local link for each local link of it (-1 where
        it has none).
    """
    sides = np.full((2, n_links), NOBODY, dtype=np.int32)
    natives = []
    for child in children:
        if child is None:
            natives.append(np.zeros(0, dtype=np.int64))
            continue
        piece, place = child
        natives.append(piece.native)
        for side, rows in zip(sides, (piece.exits, piece.entrances), strict=True):
            _mark(side, rows, place)
    return Doors(sides[0], sides[1], tuple(natives))


def _mark(side: Int32Array, rows: Crossings, place: Int64Array) -> None:
    members: dict[int, set[int]] = defaultdict(set)
    for link, child in zip(place[rows.link].tolist(), rows.child.tolist(), strict=True):
        members[link].add(child)
    for link, found in members.items():
        if len(found) == 1:
            side[link] = found.pop()


@dataclass
class _Run:
    """Unit trees of one tree that take the same paths so far."""

    units: int
    path: list[int]
    label: list[int]


def aligned_rows(
    forest: Forest, doors: Doors, entrances: Crossings
) -> tuple[Int32Array, Int64Array, Int32Array, Int32Array]:
    """Deal each pair's paths out anew: rows of root, units, parent and path, shapes (s,) and (s, n).

    Parameters
    ----------
    forest : Forest
        Of the piece, in its numbering, as BROADCAST.
    doors : Doors
    entrances : Crossings

    Notes
    -----
    Every pair of children keeps the paths that it has, and how many unit trees take each, so no link's load
    changes. Trees are walked from their roots; of the pair's paths that are left one is taken that starts at
    the member of the set by which the tree came in, else at the member with most paths left.
    """
    first = forest.path_links[forest.path_offset[:-1]] if forest.n_paths else forest.path_links
    last = forest.path_links[forest.path_offset[1:] - 1] if forest.n_paths else forest.path_links
    starts, ends = doors.leaves[first].tolist(), doors.enters[last].tolist()
    pools = {pair: _by_start(pool, starts) for pair, pool in _pools(forest).items()}
    labels = [_root_labels(doors, entrances, child) for child in range(forest.n_ranks)]
    roots, units, parents, paths = [], [], [], []
    taken = [0] * forest.n_ranks
    for root in range(forest.n_ranks):
        for tree in forest.trees(root):
            runs = _root_runs(labels[root], taken[root], tree.multiplicity, forest.n_ranks, root)
            taken[root] += tree.multiplicity
            for parent, child in _edges(tree):
                pool = pools[parent, child]
                runs = [part for run in runs for part in _dealt(run, parent, child, pool, ends)]
            for run in runs:
                roots.append(root)
                units.append(run.units)
                parents.append(tree.parent)
                paths.append(run.path)
    return (
        np.array(roots, dtype=np.int32),
        np.array(units, dtype=np.int64),
        np.array(parents, dtype=np.int32),
        np.array(paths, dtype=np.int32),
    )


def _pools(forest: Forest) -> dict[tuple[int, int], dict[int, int]]:
    """Units of each path between each pair of children."""
    pools: dict[tuple[int, int], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    edge = np.repeat(np.arange(len(forest.entry_offset) - 1), np.diff(forest.entry_offset))
    tree, child = np.divmod(edge, forest.n_ranks)
    columns = (
        forest.parent[tree, child].tolist(),
        child.tolist(),
        forest.entry_path.tolist(),
        forest.entry_units.tolist(),
    )
    for parent, head, path, units in zip(*columns, strict=True):
        pools[parent, head][path] += units
    return pools


def _root_labels(doors: Doors, entrances: Crossings, child: int) -> list[tuple[int, int]]:
    """(units, member) of a child's unit trees in order: native ones by member, then those that enter."""
    natives = doors.natives[child].tolist()
    found = [(units, member) for member, units in enumerate(natives) if units]
    rows = np.flatnonzero(entrances.child == child)
    rows = rows[np.argsort(entrances.root_unit[rows])]
    if not found and len(rows):
        found = [(int(entrances.root_unit[rows[0]]), NOBODY)] if entrances.root_unit[rows[0]] else []
    for row in rows.tolist():
        link = entrances.path_links[entrances.path_offset[entrances.path[row] + 1] - 1]
        found.append((int(entrances.units[row]), int(doors.enters[link])))
    return found


def _root_runs(
    labels: list[tuple[int, int]], start: int, units: int, n_children: int, root: int
) -> list[_Run]:
    """Unit trees start, ..., start + units - 1 of a root, cut where the member changes."""
    runs, before = [], 0
    for count, member in labels or [(start + units, NOBODY)]:
        low, high = max(start, before), min(start + units, before + count)
        before += count
        if low < high:
            run = _Run(high - low, [-1] * n_children, [NOBODY] * n_children)
            run.label[root] = member
            runs.append(run)
    missing = units - sum(run.units for run in runs)
    if missing:  # a rank's native trees have no labels
        runs.append(_Run(missing, [-1] * n_children, [NOBODY] * n_children))
    return runs


def _edges(tree: Tree) -> list[tuple[int, int]]:
    """(parent, child) from the root down."""
    below: dict[int, list[int]] = defaultdict(list)
    for child, parent in enumerate(tree.parent.tolist()):
        if parent >= 0:
            below[parent].append(child)
    edges, front = [], [tree.root]
    while front:
        onward = [(parent, child) for parent in front for child in below[parent]]
        edges += onward
        front = [child for _, child in onward]
    return edges


_Pool = dict[int, list[list[int]]]
"""Of each member that paths start at: [path, units left], the next one last."""


def _by_start(pool: dict[int, int], starts: list[int]) -> _Pool:
    found: _Pool = defaultdict(list)
    for path, units in sorted(pool.items(), key=lambda item: (item[1], -item[0])):
        found[starts[path]].append([path, units])
    return dict(found)


def _dealt(run: _Run, parent: int, child: int, pool: _Pool, ends: list[int]) -> list[_Run]:
    """The run, cut into parts with a path from parent to child each; takes their units from the pool."""
    wanted, parts = run.label[parent], []
    while True:
        start = wanted if wanted in pool else max(pool, key=lambda start: (len(pool[start]), -start))
        paths = pool[start]
        path, room = paths[-1]
        part = run
        if room < run.units:
            part = _Run(room, run.path.copy(), run.label.copy())
            run.units -= room
        part.path[child], part.label[child] = path, ends[path]
        parts.append(part)
        paths[-1][1] -= part.units
        if not paths[-1][1]:
            paths.pop()
            if not paths:
                del pool[start]
        if part is run:
            return parts
