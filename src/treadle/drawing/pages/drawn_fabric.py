"""A fabric's drawing as numbers for a report, and the line of each link."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from treadle.arrays import Int64Array
from treadle.topologies.topology import Topology
from treadle.viz.drawing_layout import DrawingLayout, Shape
from treadle.viz.fabric_layout import fabric_layout

_SHAPES = tuple(Shape)


class DrawnFabric:
    """A layout, and the position of each link and rank of its fabric in it.

    Parameters
    ----------
    topology : Topology
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.layout: DrawingLayout = fabric_layout(topology)
        signed = np.zeros(topology.n_links, dtype=np.int64)
        for number, line in enumerate(self.layout.lines, start=1):
            signed[list(line.forward)] = number
            signed[list(line.backward)] = -number
        self.signed_line: Int64Array = signed
        """Number of each link's line from 1, negative against the line's direction; 0: not drawn."""
        marks = np.full(topology.n_nodes, -1, dtype=np.int64)
        for number, mark in enumerate(self.layout.marks):
            marks[list(mark.nodes)] = number
        self.mark_of: Int64Array = marks
        """Number of each node's mark; -1: not drawn."""

    def lines_of(self, links: Iterable[int]) -> list[int]:
        """Return the lines that links are part of, each once, in order; without links that are not drawn."""
        return list(dict.fromkeys(line for link in links if (line := int(self.signed_line[link]))))

    def values(self) -> dict[str, object]:
        """Return the drawing, in tenths of pixels."""
        layout = self.layout
        return {
            "width": _px(layout.width),
            "height": _px(layout.height),
            "frames": [
                [frame.label, *map(_px, (frame.x, frame.y, frame.width, frame.height, frame.label_y))]
                for frame in layout.frames
            ],
            "marks": [
                [
                    mark.label,
                    _SHAPES.index(mark.shape),
                    *map(_px, (mark.x, mark.y, mark.width, mark.height)),
                    self.topology.node_names[mark.nodes[0]] if len(mark.nodes) == 1 else mark.label,
                ]
                for mark in layout.marks
            ],
            "lines": [
                [
                    *line.ends,
                    [[_px(value) for point in stroke for value in point] for stroke in line.strokes],
                    len(line.forward),
                    len(line.backward),
                    self._bytes_per_s(line.forward),
                    self._bytes_per_s(line.backward),
                ]
                for line in layout.lines
            ],
            "leftOut": layout.left_out,
        }

    def _bytes_per_s(self, links: tuple[int, ...]) -> int:
        return int(self.topology.bandwidths[list(links)].sum())


def _px(value: float) -> float:
    return round(value, 1)
