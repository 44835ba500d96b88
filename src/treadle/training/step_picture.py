"""A step's timeline as a picture: lanes of compute and communication, coloured by what runs."""

from __future__ import annotations

from treadle.training.step_trace import lanes_of
from treadle.training.timeline.task import Category
from treadle.training.timeline.timeline import Timeline
from treadle.viz.matplotlib_figures import figure_bytes, new_figure
from treadle.viz.painting import TASKS

MOST_LANES = 32
"""Streams that a picture has room for; of more devices the first are shown."""
_COLOURS = {style.name: style.light for style in TASKS}


def step_picture(timeline: Timeline, title: str, *, file_format: str = "png") -> bytes:
    """A lane for each stream, a bar for each task.

    Parameters
    ----------
    timeline : Timeline
    title : str
    file_format : str
        png, svg or pdf.

    Raises
    ------
    ScheduleError
        For another format.
    MissingDependencyError
        Without matplotlib.
    """
    lanes = lanes_of(timeline)[:MOST_LANES]
    places = {lane: place for place, lane in enumerate(lanes)}
    figure = new_figure(10.0, 1.6 + 0.4 * max(2, len(lanes)), file_format)
    axes = figure.add_subplot()
    bars: dict[tuple[Category, int], list[tuple[float, float]]] = {}
    for place, task in enumerate(timeline.tasks):
        lane = places.get((task.device, task.stream))
        begin, end = float(timeline.starts[place]) * 1e3, float(timeline.ends[place]) * 1e3
        if lane is not None and end > begin:
            bars.setdefault((task.category, lane), []).append((begin, end - begin))
    told: set[Category] = set()
    for (category, lane), spans in bars.items():
        label = None if category in told else category.value
        told.add(category)
        axes.broken_barh(spans, (lane + 0.1, 0.8), facecolors=_COLOURS[category.value], label=label)
    names = [f"{device}: {stream}" if len(timeline.devices) > 1 else stream for device, stream in lanes]
    axes.set_yticks([place + 0.5 for place in range(len(lanes))], names)
    axes.invert_yaxis()
    axes.set_xlim(0, float(timeline.total_s) * 1e3 or 1)
    axes.set_xlabel("time (ms)")
    axes.set_title(title, fontsize=9)
    if told:
        figure.legend(loc="outside lower center", ncols=min(9, len(told)), fontsize=7)
    return figure_bytes(figure, file_format)
