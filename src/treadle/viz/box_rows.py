"""Boxes in one row or two, and the network's switches above or between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from treadle.viz.box_inside import Block, inside, mark_of, within
from treadle.viz.drawing_layout import BoxFrame, DrawingLayout, Line, Mark, Point
from treadle.viz.drawn_network import DrawnNetwork
from treadle.viz.rows import polyline, spread

_MOST_WIDTH = 1150.0
"""Width of one row of boxes; wider ones are split into two, head to head."""
_BLOCK_GAP = 18.0
_CORRIDOR = 70.0
_LEVEL_GAP = 56.0
_BORDER = 12.0


@dataclass
class _Placed:
    """A block in the drawing: its upper left corner, and whether its doors are below."""

    block: Block
    x: float = 0.0
    y: float = 0.0
    is_flipped: bool = False

    def point(self, point: Point) -> Point:
        """Return a point of the block in the drawing."""
        x, y = point
        return self.x + x, self.y + (self.block.height - y if self.is_flipped else y)

    @property
    def door(self) -> float:
        """Points at which lines leave it."""
        return self.y + self.block.height if self.is_flipped else self.y


def boxed(
    network: DrawnNetwork, boxes: Sequence[Sequence[int]], labels: Sequence[str], *, left_out: str = ""
) -> DrawingLayout:
    """Lay out a drawing of boxes.

    Parameters
    ----------
    network : DrawnNetwork
    boxes : sequence of sequences of int
        Items of each box; all others are the network's switches. A box of one item has no frame.
    labels : sequence of str
        Of the boxes' frames.
    left_out : str
        As of `DrawingLayout`.
    """
    return _Boxed(network, boxes, labels).layout(left_out)


class _Boxed:
    def __init__(self, network: DrawnNetwork, boxes: Sequence[Sequence[int]], labels: Sequence[str]) -> None:
        self.network, self.labels = network, labels
        self.box_of = {item: number for number, box in enumerate(boxes) for item in box}
        self.neighbours = network.neighbours()
        outside = {
            item: any(self.box_of.get(other) != box for other in self.neighbours[item])
            for item, box in self.box_of.items()
        }
        self.placed = [_Placed(inside(network, box, outside, framed=len(box) > 1)) for box in boxes]
        self.net = Block(detour=-3.0)
        """Return all marks of the drawing, and bands of the network's switches."""
        self.marks, self.levels = self.net.marks, self.net.bands
        self.upper, self.lower = self._sides()

    def layout(self, left_out: str) -> DrawingLayout:
        width = self._place()
        order = sorted(self.marks)
        number = {item: place for place, item in enumerate(order)}
        lines = []
        for (first, second), (forward, backward) in self.network.links.items():
            stroke = tuple(self._stroke(first, second))
            lines.append(Line((number[first], number[second]), (stroke,), forward, backward))
        frames = tuple(
            BoxFrame(label, own.x, own.y, own.block.width, own.block.height, not own.is_flipped)
            for own, label in zip(self.placed, self.labels, strict=True)
            if own.block.is_framed
        )
        ends = [mark.y + mark.height / 2 for mark in self.marks.values()]
        ends += [frame.y + frame.height for frame in frames]
        ends += [y for line in lines for stroke in line.strokes for _, y in stroke]
        high = max(ends) + _BORDER
        return DrawingLayout(
            width, high, tuple(self.marks[item] for item in order), frames, tuple(lines), left_out
        )

    def _sides(self) -> tuple[list[int], list[int]]:
        """Split boxes into the upper and the lower row; few boxes use the lower only."""
        widths = [own.block.width + _BLOCK_GAP for own in self.placed]
        if sum(widths) <= _MOST_WIDTH:
            return [], list(range(len(self.placed)))
        half, so_far = 0, 0.0
        while so_far + widths[half] <= sum(widths) / 2 + 1e-6:
            so_far += widths[half]
            half += 1
        return list(range(half)), list(range(half, len(self.placed)))

    def _place(self) -> float:
        rows = [row for row in (self.upper, self.lower) if row]
        spans = [sum(self.placed[box].block.width + _BLOCK_GAP for box in row) - _BLOCK_GAP for row in rows]
        width = max([*spans, 200.0]) + 2 * _BORDER
        bands = self._bands()
        y = _BORDER
        if self.upper:
            y += max(self.placed[box].block.height for box in self.upper)
            self._place_boxes(self.upper, width, y, is_flipped=True)
            y += _CORRIDOR
        self.levels += bands
        width = max(
            [width, *(sum(self._mark(item).width + 8.0 for item in band) + 2 * _BORDER for band in bands)]
        )
        tops = []
        for _ in bands:
            tops.append(y)
            y += _LEVEL_GAP
        if bands:
            y += _CORRIDOR - _LEVEL_GAP
        self._place_boxes(self.lower, width, y, is_flipped=False)
        if self.upper:
            self._place_boxes(self.upper, width, self.placed[self.upper[0]].door, is_flipped=True)
        self._place_bands(bands, tops, width)
        return width

    def _place_boxes(self, boxes: Sequence[int], width: float, door: float, *, is_flipped: bool) -> None:
        total = sum(self.placed[box].block.width + _BLOCK_GAP for box in boxes) - _BLOCK_GAP
        x = (width - total) / 2
        for box in boxes:
            own = self.placed[box]
            own.x, own.is_flipped = x, is_flipped
            own.y = door - own.block.height if is_flipped else door
            for item, mark in own.block.marks.items():
                at = own.point((mark.x, mark.y))
                self.marks[item] = replace(mark, x=at[0], y=at[1])
            x += own.block.width + _BLOCK_GAP

    def _bands(self) -> list[list[int]]:
        """Return the network's switches by distance from boxes; those of one row of boxes stand near it."""
        switches = [item for item in range(len(self.network.items)) if item not in self.box_of]
        level, front, distance = dict.fromkeys(self.box_of, 0), list(self.box_of), 0
        sides: dict[int, set[bool]] = {item: {box in self.upper} for item, box in self.box_of.items()}
        while front:
            distance += 1
            fresh = dict.fromkeys(
                other for item in front for other in self.neighbours[item] if other not in level
            )
            for other in fresh:
                sides[other] = {
                    side
                    for item in self.neighbours[other]
                    if level.get(item, distance) < distance
                    for side in sides[item]
                }
            level.update(dict.fromkeys(fresh, distance))
            front = list(fresh)
        deepest = max(level.values())
        rows: dict[tuple[int, int], list[int]] = {}
        for item in switches:
            own = level.get(item, deepest + 1)
            place = (
                0 if not self.upper or len(sides.get(item, ())) != 1 else (-1 if True in sides[item] else 1)
            )
            rows.setdefault((place, own if place < 0 else -own), []).append(item)
        return [rows[key] for key in sorted(rows)]

    def _mark(self, item: int) -> Mark:
        own = self.network.items[item]
        return mark_of(own, details=2)

    def _place_bands(self, bands: Sequence[list[int]], tops: Sequence[float], width: float) -> None:
        """Place those next to boxes first, each over the middle of what it is linked to."""
        for number in sorted(
            range(len(bands)), key=lambda n: -n if not self.upper else min(n, len(bands) - n)
        ):
            band, marks = bands[number], {item: self._mark(item) for item in bands[number]}
            wanted: dict[int, float] = {}
            for item in band:  # dots stand beside the switch before them
                near = [self.marks[other].x for other in self.neighbours[item] if other in self.marks]
                last = wanted[band[len(wanted) - 1]] if wanted else width / 2
                wanted[item] = sum(near) / len(near) if near else last
            band.sort(key=lambda item: (round(wanted[item], 6), item))
            places = spread([wanted[i] for i in band], [marks[i].width for i in band], 8.0)
            low = min(x - marks[i].width / 2 for i, x in zip(band, places, strict=True))
            high = max(x + marks[i].width / 2 for i, x in zip(band, places, strict=True))
            shift = max(_BORDER - low, 0.0) - max(high - (width - _BORDER), 0.0)
            for item, x in zip(band, places, strict=True):
                self.marks[item] = replace(marks[item], x=x + shift, y=tops[number] + marks[item].height / 2)

    def _stroke(self, first: int, second: int) -> list[Point]:
        boxes = self.box_of.get(first), self.box_of.get(second)
        if boxes[0] is not None and boxes[0] == boxes[1]:
            own = self.placed[boxes[0]]
            return [own.point(point) for point in own.block.between(first, second)]
        if boxes[0] is None and boxes[1] is None:
            return self.net.between(first, second)
        if boxes[0] is not None and boxes[1] is not None:
            return self._between_boxes(first, second)
        if boxes[0] is None:
            return self._stroke(second, first)[::-1]
        exit_way = self._exit(first)
        mark = self.marks[second]
        band = self.net.band_of(second)
        own = self.placed[boxes[0]]
        if own.is_flipped:
            between, edge = range(band), mark.y - mark.height / 2
        else:
            between, edge = range(len(self.levels) - 1, band, -1), mark.y + mark.height / 2
        goal = within(mark, (mark.x, edge), exit_way[-1][0])
        return [*exit_way[:-1], *polyline(exit_way[-1], goal, list(map(self.net.row, between)))]

    def _exit(self, item: int) -> list[Point]:
        own = self.placed[self.box_of[item]]
        return [own.point(point) for point in own.block.to_door(item)]

    def _between_boxes(self, first: int, second: int) -> list[Point]:
        """Draw a link of two boxes without a switch between them, along the corridor before their doors."""
        one, other = self._exit(first), self._exit(second)
        sides = self.placed[self.box_of[first]].is_flipped, self.placed[self.box_of[second]].is_flipped
        if sides[0] == sides[1]:
            away = 6.0 + 4.0 * (abs(self.box_of[first] - self.box_of[second]) % 8)
            corridor = one[-1][1] + (away if sides[0] else -away)
            return [*one, (one[-1][0], corridor), (other[-1][0], corridor), *other[::-1]]
        if not sides[0]:
            return self._between_boxes(second, first)[::-1]
        rows = [self.net.row(number) for number in range(len(self.levels))]
        return [*one[:-1], *polyline(one[-1], other[-1], rows), *other[::-1][1:]]
