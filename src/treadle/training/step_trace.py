"""A step's timeline as a trace: a lane for each stream of each device (fig. A.5)."""

from __future__ import annotations

from collections.abc import Mapping

from treadle.traces.timed_lanes import Detail, Trace, TraceLane, TraceSpan, lanes_apart, ticks
from treadle.traces.trace_files import check_event_count
from treadle.training.costs import traffic_words
from treadle.training.timeline.task import COMPUTE_STREAM, Task
from treadle.training.timeline.timeline import Timeline


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
    spans: dict[tuple[int, str], list[TraceSpan]] = {lane: [] for lane in lanes_of(timeline)}
    for place, task in enumerate(timeline.tasks):
        begin, end = ticks(float(timeline.starts[place])), ticks(float(timeline.ends[place]))
        span = TraceSpan(task.name, begin, end, _about(place, task), task.category.value)
        spans[task.device, task.stream].append(span)
    lanes: list[TraceLane] = []
    for (device, stream), own in spans.items():
        lanes += lanes_apart(f"device {device}", stream, own)
    return Trace(tuple(lanes), about=about)


def lanes_of(timeline: Timeline) -> tuple[tuple[int, str], ...]:
    """Devices and their streams, the compute stream of each first, others as they begin."""
    found = dict.fromkeys((task.device, task.stream) for task in timeline.tasks)
    return tuple(sorted(found, key=lambda lane: (lane[0], lane[1] != COMPUTE_STREAM)))


def _about(place: int, task: Task) -> dict[str, Detail]:
    values: dict[str, Detail] = {"task": place, "alone_s": float(task.seconds)}
    if task.traffic is not None:
        values |= {"communication": traffic_words(task.traffic), "size_bytes": int(task.size_bytes)}
    return values
