"""Marks in rows, and lines between rows that avoid the marks in between.

A line passes each row that lies between its ends straight up or down through a gap of that row, and changes
its place only where no row is: so it meets no mark but its own two, whatever the rows hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.viz.drawing_layout import Mark, Point

MARGIN = 4.0
"""Between a line and a mark that it passes."""


@dataclass(frozen=True)
class Row:
    """A strip from `top` to `bottom` in which some intervals are taken.

    Parameters
    ----------
    top, bottom : float
    taken : tuple of (float, float)
        Left and right ends, rising, apart.
    """

    top: float
    bottom: float
    taken: tuple[tuple[float, float], ...]

    def free_near(self, x: float) -> float:
        """Return the place nearest to x at which a line passes without touching anything."""
        barred: list[tuple[float, float]] = []
        for left, right in self.taken:
            left, right = left - MARGIN, right + MARGIN
            if barred and left < barred[-1][1]:  # no line fits between these two
                barred[-1] = barred[-1][0], max(right, barred[-1][1])
            else:
                barred.append((left, right))
        for left, right in barred:
            if left < x < right:
                return left if x - left <= right - x else right
        return x


def row_of(marks: Sequence[Mark]) -> Row:
    """Return the row of these marks."""
    top = min(mark.y - mark.height / 2 for mark in marks) - 2
    bottom = max(mark.y + mark.height / 2 for mark in marks) + 2
    return Row(top, bottom, tuple(sorted((mark.left, mark.right) for mark in marks)))


def polyline(start: Point, end: Point, rows: Sequence[Row]) -> list[Point]:
    """Return a polyline from start to end through the rows between them, in the order it meets them."""
    found = [start]
    for row in rows:
        (x, y), goal = found[-1], end
        middle = (row.top + row.bottom) / 2
        share = (middle - y) / (goal[1] - y) if goal[1] != y else 0.0
        at = row.free_near(x + share * (goal[0] - x))
        near, far = (row.bottom, row.top) if goal[1] < y else (row.top, row.bottom)
        found += [(at, near), (at, far)]
    return _straightened([*found, end])


def spread(wanted: Sequence[float], widths: Sequence[float], gap: float) -> list[float]:
    """Return centres near the wanted ones (rising), `gap` apart at least: what would overlap moves together.

    Examples
    --------
    >>> spread([0.0, 1.0, 50.0], [10.0, 10.0, 10.0], 2.0)
    [-5.5, 6.5, 50.0]
    """
    blocks: list[list[float]] = []  # first wanted offset sum, members, width so far
    members: list[list[int]] = []
    for place, (centre, width) in enumerate(zip(wanted, widths, strict=True)):
        blocks.append([centre, width])
        members.append([place])
        while len(blocks) > 1:
            (left, left_width), (right, right_width) = blocks[-2], blocks[-1]
            if right - right_width / 2 >= left + left_width / 2 + gap:
                break
            n_left, n_right = len(members[-2]), len(members[-1])
            joined = left_width + gap + right_width
            # the mean of what its members want, each from its own place in the block
            centre = (
                n_left * (left + (joined - left_width) / 2) + n_right * (right - (joined - right_width) / 2)
            ) / (n_left + n_right)
            blocks[-2:] = [[centre, joined]]
            members[-2:] = [members[-2] + members[-1]]
    found = [0.0] * len(wanted)
    for (centre, width), own in zip(blocks, members, strict=True):
        x = centre - width / 2
        for place in own:
            found[place] = x + widths[place] / 2
            x += widths[place] + gap
    return found


def _straightened(points: Sequence[Point]) -> list[Point]:
    """Drop points that repeat the one before or lie on the line between their neighbours."""
    found: list[Point] = []
    for point in points:
        if found and point == found[-1]:
            continue
        if len(found) > 1:
            (ax, ay), (bx, by) = found[-2], found[-1]
            if abs((bx - ax) * (point[1] - ay) - (by - ay) * (point[0] - ax)) < 1e-9:
                found.pop()
        found.append(point)
    return found
