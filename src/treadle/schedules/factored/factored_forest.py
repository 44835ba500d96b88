"""Forests in factored form: subproblems solved once, joined at the capacity units that they share.

A laminar family of node sets cuts the fabric into subproblems. In a subproblem, the children of its set
(ranks, or sets that are subproblems themselves) are points, and all that is outside is one more point. Equal
subproblems are stored once. docs/proofs/decomposition.md proves that the joined trees are a forest.

A tree that enters a subproblem by capacity unit (e, o) continues as the unit tree of the subproblem that
`Piece.entrances` names for (e, o); an edge that leaves it by (f, o) starts at the child that `Piece.exits`
names. A link that crosses the boundary occurs in the subproblems on both sides, with equal capacity units. So
the path between two ranks has three parts: the crossing paths from the inside out, the path of the subproblem
that holds both ends, and the crossing paths from the outside in. A link where two of these meet occurs once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treadle.arrays import FrozenArrays, Int32Array, Int64Array, offsets_of
from treadle.errors import ScheduleError
from treadle.schedules.checks import UNIT_LIMIT, check_range, check_sum
from treadle.schedules.factored.expansion import Group, LayerExpansion, add_trees, weighted_tree
from treadle.schedules.factored.factored_roles import RankView, roles_of
from treadle.schedules.factored.layers import Layer
from treadle.schedules.factored.subproblem_trees import CirculantTrees, TableTrees
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, Roles, Tree, TreePhases

MAX_CELLS = 2**27
"""Most parents (trees times ranks) of an explicit form."""

_BATCH_CELLS = 2**20
"""Trees times ranks that are expanded together."""


@dataclass(frozen=True, eq=False)
class FactoredForest(FrozenArrays):
    """Spanning trees of N ranks, as components that are added up.

    Parameters
    ----------
    direction : Direction
        BROADCAST: data flows along the trees of the subproblems. REDUCE: subproblems are those of the fabric
        with all links reversed; data flows from child to parent and takes every path backwards.
    root_multiplicity : array of int64, shape (N,)
        Unit trees of each rank over all components: those of component 0 first. Native unit tree i of child y
        of a subproblem is unit ``sum of native before y, plus i`` of that subproblem in the one around it.
    layers : tuple of Layer
        The ranks of each are 0 to N - 1.
    """

    direction: Direction
    root_multiplicity: Int64Array
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        what = "factored forest"
        object.__setattr__(self, "layers", tuple(self.layers))
        self._freeze(what)
        check_range(what, "root_multiplicity", self.root_multiplicity, 0, UNIT_LIMIT)
        check_sum(what, "root_multiplicity", self.root_multiplicity)
        if not self.layers:
            raise ScheduleError(f"{what}: no component; expected at least one")
        planted = np.zeros(self.n_ranks, dtype=object)  # components of hostile files may exceed int64
        for number, layer in enumerate(self.layers):
            is_rank = layer.children >= 0
            ranks = layer.children[is_rank]
            if not np.array_equal(np.sort(ranks), np.arange(self.n_ranks)):
                raise ScheduleError(
                    f"{what}: component {number} must have ranks 0 to {self.n_ranks - 1}, once each"
                )
            native = np.concatenate([layer.pieces[kind].native for kind in layer.kind.tolist()])
            planted[ranks] += native[is_rank]
        wrong = np.flatnonzero(planted != self.root_multiplicity)
        if wrong.size:
            raise ScheduleError(
                f"{what}: rank {wrong[0]} has {planted[wrong[0]]} native unit trees in the components, "
                f"root_multiplicity {self.root_multiplicity[wrong[0]]}"
            )

    @property
    def n_ranks(self) -> int:
        """Number of ranks N."""
        return len(self.root_multiplicity)

    @cached_property
    def total_units(self) -> int:
        """R, the number of unit trees."""
        return int(self.root_multiplicity.sum())

    @cached_property
    def _expansions(self) -> list[LayerExpansion]:
        return list(map(LayerExpansion, self.layers))

    @cached_property
    def _before(self) -> Int64Array:
        """Unit trees of each rank in the components before each one, shape (components + 1, N)."""
        native = [layer.native_units() for layer in self._expansions]
        before: Int64Array = np.cumsum([np.zeros_like(self.root_multiplicity), *native], axis=0)
        return before

    @cached_property
    def _code_base(self) -> Int64Array:
        """Paths of the components before each one, and their number."""
        codes = [layer.codes.n_codes for layer in self._expansions]
        if sum(codes) >= UNIT_LIMIT:
            raise ScheduleError("factored forest: the subproblems have 2**61 or more paths")
        return offsets_of(codes)

    def _expand(self, roots: Int64Array, units: Int64Array) -> tuple[Int32Array, Int64Array, Int64Array]:
        """Return parents, path numbers and runs of unit trees counted over all components."""
        parent = np.empty((len(roots), self.n_ranks), dtype=np.int32)
        code = np.empty(parent.shape, dtype=np.int64)
        run = np.empty(len(roots), dtype=np.int64)
        number = (self._before[1:, roots] <= units).sum(axis=0)
        for i, layer in enumerate(self._expansions):
            mine = np.flatnonzero(number == i)
            if len(mine):
                local = units[mine] - self._before[i, roots[mine]]
                parent[mine], code[mine], run[mine] = layer.expand(roots[mine], local)
                code[mine] = np.where(code[mine] >= 0, code[mine] + self._code_base[i], -1)
        return parent, code, run

    def trees(self, root: int) -> Iterator[Tree]:
        """Yield the weighted trees rooted at rank `root`, in order of units; `path` explains path numbers.

        Raises
        ------
        ScheduleError
            If the subproblems do not fit together (`treadle.verification.schedules` reports where).
        """
        roots, unit, total = np.array([root]), 0, int(self.root_multiplicity[root])
        groups: list[Group] = []
        while unit < total:
            parent, code, run = self._expand(roots, np.array([unit]))
            add_trees(groups, parent[0], code[0], int(run[0]))
            if len(groups) > 1:
                yield weighted_tree(root, *groups.pop(0))
            unit += int(run[0])
        for group in groups:
            yield weighted_tree(root, *group)

    def path(self, number: int) -> Int32Array:
        """Return the link numbers of a path, in the order the data takes them."""
        if not 0 <= number < self._code_base[-1]:
            raise ScheduleError(f"factored forest: path {number} of {self._code_base[-1]}")
        return self.paths(np.array([number], dtype=np.int64))[1]

    def paths(self, numbers: Int64Array) -> tuple[Int64Array, Int32Array]:
        """Return offsets and links of paths, whose numbers rise, in the order the data takes them."""
        bounds = np.searchsorted(numbers, self._code_base)
        lengths, links = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int32)]
        for i, layer in enumerate(self._expansions):
            local = numbers[bounds[i] : bounds[i + 1]] - self._code_base[i]
            length, part = layer.codes.decode(local, backwards=self.direction is Direction.REDUCE)
            lengths.append(length)
            links.append(part)
        return offsets_of(np.concatenate(lengths)), np.concatenate(links).astype(np.int32)

    @cached_property
    def grain(self) -> int:
        """Unit trees that all subproblems treat equally: a divisor of all numbers of unit trees."""
        units = [self.root_multiplicity]
        for piece in (kind for layer in self.layers for kind in layer.pieces):
            trees = piece.trees
            units.append(piece.native)
            for side in (piece.entrances, piece.exits):
                units += [side.offset, side.units, side.inner, side.root_unit]
            if isinstance(trees, TableTrees):
                units += [trees.units, trees.first[trees.first >= 0], trees.last[trees.last >= 0]]
            elif isinstance(trees, CirculantTrees):
                units += [np.array([trees.native_units, trees.block])]
                units += [trees.out_first, trees.in_first, trees.out_offset, trees.in_offset]
            else:
                return 1
        return int(np.gcd.reduce(np.concatenate([column.ravel() for column in units])))

    def roles(self, rank: int) -> Roles:
        """Return parents and children of a rank in all unit trees; depths are slots (`factored_roles`).

        Raises
        ------
        ScheduleError
            If there is no such rank, the subproblems do not fit together, or a component has 2**27 unit trees
            or more.
        """
        if not 0 <= rank < self.n_ranks:
            raise ScheduleError(f"factored forest: rank {rank}, expected 0 to {self.n_ranks - 1}")
        parts = zip(self._expansions, self._before, self._code_base.tolist(), strict=False)
        return roles_of([RankView(layer, rank, *before) for layer, *before in parts], self.root_multiplicity)

    def explicit(self) -> Forest:
        """Return the explicit form; ScheduleError for more than 2**27 parents (trees times ranks)."""
        return expand(self, range(self.n_ranks))


def expand(forest: FactoredForest, roots: Sequence[int]) -> Forest:
    """Return the trees of some roots in explicit form.

    Parameters
    ----------
    forest : FactoredForest
    roots : sequence of int
        Ranks; the `root_multiplicity` of the result is that of all ranks in any case.

    Raises
    ------
    ScheduleError
        If the subproblems do not fit together, or the trees have more than 2**27 parents in total.
    """
    n, roots = forest.n_ranks, sorted(set(roots))
    if roots and not 0 <= roots[0] <= roots[-1] < n:
        raise ScheduleError(f"factored forest: roots must be ranks from 0 to {n - 1}")
    trees: list[Tree] = []
    free = MAX_CELLS
    batch = max(1, _BATCH_CELLS // max(n, 1))
    for start in range(0, len(roots), batch):
        some = np.array(roots[start : start + batch])
        unit, groups = np.zeros(len(some), dtype=np.int64), list[list[Group]]([] for _ in some)
        while len(active := np.flatnonzero(unit < forest.root_multiplicity[some])):
            free -= len(active) * n
            if free < 0:
                raise ScheduleError(
                    f"factored forest: more than {MAX_CELLS} parents; expand single roots instead"
                )
            parent, code, run = forest._expand(some[active], unit[active])
            for i, place in enumerate(active.tolist()):
                add_trees(groups[place], parent[i], code[i], int(run[i]))
            unit[active] += run
        for root, mine in zip(some.tolist(), groups, strict=True):
            trees += [weighted_tree(root, *group) for group in mine]
    none = [np.zeros(0, dtype=np.int64)]
    codes = np.concatenate(none + [tree.entry_path for tree in trees])
    used, entry_path = np.unique(codes, return_inverse=True)
    path_offset, path_links = forest.paths(used)
    return Forest(
        direction=forest.direction,
        root_multiplicity=forest.root_multiplicity,
        tree_root=np.array([tree.root for tree in trees], dtype=np.int32),
        tree_multiplicity=np.array([tree.multiplicity for tree in trees], dtype=np.int64),
        parent=np.array([tree.parent for tree in trees], dtype=np.int32).reshape(len(trees), n),
        entry_offset=offsets_of(np.concatenate(none + [np.diff(tree.entry_offset) for tree in trees])),
        entry_path=entry_path.astype(np.int32),
        entry_units=np.concatenate(none + [tree.entry_units for tree in trees]),
        path_offset=path_offset,
        path_links=path_links,
    )


@dataclass(frozen=True)
class FactoredSchedule(TreePhases[FactoredForest]):
    """A collective as factored forests: in-trees, out-trees, or in-trees followed by out-trees (allreduce).

    Parameters
    ----------
    kind : CollectiveKind
    reduce, broadcast : FactoredForest, optional
        As in `treadle.schedules.trees.forest.ForestSchedule`.
    """

    def explicit(self) -> ForestSchedule:
        """Return the explicit form; ScheduleError for more than 2**27 parents in a forest."""
        forests = {forest.direction.value: forest.explicit() for forest in self.forests}
        return ForestSchedule(self.kind, **forests)
