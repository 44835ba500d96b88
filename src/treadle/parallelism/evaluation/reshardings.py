"""The cheapest collectives from one state of a tensor to another, by Dijkstra over all states between.

What a rank holds of a state is a block of the tensor: each axis in a dimension's list cuts what the axes
before it left, and along partial axes the ranks' blocks add up. So only the last axes of the lists can be
taken away such that the blocks of a group make a larger block; everything else follows:

- the group over the last axes of some lists gathers (all-gather), or exchanges what it holds to be sharded
  again at the ends of lists: by one all-to-all where no list both loses and gains (then each rank holds an
  equal part of what each other wants), by two for any new cut (the first spreads, the second delivers);
- a group over partial axes adds (all-reduce), or adds and keeps a part each (reduce-scatter);
- a rank locally slices what it holds, or uses it as its partial sum, with zeros elsewhere.

Shares nothing with ``state.moves`` and ``state.transitions``, which the search reads; tests hold both against
the sets of elements that ranks hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from heapq import heappop, heappush
from itertools import combinations, permutations, product
from math import prod

from treadle.errors import ScheduleError
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import Costs, RememberedCosts

_Lists = tuple[tuple[str, ...], ...]
_State = tuple[_Lists, frozenset[str]]
_Edge = tuple[_State, CollectiveKind | None, frozenset[str], int]
"""One step: target, collective, axes, repetitions."""


@dataclass(frozen=True)
class PricedCollective:
    """One collective: its kind, its axes in the order of the mesh, and a rank's larger buffer in bytes."""

    kind: CollectiveKind
    axes: tuple[str, ...]
    size_bytes: int


@dataclass(frozen=True)
class Resharding:
    """From one state to another.

    Parameters
    ----------
    seconds : float
    collectives : tuple of Collective
        One after the other; none where ranks do it by themselves.
    """

    seconds: float
    collectives: tuple[PricedCollective, ...]


class Reshardings:
    """Cheapest reshardings on a mesh, each computed once.

    Parameters
    ----------
    sizes : mapping from axis to its ranks
        At least 2 each.
    costs : Costs

    Examples
    --------
    >>> from treadle.training.costs import AlphaBetaCosts
    >>> costs = AlphaBetaCosts(0, {(kind, ("tp",)): 1 for kind in CollectiveKind})
    >>> found = Reshardings({"tp": 4}, costs).cheapest(
    ...     Sharding(((),), frozenset(("tp",))), Sharding((("tp",),)), shape=(8,), element_bytes=2)
    >>> [(one.kind.value, one.size_bytes) for one in found.collectives]
    [('reduce-scatter', 16)]
    """

    def __init__(self, sizes: Mapping[str, int], costs: Costs) -> None:
        self.sizes = dict(sizes)
        self._costs = RememberedCosts(costs)
        self._found: dict[tuple[object, ...], Resharding] = {}
        self._least: dict[int, dict[str, float]] = {}
        self._fits: dict[tuple[int, ...], dict[_Lists, bool]] = {}
        self._parts: dict[_Lists, int] = {}
        self._steps: dict[tuple[str, frozenset[str], int], float] = {}

    def cheapest(
        self, source: Sharding, target: Sharding, *, shape: tuple[int, ...], element_bytes: int
    ) -> Resharding:
        """Return the fastest resharding.

        Parameters
        ----------
        source, target : Sharding
        shape : tuple of int
            Elements of the whole tensor, a number for each list of axes.
        element_bytes : int

        Raises
        ------
        ScheduleError
            If the tensor cannot be cut so.
        """
        for place in (source, target):
            place.local_shape(shape, self.sizes)
        long = [at for at, size in enumerate(shape) if size > 1]
        start, end = ((tuple(place.dims[at] for at in long), place.partial) for place in (source, target))
        key = (start, end, tuple(shape[at] for at in long), element_bytes)
        if key not in self._found:
            self._found[key] = Resharding(0.0, ()) if _is_local(start, end) else self._search(*key)
        return self._found[key]

    def time_s(self, one: PricedCollective) -> float:
        """Return the seconds of a collective."""
        return float(self._costs.time_s(one.kind, one.axes, one.size_bytes))

    def _search(self, start: _State, end: _State, shape: tuple[int, ...], element_bytes: int) -> Resharding:
        whole, axes_of_mesh = prod(shape) * element_bytes, tuple(self.sizes)
        fits = self._fits.setdefault(shape, {})
        best: dict[_State, float] = {start: 0.0}
        came: dict[_State, tuple[_State, _Edge]] = {}
        left: dict[_State, float] = {}
        queue: list[tuple[float, int, float, _State]] = [(0.0, 0, 0.0, start)]
        number = 0
        while queue:
            _, _, seconds, here = heappop(queue)
            if here == end:
                break
            if seconds > best[here]:
                continue
            for edge in _edges_of(here, axes_of_mesh):
                there, kind, axes, times = edge
                if there[0] not in fits:
                    parts = (prod(self.sizes[axis] for axis in names) for names in there[0])
                    fits[there[0]] = not any(size % n for size, n in zip(shape, parts, strict=True))
                if not fits[there[0]]:
                    continue
                after = seconds
                if kind is not None:
                    larger = there if kind is CollectiveKind.ALLGATHER else here
                    after += self._step_s(kind, axes, whole // self._n_parts(larger[0])) * times
                if after < best.get(there, float("inf")):
                    best[there], came[there] = after, (here, edge)
                    if there not in left:
                        left[there] = self._left(there, end, whole)
                    number += 1
                    heappush(queue, (after + left[there], number, after, there))
        if end not in best:
            raise ScheduleError(f"no collectives lead to {Sharding(*end)} of a tensor of shape {shape}")
        collectives: list[PricedCollective] = []
        place = end
        while place in came:
            before, (_, kind, axes, times) = came[place]
            if kind is not None:
                larger = place if kind is CollectiveKind.ALLGATHER else before
                size_bytes = whole // self._n_parts(larger[0])
                collectives[:0] = [PricedCollective(kind, self._in_order(axes), size_bytes)] * times
            place = before
        return Resharding(best[end], tuple(collectives))

    def _in_order(self, axes: frozenset[str]) -> tuple[str, ...]:
        return tuple(axis for axis in self.sizes if axis in axes)

    def _step_s(self, kind: CollectiveKind, axes: frozenset[str], size_bytes: int) -> float:
        """Return the same seconds as `time_s`, faster: it is called hundreds of thousands of times."""
        key = kind.value, axes, size_bytes
        if key not in self._steps:
            self._steps[key] = self.time_s(PricedCollective(kind, self._in_order(axes), size_bytes))
        return self._steps[key]

    def _n_parts(self, lists: _Lists) -> int:
        if lists not in self._parts:
            self._parts[lists] = prod(self.sizes[axis] for names in lists for axis in names)
        return self._parts[lists]

    def _left(self, here: _State, end: _State, whole: int) -> float:
        """Lower bound of the remaining seconds: an axis that must be communicated is in some collective."""
        if whole not in self._least:
            self._least[whole] = self._least_by_axis(whole)
        at_end = _places(end)
        must = (
            axis
            for axis, place in _places(here).items()
            if (place == -1) > (at_end.get(axis) == -1)
            or (place >= 0 and at_end.get(axis, -2) not in (-1, place))
        )
        return max(map(self._least[whole].__getitem__, must), default=0.0)

    def _least_by_axis(self, whole: int) -> dict[str, float]:
        groups = [axes for n in range(1, len(self.sizes) + 1) for axes in combinations(self.sizes, n)]
        parts = {prod(self.sizes[axis] for axis in axes) for axes in (*groups, ())}
        return {
            axis: min(
                self.time_s(PricedCollective(kind, axes, whole // n))
                for axes in groups
                if axis in axes
                for kind in _KINDS
                for n in parts
                if whole % n == 0
            )
            for axis in self.sizes
        }


_KINDS = (
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALLREDUCE,
    CollectiveKind.ALLTOALL,
)


def _places(state: _State) -> dict[str, int]:
    """Return the list of each axis, -1 where it is partial."""
    found = {axis: at for at, names in enumerate(state[0]) for axis in names}
    found.update((axis, -1) for axis in state[1])
    return found


def _is_local(start: _State, end: _State) -> bool:
    """Whether each rank has all that it needs: nothing is moved, whatever collectives cost."""
    used = {axis for names in start[0] for axis in names} | start[1]
    if not start[1] <= end[1]:
        return False
    for before, after in zip(start[0], end[0], strict=True):
        n = next((at for at, axis in enumerate(before) if axis in end[1]), len(before))
        if not end[1].issuperset(before[n:]) or after[:n] != before[:n] or used.intersection(after[n:]):
            return False
    return True


@cache
def _edges_of(here: _State, axes: tuple[str, ...]) -> tuple[_Edge, ...]:
    lists, partial = here
    found: list[_Edge] = []
    used = partial.union(*lists)
    for axis in axes:
        if axis not in used:
            one = frozenset((axis,))
            found += [((cut, partial), None, one, 1) for cut in _cut_again(lists, one)]
            found.append(((lists, partial | one), None, one, 1))
    for at, names in enumerate(lists):
        if names:
            shorter = (*lists[:at], names[:-1], *lists[at + 1 :])
            found.append(((shorter, partial | {names[-1]}), None, frozenset(names[-1:]), 1))
    for n in range(1, len(partial) + 1):
        for some in map(frozenset, combinations(sorted(partial), n)):
            found.append(((lists, partial - some), CollectiveKind.ALLREDUCE, some, 1))
            scatter = CollectiveKind.REDUCE_SCATTER
            found += [((cut, partial - some), scatter, some, 1) for cut in _cut_again(lists, some)]
    for lengths in product(*(range(len(names) + 1) for names in lists)):
        moved = frozenset(axis for names, n in zip(lists, lengths, strict=True) for axis in names[n:])
        if not moved:
            continue
        base = tuple(names[:n] for names, n in zip(lists, lengths, strict=True))
        found.append(((base, partial), CollectiveKind.ALLGATHER, moved, 1))
        loses = [n < len(names) for names, n in zip(lists, lengths, strict=True)]
        for cut in _cut_again(base, moved) - {lists}:
            both = any(lost and len(new) > len(old) for lost, new, old in zip(loses, cut, base, strict=True))
            found.append(((cut, partial), CollectiveKind.ALLTOALL, moved, 2 if both else 1))
    return tuple(found)


def _cut_again(lists: _Lists, axes: frozenset[str]) -> set[_Lists]:
    """Return all lists with these axes at their ends, in every order."""
    found = set()
    for order in permutations(sorted(axes)):
        for places in product(range(len(lists)), repeat=len(order)):
            longer = list(lists)
            for axis, at in zip(order, places, strict=True):
                longer[at] = (*longer[at], axis)
            found.add(tuple(longer))
    return found
