"""Figures of matplotlib (extra ``plot``), as bytes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from treadle.errors import MissingDependencyError, ScheduleError


def check_plot_name(path: Path | str) -> None:
    """Raise unless a figure can be written to a file of that name: to be asked before long work.

    Raises
    ------
    ScheduleError
        If its ending is none of .png, .svg and .pdf.
    MissingDependencyError
        Without matplotlib.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.check_plot_name("times.svg")
    """
    _figure_type(Path(path).suffix[1:].lower())


def new_plot(width: float, height: float, file_format: str) -> Any:
    """A figure in inches, to be written in a format, that no global state of matplotlib knows.

    Raises
    ------
    ScheduleError
        If the format is none of png, svg and pdf.
    MissingDependencyError
        Without matplotlib.
    """
    return _figure_type(file_format)(figsize=(width, height), layout="constrained")


def _figure_type(file_format: str) -> Any:
    if file_format not in ("png", "svg", "pdf"):
        raise ScheduleError(f"picture: format {file_format[:20]!r}, expected png, svg or pdf")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError(
            "pictures need matplotlib, which is not installed: pip install 'treadle[plot]'"
        ) from None
    return Figure


def plot_bytes(figure: Any, file_format: str) -> bytes:
    """What a file of a figure holds."""
    stream = io.BytesIO()
    figure.savefig(stream, format=file_format, dpi=150)
    return stream.getvalue()
