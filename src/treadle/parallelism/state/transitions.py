"""The cheapest collectives from one sharding to another: a shortest path over all shardings between.

All orders and all fusions over several axes are paths, so that what a fused group gains, or what is gained by
cutting a tensor before a slow axis and gathering it along a fast one after it, is found and not declared.

The search is A*: from a place, an axis that must still be communicated costs at least the cheapest collective
that it takes part in, at any size that occurs. An axis must be communicated where the target asks for less of
it (partial > sharded > replicated: a rank by itself only goes up) or for another dimension. No collective
serves an axis for less, and nothing local serves one at all, so that the bound is consistent and the first
path found is cheapest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations, count
from math import prod

from treadle.errors import ScheduleError
from treadle.parallelism.state.moves import Mixed, Move, Place, moves_from, n_shards_of
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
        self.sizes = axis_sizes(mesh)
        self.costs, self.shape, self.element_bytes = RememberedCosts(costs), shape, element_bytes
        self._moves: dict[Place, tuple[Move, ...]] = {}
        self._fits: dict[Sharding, bool] = {}
        self._least: Mapping[str, Seconds] | None = None

    def cheapest(self, source: Sharding, target: Sharding) -> Route:
        """The route of least seconds; of these one of the fewest collectives.

        Raises
        ------
        ScheduleError
            If the tensor cannot lie so at one of the ends, or costs lack a rate.
        """
        for end in (source, target):
            end.local_shape(self.shape, self.sizes)
        number = count()
        queue: list[tuple[Seconds, int, int, int, Seconds, Place]] = [(0, 0, 0, next(number), 0, source)]
        came: dict[Place, tuple[Place, Move, Seconds] | None] = {source: None}
        best: dict[Place, tuple[Seconds, int, int]] = {source: (0, 0, 0)}
        while queue:
            _, n_collectives, n_local, _, seconds, place = heappop(queue)
            if best[place] < (seconds, n_collectives, n_local):
                continue
            if place == target:
                break
            for move in self._moves_from(place):
                step_s, is_local = self._seconds(place, move), move.kind is None
                after = (seconds + step_s, n_collectives + (not is_local), n_local + is_local)
                if move.target in best and best[move.target] <= after:
                    continue
                best[move.target], came[move.target] = after, (place, move, step_s)
                bound = after[0] + self._remaining(move.target, target)
                heappush(queue, (bound, after[1], after[2], next(number), after[0], move.target))
        return self._route(came, target)

    def _moves_from(self, place: Place) -> tuple[Move, ...]:
        found = self._moves.get(place)
        if found is None:
            found = tuple(move for move in moves_from(place, tuple(self.sizes)) if self._holds(move.target))
            self._moves[place] = found
        return found

    def _holds(self, place: Place) -> bool:
        sharding = place.base if isinstance(place, Mixed) else place
        if sharding not in self._fits:
            self._fits[sharding] = sharding.unsupported(self.shape, self.sizes) is None
        return self._fits[sharding]

    def _size(self, place: Place, move: Move) -> int:
        if move.kind is None:
            return 0
        larger = move.target if move.kind is CollectiveKind.ALLGATHER else place
        return prod(self.shape) * self.element_bytes // n_shards_of(larger, self.sizes)

    def _seconds(self, place: Place, move: Move) -> Seconds:
        if move.kind is None:
            return 0
        return self.costs.time_s(move.kind, self._in_order(move.axes), self._size(place, move))

    def _in_order(self, axes: frozenset[str]) -> tuple[str, ...]:
        return tuple(axis for axis in self.sizes if axis in axes)

    def _remaining(self, place: Place, target: Sharding) -> Seconds:
        """No less is left to pay: see the module's head."""
        if self._least is None:
            self._least = self._least_by_axis()
        levels, wanted = _levels(place), _levels(target)
        must = [
            self._least[axis]
            for axis, (level, where) in levels.items()
            if level > wanted.get(axis, (0, 0))[0]
            or (level == 1 == wanted[axis][0] and where != wanted[axis][1])
        ]
        return max(must, default=0)

    def _least_by_axis(self) -> Mapping[str, Seconds]:
        """By axis the least seconds of any collective with it, at any size that can occur."""
        whole = prod(self.shape) * self.element_bytes
        subsets = [axes for n in range(len(self.sizes) + 1) for axes in combinations(self.sizes, n)]
        shards = {prod(self.sizes[axis] for axis in axes) for axes in subsets}
        sizes = [whole // n for n in shards if whole % n == 0]
        least: dict[str, Seconds] = {}
        for axes in subsets[1:]:
            cheapest = min(self.costs.time_s(kind, axes, size) for kind in _KINDS for size in sizes)
            for axis in axes:
                least[axis] = min(least.get(axis, cheapest), cheapest)
        return least

    def _route(self, came: Mapping[Place, tuple[Place, Move, Seconds] | None], target: Sharding) -> Route:
        if target not in came:
            raise ScheduleError(f"no collectives lead to {target} of a tensor of shape {self.shape}")
        steps: list[Step] = []
        place: Place = target
        while (last := came[place]) is not None:
            before, move, seconds = last
            axes, size = self._in_order(move.axes), self._size(before, move)
            steps.append(Step(move.kind, axes, size, seconds, before, place))
            place = before
        steps.reverse()
        return Route(tuple(steps), sum(step.seconds for step in steps))


def _levels(place: Place) -> dict[str, tuple[int, int]]:
    """By axis 2 for partial, (1, dimension) for sharded; an open axis is sharded, nowhere (-1)."""
    base = place.base if isinstance(place, Mixed) else place
    levels = {axis: (1, at) for at, axes in enumerate(base.dims) for axis in axes}
    levels.update((axis, (2, 0)) for axis in base.partial)
    if isinstance(place, Mixed):
        levels.update((axis, (1, -1)) for axis in place.open_axes)
    return levels
