"""Styles of a drawing's lines and marks, and the legend that explains them.

Styles differ in lightness and width, not in hue alone, so that everyone can distinguish them, also in print.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from treadle.viz.box_inside import text_width
from treadle.viz.drawing_layout import DrawingLayout

LINE = 16.0
"""Line height of text below a drawing."""
LEGEND_STEP = 44.0
"""Width of a legend entry besides its words."""


@dataclass(frozen=True)
class Style:
    """Style of a class of lines or marks.

    Parameters
    ----------
    name : str
        Of the class, in style sheets.
    light, dark : str
        Colour on light and on dark ground.
    width : float
        Of lines; of marks' borders.
    words : str
        In the legend.
    """

    name: str
    light: str
    dark: str
    width: float
    words: str = ""

    def colour(self, theme: str) -> str:
        """Colour on the ground of a theme, light or dark."""
        return self.light if theme == "light" else self.dark

    def label_colour(self, theme: str) -> str:
        """Return black or white, whichever has more contrast with the colour."""
        colour = self.colour(theme).lstrip("#")
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
            for part in (int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4))
        )
        bright = 0.2126 * red + 0.7152 * green + 0.0722 * blue  # WCAG 2.2, relative luminance
        return "#000000" if (bright + 0.05) ** 2 > 1.05 * 0.05 else "#ffffff"


PLAIN = Style("plain", "#9aa3ad", "#77808a", 0.8)
LOADS = (
    Style("idle", "#c9ced4", "#464d55", 0.7, "idle"),
    Style("low", "#9cc3e6", "#3d6b94", 1.0, "up to 15%"),
    Style("half", "#5b93c7", "#5b93c7", 1.5, "up to 50%"),
    Style("high", "#1f5a96", "#8fc1f0", 2.0, "up to 100%"),
    Style("full", "#d15f00", "#ff9a3d", 2.6, "saturated"),
)
CUT = Style("cut", "#d15f00", "#ff9a3d", 2.6, "bottleneck cut")
HOPS = (
    Style("hop1", "#3b0f70", "#fff59d", 2.6, "hop 1"),
    Style("hop2", "#2c73b8", "#8bd450", 2.3, "hop 2"),
    Style("hop3", "#2aa198", "#26a69a", 2.0, "hop 3"),
    Style("hop4", "#8a6d00", "#5c84d6", 1.7, "hop 4"),
    Style("hop5", "#c2185b", "#e19df2", 1.5, "hop 5 and later"),
)
TASKS = (
    Style("forward", "#4c8fe0", "#4a97d9", 1.0, "forward"),
    Style("recompute", "#7fd3ea", "#8ff0ff", 1.0, "recompute"),
    Style("backward", "#1a3a94", "#3f45e0", 1.0, "backward"),
    Style("optimizer", "#8a8a8a", "#8c8c8c", 1.0, "optimizer"),
    Style("allgather", "#eab308", "#f5d000", 1.0, "allgather"),
    Style("reduce-scatter", "#d1661a", "#cf7f35", 1.0, "reduce-scatter"),
    Style("allreduce", "#7a1020", "#a81c38", 1.0, "allreduce"),
    Style("alltoall", "#8d4fa8", "#8a4a96", 1.0, "alltoall"),
    Style("send", "#9ccf7f", "#c0f0a0", 1.0, "send"),
)
"""Styles of a training step, computation first. Any two may be adjacent, so all differ clearly."""


@dataclass(frozen=True)
class Painting:
    """A layout with styles.

    Parameters
    ----------
    layout : DrawingLayout
    styles : tuple of Style
        In the order of the legend.
    lines : mapping of int to Style
        By line; others are `PLAIN`.
    marks : mapping of int to Style
        Of marks that are filled.
    arrows : mapping of int to bool
        Lines with an arrow head: at the second mark (True), or the first.
    title, caption : str
        Texts above and below the drawing.
    """

    layout: DrawingLayout
    styles: tuple[Style, ...] = ()
    lines: Mapping[int, Style] = field(default_factory=lambda: MappingProxyType({}))
    marks: Mapping[int, Style] = field(default_factory=lambda: MappingProxyType({}))
    arrows: Mapping[int, bool] = field(default_factory=lambda: MappingProxyType({}))
    title: str = ""
    caption: str = ""

    @property
    def head(self) -> float:
        """Height of the part above the drawing."""
        return 30.0 if self.title else 8.0

    @property
    def width(self) -> float:
        """Total width: the drawing, its title or its legend."""
        legend = sum(text_width(style.words) + LEGEND_STEP for style in self.styles)
        return max(self.layout.width, legend + 24, 1.35 * text_width(self.title) + 24, 260.0)

    @property
    def height(self) -> float:
        """Total height: the drawing, its title, legend and notes."""
        legend = LINE if self.styles else 0.0
        return self.head + self.layout.height + legend + LINE * len(self.notes) + 12

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines below the drawing, no wider than it."""
        most = max(40, int((self.width - 24) / text_width("x")))
        lines: list[str] = []
        for text in (self.caption, self.layout.left_out):
            lines += textwrap.wrap(text, most)
        return tuple(lines)


def by_load(
    layout: DrawingLayout, busy: Sequence[float], full: Sequence[bool], *, title: str, caption: str
) -> Painting:
    """Style lines by the busier of their directions.

    Parameters
    ----------
    layout : DrawingLayout
    busy : sequence of float
        Of each link of the fabric the share of the time for which it is busy.
    full : sequence of bool
        Whether it is saturated, by exact numbers (utilizations are rounded).
    title, caption : str
    """
    styles: dict[int, Style] = {}
    for number, line in enumerate(layout.lines):
        if any(full[link] for link in line.links):
            styles[number] = LOADS[4]
            continue
        most = max(busy[link] for link in line.links)
        styles[number] = LOADS[0 if most == 0 else 1 if most <= 0.15 else 2 if most <= 0.5 else 3]
    used = tuple(style for style in LOADS if style in styles.values())
    return Painting(layout, used, styles, title=title, caption=caption)


def by_cut(
    layout: DrawingLayout, inside: Sequence[bool], crossing: Sequence[bool], *, title: str, caption: str
) -> Painting:
    """Style the nodes on one side of a cut and the links that cross it."""
    lines = {n: CUT for n, line in enumerate(layout.lines) if any(crossing[link] for link in line.links)}
    marks = {
        number: CUT
        for number, mark in enumerate(layout.marks)
        if mark.nodes and all(inside[node] for node in mark.nodes)
    }
    return Painting(layout, (CUT,), lines, marks, title=title, caption=caption)


def by_hop(
    layout: DrawingLayout, hops: Mapping[int, int], root: int, *, title: str, caption: str
) -> Painting:
    """Style the links of a tree by the number of ranks before them.

    Parameters
    ----------
    layout : DrawingLayout
    hops : mapping of int to int
        Of links of the tree, from 1.
    root : int
        Its node.
    """
    lines: dict[int, Style] = {}
    arrows: dict[int, bool] = {}
    for number, line in enumerate(layout.lines):
        ways = [
            (hops[link], is_forward)
            for own, is_forward in ((line.forward, True), (line.backward, False))
            for link in own
            if link in hops
        ]
        if ways:
            first, is_forward = min(ways)
            lines[number] = HOPS[min(first, len(HOPS)) - 1]
            if len({way for _, way in ways}) == 1:
                arrows[number] = is_forward
    marks = {number: CUT for number, mark in enumerate(layout.marks) if root in mark.nodes}
    used = tuple(style for style in HOPS if style in lines.values())
    return Painting(layout, used, lines, marks, arrows, title, caption)
