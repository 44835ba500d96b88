"""A step's timeline as a trace (fig. A.5) and as a plot: a track for each stream of each device."""

from __future__ import annotations

from collections.abc import Mapping

from treadle.traces.timed_lanes import Detail, Trace, TraceSpan, Track, lanes_apart, ticks
from treadle.traces.trace_files import check_event_count
from treadle.training.costs import format_traffic
from treadle.training.timeline.task import COMPUTE_STREAM, Category
from treadle.training.timeline.timeline import Timeline
from treadle.viz.matplotlib_plots import new_plot, plot_bytes
from treadle.viz.painting import TASKS


def step_trace(timeline: Timeline, about: Mapping[str, Detail]) -> Trace:
    """Return a trace of each device's streams; `about` describes the step: model, fabric, mesh.

    Raises ScheduleError if there are more events than viewers show.
    """
    check_event_count(len(timeline.tasks), "use fewer micro-batches")
    spans: dict[tuple[int, str], list[TraceSpan]] = {track: [] for track in tracks_of(timeline)}
    for place, task in enumerate(timeline.tasks):
        begin, end = ticks(float(timeline.starts[place])), ticks(float(timeline.ends[place]))
        values: dict[str, Detail] = {"task": place, "alone_s": float(task.seconds)}
        if task.traffic is not None:
            values |= {"communication": format_traffic(task.traffic), "size_bytes": int(task.size_bytes)}
        span = TraceSpan(task.name, begin, end, values, task.category.value)
        spans[task.device, task.stream].append(span)
    tracks: list[Track] = []
    for (device, stream), own in spans.items():
        tracks += lanes_apart(f"device {device}", stream, own)
    return Trace(tuple(tracks), about=about)


def tracks_of(timeline: Timeline) -> tuple[tuple[int, str], ...]:
    """Return devices and their streams, the compute stream of each first, the others in order of tasks."""
    found = dict.fromkeys((task.device, task.stream) for task in timeline.tasks)
    return tuple(sorted(found, key=lambda track: (track[0], track[1] != COMPUTE_STREAM)))


MOST_LANES = 32
"""Most streams in a plot, which has the first ones."""
_COLOURS = {style.name: style.light for style in TASKS}


def step_drawing(timeline: Timeline, title: str, *, file_format: str = "png") -> bytes:
    """Plot a row for each stream with a bar for each task, as png, svg or pdf.

    Raises ScheduleError for another format, and MissingDependencyError without matplotlib.
    """
    tracks = tracks_of(timeline)[:MOST_LANES]
    places = {track: place for place, track in enumerate(tracks)}
    figure = new_plot(10.0, 1.6 + 0.4 * max(2, len(tracks)), file_format)
    axes = figure.add_subplot()
    bars: dict[tuple[Category, int], list[tuple[float, float]]] = {}
    for place, task in enumerate(timeline.tasks):
        track = places.get((task.device, task.stream))
        begin, end = float(timeline.starts[place]) * 1e3, float(timeline.ends[place]) * 1e3
        if track is not None and end > begin:
            bars.setdefault((task.category, track), []).append((begin, end - begin))
    labelled: set[Category] = set()
    for (category, track), spans in bars.items():
        label = None if category in labelled else category.value
        labelled.add(category)
        axes.broken_barh(spans, (track + 0.1, 0.8), facecolors=_COLOURS[category.value], label=label)
    names = [f"{device}: {stream}" if len(timeline.devices) > 1 else stream for device, stream in tracks]
    axes.set_yticks([place + 0.5 for place in range(len(tracks))], names)
    axes.invert_yaxis()
    axes.set_xlim(0, float(timeline.total_s) * 1e3 or 1)
    axes.set_xlabel("time (ms)")
    axes.set_title(title, fontsize=9)
    if labelled:
        figure.legend(loc="outside lower center", ncols=min(9, len(labelled)), fontsize=7)
    return plot_bytes(figure, file_format)
