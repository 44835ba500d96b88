"""Fabrics without boxes: nodes on a grid if their names and links are a torus's, else on a circle."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import cos, pi, sin

from treadle.viz.box_inside import RANK_SIZE, mark_of
from treadle.viz.drawing_layout import DrawingLayout, Line, Mark, Point
from treadle.viz.drawn_network import DrawnNetwork

_PITCH = 52.0
_STUB = 20.0
_BORDER = 14.0
_LEAST_SIZE = 6.0


def flat(network: DrawnNetwork, names: Sequence[str]) -> DrawingLayout:
    """Lay out nodes that are linked directly.

    Parameters
    ----------
    network : DrawnNetwork
        An item for each node.
    names : sequence of str
        Names of the items, which may contain coordinates.
    """
    places = _coordinates(names)
    if places is not None and _is_torus(network, places):
        return _grid(network, places)
    return _circle(network)


def _coordinates(names: Sequence[str]) -> list[tuple[int, int]] | None:
    """Return the row and column of each node; None unless names form a full grid."""
    found = [tuple(map(int, re.findall(r"\d+", name))) for name in names]
    if any(len(place) != 2 for place in found):
        return None
    places = [(place[0], place[1]) for place in found]
    rows, columns = (1 + max(place[axis] for place in places) for axis in (0, 1))
    return places if sorted(places) == list(product(range(rows), range(columns))) else None


def _is_torus(network: DrawnNetwork, places: Sequence[tuple[int, int]]) -> bool:
    """Whether all links join neighbours of a row or column, the last being next to the first."""
    size = [1 + max(place[axis] for place in places) for axis in (0, 1)]
    for first, second in network.links:
        apart = [(b - a) % n for a, b, n in zip(places[first], places[second], size, strict=True)]
        if sorted(min(gap, n - gap) for gap, n in zip(apart, size, strict=True)) != [0, 1]:
            return False
    return True


def _grid(network: DrawnNetwork, places: Sequence[tuple[int, int]]) -> DrawingLayout:
    rows, columns = (1 + max(place[axis] for place in places) for axis in (0, 1))
    pitch = max(14.0, min(_PITCH, 900.0 / max(rows, columns)))
    size = min(RANK_SIZE, 0.5 * pitch)
    marks = []
    for item, (row, column) in zip(network.items, places, strict=True):
        mark = _sized(mark_of(item), size)
        start = _BORDER + _STUB + size / 2
        marks.append(replace(mark, x=start + column * pitch, y=start + row * pitch))
    lines = []
    for (first, second), (forward, backward) in network.links.items():
        strokes = _between(marks[first], marks[second], places[first], places[second], size)
        lines.append(Line((first, second), strokes, forward, backward))
    extent = [2 * (_BORDER + _STUB) + size + (n - 1) * pitch for n in (columns, rows)]
    return DrawingLayout(extent[0], extent[1], tuple(marks), (), tuple(lines))


def _between(
    one: Mark, other: Mark, place: tuple[int, int], goal: tuple[int, int], size: float
) -> tuple[tuple[Point, ...], ...]:
    """Draw a line to the neighbour; to the other end of a row a stub at each: a line would cross the row."""
    axis = 0 if place[0] != goal[0] else 1
    if abs(place[axis] - goal[axis]) == 1:
        return (((one.x, one.y), (other.x, other.y)),)
    low, high = (one, other) if place[axis] < goal[axis] else (other, one)
    reach = size / 2 + _STUB - 4
    step = (0.0, reach) if axis == 0 else (reach, 0.0)
    return (
        ((low.x, low.y), (low.x - step[0], low.y - step[1])),
        ((high.x, high.y), (high.x + step[0], high.y + step[1])),
    )


def _circle(network: DrawnNetwork) -> DrawingLayout:
    """Place nodes on a circle; lines except those of neighbours first step inwards, to pass other nodes."""
    n = len(network.items)
    radius = max(90.0, n * 34.0 / (2 * pi)) if n <= 64 else 450.0
    pitch = 2 * radius * sin(pi / max(2, n))
    size = max(_LEAST_SIZE, min(RANK_SIZE, 0.6 * pitch)) if n > 1 else RANK_SIZE
    marks = [_sized(mark_of(item), size) for item in network.items]
    step = max(max(mark.width, mark.height) for mark in marks) / 2 + 7
    centre = radius + _BORDER + step
    angles = [2 * pi * place / n - pi / 2 for place in range(n)]
    marks = [
        replace(mark, x=centre + radius * cos(angle), y=centre + radius * sin(angle))
        for mark, angle in zip(marks, angles, strict=True)
    ]
    within = [
        (centre + (radius - step) * cos(angle), centre + (radius - step) * sin(angle)) for angle in angles
    ]
    lines = []
    for (first, second), (forward, backward) in network.links.items():
        ends = [(marks[item].x, marks[item].y) for item in (first, second)]
        is_beside = (second - first) % n in (1, n - 1)
        stroke = ends if is_beside else [ends[0], within[first], within[second], ends[1]]
        lines.append(Line((first, second), (tuple(stroke),), forward, backward))
    return DrawingLayout(2 * centre, 2 * centre, tuple(marks), (), tuple(lines))


def _sized(mark: Mark, size: float) -> Mark:
    """Shrink a mark to this height; its label is dropped where it would be too small to read."""
    if size >= RANK_SIZE:
        return mark
    label = mark.label if size >= 16 and len(mark.label) <= 3 else ""
    width = max(size, mark.width * size / mark.height) if label else size
    return replace(mark, width=width, height=size, label=label)
