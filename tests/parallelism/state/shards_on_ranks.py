"""Shards of an array on all ranks of a mesh, steps done on them, and single collectives found by index sets.

Shares nothing with the moves under test: what a rank holds is a mask over the elements of the whole tensor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations, product
from math import prod

import numpy as np

from treadle.parallelism.state.sharding import Sharding

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
