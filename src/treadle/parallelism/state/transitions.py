"""The cheapest collectives from one sharding to another: a shortest path over all shardings between.

All orders and all fusions over several axes are paths, so that what a fused group gains, or what is gained by
cutting a tensor before a slow axis and gathering it along a fast one after it, is found and not declared.

The search is A*: from a place, an axis that must still be communicated costs at least the cheapest collective
that it takes part in, at any size that occurs. An axis must be communicated where the target requires less of
it (partial > sharded > replicated: a rank by itself only goes up) or for another dimension. No collective
communicates an axis for less, and nothing local does at all, so that the bound is consistent and the first
path found is cheapest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import combinations, count
from math import prod

from treadle.errors import ScheduleError
from treadle.parallelism.state.moves import Mixed, Move, Place, base_of, moves_from, n_shards_of
from treadle.parallelism.state.sharding import Sharding, axis_sizes
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import Costs, RememberedCosts, Seconds

_KINDS = (
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALLREDUCE,
    CollectiveKind.ALLTOALL,
)


@dataclass(frozen=True)
class Step:
    """A collective of a route, or something local.

    Parameters
    ----------
    kind : CollectiveKind, optional
        None: a rank does it by itself, in no time.
    axes : tuple of str
        In the order of the mesh.
    size_bytes : int
        A rank's larger buffer, as `Costs.time_s` has it; of something local 0.
    seconds : number
    before, after : Sharding or Mixed
    """

    kind: CollectiveKind | None
    axes: tuple[str, ...]
    size_bytes: int
    seconds: Seconds
    before: Place
    after: Place


@dataclass(frozen=True)
class Route:
    """Steps from one sharding to another.

    Parameters
    ----------
    steps : tuple of Step
    seconds : number
        Of all of them, one after the other.
    """

    steps: tuple[Step, ...]
    seconds: Seconds

    @property
    def collectives(self) -> tuple[Step, ...]:
        """Steps that communicate."""
        return tuple(step for step in self.steps if step.kind is not None)


class Transitions:
    """Cheapest routes of tensors of one shape on one mesh.

    Parameters
    ----------
    mesh : Mesh
    costs : Costs
    shape : tuple of int
        Of the whole tensor.
    element_bytes : int

    Examples
    --------
    >>> from treadle.training.costs import AlphaBetaCosts
    >>> rates = {(CollectiveKind.ALLGATHER, axes): rate for axes, rate in
    ...          ((("ib",), 50), (("nv",), 500), (("ib", "nv"), 400))}
    >>> rates |= {(kind, axes): 1 for kind in CollectiveKind for axes in (("ib",), ("nv",), ("ib", "nv"))
    ...           if kind is not CollectiveKind.ALLGATHER}
    >>> transitions = Transitions(Mesh((16, 8), ("ib", "nv")), AlphaBetaCosts(0, rates), (128, 100), 2)
    >>> route = transitions.cheapest(Sharding((("ib", "nv"), ())), Sharding(((), ())))
    >>> [(step.kind.value, step.axes, step.size_bytes) for step in route.steps], route.seconds
    ([('allgather', ('ib', 'nv'), 25600)], Fraction(64, 1))
    """

    def __init__(self, mesh: Mesh, costs: Costs, shape: tuple[int, ...], element_bytes: int) -> None:
        self.sizes, self.costs, self.shape = axis_sizes(mesh), RememberedCosts(costs), shape
        self._whole_bytes = prod(shape) * element_bytes
        self._steps: dict[Place, list[Step]] = {}

    def cheapest(self, source: Sharding, target: Sharding) -> Route:
        """Return the route of least seconds, and among equals one of the fewest collectives.

        Raises
        ------
        ScheduleError
            If the tensor cannot lie so at one of the ends, or costs lack a rate.
        """
        for end in (source, target):
            end.local_shape(self.shape, self.sizes)
        number = count()
        queue: list[tuple[Seconds, int, int, int, Seconds, Place]] = [(0, 0, 0, next(number), 0, source)]
        last: dict[Place, Step] = {}
        best: dict[Place, tuple[Seconds, int, int]] = {source: (0, 0, 0)}
        while queue:
            _, n_collectives, n_local, _, seconds, place = heappop(queue)
            if best[place] < (seconds, n_collectives, n_local):
                continue
            if place == target:
                break
            for step in self._steps_from(place):
                is_local = step.kind is None
                after = (seconds + step.seconds, n_collectives + (not is_local), n_local + is_local)
                if step.after in best and best[step.after] <= after:
                    continue
                best[step.after], last[step.after] = after, step
                bound = after[0] + self._remaining(step.after, target)
                heappush(queue, (bound, after[1], after[2], next(number), after[0], step.after))
        if target not in best:
            raise ScheduleError(f"no collectives lead to {target} of a tensor of shape {self.shape}")
        steps: list[Step] = []
        place = target
        while place != source:
            steps.append(last[place])
            place = last[place].before
        steps.reverse()
        return Route(tuple(steps), sum(step.seconds for step in steps))

    def _steps_from(self, place: Place) -> list[Step]:
        """Return the moves to states that the tensor's shape allows, with their prices."""
        if place not in self._steps:
            self._steps[place] = [
                self._priced(place, move)
                for move in moves_from(place, tuple(self.sizes))
                if base_of(move.target).unsupported(self.shape, self.sizes) is None
            ]
        return self._steps[place]

    def _priced(self, place: Place, move: Move) -> Step:
        axes = tuple(axis for axis in self.sizes if axis in move.axes)
        if move.kind is None:
            return Step(None, axes, 0, 0, place, move.target)
        larger = move.target if move.kind is CollectiveKind.ALLGATHER else place
        size = self._whole_bytes // n_shards_of(larger, self.sizes)
        return Step(move.kind, axes, size, self.costs.time_s(move.kind, axes, size), place, move.target)

    def _remaining(self, place: Place, target: Sharding) -> Seconds:
        """Return the lower bound of the remaining seconds that the module's docstring explains."""
        levels, wanted = _levels(place), _levels(target)
        must = [
            self._least[axis]
            for axis, (level, where) in levels.items()
            if level > wanted.get(axis, (0, 0))[0]
            or (level == 1 == wanted[axis][0] and where != wanted[axis][1])
        ]
        return max(must, default=0)

    @cached_property
    def _least(self) -> Mapping[str, Seconds]:
        """Least seconds of any collective with each axis, at any size that can occur."""
        subsets = [axes for n in range(len(self.sizes) + 1) for axes in combinations(self.sizes, n)]
        shards = {prod(self.sizes[axis] for axis in axes) for axes in subsets}
        sizes = [self._whole_bytes // n for n in shards if self._whole_bytes % n == 0]
        least: dict[str, Seconds] = {}
        for axes in subsets[1:]:
            cheapest = min(self.costs.time_s(kind, axes, size) for kind in _KINDS for size in sizes)
            for axis in axes:
                least[axis] = min(least.get(axis, cheapest), cheapest)
        return least


def _levels(place: Place) -> dict[str, tuple[int, int]]:
    """Code each axis: 2 for partial, (1, dimension) for sharded; an open axis is sharded, nowhere (-1)."""
    base = base_of(place)
    levels = {axis: (1, at) for at, axes in enumerate(base.dims) for axis in axes}
    levels.update((axis, (2, 0)) for axis in base.partial)
    if isinstance(place, Mixed):
        levels.update((axis, (1, -1)) for axis in place.open_axes)
    return levels
