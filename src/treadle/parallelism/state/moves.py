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
    """Return all moves from a sharding on a mesh with these axes, whatever the sizes of dimensions.

    Local moves change one axis each; several are several moves.
    """
    return tuple(_moves(place, axes))


def _moves(place: Place, axes: tuple[str, ...]) -> Iterator[Move]:
    if isinstance(place, Mixed):
        for target in scattered(place.base, place.open_axes):
            yield Move(CollectiveKind.ALLTOALL, place.open_axes, target)
        return
    for axis in axes:
        if axis not in place.partial.union(place.axes):
            own = frozenset((axis,))
            yield Move(None, own, Sharding(place.dims, place.partial | own))
            yield from (Move(None, own, target) for target in scattered(place, own))
    for at, names in enumerate(place.dims):
        if names:
            own = frozenset(names[-1:])
            dims = (*place.dims[:at], names[:-1], *place.dims[at + 1 :])
            yield Move(None, own, Sharding(dims, place.partial | own))
    for n in range(1, len(place.partial) + 1):
        for reduced in map(frozenset, combinations(sorted(place.partial), n)):
            rest = Sharding(place.dims, place.partial - reduced)
            yield Move(CollectiveKind.ALLREDUCE, reduced, rest)
            for target in scattered(rest, reduced):
                yield Move(CollectiveKind.REDUCE_SCATTER, reduced, target)
    for base, moved in inner_ends(place):
        yield Move(CollectiveKind.ALLGATHER, moved, base)
        if len(moved) > 1:
            yield Move(CollectiveKind.ALLTOALL, moved, Mixed(base, moved))
        gaining = [new == old for new, old in zip(base.dims, place.dims, strict=True)]
        for target in scattered(base, moved, gaining):
            yield Move(CollectiveKind.ALLTOALL, moved, target)


def inner_ends(place: Sharding) -> Iterator[tuple[Sharding, frozenset[str]]]:
    """Yield each choice of inner ends, not all empty: the sharding without them, and their axes."""
    for kept in product(*(range(len(names) + 1) for names in place.dims)):
        moved = frozenset(axis for names, n in zip(place.dims, kept, strict=True) for axis in names[n:])
        if moved:
            base = tuple(names[:n] for names, n in zip(place.dims, kept, strict=True))
            yield Sharding(base, place.partial), moved


def scattered(base: Sharding, axes: frozenset[str], gaining: list[bool] | None = None) -> Iterator[Sharding]:
    """Yield shardings in which these axes are at inner ends, in every order, of dimensions that may gain."""
    places = [at for at in range(len(base.dims)) if gaining is None or gaining[at]]
    names = sorted(axes)
    for choice in product(places, repeat=len(names)):
        lists = [[axis for axis, at in zip(names, choice, strict=True) if at == place] for place in places]
        for orders in product(*(permutations(one) for one in lists)):
            dims = list(base.dims)
            for at, order in zip(places, orders, strict=True):
                dims[at] = (*dims[at], *order)
            yield Sharding(tuple(dims), base.partial)


def base_of(place: Place) -> Sharding:
    """Return the sharding itself, or that without the open axes."""
    return place.base if isinstance(place, Mixed) else place


def n_shards_of(place: Place, sizes: Mapping[str, int]) -> int:
    """Return the number of shards; open axes halfway through an exchange count as if they sharded."""
    open_axes = place.open_axes if isinstance(place, Mixed) else ()
    return base_of(place).n_shards(sizes) * prod(sizes[axis] for axis in open_axes)
