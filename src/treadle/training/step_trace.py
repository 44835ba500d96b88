"""A step's timeline as a trace (fig. A.5) and as a picture: a lane for each stream of each device."""

from __future__ import annotations

from collections.abc import Mapping

from treadle.traces.timed_lanes import Detail, Trace, TraceSpan, Track, lanes_apart, ticks
from treadle.traces.trace_files import check_event_count
from treadle.training.costs import format_traffic
from treadle.training.timeline.task import COMPUTE_STREAM, Category, Task
from treadle.training.timeline.timeline import Timeline
from treadle.viz.matplotlib_plots import new_plot, plot_bytes
from treadle.viz.painting import TASKS


def step_trace(timeline: Timeline, about: Mapping[str, Detail]) -> Trace:
    """The tasks of each stream of each device.

    Parameters
    ----------
    timeline : Timeline
    about : mapping
        What is said of the whole: model, fabric, mesh.

    Raises
    ------
    ScheduleError
        If there are more events than viewers show.
    """
    check_event_count(len(timeline.tasks), "use fewer micro-batches")
    spans: dict[tuple[int, str], list[TraceSpan]] = {lane: [] for lane in tracks_of(timeline)}
    for place, task in enumerate(timeline.tasks):
        begin, end = ticks(float(timeline.starts[place])), ticks(float(timeline.ends[place]))
        span = TraceSpan(task.name, begin, end, _about(place, task), task.category.value)
        spans[task.device, task.stream].append(span)
    lanes: list[Track] = []
    for (device, stream), own in spans.items():
        lanes += lanes_apart(f"device {device}", stream, own)
    return Trace(tuple(lanes), about=about)


def tracks_of(timeline: Timeline) -> tuple[tuple[int, str], ...]:
    """Devices and their streams, the compute stream of each first, others as they begin."""
    found = dict.fromkeys((task.device, task.stream) for task in timeline.tasks)
    return tuple(sorted(found, key=lambda lane: (lane[0], lane[1] != COMPUTE_STREAM)))


def _about(place: int, task: Task) -> dict[str, Detail]:
    values: dict[str, Detail] = {"task": place, "alone_s": float(task.seconds)}
    if task.traffic is not None:
        values |= {"communication": format_traffic(task.traffic), "size_bytes": int(task.size_bytes)}
    return values


MOST_LANES = 32
"""Streams that a picture has room for; of more devices the first are shown."""
_COLOURS = {style.name: style.light for style in TASKS}


def step_drawing(timeline: Timeline, title: str, *, file_format: str = "png") -> bytes:
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
    lanes = tracks_of(timeline)[:MOST_LANES]
    places = {lane: place for place, lane in enumerate(lanes)}
    figure = new_plot(10.0, 1.6 + 0.4 * max(2, len(lanes)), file_format)
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
    return plot_bytes(figure, file_format)
