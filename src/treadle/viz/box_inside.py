"""The inside of a box: cards above ranks, its switches below; ranks linked directly on a grid or an arc."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from treadle.viz.box_grid import grid_cells
from treadle.viz.drawing_layout import Mark, Point, Shape
from treadle.viz.drawn_network import DrawnNetwork, Item
from treadle.viz.rows import Row, polyline, row_of, spread

RANK_SIZE = 22.0
_PITCH = 30.0
_ROW_GAP = 34.0
_LABEL = 22.0
_SIDE = 10.0
SWITCH_HEIGHT = 18.0


def text_width(text: str) -> float:
    """Return the approximate width of a text in the drawing's font (11 pixels, sans serif)."""
    return 6.2 * len(text)


def mark_of(item: Item, *, details: int = 1) -> Mark:
    """Make a mark at the origin, as large as the item's label needs."""
    least, border, height = {
        Shape.RANK: (RANK_SIZE, 6, RANK_SIZE),
        Shape.GROUP: (44.0, 12, 12.0 + 14 * details),
    }.get(item.shape, (26.0, 10, SWITCH_HEIGHT))
    width = max(least, text_width(item.label) + border)
    return Mark(item.label, item.shape, 0, 0, width, height, item.nodes)


@dataclass
class Block:
    """Marks relative to an upper left corner, doors at the top.

    Parameters
    ----------
    marks : dict of int to Mark
        By item.
    bands : list of lists of int
        Items from top to bottom.
    width, height : float
    is_framed : bool
    ranks_band : int
        Its number.
    is_arc, is_grid : bool
        Of the ranks' band.
    detour : float
        From one line round a band to the next; negative: above the band.
    """

    marks: dict[int, Mark] = field(default_factory=dict)
    bands: list[list[int]] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0
    is_framed: bool = True
    ranks_band: int = 0
    is_arc: bool = False
    is_grid: bool = False
    detour: float = 4.0

    def band_of(self, item: int) -> int:
        """Return the band of an item."""
        return next(number for number, band in enumerate(self.bands) if item in band)

    def row(self, number: int) -> Row:
        """Return a band as obstacles."""
        return row_of([self.marks[item] for item in self.bands[number]])

    def to_door(self, item: int) -> list[Point]:
        """Return the polyline from an item to the upper edge."""
        mark, band = self.marks[item], self.band_of(item)
        if self.is_grid:
            return [(mark.x, mark.y - mark.height / 2), (mark.x, 0.0)]
        between = [self.row(number) for number in range(band - 1, -1, -1)]
        return polyline((mark.x, mark.y - mark.height / 2), (mark.x, 0.0), between)

    def between(self, first: int, second: int) -> list[Point]:
        """Return the polyline from an item to another of the same block."""
        bands = self.band_of(first), self.band_of(second)
        if bands[0] == bands[1]:
            return self._beside(first, second)
        if bands[0] > bands[1]:
            return self.between(second, first)[::-1]
        upper, lower = self.marks[first], self.marks[second]
        rows = [self.row(number) for number in range(bands[0] + 1, bands[1])]
        start = (upper.x, upper.y + upper.height / 2)
        end = (lower.x, lower.y - lower.height / 2)
        if self.is_arc and bands[0] == self.ranks_band:  # straight down first: the arc bulges that way
            floor = (upper.x, self.row(bands[0]).bottom)
            return [start, *polyline(floor, within(lower, end, upper.x), rows)]
        if self.is_arc and bands[1] == self.ranks_band:
            ceiling = (lower.x, self.row(bands[1]).top)
            return [*polyline(within(upper, start, lower.x), ceiling, rows), end]
        return polyline(within(upper, start, lower.x), within(lower, end, upper.x), rows)

    def _beside(self, first: int, second: int) -> list[Point]:
        one, other = self.marks[first], self.marks[second]
        if self.is_grid:
            return [(one.x, one.y), (other.x, other.y)]
        if self.is_arc and self.band_of(first) == self.ranks_band:
            place = self.bands[self.ranks_band].index
            if abs(place(first) - place(second)) == 1:
                return [(one.x, one.y), (other.x, other.y)]
            lift = 0.8 * RANK_SIZE + 6
            return [(one.x, one.y), (one.x, one.y - lift), (other.x, other.y - lift), (other.x, other.y)]
        row, side = self.row(self.band_of(first)), math.copysign(0.5, self.detour)
        edge = row.bottom + 4 if self.detour > 0 else row.top - 4
        level = edge + self.detour * (abs(first - second) % 4)
        ends = one.y + side * one.height, other.y + side * other.height
        return [(one.x, ends[0]), (one.x, level), (other.x, level), (other.x, ends[1])]


def within(mark: Mark, point: Point, x: float) -> Point:
    """Move a point along the mark's edge towards x, so that lines to a wide mark do not meet in one point."""
    if mark.shape is Shape.RANK:
        return point
    room = max(mark.width / 2 - 5, 0)
    return min(max(x, mark.x - room), mark.x + room), point[1]


def inside(
    network: DrawnNetwork, members: Sequence[int], outside: Mapping[int, bool], *, framed: bool
) -> Block:
    """Return the block of a box.

    Parameters
    ----------
    network : DrawnNetwork
    members : sequence of int
        Items of the box.
    outside : mapping of int to bool
        Whether an item is linked to others than members.
    framed : bool
    """
    own, neighbours = set(members), network.neighbours()
    ranks = [item for item in members if network.items[item].shape is not Shape.SWITCH]
    inner = {item: [other for other in neighbours[item] if other in own] for item in members}
    above = _reached([item for item in members if item not in ranks and outside[item]], inner, set(ranks))
    level = _levels(ranks, inner)
    rows: dict[int, list[int]] = {0: list(ranks)}
    for item in members:
        if item not in rows[0]:
            rows.setdefault(-level[item] if item in above else level[item], []).append(item)
    block = Block(is_framed=framed)
    block.bands = [rows[number] for number in sorted(rows) if rows[number]]
    block.ranks_band = block.bands.index(rows[0]) if ranks else 0
    block.is_arc = len(ranks) > 2 and any(other in ranks for item in ranks for other in inner[item])
    marks = {item: mark_of(network.items[item]) for item in members}
    if not (block.is_arc and len(block.bands) == 1 and _seat(block, marks, inner)):
        _place(block, marks, inner)
    return block


def _seat(block: Block, marks: dict[int, Mark], inner: Mapping[int, Sequence[int]]) -> bool:
    """Place the ranks of a box on a grid, if there is a suitable one."""
    place = {item: number for number, item in enumerate(marks)}
    links = {(min(pair), max(pair)) for one in inner for pair in [(place[one], place[o]) for o in inner[one]]}
    size = max(mark.width for mark in marks.values())
    cells = grid_cells(len(marks), tuple(sorted(links)), size)
    if cells is None:
        return False
    side = _SIDE if block.is_framed else 0.0
    for (item, mark), (x, y) in zip(marks.items(), cells, strict=True):
        block.marks[item] = replace(mark, x=x + side + size / 2, y=y + side + RANK_SIZE / 2)
    block.is_arc, block.is_grid = False, True
    block.width = max(x for x, _ in cells) + size + 2 * side
    block.height = max(y for _, y in cells) + RANK_SIZE + side + (_LABEL if block.is_framed else 0.0)
    return True


def _reached(seeds: Sequence[int], inner: Mapping[int, Sequence[int]], walls: set[int]) -> set[int]:
    found, waiting = set(seeds), list(seeds)
    while waiting:
        for other in inner[waiting.pop()]:
            if other not in found and other not in walls:
                found.add(other)
                waiting.append(other)
    return found


def _levels(ranks: Sequence[int], inner: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Return the distance of each item from the nearest rank; at least 1 of others."""
    level, front, distance = dict.fromkeys(ranks, 0), list(ranks), 0
    while front:
        distance += 1
        front = [other for item in front for other in inner[item] if other not in level]
        level.update(dict.fromkeys(front, distance))
        front = list(dict.fromkeys(front))
    return {item: level.get(item, distance + 1) for item in inner}


def _place(block: Block, marks: dict[int, Mark], inner: Mapping[int, Sequence[int]]) -> None:
    """Place ranks first, then each row outwards, over or under what it is linked to."""
    order = sorted(range(len(block.bands)), key=lambda number: abs(number - block.ranks_band))
    x: dict[int, float] = {}
    for number in order:
        band = block.bands[number]
        if number == block.ranks_band:
            widest = max([marks[item].width for item in band])
            beside = [b for b in (number - 1, number + 1) if 0 <= b < len(block.bands)]
            paired = [b for b in beside if len(block.bands[b]) == len(band)]
            widest = max([widest, *(marks[item].width for b in paired for item in block.bands[b])])
            pitch = max(_PITCH, widest + 6)
            x.update((item, place * pitch) for place, item in enumerate(band))
            continue
        near = {item: [x[other] for other in inner[item] if other in x] for item in band}
        wanted = {item: sum(places) / len(places) if places else 0.0 for item, places in near.items()}
        band.sort(key=lambda item: (wanted[item], item))
        placed = spread([wanted[item] for item in band], [marks[item].width for item in band], 8.0)
        x.update(zip(band, placed, strict=True))
    left = min(x[item] - marks[item].width / 2 for item in x)
    right = max(x[item] + marks[item].width / 2 for item in x)
    side = _SIDE if block.is_framed else 0.0
    block.width = right - left + 2 * side
    depth = min(150.0, 0.28 * (right - left)) if block.is_arc else 0.0
    y = _SIDE if block.is_framed else 0.0
    for number, band in enumerate(block.bands):
        tall = max(marks[item].height for item in band)
        sunk = depth if number == block.ranks_band else 0.0
        for place, item in enumerate(band):
            bend = 1 - (2 * place / max(1, len(band) - 1) - 1) ** 2 if sunk else 0.0
            at = y + tall / 2 + sunk * bend
            block.marks[item] = replace(marks[item], x=x[item] - left + side, y=at)
        lift = 0.8 * RANK_SIZE + 6 if sunk else 0.0
        if lift:  # lines between ranks of an arc rise above its ends
            for item in band:
                block.marks[item] = replace(block.marks[item], y=block.marks[item].y + lift)
        y += tall + sunk + lift + _ROW_GAP
    block.height = y - _ROW_GAP + (_LABEL if block.is_framed else 0.0)
