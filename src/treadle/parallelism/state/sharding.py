"""Placement of a tensor on a mesh: the tensor state (dissertation, section 5.2).

Each axis of the mesh does one of three things to a tensor: it shards one dimension, it leaves the tensor
partial (what the ranks along it hold adds up to the tensor), or it replicates. Axes that shard the same
dimension have an order, which is part of the state: the first cuts the dimension into contiguous blocks, the
next cuts each of those.

Uneven shards are rejected, not padded: a dimension of 100 is not sharded over 8 ranks. Padding would depend
on the order in which axes were applied, so that two ways into one state would not hold the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from math import prod

from treadle.errors import ScheduleError
from treadle.schedules.mesh import Mesh
from treadle.unsupported import Unsupported


def axis_sizes(mesh: Mesh) -> dict[str, int]:
    """Return the ranks along each axis of at least 2: an axis of one rank does nothing to a tensor."""
    return {name: size for name, size in zip(mesh.axis_names, mesh.shape, strict=True) if size > 1}


@dataclass(frozen=True)
class Sharding:
    """Positions of a tensor's parts: the sharding pattern of its state.

    Parameters
    ----------
    dims : tuple of tuples of str
        For each dimension the mesh axes that shard it, the one that cuts into the largest blocks first.
    partial : frozenset of str
        Axes along which the ranks' tensors add up to the tensor.

    Raises
    ------
    ScheduleError
        If an axis appears twice.

    Examples
    --------
    >>> sharding = Sharding((("dp",), ("ep", "tp")))
    >>> sharding.local_shape((8, 32), {"dp": 2, "tp": 4, "ep": 2, "pp": 2})
    (4, 4)
    >>> str(sharding)
    'dp | ep,tp'
    """

    dims: tuple[tuple[str, ...], ...]
    partial: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        used = (*self.axes, *self.partial)
        if len(set(used)) != len(used):
            twice = next(axis for axis in used if used.count(axis) > 1)
            raise ScheduleError(
                f"sharding {self}: axis {twice!r} appears twice; an axis shards one dimension, or leaves the "
                "tensor partial"
            )

    def __str__(self) -> str:
        words = " | ".join(",".join(axes) or "-" for axes in self.dims) or "-"
        return f"{words} partial {','.join(sorted(self.partial))}" if self.partial else words

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """Axes that shard a dimension, by dimension."""
        return tuple(chain.from_iterable(self.dims))

    def unsupported(self, shape: tuple[int, ...], sizes: Mapping[str, int]) -> Unsupported | None:
        """Return why a tensor of this shape cannot have this state; None if it can.

        Parameters
        ----------
        shape : tuple of int
            Size of each dimension.
        sizes : mapping from axis to its ranks
            As by `axis_sizes`.
        """
        if len(shape) != len(self.dims):
            return Unsupported(f"{len(self.dims)} dimensions in the state, {len(shape)} in the tensor")
        for axis in (*self.axes, *sorted(self.partial)):
            if axis not in sizes:
                return Unsupported(f"no axis {axis[:40]!r} of at least 2 ranks; there are {', '.join(sizes)}")
        for place, (size, axes) in enumerate(zip(shape, self.dims, strict=True)):
            n_shards = prod(sizes[axis] for axis in axes)
            if size % n_shards:
                return Unsupported(
                    f"dimension {place} of {size} over {n_shards} ranks; expected equal shards"
                )
        return None

    def local_shape(self, shape: tuple[int, ...], sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the size of each dimension at one rank.

        Raises
        ------
        ScheduleError
            If the tensor cannot have this state (`unsupported`).
        """
        if reason := self.unsupported(shape, sizes):
            raise ScheduleError(f"sharding {self}: {reason}")
        return tuple(
            size // prod(sizes[axis] for axis in axes) for size, axes in zip(shape, self.dims, strict=True)
        )

    def n_shards(self, sizes: Mapping[str, int]) -> int:
        """Return the number of shards; other ranks hold replicas of them, or partial sums."""
        return prod(sizes[axis] for axis in self.axes)


def replicated(n_dims: int) -> Sharding:
    """Return the whole tensor at every rank."""
    return Sharding(((),) * n_dims)
