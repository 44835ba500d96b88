"""Meshes of a number of ranks: a search over meshes begins with few axes.

Axes carry no role until a plan gives them one, so that a mesh is how ranks are grouped: ordered
factorisations of their number, the last factor the innermost. A fabric that is a grid of its own also has
tiles: groups of ranks that are near each other in all of its dimensions.

Splitting an axis in two never loses: groups over both parts are the groups of the axis, so that each plan of
the coarser mesh is a plan of the finer one at the same price.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise, product
from math import prod

import numpy as np

from treadle.parallelism.state.sharding import axis_sizes
from treadle.schedules.mesh import Mesh

_GRID = re.compile(r"(?:torus|mesh)\((\d+(?:, \d+)+)")
"""Catalogue names whose ranks are numbered row by row."""


def coarse_meshes(n_ranks: int, fabric: str = "") -> Iterator[Mesh]:
    """Yield the meshes of one axis and of two; of a grid also its two-dimensional tiles.

    Parameters
    ----------
    n_ranks : int
    fabric : str
        Its name, from which grids are known: ``torus(8, 16)``.

    Examples
    --------
    >>> [mesh.notation for mesh in coarse_meshes(8)]
    ['8', '2,4', '4,2']
    """
    yield _mesh((n_ranks,))
    for outer in _divisors(n_ranks):
        yield _mesh((outer, n_ranks // outer))
    yield from _tiles(n_ranks, fabric)


def finer_meshes(mesh: Mesh) -> Iterator[Mesh]:
    """Yield the mesh with one axis split in two, in every way.

    Examples
    --------
    >>> [mesh.notation for mesh in finer_meshes(Mesh((4, 4), ("0", "1")))]
    ['2,2,4', '4,2,2']
    """
    for place, size in enumerate(mesh.shape):
        for outer in _divisors(size):
            shape = (*mesh.shape[:place], outer, size // outer, *mesh.shape[place + 1 :])
            yield _mesh(shape, mesh.rank_order)


def joined_meshes(mesh: Mesh) -> Iterator[tuple[Mesh, dict[str, tuple[str, ...]]]]:
    """Yield the mesh as two axes, outer ones joined and inner ones; none for two axes or fewer.

    Examples
    --------
    >>> [(joined.notation, parts) for joined, parts in joined_meshes(Mesh((4, 4, 8), ("a", "b", "c")))]
    [('4,32', {'0': ('a',), '1': ('b', 'c')}), ('16,8', {'0': ('a', 'b'), '1': ('c',)})]
    """
    sizes = axis_sizes(mesh)
    names = list(sizes)
    for cut in range(1, len(names)) if len(names) > 2 else ():
        sides = [tuple(names[start:end]) for start, end in pairwise((0, cut, len(names)))]
        shape = tuple(prod(sizes[axis] for axis in side) for side in sides)
        yield _mesh(shape, mesh.rank_order), {str(at): side for at, side in enumerate(sides)}


def _mesh(shape: tuple[int, ...], rank_order: tuple[int, ...] | None = None) -> Mesh:
    return Mesh(shape, tuple(map(str, range(len(shape)))), rank_order)


def _divisors(number: int) -> list[int]:
    """Return the divisors except 1 and the number itself, ascending."""
    small = [one for one in range(2, int(number**0.5) + 1) if number % one == 0]
    return sorted({*small, *(number // one for one in small)})


def _tiles(n_ranks: int, fabric: str) -> Iterator[Mesh]:
    """Yield meshes of the blocks of a grid and of the ranks inside a block."""
    found = _GRID.match(fabric)
    shape = tuple(map(int, found[1].split(", "))) if found else ()
    if prod(shape) != n_ranks:
        return
    for inner in product(*([1, *_divisors(size), size] for size in shape)):
        outer = tuple(size // own for size, own in zip(shape, inner, strict=True))
        if sum(own > 1 for own in inner) < 2 or sum(own > 1 for own in outer) < 1:
            continue
        pairs = [one for both in zip(outer, inner, strict=True) for one in both]
        grid = np.arange(n_ranks).reshape(pairs)
        turned = grid.transpose([*range(0, 2 * len(shape), 2), *range(1, 2 * len(shape), 2)])
        order = tuple(turned.ravel().tolist())
        if order != tuple(range(n_ranks)):
            yield _mesh((prod(outer), prod(inner)), order)
