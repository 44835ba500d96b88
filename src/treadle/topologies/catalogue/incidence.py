"""Incidence structures: the points and lines of finite geometries, as 0/1 matrices.

Points and lines are subspaces of GF(q)^k; a point is kept as its normalised vector, whose first non-zero
coordinate is 1, and points are sorted by their vectors. Lines are sorted by their points.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Int64Array, mask_of, positions_of
from treadle.topologies.catalogue.finite_field import FiniteField, finite_field

_Vectors = NDArray[np.int64]


def projective_plane_incidence(q: int) -> BoolArray:
    """Points (rows) and lines (columns) of PG(2, q): q^2 + q + 1 of each."""
    field = finite_field(q)
    points = _projective_points(field, 3)
    return np.asarray(_dot(field, points[:, None], points) == 0)


def affine_plane_incidence(q: int) -> BoolArray:
    """Points (x, y) and lines y = m x + c of AG(2, q): the lines x = c, a parallel class, are left out.

    Point x * q + y and line m * q + c.
    """
    field = finite_field(q)
    x, y, m, c = np.ogrid[:q, :q, :q, :q]
    return np.asarray(y == field.sums[field.products[m, x], c]).reshape(q * q, q * q)


def symplectic_quadrangle_incidence(q: int) -> BoolArray:
    """Generalized quadrangle W(q): (q + 1)(q^2 + 1) points and as many lines.

    All points of PG(3, q), and its lines totally isotropic for x0 y1 - x1 y0 + x2 y3 - x3 y2.
    """
    field = finite_field(q)
    points = _projective_points(field, 4)
    grassmann = _grassmann(field, points[:, None], points, [(0, 1), (2, 3)])
    isotropic = field.sums[grassmann[..., 0], grassmann[..., 1]] == 0
    return _lines_through(field, points, isotropic)


def split_cayley_hexagon_incidence(q: int) -> BoolArray:
    """Generalized hexagon H(q), split Cayley type: (q^6 - 1) / (q - 1) points and as many lines.

    Notes
    -----
    Tits's equations: the points are those of the quadric x0x4 + x1x5 + x2x6 = x3^2 in PG(6, q), the lines
    those of its lines whose Grassmann coordinates satisfy p12 = p34, p54 = p32, p20 = p35, p65 = p30,
    p01 = p36 and p46 = p31 (van Maldeghem, Generalized Polygons, 2.4.13).
    """
    field = finite_field(q)
    points = _projective_points(field, 7)
    square = field.products[points[:, 3], points[:, 3]]
    points = points[_dot(field, points[:, :3], points[:, 4:]) == square]
    left = [(1, 2), (5, 4), (2, 0), (6, 5), (0, 1), (4, 6)]
    right = [(3, 4), (3, 2), (3, 5), (3, 0), (3, 6), (3, 1)]
    one, other = points[:, None], points
    equal = _grassmann(field, one, other, left) == _grassmann(field, one, other, right)
    # Collinear on the quadric: the bilinear form vanishes, so every point of the line is a point of it.
    across = field.sums[_dot(field, one[..., :3], other[..., 4:]), _dot(field, one[..., 4:], other[..., :3])]
    middle = field.products[one[..., 3], other[..., 3]]
    on_quadric = across == field.sums[middle, middle]
    return _lines_through(field, points, equal.all(axis=-1) & on_quadric)


def _projective_points(field: FiniteField, k: int) -> _Vectors:
    """Return normalised vectors of GF(q)^k, sorted."""
    vectors = np.array(list(product(range(field.order), repeat=k)), dtype=np.int64)
    leading = vectors[np.arange(len(vectors)), (vectors != 0).argmax(axis=1)]
    return np.asarray(vectors[leading == 1])


def _dot(field: FiniteField, one: _Vectors, other: _Vectors) -> Int64Array:
    """Return the sums of the products of coordinates, along the last axis."""
    total = field.products[one[..., 0], other[..., 0]]
    for i in range(1, one.shape[-1]):
        total = field.sums[total, field.products[one[..., i], other[..., i]]]
    return total.astype(np.int64)


def _grassmann(
    field: FiniteField, one: _Vectors, other: _Vectors, places: list[tuple[int, int]]
) -> Int64Array:
    """Return Grassmann coordinates p_ij = x_i y_j - x_j y_i of the lines xy, along a new last axis."""
    columns = [
        field.sums[
            field.products[one[..., i], other[..., j]],
            field.negatives[field.products[one[..., j], other[..., i]]],
        ]
        for i, j in places
    ]
    return np.stack(columns, axis=-1).astype(np.int64)


def _lines_through(field: FiniteField, points: _Vectors, joined: BoolArray) -> BoolArray:
    """Return incidences of the points with the lines of space through the pairs of points that are joined."""
    q = field.order
    first, second = np.nonzero(np.triu(joined, k=1))
    # Points of the line xy: y, and x + t y for every t.
    scaled = field.products[np.arange(q)[:, None, None], points[second]]
    spanned = np.concatenate([points[second][None], field.sums[points[first], scaled]])
    weights = q ** np.arange(points.shape[1])[::-1]
    index = positions_of(q ** points.shape[1], points @ weights)
    # normalised: over the first coordinate that is not 0
    inverses = np.argmax(field.products == 1, axis=1)
    leading = np.take_along_axis(spanned, (spanned != 0).argmax(axis=-1)[..., None], axis=-1)
    normalised = field.products[inverses[leading], spanned]
    lines = np.unique(np.sort(index[normalised @ weights].T, axis=1), axis=0)
    assert lines.min() >= 0
    return mask_of((len(points), len(lines)), (lines, np.arange(len(lines))[:, None]))
