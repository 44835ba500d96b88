"""Block of a tensor that each rank of a mesh holds; without torch.

A tensor is met by its factors: a dimension for each factor of its dimensions, the outermost first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treadle.parallelism.state.sharding import Sharding, axis_sizes
from treadle.schedules.mesh import Mesh


@dataclass(frozen=True)
class BlockPosition:
    """One rank's place on a mesh.

    Parameters
    ----------
    mesh : Mesh
    rank : int
    """

    mesh: Mesh
    rank: int

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Ranks along each axis of at least 2."""
        return axis_sizes(self.mesh)

    @cached_property
    def at(self) -> dict[str, int]:
        """Position along each axis of at least 2 ranks."""
        order = self.mesh.rank_order or range(self.mesh.n_ranks)
        places = np.unravel_index(tuple(order).index(self.rank), self.mesh.shape)
        names = zip(self.mesh.axis_names, places, strict=True)
        return {name: int(place) for name, place in names if name in self.sizes}

    def members(self, axes: Sequence[str]) -> list[dict[str, int]]:
        """Return the positions of the group over these axes, in the order of process groups."""
        shape = [self.sizes[axis] for axis in axes]
        found = [self.at | dict(zip(axes, map(int, along), strict=True)) for along in np.ndindex(*shape)]
        return sorted(found, key=self.rank_at)

    def rank_at(self, at: Mapping[str, int]) -> int:
        """Return the rank at a place."""
        number = 0
        for name, size in zip(self.mesh.axis_names, self.mesh.shape, strict=True):
            number = number * size + at.get(name, 0)
        return number if self.mesh.rank_order is None else self.mesh.rank_order[number]


def block(
    sharding: Sharding, shape: Sequence[int], sizes: Mapping[str, int], at: Mapping[str, int]
) -> tuple[slice, ...]:
    """Return the slices of the whole tensor that the rank at this place holds."""
    cuts = []
    for size, axes in zip(shape, sharding.dims, strict=True):
        low, width = 0, size
        for axis in axes:
            width //= sizes[axis]
            low += at[axis] * width
        cuts.append(slice(low, low + width))
    return tuple(cuts)


def overlap(first: Sequence[slice], second: Sequence[slice]) -> tuple[slice, ...] | None:
    """Return the intersection of two blocks; None if empty."""
    cuts = tuple(
        slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(first, second, strict=True)
    )
    return None if any(cut.start >= cut.stop for cut in cuts) else cuts


def within(part: Sequence[slice], outer: Sequence[slice]) -> tuple[slice, ...]:
    """Return the slices of a block that are this part of the whole tensor."""
    return tuple(
        slice(cut.start - base.start, cut.stop - base.start) for cut, base in zip(part, outer, strict=True)
    )
