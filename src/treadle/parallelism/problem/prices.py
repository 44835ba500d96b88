"""Seconds between states of tensors, computed once for equal tensors.

The moves between shardings depend on the axes and the number of dimensions only: they are computed once as
arrays (`MoveArrays`), whatever the tensor. For a tensor, moves from or to shardings that do not divide its
shape drop out, each different collective is priced once, and all sources relax their seconds together until
none decreases (Bellman and Ford). Prices are not negative, so this ends after at most as many rounds as a
route has moves.

`state.transitions` has one pair of states and its route.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from treadle.parallelism.graph.compute_graph import ComputeGraph, TensorRef
from treadle.parallelism.state.moves import Place, base_of, moves_from, n_shards_of
from treadle.parallelism.state.sharding import Sharding, replicated
from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import Costs, RememberedCosts

_SOURCES_AT_ONCE = 64
"""63,000 moves of four axes and three dimensions x 64 sources x 8 bytes: 32 MB."""


@dataclass(frozen=True)
class MoveArrays:
    """All shardings of tensors with some number of dimensions, and all moves between them.

    Parameters
    ----------
    places : tuple of Place
    number : mapping from Place to int
        Its index in `places`.
    tails, heads : int array, one entry a move
        Indices of places; heads ascend.
    price : int array, one entry a move
        Index in `collectives`.
    collectives : tuple of (CollectiveKind, tuple of str, int), or None for what is local
        Kind, axes in the order of the mesh, and the part (1 / n) of the tensor that the larger buffer is.
    """

    places: tuple[Place, ...]
    number: Mapping[Place, int]
    tails: NDArray[np.int64]
    heads: NDArray[np.int64]
    price: NDArray[np.int64]
    collectives: tuple[tuple[CollectiveKind, tuple[str, ...], int] | None, ...]


@cache
def move_arrays(sizes: tuple[tuple[str, int], ...], n_dims: int) -> MoveArrays:
    """Return the arrays for axes with their ranks and a number of dimensions.

    Notes
    -----
    Three axes and three dimensions: 170 shardings, 4,000 moves; four axes: 1,216 and 63,000.
    """
    by_axis = dict(sizes)
    number: dict[Place, int] = {replicated(n_dims): 0}
    waiting: list[Place] = [replicated(n_dims)]
    prices: dict[tuple[CollectiveKind, tuple[str, ...], int] | None, int] = {None: 0}
    rows: set[tuple[int, int, int]] = set()
    while waiting:
        place = waiting.pop()
        for move in moves_from(place, tuple(by_axis)):
            if move.target not in number:
                number[move.target] = len(number)
                waiting.append(move.target)
            collective = None
            if move.kind is not None:
                larger = move.target if move.kind is CollectiveKind.ALLGATHER else place
                ordered = tuple(axis for axis in by_axis if axis in move.axes)
                collective = move.kind, ordered, n_shards_of(larger, by_axis)
            rows.add((number[move.target], number[place], prices.setdefault(collective, len(prices))))
    table = np.array(sorted(rows), np.int64).reshape(-1, 3)
    return MoveArrays(tuple(number), number, table[:, 1], table[:, 0], table[:, 2], tuple(prices))


def seconds_between(
    sources: Sequence[Sharding],
    targets: Sequence[Sharding],
    *,
    shape: tuple[int, ...],
    element_bytes: int,
    sizes: Mapping[str, int],
    costs: Costs,
) -> NDArray[np.float64]:
    """Return the least seconds from each source to each target.

    Parameters
    ----------
    sources, targets : sequence of Sharding
    shape : tuple of int
        Of the whole tensor.
    element_bytes : int
    sizes : mapping from axis to its ranks
        As by `axis_sizes`.
    costs : Costs

    Returns
    -------
    float array, one row a source, one column a target

    Raises
    ------
    ScheduleError
        If the tensor cannot lie as a source or target, or costs lack a rate.
    """
    for place in (*sources, *targets):
        place.local_shape(shape, sizes)
    arrays = move_arrays(tuple(sizes.items()), len(shape))
    fits = np.array([base_of(place).unsupported(shape, sizes) is None for place in arrays.places])
    used = fits[arrays.tails] & fits[arrays.heads]
    tails, heads, price = arrays.tails[used], arrays.heads[used], arrays.price[used]
    whole, seconds = prod(shape) * element_bytes, np.zeros(len(arrays.collectives))
    for one in np.unique(price):
        collective = arrays.collectives[one]
        if collective is not None:
            kind, axes, n_parts = collective
            seconds[one] = float(costs.time_s(kind, axes, whole // n_parts))
    starts = [arrays.number[place] for place in sources]
    ends = [arrays.number[place] for place in targets]
    batches = (starts[low : low + _SOURCES_AT_ONCE] for low in range(0, len(starts), _SOURCES_AT_ONCE))
    rows = [_relaxed(batch, len(fits), tails, heads, seconds[price])[ends].T for batch in batches]
    return np.vstack([np.empty((0, len(ends))), *rows])


def _relaxed(
    starts: Sequence[int],
    n_places: int,
    tails: NDArray[np.int64],
    heads: NDArray[np.int64],
    seconds: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the least seconds to each place (row) from each start (column)."""
    least = np.full((n_places, len(starts)), np.inf)
    least[starts, np.arange(len(starts))] = 0
    reached, firsts = np.unique(heads, return_index=True)
    while len(heads):
        offered = np.minimum.reduceat(least[tails] + seconds[:, None], firsts, axis=0)
        if not (offered < least[reached]).any():
            break
        least[reached] = np.minimum(least[reached], offered)
    return least


Key = tuple[tuple[int, ...], int, tuple[Sharding, ...], tuple[Sharding, ...]]


class StatePrices:
    """Tables of seconds between states of tensors.

    Unsharded factors of a tensor are left out but one, the one that most ranks divide, on which a
    collective may lay parts in between.

    Parameters
    ----------
    sizes : mapping from axis to its ranks
    costs : Costs
    """

    def __init__(self, sizes: Mapping[str, int], costs: Costs) -> None:
        self.sizes = dict(sizes)
        self.costs = RememberedCosts(costs)
        self._tables: dict[Key, NDArray[np.float64]] = {}

    def seconds(
        self,
        graph: ComputeGraph,
        tensor: TensorRef,
        sources: Sequence[Sharding],
        targets: Sequence[Sharding],
    ) -> NDArray[np.float64]:
        """Return the least seconds from each source to each target, states over the tensor's flat factors."""
        factor_sizes = graph.factor_sizes(tensor)
        used = {at for state in (*sources, *targets) for at, axes in enumerate(state.dims) if axes}
        rest = [at for at, size in enumerate(factor_sizes) if at not in used and size > 1]
        if rest:

            def n_cuts(at: int) -> int:
                cuts = 1
                for ranks in self.sizes.values():
                    cuts *= ranks if factor_sizes[at] % (cuts * ranks) == 0 else 1
                return cuts

            used.add(max(rest, key=n_cuts))
        kept = sorted(used)
        shape = tuple(factor_sizes[at] for at in kept)
        whole = graph.nbytes(tensor)
        element_bytes = whole // int(np.prod(shape, dtype=object)) if shape else whole
        mine, theirs = (
            tuple(Sharding(tuple(one.dims[at] for at in kept), one.partial) for one in side)
            for side in (sources, targets)
        )
        key = shape, element_bytes, mine, theirs
        if key not in self._tables:
            self._tables[key] = seconds_between(
                mine, theirs, shape=shape, element_bytes=element_bytes, sizes=self.sizes, costs=self.costs
            )
        return self._tables[key]
