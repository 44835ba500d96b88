"""Drawings as SVG: one file, no scripts, light or dark by the viewer's preference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from xml.sax.saxutils import escape

from treadle.viz.box_inside import text_width
from treadle.viz.drawing_layout import Mark, Point, Shape
from treadle.viz.painting import LEGEND_STEP, LINE, PLAIN, Painting, Style


def svg(painting: Painting) -> str:
    """Return the drawing; every string is escaped, and it loads and runs nothing."""
    layout, width, height, head = painting.layout, painting.width, painting.height, painting.head
    shift = (width - layout.width) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" '
        f'width="{_n(width)}" height="{_n(height)}" role="img">',
        f"<title>{escape(painting.title or 'fabric')}</title>",
        f"<style>{_sheet(painting.styles)}</style>",
        f'<rect class="ground" width="{_n(width)}" height="{_n(height)}"/>',
    ]
    if painting.title:
        parts.append(f'<text class="title" x="12" y="21">{escape(painting.title)}</text>')
    parts.append(f'<g transform="translate({_n(shift)} {_n(head)})">')
    parts += [*_frames(painting), *_lines(painting), *_marks(painting), "</g>"]
    y = head + layout.height + 8
    parts += _legend(painting.styles, y)
    y += LINE if painting.styles else 0.0
    for number, line in enumerate(painting.notes):
        parts.append(f'<text class="note" x="12" y="{_n(y + 4 + LINE * number)}">{escape(line)}</text>')
    return "\n".join([*parts, "</svg>", ""])


GROUNDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "light": ("#ffffff", "#f3f5f8", "#dbe7f3", "#e6e8eb"),
        "dark": ("#14171a", "#1d2125", "#24384c", "#2b3036"),
    }
)
"""Backgrounds of the page, boxes, ranks and switches."""
INKS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"light": ("#1c2126", "#4a525b"), "dark": ("#e8eaed", "#aab2bb")}
)
"""Colours of labels and titles, and of notes and frames."""


def _sheet(styles: Sequence[Style]) -> str:
    def theme(name: str) -> str:
        page, box, rank, switch = GROUNDS[name]
        ink, quiet = INKS[name]
        lines = "".join(f".{style.name}{{stroke:{style.colour(name)}}}" for style in (PLAIN, *styles))
        fills = "".join(f".f{style.name}{{fill:{style.colour(name)}}}" for style in styles)
        return (
            f"text{{fill:{ink}}}.note,.frame{{fill:{quiet}}}.ground,.on{{fill:{page}}}"
            f".box,.group{{fill:{box};stroke:{quiet}}}.rank{{fill:{rank};stroke:{quiet}}}"
            f".switch{{fill:{switch};stroke:{quiet}}}{lines}{fills}"
        )

    widths = "".join(f".{style.name}{{stroke-width:{style.width}}}" for style in (PLAIN, *styles))
    return (
        "text{font:11px system-ui,sans-serif;text-anchor:middle}.title{font-size:14px;font-weight:600}"
        ".title,.note,.frame{text-anchor:start}path{fill:none;stroke-linejoin:round}.box{stroke-width:.5}"
        f"{widths}{theme('light')}@media(prefers-color-scheme:dark){{{theme('dark')}}}"
    )


def _frames(painting: Painting) -> Iterable[str]:
    for frame in painting.layout.frames:
        yield (
            f'<rect class="box" x="{_n(frame.x)}" y="{_n(frame.y)}" width="{_n(frame.width)}" '
            f'height="{_n(frame.height)}" rx="8"/>'
        )
        if frame.label:
            at = f'x="{_n(frame.x + 8)}" y="{_n(frame.label_y + 4)}"'
            yield f'<text class="frame" {at}>{escape(frame.label)}</text>'


def _lines(painting: Painting) -> Iterable[str]:
    """Yield one path for each style, the plain one below all others."""
    order = (PLAIN, *painting.styles)
    drawn: dict[str, list[str]] = {style.name: [] for style in order}
    for number, line in enumerate(painting.layout.lines):
        style = painting.lines.get(number, PLAIN)
        drawn[style.name] += [_path(stroke) for stroke in line.strokes]
        if number in painting.arrows:
            stroke = line.strokes[-1] if painting.arrows[number] else line.strokes[0][::-1]
            mark = painting.layout.marks[line.ends[painting.arrows[number]]]
            drawn[style.name].append(_arrow(stroke, mark))
    for name, paths in drawn.items():
        if paths:
            yield f'<path class="{name}" d="{"".join(paths)}"/>'


def _path(points: Sequence[Point]) -> str:
    start, *rest = points
    return f"M{_n(start[0])} {_n(start[1])}" + "".join(f"L{_n(x)} {_n(y)}" for x, y in rest)


def _arrow(points: Sequence[Point], mark: Mark) -> str:
    """Return two short strokes where the line meets the mark."""
    (ax, ay), (bx, by) = points[-2], points[-1]
    length = max(((bx - ax) ** 2 + (by - ay) ** 2) ** 0.5, 1e-9)
    ux, uy = (bx - ax) / length, (by - ay) / length
    is_centre = abs(bx - mark.x) < 1e-6 and abs(by - mark.y) < 1e-6
    back = (mark.height / 2 if is_centre else 0.0) + 1
    tip = bx - back * ux, by - back * uy
    wings = [(tip[0] - 7 * ux + side * 3.5 * uy, tip[1] - 7 * uy - side * 3.5 * ux) for side in (1, -1)]
    return _path([wings[0], tip, wings[1]])


def _marks(painting: Painting) -> Iterable[str]:
    for number, mark in enumerate(painting.layout.marks):
        style = painting.marks.get(number)
        filled = f" f{style.name}" if style else ""
        if mark.shape is not Shape.MORE:
            radius = mark.height / 2 if mark.shape is Shape.RANK else 3
            yield (
                f'<rect class="{mark.shape.value}{filled}" x="{_n(mark.left)}" '
                f'y="{_n(mark.y - mark.height / 2)}" width="{_n(mark.width)}" height="{_n(mark.height)}" '
                f'rx="{_n(radius)}"/>'
            )
        if mark.label:
            on = ' class="on"' if style else ""
            yield f'<text{on} x="{_n(mark.x)}" y="{_n(mark.y + 4)}">{escape(mark.label)}</text>'


def _legend(styles: Sequence[Style], y: float) -> Iterable[str]:
    x = 12.0
    for style in styles:
        yield f'<path class="{style.name}" d="M{_n(x)} {_n(y)}h22"/>'
        yield f'<text class="note" x="{_n(x + 27)}" y="{_n(y + 4)}">{escape(style.words)}</text>'
        x += text_width(style.words) + LEGEND_STEP


def _n(value: float) -> str:
    """Format a number to a tenth of a pixel, as short as possible."""
    return f"{round(value, 1):g}"
