"""Meshes from strings, ``dp=16,tp=8`` or ``16,8``, and the groups of ranks that their axes form."""

from __future__ import annotations

import re
from collections.abc import Sequence

from treadle.errors import FormatError, ScheduleError
from treadle.schedules.mesh import Mesh

_SIZE = re.compile(r"[1-9][0-9]{0,8}")
AxesLike = str | int | Sequence[str | int]
"""Names of axes: one, several separated by commas, or a sequence of them."""


def as_mesh(mesh: Mesh | str) -> Mesh:
    """Return the mesh itself, or that of a string.

    Parameters
    ----------
    mesh : Mesh or str
        ``name=size`` for each axis, or sizes only: the axes are then called 0, 1, and so on. The last axis
        is the fastest.

    Raises
    ------
    FormatError
        If a string is neither.
    ScheduleError
        If its names are not those of a mesh.

    Examples
    --------
    >>> as_mesh("dp=16,tp=8")
    <Mesh dp=16,tp=8>
    >>> as_mesh("16,8").axis_names
    ('0', '1')
    """
    if isinstance(mesh, Mesh):
        return mesh
    parts = [part.strip() for part in mesh.split(",")]
    pairs = [part.partition("=") for part in parts]
    named = "=" in mesh
    sizes = [(size if named else name).strip() for name, _, size in pairs]
    if not all(map(_SIZE.fullmatch, sizes)):
        bare = [name.strip() for name, equals, _ in pairs if not equals]
        reason = "expected NAME=SIZE,... as dp=16,tp=8, or sizes as 16,8 (the last axis is the fastest)"
        if named and all(map(_SIZE.fullmatch, bare)):
            reason = f"no axis names for {', '.join(bare)[:60]}; name all axes, as dp=16,tp=8, or none"
        raise FormatError(f"mesh {mesh[:60]!r}: {reason}")
    names = [name.strip() if named else str(axis) for axis, (name, _, _) in enumerate(pairs)]
    return Mesh(tuple(map(int, sizes)), tuple(names))


def as_axes(axes: AxesLike) -> tuple[str, ...]:
    """Return the names of axes, one by one."""
    if isinstance(axes, str | int):
        return tuple(part.strip() for part in str(axes).split(","))
    return tuple(map(str, axes))


def groups_of(
    mesh: Mesh | str | None, axes: AxesLike | None, n_ranks: int, fabric: str
) -> tuple[tuple[int, ...], ...] | None:
    """Return the groups of ranks, numbered from 0 to `n_ranks` - 1; None without a mesh.

    Parameters
    ----------
    mesh : Mesh or str, optional
    axes : str, int or sequence of them, optional
        Axes of the mesh over which each group goes; None without a mesh.
    n_ranks : int
        Number of ranks.
    fabric : str
        Name of the fabric for messages.

    Raises
    ------
    FormatError, ScheduleError
        If one of the two is missing, the mesh has another number of ranks, or it lacks an axis.
    """
    if mesh is None:
        if axes is not None:
            missing = "the mesh that has them is missing; expected --mesh NAME=SIZE,... (mesh=)"
            raise FormatError(f"axes {','.join(as_axes(axes))[:60]}: {missing}")
        return None
    meant = as_mesh(mesh)
    if axes is None:
        expected = f"expected --axes (axes=) with some of {', '.join(meant.axis_names)}"
        raise FormatError(f"mesh {meant.notation}: the axes that groups go over are missing; {expected}")
    if meant.n_ranks != n_ranks:
        differs = f"it lays out {meant.n_ranks} ranks, and {fabric} has {n_ranks}"
        raise ScheduleError(f"mesh {meant.notation}: {differs}; --ranks (ranks=) chooses some")
    return meant.groups(as_axes(axes))
