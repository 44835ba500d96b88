"""Pictures as PNG or PDF, by matplotlib (extra ``plot``); on light ground."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from treadle.viz.box_inside import text_width
from treadle.viz.drawing_layout import Shape
from treadle.viz.matplotlib_plots import new_plot, plot_bytes
from treadle.viz.painting import LEGEND_STEP, LINE, PLAIN, Painting
from treadle.viz.svg import GROUNDS, INKS

_INK, _QUIET = INKS["light"]
_, _BOX, _RANK, _SWITCH = GROUNDS["light"]
_FILL = {Shape.RANK: _RANK, Shape.SWITCH: _SWITCH, Shape.GROUP: _BOX}


def raster(painting: Painting, file_format: str) -> bytes:
    """The picture's bytes.

    Parameters
    ----------
    painting : Painting
    file_format : str
        png or pdf.

    Raises
    ------
    MissingDependencyError
        Without matplotlib.
    """
    layout, width, height, head = painting.layout, painting.width, painting.height, painting.head
    figure = new_plot(width / 72, height / 72, file_format)
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.axis("off")
    shift = (width - layout.width) / 2
    write = partial(axes.text, fontsize=8, color=_QUIET, va="center", parse_math=False)
    _draw(axes, write, painting, shift, head)
    if painting.title:
        write(12, 16, painting.title, fontsize=12, weight="bold", color=_INK)
    x, y = 12.0, head + layout.height + 8
    for style in painting.styles:
        axes.plot([x, x + 22], [y, y], color=style.light, linewidth=style.width)
        write(x + 27, y, style.words)
        x += text_width(style.words) + LEGEND_STEP
    y += LINE if painting.styles else 0.0
    for number, line in enumerate(painting.notes):
        write(12, y + LINE * number, line)
    return plot_bytes(figure, file_format)


def _draw(axes: Any, write: Callable[..., Any], painting: Painting, shift: float, head: float) -> None:
    from matplotlib.patches import Ellipse, FancyBboxPatch

    def rounded(
        x: float, y: float, width: float, height: float, radius: float, fill: str, edge: str, z: int
    ) -> None:
        if width == height == 2 * radius:  # corners of a box are no circle's
            middle = (x + shift + radius, y + head + radius)
            axes.add_patch(Ellipse(middle, width, height, fc=fill, ec=edge, linewidth=0.8, zorder=z))
            return
        style = f"round,pad=0,rounding_size={radius}"
        corner = (x + shift, y + head)
        axes.add_patch(
            FancyBboxPatch(corner, width, height, boxstyle=style, fc=fill, ec=edge, linewidth=0.8, zorder=z)
        )

    layout = painting.layout
    for frame in layout.frames:
        rounded(frame.x, frame.y, frame.width, frame.height, 8, _BOX, "#c3cad2", 1)
        write(frame.x + 8 + shift, frame.label_y + head, frame.label)
    for number, line in enumerate(layout.lines):
        style = painting.lines.get(number, PLAIN)
        for stroke in line.strokes:
            xs, ys = [x + shift for x, _ in stroke], [y + head for _, y in stroke]
            z = 2 if style is PLAIN else 3
            axes.plot(xs, ys, color=style.light, linewidth=style.width, zorder=z, solid_joinstyle="round")
        if number in painting.arrows:
            stroke = line.strokes[-1] if painting.arrows[number] else line.strokes[0][::-1]
            (ax, ay), (bx, by) = stroke[-2:]
            ends = {"xy": (bx + shift, by + head), "xytext": (ax + shift, ay + head)}
            look = {"color": style.light, "lw": style.width, "shrinkA": 0, "shrinkB": 6}
            axes.annotate("", **ends, arrowprops={"arrowstyle": "->", **look})
    for number, mark in enumerate(layout.marks):
        painted = painting.marks.get(number)
        if mark.shape is not Shape.MORE:
            fill = painted.light if painted else _FILL[mark.shape]
            radius = mark.height / 2 if mark.shape is Shape.RANK else 3
            rounded(mark.left, mark.y - mark.height / 2, mark.width, mark.height, radius, fill, "#33516f", 4)
        ink = "#ffffff" if painted else _INK
        write(mark.x + shift, mark.y + head, mark.label, color=ink, ha="center", zorder=5)
