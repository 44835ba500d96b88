"""Meshes of ranks as in training and serving: named axes, and the groups that they form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.topologies.naming import is_one_line


@brief("notation")
@dataclass(frozen=True)
class Mesh:
    """Ranks in a grid: the last axis is the fastest, as in `torch.distributed.device_mesh`.

    Parameters
    ----------
    shape : tuple of int
        Ranks along each axis, at least 1.
    axis_names : tuple of str
        A distinct name for each axis, one line without ``,`` and ``=``.
    rank_order : tuple of int, optional
        Rank at each position of the grid, numbered with the last axis the fastest: a permutation of 0 to
        prod(shape) - 1. Default: position p is rank p.

    Raises
    ------
    ScheduleError
        If any of the above does not hold.

    Examples
    --------
    >>> import treadle
    >>> mesh = treadle.Mesh((2, 4), ("dp", "tp"))
    >>> mesh.groups("dp")
    ((0, 4), (1, 5), (2, 6), (3, 7))
    >>> mesh.groups("tp")
    ((0, 1, 2, 3), (4, 5, 6, 7))
    """

    shape: tuple[int, ...]
    axis_names: tuple[str, ...]
    rank_order: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not self.shape or min(self.shape) < 1:
            raise ScheduleError(f"mesh {self.shape}: expected at least one axis, of at least 1 rank each")
        if len(self.axis_names) != len(self.shape):
            raise ScheduleError(
                f"mesh: {len(self.axis_names)} axis names for {len(self.shape)} axes; expected one for each"
            )
        if len(set(self.axis_names)) != len(self.axis_names):
            raise ScheduleError(f"mesh: axes {', '.join(self.axis_names)}; expected different names")
        for name in self.axis_names:
            if not name or not is_one_line(name) or set(name) & set(",="):
                raise ScheduleError(
                    f"mesh: axis {name[:40]!r}, expected a name on one line without comma and ="
                )
        if self.rank_order is not None and sorted(self.rank_order) != list(range(self.n_ranks)):
            raise ScheduleError(
                f"mesh: rank_order: expected a permutation of the ranks 0 to {self.n_ranks - 1}"
            )

    @property
    def n_ranks(self) -> int:
        """Number of ranks of the entire mesh."""
        return prod(self.shape)

    @property
    def notation(self) -> str:
        """Spelling on the command line: ``dp=2,tp=4``, or ``2,4`` if the axes are called 0, 1, and so on."""
        if self.axis_names == tuple(map(str, range(len(self.shape)))):
            return ",".join(map(str, self.shape))
        return ",".join(f"{name}={size}" for name, size in zip(self.axis_names, self.shape, strict=True))

    def groups(self, axes: str | Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Return the ranks that differ only in these axes, for each position along the others.

        Parameters
        ----------
        axes : str or sequence of str
            Several axes form one group over all of them, in the order given, the last the fastest.

        Raises
        ------
        ScheduleError
            For an axis that does not exist or is given twice, or if a group would have one rank.
        """
        chosen = [axes] if isinstance(axes, str) else list(axes)
        for name in chosen:
            if name not in self.axis_names:
                raise ScheduleError(
                    f"mesh {self.notation}: no axis {name[:40]!r}; expected some of "
                    f"{', '.join(self.axis_names)}"
                )
        if not chosen or len(set(chosen)) != len(chosen):
            raise ScheduleError(f"mesh {self.notation}: axes {', '.join(chosen)}; expected each at most once")
        inner = [self.axis_names.index(name) for name in chosen]
        outer = [axis for axis in range(len(self.shape)) if axis not in inner]
        size = prod(self.shape[axis] for axis in inner)
        if size < 2:
            raise ScheduleError(f"mesh {self.notation}: a group over {', '.join(chosen)} has one rank only")
        order = np.arange(self.n_ranks) if self.rank_order is None else np.array(self.rank_order)
        grid = order.reshape(self.shape).transpose(outer + inner).reshape(-1, size)
        return tuple(map(tuple, grid.tolist()))
