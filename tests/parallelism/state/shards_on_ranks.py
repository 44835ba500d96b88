"""Shards of an array on all ranks of a mesh, steps done on them, and single collectives found by index sets.

Shares nothing with the moves under test: what a rank holds is a mask over the elements of the whole tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, permutations, product
from math import prod

import numpy as np

from treadle.parallelism.state.sharding import Sharding
from treadle.parallelism.state.transitions import Route, Step
from treadle.schedules.collective import CollectiveKind

Rank = tuple[int, ...]
Held = dict[Rank, np.ndarray]
"""By rank an array as large as the tensor, NaN where the rank holds nothing."""


def ranks(sizes: Mapping[str, int]) -> list[Rank]:
    return list(product(*(range(size) for size in sizes.values())))


def group_of(rank: Rank, axes: Sequence[str], sizes: Mapping[str, int]) -> list[Rank]:
    along = (
        range(size) if name in axes else (at,) for (name, size), at in zip(sizes.items(), rank, strict=True)
    )
    return list(product(*along))


def mask(sharding: Sharding, shape: tuple[int, ...], sizes: Mapping[str, int], rank: Rank) -> np.ndarray:
    """Elements that a rank holds: each axis in turn cuts what is left of its dimension."""
    at = dict(zip(sizes, rank, strict=True))
    cuts = []
    for size, axes in zip(shape, sharding.dims, strict=True):
        low, high = 0, size
        for axis in axes:
            width = (high - low) // sizes[axis]
            low, high = low + at[axis] * width, low + (at[axis] + 1) * width
        cuts.append(slice(low, high))
    held = np.zeros(shape, bool)
    held[tuple(cuts)] = True
    return held


def lay_out(whole: np.ndarray, sharding: Sharding, sizes: Mapping[str, int], seed: int) -> Held:
    """The array in this sharding; the summands of a partial one are drawn."""
    rng = np.random.default_rng(seed)
    n_summands = prod(sizes[axis] for axis in sharding.partial)
    summands = rng.integers(-50, 50, (n_summands, *whole.shape)).astype(float)
    summands[-1] = whole - summands[:-1].sum(0)
    held = {}
    for rank in ranks(sizes):
        number = 0
        for axis, at in zip(sizes, rank, strict=True):
            number = number * sizes[axis] + at if axis in sharding.partial else number
        held[rank] = np.where(mask(sharding, whole.shape, sizes, rank), summands[number], np.nan)
    return held


def check_state(held: Held, whole: np.ndarray, sharding: Sharding, sizes: Mapping[str, int]) -> None:
    """Each rank holds what it should and no more; along partial axes it adds up, and replicas agree."""
    used = {*sharding.axes, *sharding.partial}
    idle = [axis for axis in sizes if axis not in used]
    for rank, local in held.items():
        here = mask(sharding, whole.shape, sizes, rank)
        assert np.array_equal(~np.isnan(local), here), (sharding, rank)
        total = sum(held[member] for member in group_of(rank, tuple(sharding.partial), sizes))
        assert np.allclose(total[here], whole[here], rtol=0, atol=1e-9), (sharding, rank)
        for other in group_of(rank, idle, sizes):
            assert np.allclose(held[other][here], local[here], rtol=0, atol=1e-9), (sharding, rank, other)


def follow(
    route: Route, held: Held, shape: tuple[int, ...], sizes: Mapping[str, int], item_bytes: int
) -> Held:
    """All steps of a route; what each rank sends and holds must be what the step was priced for."""
    steps = list(route.steps)
    while steps:
        step = steps.pop(0)
        if isinstance(step.after, Sharding):
            held = _do(step, held, shape, sizes, item_bytes)
        else:
            second = steps.pop(0)
            assert (
                (second.kind, second.axes) == (step.kind, step.axes) == (CollectiveKind.ALLTOALL, step.axes)
            )
            assert second.size_bytes == step.size_bytes == item_bytes * _count(next(iter(held.values())))
            held = _two_alltoalls(step.axes, second.after, held, shape, sizes)
    return held


def _do(step: Step, held: Held, shape: tuple[int, ...], sizes: Mapping[str, int], item_bytes: int) -> Held:
    after: Held = {}
    for rank, own in held.items():
        wanted = mask(step.after, shape, sizes, rank)
        group = group_of(rank, step.axes, sizes)
        if step.kind is None:
            after[rank] = _by_itself(step, own, wanted, dict(zip(sizes, rank, strict=True)))
            continue
        if step.kind is CollectiveKind.ALLTOALL:
            parts = [np.where(wanted, held[member], np.nan) for member in group]
            assert {_count(part) * len(group) for part in parts} == {_count(own)}, step
        else:
            parts = [np.where(wanted, held[member], np.nan) for member in group]
        larger = own
        if step.kind.reduces:
            assert all(np.array_equal(np.isnan(held[member]), np.isnan(own)) for member in group), step
            after[rank] = sum(parts)
        else:
            assert np.array_equal(sum(~np.isnan(part) for part in parts), wanted), step
            after[rank] = np.where(wanted, np.nansum(parts, axis=0), np.nan)
        if step.kind is CollectiveKind.ALLGATHER:
            larger = after[rank]
            assert _count(own) * len(group) == _count(larger), step
        if step.kind is CollectiveKind.REDUCE_SCATTER:
            assert _count(after[rank]) * len(group) == _count(own), step
        assert step.size_bytes == _count(larger) * item_bytes, step
    return after


def _by_itself(step: Step, own: np.ndarray, wanted: np.ndarray, at: Mapping[str, int]) -> np.ndarray:
    """Slice; or its own summand and zeros, and all zeros where others have the same already."""
    added = step.after.partial - step.before.partial
    if any(at[axis] for axis in added if axis not in step.before.axes):
        own = np.where(np.isnan(own), np.nan, 0.0)
    filled = np.where(np.isnan(own), 0.0, own) if added else own
    return np.where(wanted, filled, np.nan)


def _two_alltoalls(
    axes: Sequence[str], after: Sharding, held: Held, shape: tuple[int, ...], sizes: Mapping[str, int]
) -> Held:
    result = {rank: np.full(shape, np.nan) for rank in held}
    for rank in held:
        group = group_of(rank, axes, sizes)
        if rank != group[0]:
            continue
        first, second = np.zeros((len(group),) * 2, int), np.zeros((len(group),) * 2, int)
        for i, source in enumerate(group):
            for j, sink in enumerate(group):
                message = np.flatnonzero(mask(after, shape, sizes, sink) & ~np.isnan(held[source]))
                for k in range(len(group)):
                    part = message[k :: len(group)]
                    first[i, k] += len(part)
                    second[k, j] += len(part)
                    result[sink].flat[part] = held[source].flat[part]
        if all(_count(held[one]) % len(group) ** 2 == 0 for one in group):
            assert len(set(first.flat)) == len(set(second.flat)) == 1, (axes, after)
    return result


def _count(local: np.ndarray) -> int:
    return int((~np.isnan(local)).sum())


def all_shardings(shape: tuple[int, ...], sizes: Mapping[str, int]) -> list[Sharding]:
    """Every sharding that divides the shape, by trying all: each axis idle, partial, on a dimension."""
    found = set()
    for order in permutations(sizes):
        for choice in product(range(-2, len(shape)), repeat=len(sizes)):
            dims = tuple(
                tuple(axis for axis, at in zip(order, choice, strict=True) if at == dim)
                for dim in range(len(shape))
            )
            partial = frozenset(axis for axis, at in zip(order, choice, strict=True) if at == -2)
            if all(size % prod(sizes[a] for a in axes) == 0 for size, axes in zip(shape, dims, strict=True)):
                found.add(Sharding(dims, partial))
    return sorted(found, key=str)


def single_collectives(
    before: Sharding, after: Sharding, shape: tuple[int, ...], sizes: Mapping[str, int]
) -> Iterator[tuple[CollectiveKind | None, tuple[str, ...], int, int]]:
    """Kind, axes, elements of the larger buffer and how often: each single way between two shardings.

    A collective fits where index sets say so; nothing else is asked.
    """
    everyone = ranks(sizes)
    have = {rank: mask(before, shape, sizes, rank) for rank in everyone}
    want = {rank: mask(after, shape, sizes, rank) for rank in everyone}
    added, removed = after.partial - before.partial, before.partial - after.partial
    n_have, n_want = int(have[everyone[0]].sum()), int(want[everyone[0]].sum())
    inside = all((want[rank] <= have[rank]).all() for rank in everyone)
    if not added and not removed and inside:
        yield None, (), 0, 0
    if added and not removed:
        idle = Sharding(
            tuple(tuple(a for a in axes if a not in added) for axes in before.dims), before.partial
        )
        if idle.dims == after.dims and _joined(before, added, shape, sizes, want):
            yield None, (), 0, 0
    for n in range(1, len(sizes) + 1):
        for axes in combinations(sizes, n):
            groups = {rank: group_of(rank, axes, sizes) for rank in everyone}
            size = len(groups[everyone[0]])
            if removed == set(axes) and not added:
                if before.dims == after.dims:
                    yield CollectiveKind.ALLREDUCE, axes, n_have, 1
                if n_want * size == n_have and all(_partition(groups[r], want, have[r]) for r in everyone):
                    yield CollectiveKind.REDUCE_SCATTER, axes, n_have, 1
            if added or removed:
                continue
            if n_have * size == n_want and all(_partition(groups[r], have, want[r]) for r in everyone):
                yield CollectiveKind.ALLGATHER, axes, n_want, 1
            if n_have == n_want and set(before.axes) == set(after.axes) and set(axes) <= set(before.axes):
                yield from _exchanges(axes, groups, have, want)


def _joined(
    before: Sharding,
    added: frozenset[str],
    shape: tuple[int, ...],
    sizes: Mapping[str, int],
    want: dict[Rank, np.ndarray],
) -> bool:
    """Together with the ranks along shards that become summands a rank holds what it shall."""
    cut = [axis for axis in added if axis in before.axes]
    return all(
        np.array_equal(
            sum(mask(before, shape, sizes, one) for one in group_of(rank, cut, sizes)) > 0, want[rank]
        )
        for rank in want
    )


def _partition(group: list[Rank], parts: dict[Rank, np.ndarray], whole: np.ndarray) -> bool:
    return np.array_equal(sum(parts[one].astype(int) for one in group), whole)


def _exchanges(
    axes: tuple[str, ...],
    groups: dict[Rank, list[Rank]],
    have: dict[Rank, np.ndarray],
    want: dict[Rank, np.ndarray],
) -> Iterator[tuple[CollectiveKind, tuple[str, ...], int, int]]:
    uniform, laid_anew = True, True
    for rank, group in groups.items():
        union = sum(have[one].astype(int) for one in group)
        n_here = int(have[rank].sum())
        box = np.ix_(*(np.unique(index) for index in np.nonzero(union)))
        is_block = all(np.ptp(index.ravel()) + 1 == index.size for index in box)
        laid_anew &= union.max() == 1 and is_block and _partition(group, want, union)
        uniform &= all(int((have[rank] & want[one]).sum()) * len(group) == n_here for one in group)
        uniform &= union.max() == 1 and _partition(group, want, union)
    if uniform:
        yield CollectiveKind.ALLTOALL, axes, n_here, 1
    if laid_anew:
        yield CollectiveKind.ALLTOALL, axes, n_here, 2
