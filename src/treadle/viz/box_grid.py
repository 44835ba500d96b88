"""Ranks of a box that are linked directly, on a grid: near each other if linked, no line through a third."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations
from math import ceil, hypot, sqrt
from random import Random

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Cell = tuple[float, float]
"""Middle of a place."""

_LEAST, _MOST = 6, 25
_SHUFFLED = 24
_TALL = 46.0
_BLOCKED = 1e4


def grid(n: int, size: float) -> list[Cell]:
    """Return the positions in a near-square grid, row by row.

    Each row stands a little right of the one above, so that a line straight up from any place passes
    all others.

    Parameters
    ----------
    n : int
    size : float
        Width of its content.
    """
    rows = round(sqrt(n))
    columns = ceil(n / rows)
    lean = size / 2 + 4
    pitch = max(rows * lean, size + 24)
    return [
        (column * pitch + row * lean, row * _TALL)
        for row in range(rows)
        for column in range(columns)
        if row * columns + column < n
    ]


@lru_cache(maxsize=16)
def grid_cells(n: int, links: tuple[tuple[int, int], ...], size: float) -> list[Cell] | None:
    """Place ranks so that links are short; None if some link would run through a third rank.

    Parameters
    ----------
    n : int
    links : tuple of pairs of int
        Of ranks, each pair once.
    size : float
    """
    if not _LEAST <= n <= _MOST:
        return None
    cells = grid(n, size)
    lengths = _lengths(cells, size / 2 + 2)
    pairs = np.array(links).reshape(-1, 2)
    linked = np.zeros((n, n))
    linked[pairs[:, 0], pairs[:, 1]] = linked[pairs[:, 1], pairs[:, 0]] = 1
    draw = Random(n)  # the same random orders at every call
    starts = [list(range(n)), *(draw.sample(range(n), n) for _ in range(_SHUFFLED))]
    found = [_swapped(linked, lengths, start) for start in starts]
    best = min(found, key=lambda order: (_cost(linked, lengths, order), order))
    if _cost(linked, lengths, best) >= _BLOCKED:
        return None
    return [cells[place] for place in best]


def _lengths(cells: Sequence[Cell], margin: float) -> Floats:
    """Return the length of the line between any two cells; much longer through a third."""
    lengths = np.zeros((len(cells), len(cells)))
    for one, other in combinations(range(len(cells)), 2):
        (x, y), (to_x, to_y) = cells[one], cells[other]
        length = hypot(to_x - x, to_y - y)
        for third, (at_x, at_y) in enumerate(cells):
            along = ((at_x - x) * (to_x - x) + (at_y - y) * (to_y - y)) / length**2
            off = abs((at_x - x) * (to_y - y) - (at_y - y) * (to_x - x)) / length
            if third not in (one, other) and 0 < along < 1 and off < margin * sqrt(2):  # a mark is a square
                length += _BLOCKED
                break
        lengths[one, other] = lengths[other, one] = length
    return lengths


def _cost(linked: Floats, lengths: Floats, order: Sequence[int]) -> float:
    return round(float((linked * lengths[np.ix_(order, order)]).sum()) / 2, 6)


def _swapped(linked: Floats, lengths: Floats, start: Sequence[int]) -> list[int]:
    """Swap ranks until no swap of two shortens the links."""
    order, cost, is_better = list(start), _cost(linked, lengths, start), True
    while is_better:
        is_better = False
        for one, other in combinations(range(len(order)), 2):
            order[one], order[other] = order[other], order[one]
            changed = _cost(linked, lengths, order)
            if changed < cost:
                cost, is_better = changed, True
            else:
                order[one], order[other] = order[other], order[one]
    return order
