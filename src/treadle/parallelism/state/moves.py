"""Single moves between shardings: a collective over one set of axes, or something a rank does by itself.

Each move changes the inner ends of the lists of axes that shard the dimensions, for only there do the parts
that a group of ranks holds make a block again:

- all-gather over a set of axes that are the inner ends of dimensions: they replicate;
- reduce-scatter over partial axes: they become inner ends of dimensions, in any order;
- all-reduce over partial axes: they replicate;
- all-to-all: axes go from the inner ends of some dimensions to the inner ends of others;
- two all-to-alls: axes at inner ends are rearranged in any way. Each rank splits what it has for each other
  into equal parts, one for every rank of the group, which pass them on. As every rank holds as much before as
  after, both halves are uniform (Valiant and Brebner 1981, without their randomness). A move may break off in
  between: `Mixed`;
- by itself: a rank cuts a replicated dimension and keeps its part (slice); it takes what it holds as its
  term of a sum whose others are 0 (pad, for shards; for replicas all ranks but the first take 0).

Ranks along open axes must hold one contiguous block together: rearranging the outer and the innermost of
three axes around the middle one takes all three.

A move over several axes is one collective of the group over all of them: with the prices of fused groups,
going along one axis after the other is only another path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations, product
from math import prod
from typing import TypeAlias

from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.collective import CollectiveKind


@dataclass(frozen=True)
class Mixed:
    """Halfway through two all-to-alls: each rank holds parts of the blocks of all its group.

    Parameters
    ----------
    base : Sharding
        What the group has in common: the sharding without the open axes.
    open_axes : frozenset of str
        Axes of inner ends, which shard no dimension now.
    """

    base: Sharding
    open_axes: frozenset[str]


Place: TypeAlias = Sharding | Mixed


@dataclass(frozen=True)
class Move:
    """One collective, or something local.

    Parameters
    ----------
    kind : CollectiveKind, optional
        None: a rank does it locally and immediately.
    axes : frozenset of str
        The groups that do it; of something local the axes that change.
    target : Sharding or Mixed
    """

    kind: CollectiveKind | None
    axes: frozenset[str]
    target: Place


@cache
def moves_from(place: Place, axes: tuple[str, ...]) -> tuple[Move, ...]:
    """All moves from a sharding on a mesh with these axes, whatever the sizes of dimensions.

    Local moves change one axis each; several are several moves.
    """
    return tuple(_moves(place, axes))


def _moves(place: Place, axes: tuple[str, ...]) -> Iterator[Move]:
    if isinstance(place, Mixed):
        for target in scattered(place.base, place.open_axes):
            yield Move(CollectiveKind.ALLTOALL, place.open_axes, target)
        return
    yield from _local(place, axes)
    yield from _reducing(place)
    for base, moved in inner_ends(place):
        yield Move(CollectiveKind.ALLGATHER, moved, base)
        if len(moved) > 1:
            yield Move(CollectiveKind.ALLTOALL, moved, Mixed(base, moved))
        gaining = [new == old for new, old in zip(base.dims, place.dims, strict=True)]
        for target in scattered(base, moved, gaining):
            yield Move(CollectiveKind.ALLTOALL, moved, target)


def _local(place: Sharding, axes: tuple[str, ...]) -> Iterator[Move]:
    used = place.partial.union(place.axes)
    for axis in axes:
        if axis not in used:
            yield Move(None, frozenset((axis,)), Sharding(place.dims, place.partial | {axis}))
            for target in scattered(place, frozenset((axis,))):
                yield Move(None, frozenset((axis,)), target)
    for at, names in enumerate(place.dims):
        if names:
            dims = (*place.dims[:at], names[:-1], *place.dims[at + 1 :])
            yield Move(None, frozenset(names[-1:]), Sharding(dims, place.partial | {names[-1]}))


def _reducing(place: Sharding) -> Iterator[Move]:
    for n in range(1, len(place.partial) + 1):
        for names in combinations(sorted(place.partial), n):
            chosen = frozenset(names)
            rest = Sharding(place.dims, place.partial - chosen)
            yield Move(CollectiveKind.ALLREDUCE, chosen, rest)
            for target in scattered(rest, chosen):
                yield Move(CollectiveKind.REDUCE_SCATTER, chosen, target)


def inner_ends(place: Sharding) -> Iterator[tuple[Sharding, frozenset[str]]]:
    """Each choice of inner ends, not all empty: the sharding without them, and their axes."""
    for kept in product(*(range(len(names) + 1) for names in place.dims)):
        moved = frozenset(axis for names, n in zip(place.dims, kept, strict=True) for axis in names[n:])
        if moved:
            base = tuple(names[:n] for names, n in zip(place.dims, kept, strict=True))
            yield Sharding(base, place.partial), moved


def scattered(base: Sharding, axes: frozenset[str], gaining: list[bool] | None = None) -> Iterator[Sharding]:
    """Shardings in which these axes stand at inner ends, in every order, of dimensions that may gain."""
    places = [at for at in range(len(base.dims)) if gaining is None or gaining[at]]
    names = sorted(axes)
    for choice in product(places, repeat=len(names)):
        lists = [[axis for axis, at in zip(names, choice, strict=True) if at == place] for place in places]
        for orders in product(*(permutations(one) for one in lists)):
            dims = list(base.dims)
            for at, order in zip(places, orders, strict=True):
                dims[at] = (*dims[at], *order)
            yield Sharding(tuple(dims), base.partial)


def n_shards_of(place: Place, sizes: Mapping[str, int]) -> int:
    """Shards that the tensor is cut into, also halfway, where the open axes cut somehow."""
    if isinstance(place, Sharding):
        return place.n_shards(sizes)
    return place.base.n_shards(sizes) * prod(sizes[axis] for axis in place.open_axes)
