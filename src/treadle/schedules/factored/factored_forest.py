"""Forests in factored form: subproblems solved once, joined at the capacity units that they share.

A laminar family of node sets cuts the fabric into subproblems. In a subproblem, the children of its set
(ranks, or sets that are subproblems themselves) are points, and all that is outside is one more point. Equal
subproblems are stored once. docs/algorithms/decomposition.md proves that the joined trees are a forest.

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

from treadle.arrays import FrozenArrays, Int32Array, Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.checks import UNIT_LIMIT, check_range, check_sum
from treadle.schedules.factored.expansion import Expansion
from treadle.schedules.factored.layers import Layer
from treadle.schedules.factored.piece_trees import CirculantTrees, TableTrees
from treadle.schedules.factored.slots import roles_of
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule, Roles, Tree, TreePhases


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
    def _expansion(self) -> Expansion:
        return Expansion(self.direction, self.root_multiplicity, self.layers)

    def trees(self, root: int) -> Iterator[Tree]:
        """Yield the weighted trees rooted at rank `root`, in order of units; `path` explains path numbers.

        Raises
        ------
        ScheduleError
            If the subproblems do not fit together (`treadle.verification.schedules` reports where).
        """
        return self._expansion.trees(root)

    def path(self, number: int) -> Int32Array:
        """Return the link numbers of a path, in the order the data takes them."""
        return self._expansion.path(number)

    def paths(self, numbers: Int64Array) -> tuple[Int64Array, Int32Array]:
        """Return offsets and links of paths, whose numbers rise, in the order the data takes them."""
        return self._expansion.paths(numbers)

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
        """Return parents and children of a rank in all unit trees; depths are those of module `slots`.

        Raises
        ------
        ScheduleError
            If there is no such rank, the subproblems do not fit together, or a component has 2**27 unit trees
            or more.
        """
        if not 0 <= rank < self.n_ranks:
            raise ScheduleError(f"factored forest: rank {rank}, expected 0 to {self.n_ranks - 1}")
        return roles_of(self._expansion, self.root_multiplicity, rank)

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
    return forest._expansion.explicit(sorted(set(roots)))


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
