"""What matplotlib is told to draw: each place, size, colour and word, of a picture by hand."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.errors import ScheduleError
from treadle.viz import raster
from treadle.viz.drawing_layout import BoxFrame, DrawingLayout, Line, Mark, Shape
from treadle.viz.matplotlib_plots import check_plot_name
from treadle.viz.painting import CUT, HOPS, Painting

pytest.importorskip("matplotlib")

LAYOUT = DrawingLayout(
    width=200.0,
    height=90.0,
    marks=(
        Mark("7", Shape.RANK, 30, 20, 22, 22, (0,)),
        Mark("a card", Shape.SWITCH, 90, 40, 47, 18, (1,)),
        Mark("8,1", Shape.RANK, 150, 60, 26, 22, (2,)),
        Mark("...", Shape.MORE, 170, 25, 26, 18),
        Mark("box $x$", Shape.GROUP, 50, 70, 60, 26, (3, 4)),
    ),
    frames=(BoxFrame("upper", 5, 6, 70, 30), BoxFrame("lower", 80, 30, 100, 50, is_labelled_below=True)),
    lines=(
        Line((0, 1), (((30, 20), (60, 25), (90, 40)),), (0,), (1,)),
        Line((0, 2), (((30, 20), (30, 1)), ((150, 60), (150, 89))), (2,), ()),
        Line((1, 2), (((90, 40), (150, 60)),), (3,), (4,)),
    ),
    left_out="not all",
)
PAINTING = Painting(
    LAYOUT,
    styles=(HOPS[0], CUT),
    lines={0: HOPS[0], 1: CUT},
    marks={2: CUT},
    arrows={0: False, 1: True},
    title="a title",
    caption="words below",
)
HEAD = PAINTING.head


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The figure of `PAINTING`, and its only axes."""
    kept: list[Any] = []

    def keep(figure: Any, file_format: str) -> bytes:
        kept.append(figure)
        return file_format.encode()

    monkeypatch.setattr(raster, "plot_bytes", keep)
    assert raster.raster(PAINTING, "pdf") == b"pdf"
    (figure,) = kept
    return figure


def test_the_page_is_as_large_as_the_painting(drawn: Any) -> None:
    (axes,) = drawn.axes
    assert PAINTING.width == 260
    assert PAINTING.height == HEAD + 90 + 16 + 2 * 16 + 12
    assert drawn.get_size_inches().tolist() == [PAINTING.width / 72, PAINTING.height / 72]
    assert axes.get_position().bounds == (0, 0, 1, 1)
    assert (axes.get_xlim(), axes.get_ylim()) == ((0, PAINTING.width), (PAINTING.height, 0))
    assert not axes.axison


def test_lines_have_the_colours_of_their_styles(drawn: Any) -> None:
    lines = [
        (
            *(values.tolist() for values in line.get_data()),
            line.get_color(),
            line.get_linewidth(),
            line.get_zorder(),
        )
        for line in drawn.axes[0].lines
    ]
    y, second = HEAD + 98, 12 + 6.2 * 5 + 44
    assert lines == [
        ([60, 90, 120], [HEAD + 20, HEAD + 25, HEAD + 40], "#3b0f70", 2.6, 3),
        ([60, 60], [HEAD + 20, HEAD + 1], "#d15f00", 2.6, 3),
        ([180, 180], [HEAD + 60, HEAD + 89], "#d15f00", 2.6, 3),
        ([120, 180], [HEAD + 40, HEAD + 60], "#9aa3ad", 0.8, 2),
        ([12, 34], [y, y], "#3b0f70", 2.6, 2),
        ([second, second + 22], [y, y], "#d15f00", 2.6, 2),
    ]


def test_arrows_point_to_the_mark_that_data_goes_to(drawn: Any) -> None:
    arrows = [text for text in drawn.axes[0].texts if type(text).__name__ == "Annotation"]
    assert [(arrow.xyann, arrow.xy, arrow.get_text()) for arrow in arrows] == [
        ((90, HEAD + 25), (60, HEAD + 20), ""),  # back to the first mark
        ((180, HEAD + 60), (180, HEAD + 89), ""),  # along the last stroke
    ]
    assert [arrow.arrow_patch.get_linewidth() for arrow in arrows] == [2.6, 2.6]
    assert [(arrow.arrowprops["shrinkA"], arrow.arrowprops["shrinkB"]) for arrow in arrows] == [(0, 6)] * 2


@pytest.mark.parametrize(("name", "said"), [("a.jpeg", "jpeg"), ("png", ""), ("a." + "x" * 30, "x" * 20)])
def test_other_formats_are_refused(name: str, said: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        check_plot_name(name)
    assert str(caught.value) == f"plot: format {said!r}, expected png, svg or pdf"
