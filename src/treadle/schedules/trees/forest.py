"""Tree-flow schedules: families of spanning trees whose edges carry physical paths."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import chain
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np

from treadle.arrays import FrozenArrays, Int32Array, Int64Array, check_offsets, offsets_of, sums_of
from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.schedules.checks import check_length, check_range
from treadle.schedules.collective import CollectiveKind


class Direction(StrEnum):
    """Direction in which data flows along the trees."""

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
        Rises from the root to the leaves of every unit tree, and is equal at both ends of an edge. In an
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
        Edges to parents: one for each unit tree that is not rooted at the rank. BROADCAST: it receives on
        them.
    down : RoleEdges
        Edges to children. BROADCAST: it sends on them.
    """

    rank: int
    up: RoleEdges
    down: RoleEdges


@dataclass(frozen=True, eq=False)
class Tree:
    """`multiplicity` identical spanning trees of the ranks.

    The units 0..multiplicity-1 of the tree differ only in their paths: the path entries of an edge cover the
    units in order, so entry j of `v` carries units from the sum of the earlier entries' units on.

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


class Phase(Protocol):
    """Part of a schedule that reduces or broadcasts."""

    @property
    def direction(self) -> Direction:
        """Direction of the data."""

    @property
    def n_ranks(self) -> int:
        """Number of ranks N."""


class Trees(Phase, Protocol):
    """Weighted spanning trees of N ranks in one direction, in any form."""

    @property
    def root_multiplicity(self) -> Int64Array:
        """r(v): unit trees of each root, shape (N,)."""

    @property
    def grain(self) -> int:
        """Unit trees that are always used together: a divisor of all numbers of unit trees."""

    def trees(self, root: int) -> Iterator[Tree]:
        """Yield the weighted trees rooted at rank `root`, in order of units."""

    def path(self, number: int) -> Int32Array:
        """Return the link numbers of a path, in the order the data takes them."""

    def paths(self, numbers: Int64Array) -> tuple[Int64Array, Int32Array]:
        """Return offsets and links of paths, whose numbers rise."""

    def roles(self, rank: int) -> Roles:
        """Return parents and children of a rank in all unit trees; ScheduleError if there is no such rank."""


_Phase = TypeVar("_Phase", bound=Phase)
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

    Readers use the interface of `Trees`, which other forms have as well.

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
    begin (BROADCAST) or end (REDUCE) at a capable switch on another path of the unit tree.
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
        check_range("forest", "tree_root", self.tree_root, 0, n)
        if np.any(np.diff(self.tree_root) < 0):
            raise ScheduleError("forest: trees must be sorted by root")
        check_range("forest", "parent", self.parent, -1, n)
        check_offsets("forest", "entry_offset", self.entry_offset, t * n, len(self.entry_path))
        check_offsets("forest", "path_offset", self.path_offset, self.n_paths, len(self.path_links))
        check_length("forest", "entry_units", self.entry_units, len(self.entry_path))
        check_range("forest", "entry_path", self.entry_path, 0, self.n_paths)
        if self.entry_units.size and self.entry_units.min() < 1:
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
        """Yield the weighted trees rooted at rank `root`."""
        n = self.n_ranks
        for t in range(int(self._first_tree[root]), int(self._first_tree[root + 1])):
            offset = self.entry_offset[t * n : (t + 1) * n + 1]
            span = slice(int(offset[0]), int(offset[-1]))
            paths, units = self.entry_path[span], self.entry_units[span]
            yield Tree(root, int(self.tree_multiplicity[t]), self.parent[t], offset - offset[0], paths, units)

    def path(self, number: int) -> Int32Array:
        """Return the link numbers of a path, in the order the data takes them."""
        return self.path_links[int(self.path_offset[number]) : int(self.path_offset[number + 1])]

    def paths(self, numbers: Int64Array) -> tuple[Int64Array, Int32Array]:
        """Return offsets and links of paths, in the order the data takes them."""
        starts = self.path_offset[numbers]
        offset = offsets_of(self.path_offset[numbers + 1] - starts)
        places = np.arange(offset[-1]) + np.repeat(starts - offset[:-1], np.diff(offset))
        return offset, self.path_links[places]

    def all_paths(self) -> tuple[Int64Array, Int32Array]:
        """Return offsets and links of all paths, by number."""
        return self.path_offset, self.path_links

    def path_ends(self) -> tuple[Int32Array, Int32Array]:
        """Return the first and last link of each path; none is empty."""
        return self.path_links[self.path_offset[:-1]], self.path_links[self.path_offset[1:] - 1]

    def path_units(self) -> Int64Array:
        """Return the units on each path, over all trees and edges."""
        return sums_of(self.n_paths, self.entry_path, self.entry_units)

    def tree_table(self) -> tuple[Int32Array, Int64Array, Int32Array]:
        """Return root, multiplicity and parents, shape (T, N), of all trees."""
        return self.tree_root, self.tree_multiplicity, self.parent

    def edge_paths(self) -> tuple[Int64Array, Int32Array, Int64Array]:
        """Return offsets by edge, shape (T * N + 1,), row-major over (tree, rank), and paths and units."""
        return self.entry_offset, self.entry_path, self.entry_units

    def with_links(self, moved: Callable[[Int32Array], Int32Array]) -> Forest:
        """Return the same trees with renumbered links."""
        return replace(self, path_links=moved(self.path_links))

    @cached_property
    def grain(self) -> int:
        """Unit trees that are always used together: the greatest divisor of all numbers of unit trees."""
        return int(np.gcd.reduce(np.concatenate([self.root_multiplicity, self.entry_units])))

    def roles(self, rank: int) -> Roles:
        """Return parents and children of a rank in all unit trees; ScheduleError if there is no such rank."""
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
        For every rank but the root, the physical paths of the edge to its parent, in the order of the data.
    """

    root: int
    multiplicity: int
    parent: Sequence[int]
    paths: Mapping[int, Sequence[tuple[tuple[int, ...], int]]]


def forest_from_trees(direction: Direction, n_ranks: int, trees: Iterable[TreeSpec]) -> Forest:
    """Return the explicit form of written-out trees; equal paths are stored once.

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


@dataclass(frozen=True)
class Phases(Generic[_Phase]):
    """A reducing phase, a broadcasting phase, or the first followed by the second (allreduce).

    ScheduleError unless the phases are those of the collective, in its directions.
    """

    _names: ClassVar[tuple[str, str]]
    _may_only_reduce: ClassVar[bool] = False  # whether an allreduce may lack the broadcasting phase

    kind: CollectiveKind
    reduce: _Phase | None = None
    broadcast: _Phase | None = None

    def __post_init__(self) -> None:
        kind = self.kind
        only_reduces = self._may_only_reduce and kind.reduces and self.broadcast is None
        if not (kind.reduces or kind.broadcasts):
            raise ScheduleError(f"{kind}: expected a collective that reduces or broadcasts")
        for needed, phase, name, direction in (
            (kind.reduces, self.reduce, self._names[0], Direction.REDUCE),
            (kind.broadcasts and not only_reduces, self.broadcast, self._names[1], Direction.BROADCAST),
        ):
            if needed != (phase is not None):
                raise ScheduleError(f"{kind}: {name} are {'missing' if needed else 'not used'}")
            if phase is not None and phase.direction is not direction:
                raise ScheduleError(f"{kind}: the {name} have the wrong direction")

    @property
    def phases(self) -> tuple[_Phase, ...]:
        """The phases in the order in which they run."""
        return tuple(phase for phase in (self.reduce, self.broadcast) if phase is not None)

    @property
    def n_ranks(self) -> int:
        """Number of ranks N."""
        return self.phases[0].n_ranks


@dataclass(frozen=True)
class TreePhases(Phases[_Trees]):
    """In-trees, out-trees, or in-trees followed by out-trees (allreduce), in any form."""

    _names = "in-trees", "out-trees"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not np.array_equal(self.forests[0].root_multiplicity, self.forests[-1].root_multiplicity):
            raise ScheduleError(f"{self.kind}: in-trees and out-trees differ in trees per root")

    @property
    def forests(self) -> tuple[_Trees, ...]:
        """The forests in the order in which they run."""
        return self.phases

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
    """Return the roles of a rank in written-out trees, which come by root and in order of units."""
    up, down = [np.zeros((6, 0), dtype=np.int64)], [np.zeros((6, 0), dtype=np.int64)]
    root, start = -1, 0
    for tree in trees:
        start = start if tree.root == root else 0
        root = tree.root
        if rank != root:
            up.append(_edge(tree, rank, int(tree.parent[rank]), start))
        down += [_edge(tree, child, child, start) for child in np.flatnonzero(tree.parent == rank).tolist()]
        start += tree.multiplicity
    tables = (np.concatenate(parts, axis=1) for parts in (up, down))
    return Roles(rank, *(RoleEdges(*table[:, np.lexsort(table[[3, 1, 0]])]) for table in tables))


def _edge(tree: Tree, child: int, peer: int, start: int) -> Int64Array:
    """Return the columns of the edge above a rank, with an entry for each of its paths."""
    span = slice(int(tree.entry_offset[child]), int(tree.entry_offset[child + 1]))
    units, depth, rank = tree.entry_units[span], 0, child
    while rank != tree.root and depth < len(tree.parent):  # the verifier reports cycles
        rank, depth = int(tree.parent[rank]), depth + 1
    first = start + np.cumsum(units) - units
    columns = (tree.root, first, units, peer, tree.entry_path[span], depth)
    return np.stack([np.broadcast_to(column, len(units)) for column in columns]).astype(np.int64)
