"""Tree-flow schedules: families of spanning trees whose edges carry physical paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import Generic, Protocol, TypeVar

import numpy as np

from treadle.arrays import FrozenArrays, Int32Array, Int64Array, check_offsets, offsets_of, sums_of
from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind


class Direction(StrEnum):
    """Which way data flows along the trees."""

    BROADCAST = "broadcast"
    REDUCE = "reduce"


@dataclass(frozen=True, eq=False)
class RoleEdges:
    """Tree edges at one rank, sorted by (root, unit, peer): arrays of one length.

    Parameters
    ----------
    root : array of int64
        Root of the unit trees.
    unit, units : arrays of int64
        Unit trees unit, ..., unit + units - 1 of that root have the edge, by the same path.
    peer : array of int64
        Rank at the other end.
    path : array of int64
        Number of the path in the forest.
    depth : array of int64
        Rises from the root to the leaves of every unit tree, and is the same for both ends of an edge. In an
        explicit forest: edges from the root to the lower end.
    """

    root: Int64Array
    unit: Int64Array
    units: Int64Array
    peer: Int64Array
    path: Int64Array
    depth: Int64Array


@dataclass(frozen=True, eq=False)
class Roles:
    """The edges of all trees at one rank.

    Parameters
    ----------
    rank : int
    up : RoleEdges
        To parents: one for each unit tree that is not rooted at the rank. BROADCAST: it receives by them.
    down : RoleEdges
        To children. BROADCAST: it sends by them.
    """

    rank: int
    up: RoleEdges
    down: RoleEdges


@dataclass(frozen=True, eq=False)
class Tree:
    """`multiplicity` identical spanning trees of the ranks.

    The units 0..multiplicity-1 of the tree are told apart only by their paths: the path entries of an edge
    cover the units in order, so entry j of `v` carries units from the sum of the earlier entries' units on.

    Parameters
    ----------
    root : int
        Rank.
    multiplicity : int
        Number of unit trees, > 0.
    parent : array of int32, shape (N,)
        Parent rank of each rank; -1 at the root.
    entry_offset : array of int64, shape (N + 1,)
        Entries of the edge between v and its parent are entry_offset[v] up to entry_offset[v + 1];
        none at the root.
    entry_path : array of int32 (of a factored forest int64), shape (E,)
        Path number in the forest.
    entry_units : array of int64, shape (E,)
        Units that take the path; they sum to `multiplicity` on every edge.
    """

    root: int
    multiplicity: int
    parent: Int32Array
    entry_offset: Int64Array
    entry_path: Int32Array | Int64Array
    entry_units: Int64Array


class Trees(Protocol):
    """Weighted spanning trees of N ranks in one direction: what readers of any form of them use."""

    @property
    def direction(self) -> Direction:
        """Which way data flows."""

    @property
    def root_multiplicity(self) -> Int64Array:
        """r(v): unit trees of each root, shape (N,)."""

    @property
    def n_ranks(self) -> int:
        """Number of ranks N."""

    @property
    def grain(self) -> int:
        """Unit trees that are always used together: a divisor of all that is counted in unit trees."""

    def trees(self, root: int) -> Iterator[Tree]:
        """The weighted trees rooted at rank `root`, in order of units."""

    def path(self, number: int) -> Int32Array:
        """Link numbers of a path, in the order the data takes them."""

    def paths(self, numbers: Int64Array) -> tuple[Int64Array, Int32Array]:
        """Offsets and links of paths, whose numbers rise."""

    def roles(self, rank: int) -> Roles:
        """Parents and children of a rank in all unit trees; ScheduleError if there is no such rank."""


_Trees = TypeVar("_Trees", bound=Trees)


class TreeSchedule(Protocol):
    """A collective as trees: in-trees, out-trees, or in-trees followed by out-trees (allreduce)."""

    @property
    def kind(self) -> CollectiveKind:
        """The collective."""

    @property
    def forests(self) -> Sequence[Trees]:
        """The forests in the order they run."""

    @property
    def root_multiplicity(self) -> Int64Array:
        """r(v), shape (N,), of all forests."""


@brief("direction", "tree_root")
@dataclass(frozen=True, eq=False)
class Forest(FrozenArrays):
    """Spanning trees of N ranks in one direction; the explicit form.

    Readers use what `Trees` offers, so that other representations can stand in.

    Parameters
    ----------
    direction : Direction
        BROADCAST: data flows from parent to child; REDUCE: from child to parent. Paths follow the data.
    root_multiplicity : array of int64, shape (N,)
        r(v): number of unit trees rooted at each rank. Rank v's part of the data is r(v) / sum(r).
    tree_root, tree_multiplicity : arrays of int32, int64, shape (T,)
        Sorted by root.
    parent : array of int32, shape (T, N)
    entry_offset : array of int64, shape (T * N + 1,)
        Row-major over (tree, rank).
    entry_path, entry_units : arrays of int32, int64, shape (E,)
    path_offset : array of int64, shape (P + 1,)
    path_links : array of int32
        Links of path p are path_links[path_offset[p]:path_offset[p + 1]], in the order the data takes them.

    Notes
    -----
    A path joins two ranks through switches and forwarders. After pruning for in-network multicast it may
    begin (BROADCAST) or end (REDUCE) at a capable switch that the same unit tree visits anyway.
    The constructor checks shapes and ranges only; `treadle.verification.schedules` checks meaning.
    """

    direction: Direction
    root_multiplicity: Int64Array
    tree_root: Int32Array
    tree_multiplicity: Int64Array
    parent: Int32Array
    entry_offset: Int64Array
    entry_path: Int32Array
    entry_units: Int64Array
    path_offset: Int64Array
    path_links: Int32Array

    def __post_init__(self) -> None:
        self._freeze("forest", axes={"parent": 2})
        n, t = len(self.root_multiplicity), len(self.tree_root)
        if self.parent.shape != (t, n):
            raise ScheduleError(f"forest: parent has shape {self.parent.shape}, expected {(t, n)}")
        if self.tree_multiplicity.shape != (t,) or (t and self.tree_multiplicity.min() < 1):
            raise ScheduleError("forest: every tree needs a positive multiplicity")
        if t and (self.tree_root.min() < 0 or self.tree_root.max() >= n):
            raise ScheduleError(f"forest: roots must be ranks from 0 to {n - 1}")
        if np.any(np.diff(self.tree_root) < 0):
            raise ScheduleError("forest: trees must be sorted by root")
        if self.parent.size and (self.parent.min() < -1 or self.parent.max() >= n):
            raise ScheduleError(f"forest: parents must be ranks from 0 to {n - 1}, or -1")
        check_offsets("forest", "entry_offset", self.entry_offset, t * n, len(self.entry_path))
        check_offsets(
            "forest", "path_offset", self.path_offset, len(self.path_offset) - 1, len(self.path_links)
        )
        if len(self.entry_units) != len(self.entry_path):
            raise ScheduleError("forest: entry_units and entry_path differ in length")
        if self.entry_path.size:
            if self.entry_path.min() < 0 or self.entry_path.max() >= self.n_paths:
                raise ScheduleError(f"forest: path numbers must be 0 to {self.n_paths - 1}")
            if self.entry_units.min() < 1:
                raise ScheduleError("forest: path units must be positive")

    @property
    def n_ranks(self) -> int:
        """Number of ranks N."""
        return len(self.root_multiplicity)

    @property
    def n_trees(self) -> int:
        """Number of distinct (weighted) trees."""
        return len(self.tree_root)

    @property
    def n_paths(self) -> int:
        """Number of distinct physical paths."""
        return len(self.path_offset) - 1

    @cached_property
    def _first_tree(self) -> Int64Array:
        return np.searchsorted(self.tree_root, np.arange(self.n_ranks + 1)).astype(np.int64)

    def trees(self, root: int) -> Iterator[Tree]:
        """The weighted trees rooted at rank `root`."""
        n = self.n_ranks
        for t in range(int(self._first_tree[root]), int(self._first_tree[root + 1])):
            offset = self.entry_offset[t * n : (t + 1) * n + 1]
            span = slice(int(offset[0]), int(offset[-1]))
            yield Tree(
                root=root,
                multiplicity=int(self.tree_multiplicity[t]),
                parent=self.parent[t],
                entry_offset=offset - offset[0],
                entry_path=self.entry_path[span],
                entry_units=self.entry_units[span],
            )

    def path(self, number: int) -> Int32Array:
        """Link numbers of a path, in the order the data takes them."""
        return self.path_links[int(self.path_offset[number]) : int(self.path_offset[number + 1])]

    def paths(self, numbers: Int64Array) -> tuple[Int64Array, Int32Array]:
        """Offsets and links of paths, in the order the data takes them."""
        starts = self.path_offset[numbers]
        offset = offsets_of(self.path_offset[numbers + 1] - starts)
        places = np.arange(offset[-1]) + np.repeat(starts - offset[:-1], np.diff(offset))
        return offset, self.path_links[places]

    def all_paths(self) -> tuple[Int64Array, Int32Array]:
        """Offsets and links of all paths, by number."""
        return self.path_offset, self.path_links

    def path_ends(self) -> tuple[Int32Array, Int32Array]:
        """First and last link of each path; none is empty."""
        return self.path_links[self.path_offset[:-1]], self.path_links[self.path_offset[1:] - 1]

    def path_units(self) -> Int64Array:
        """Units that take each path, over all trees and edges."""
        return sums_of(self.n_paths, self.entry_path, self.entry_units)

    def tree_table(self) -> tuple[Int32Array, Int64Array, Int32Array]:
        """Root, multiplicity and parents, shape (T, N), of all trees."""
        return self.tree_root, self.tree_multiplicity, self.parent

    def edge_paths(self) -> tuple[Int64Array, Int32Array, Int64Array]:
        """Offsets by edge, shape (T * N + 1,), row-major over (tree, rank); the edges' paths and units."""
        return self.entry_offset, self.entry_path, self.entry_units

    def with_links(self, moved: Callable[[Int32Array], Int32Array]) -> Forest:
        """Return the same trees with renumbered links."""
        return replace(self, path_links=moved(self.path_links))

    @cached_property
    def grain(self) -> int:
        """Unit trees that are always used together: the greatest divisor of all that is counted in them."""
        return int(np.gcd.reduce(np.concatenate([self.root_multiplicity, self.entry_units])))

    def roles(self, rank: int) -> Roles:
        """Parents and children of a rank in all unit trees; ScheduleError if there is no such rank."""
        if not 0 <= rank < self.n_ranks:
            raise ScheduleError(f"forest: rank {rank}, expected 0 to {self.n_ranks - 1}")
        return roles_in(chain.from_iterable(map(self.trees, range(self.n_ranks))), rank)


@dataclass(frozen=True)
class TreeSpec:
    """A weighted tree written out, for `forest_from_trees`.

    Parameters
    ----------
    root, multiplicity : int
    parent : sequence of int, length N
        -1 at the root.
    paths : mapping of rank to sequence of (links, units)
        For every rank but the root, the physical paths of the edge to its parent, in data order.
    """

    root: int
    multiplicity: int
    parent: Sequence[int]
    paths: Mapping[int, Sequence[tuple[tuple[int, ...], int]]]


def forest_from_trees(direction: Direction, n_ranks: int, trees: Iterable[TreeSpec]) -> Forest:
    """Build the explicit form from written-out trees; equal paths are stored once.

    Parameters
    ----------
    direction : Direction
    n_ranks : int
    trees : iterable of TreeSpec
        In any order.
    """
    ordered = sorted(trees, key=lambda tree: tree.root)
    multiplicity = np.zeros(n_ranks, dtype=np.int64)
    numbers: dict[tuple[int, ...], int] = {}
    offsets, entry_path, entry_units = [0], [], []
    for tree in ordered:
        multiplicity[tree.root] += tree.multiplicity
        for rank in range(n_ranks):
            for links, units in tree.paths.get(rank, ()):
                entry_path.append(numbers.setdefault(tuple(links), len(numbers)))
                entry_units.append(units)
            offsets.append(len(entry_path))
    lengths = [len(links) for links in numbers]
    return Forest(
        direction=direction,
        root_multiplicity=multiplicity,
        tree_root=np.array([tree.root for tree in ordered], dtype=np.int32),
        tree_multiplicity=np.array([tree.multiplicity for tree in ordered], dtype=np.int64),
        parent=np.array([tree.parent for tree in ordered], dtype=np.int32).reshape(len(ordered), n_ranks),
        entry_offset=np.array(offsets, dtype=np.int64),
        entry_path=np.array(entry_path, dtype=np.int32),
        entry_units=np.array(entry_units, dtype=np.int64),
        path_offset=offsets_of(lengths),
        path_links=np.array([link for links in numbers for link in links], dtype=np.int32),
    )


def check_phases(kind: CollectiveKind, reduce: Trees | None, broadcast: Trees | None) -> None:
    """Raise ScheduleError unless a collective has just these forests, the right way and of equal roots."""
    if not (kind.reduces or kind.broadcasts):
        raise ScheduleError(f"{kind}: spanning trees do not support it")
    for needed, forest, name in (
        (kind.reduces, reduce, "in-trees"),
        (kind.broadcasts, broadcast, "out-trees"),
    ):
        if needed != (forest is not None):
            raise ScheduleError(f"{kind}: {name} {'are missing' if needed else 'do not belong'}")
    for forest, way, word in (
        (reduce, Direction.REDUCE, "reducing"),
        (broadcast, Direction.BROADCAST, "broadcasting"),
    ):
        if forest is not None and forest.direction is not way:
            raise ScheduleError(f"{kind}: the {word} forest flows the wrong way")
    roots = [forest.root_multiplicity for forest in (reduce, broadcast) if forest is not None]
    if not np.array_equal(roots[0], roots[-1]):
        raise ScheduleError(f"{kind}: in-trees and out-trees differ in trees per root")


@dataclass(frozen=True)
class TreePhases(Generic[_Trees]):
    """In-trees, out-trees, or in-trees followed by out-trees (allreduce), in any form."""

    kind: CollectiveKind
    reduce: _Trees | None = None
    broadcast: _Trees | None = None

    def __post_init__(self) -> None:
        check_phases(self.kind, self.reduce, self.broadcast)

    @property
    def forests(self) -> tuple[_Trees, ...]:
        """The forests in the order they run."""
        return tuple(forest for forest in (self.reduce, self.broadcast) if forest is not None)

    @property
    def n_ranks(self) -> int:
        """Number of ranks N."""
        return self.forests[0].n_ranks

    @property
    def root_multiplicity(self) -> Int64Array:
        """r(v), shape (N,)."""
        return self.forests[0].root_multiplicity

    @property
    def total_units(self) -> int:
        """R, the number of equal units that the data is cut into."""
        return int(self.root_multiplicity.sum())


@brief("kind")
@dataclass(frozen=True)
class ForestSchedule(TreePhases[Forest]):
    """A collective as forests: out-trees, in-trees, or in-trees followed by out-trees (allreduce).

    Parameters
    ----------
    kind : CollectiveKind
    reduce : Forest, optional
        In-trees; present when the collective reduces.
    broadcast : Forest, optional
        Out-trees; present when the collective broadcasts.

    Notes
    -----
    The data of size M (the larger per-rank buffer) is cut into R = sum of r(v) equal units.
    For an allreduce both forests have equal `root_multiplicity`; unit i of root v is reduced to v by unit
    tree i of the in-forest (trees of a root in order, units of a tree in order) and broadcast by unit tree i
    of the out-forest, so the two may cut the units into different trees.
    """


def roles_in(trees: Iterable[Tree], rank: int) -> Roles:
    """Roles of a rank in trees written out, which come by root and in order of units."""
    up, down = [np.zeros((6, 0), dtype=np.int64)], [np.zeros((6, 0), dtype=np.int64)]
    root, start = -1, 0
    for tree in trees:
        start = start if tree.root == root else 0
        root = tree.root
        children = np.flatnonzero(tree.parent == rank)
        above = [] if rank == root else [_edge(tree, rank, int(tree.parent[rank]), start)]
        up += above
        down += [_edge(tree, child, child, start) for child in children.tolist()]
        start += tree.multiplicity
    return Roles(rank, _sorted(up), _sorted(down))


def _edge(tree: Tree, child: int, peer: int, start: int) -> Int64Array:
    """Columns of the edge above a rank, a row for each of its paths."""
    span = slice(int(tree.entry_offset[child]), int(tree.entry_offset[child + 1]))
    units = tree.entry_units[span]
    found = np.empty((6, len(units)), dtype=np.int64)
    found[0], found[2], found[3], found[4] = tree.root, units, peer, tree.entry_path[span]
    found[1] = start + np.cumsum(units) - units
    found[5] = _depth(tree, child)
    return found


def _depth(tree: Tree, rank: int) -> int:
    depth = 0
    while rank != tree.root and depth < len(tree.parent):  # circles are the judge's to tell
        rank, depth = int(tree.parent[rank]), depth + 1
    return depth


def _sorted(parts: list[Int64Array]) -> RoleEdges:
    columns = np.concatenate(parts, axis=1)
    return RoleEdges(*columns[:, np.lexsort((columns[3], columns[1], columns[0]))])
