"""Positions of the nodes and links of a fabric in a drawing: values in pixels, for every writer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

Point = tuple[float, float]


class Shape(Enum):
    """Shape of a mark."""

    RANK = "rank"
    """A circle: a compute node."""
    SWITCH = "switch"
    """A rectangle: a switch, or a network card."""
    GROUP = "group"
    """A rounded rectangle: a box, or a pod, with all that is in it."""
    MORE = "more"
    """Three dots: more of the neighbouring marks."""


@dataclass(frozen=True)
class Mark:
    """A node of the fabric, or several as one.

    Parameters
    ----------
    label : str
    shape : Shape
    x, y : float
        Its centre.
    width, height : float
    nodes : tuple of int
        Of the fabric, that it stands for.
    """

    label: str
    shape: Shape
    x: float
    y: float
    width: float
    height: float
    nodes: tuple[int, ...] = ()

    @property
    def left(self) -> float:
        """Its left edge."""
        return self.x - self.width / 2

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.x + self.width / 2


@dataclass(frozen=True)
class BoxFrame:
    """The rectangle around a box, or around a part of the drawing.

    Parameters
    ----------
    label : str
    x, y, width, height : float
        The upper left corner, and its extent.
    is_labelled_below : bool
        The label stands at the lower edge, else at the upper.
    """

    label: str
    x: float
    y: float
    width: float
    height: float
    is_labelled_below: bool = False

    @property
    def label_y(self) -> float:
        """The middle of its label."""
        return self.y + (self.height - 11 if self.is_labelled_below else 12)


@dataclass(frozen=True)
class Line:
    """Links between two marks.

    Parameters
    ----------
    ends : tuple of int
        The two marks, by number.
    strokes : tuple of tuples of points
        Polylines: one from mark to mark, or a stub at each.
    forward, backward : tuple of int
        Links of the fabric from the first mark to the second, and back.
    """

    ends: tuple[int, int]
    strokes: tuple[tuple[Point, ...], ...]
    forward: tuple[int, ...]
    backward: tuple[int, ...]

    @property
    def links(self) -> tuple[int, ...]:
        """Total of both directions."""
        return (*self.forward, *self.backward)


@dataclass(frozen=True)
class DrawingLayout:
    """A drawing without colours.

    Parameters
    ----------
    width, height : float
    marks, frames, lines : tuple
    left_out : str
        What is not drawn; "" if all is.
    """

    width: float
    height: float
    marks: tuple[Mark, ...]
    frames: tuple[BoxFrame, ...]
    lines: tuple[Line, ...]
    left_out: str = ""

    def moved(self, x: float, y: float) -> DrawingLayout:
        """Return the layout moved by x and y."""
        return replace(
            self,
            marks=tuple(replace(mark, x=mark.x + x, y=mark.y + y) for mark in self.marks),
            frames=tuple(replace(frame, x=frame.x + x, y=frame.y + y) for frame in self.frames),
            lines=tuple(
                replace(
                    line, strokes=tuple(tuple((a + x, b + y) for a, b in stroke) for stroke in line.strokes)
                )
                for line in self.lines
            ),
        )
