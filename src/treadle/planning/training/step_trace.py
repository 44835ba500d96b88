"""A step's timeline for Chrome's and Perfetto's viewers: a lane for each stream of each device (fig. A.5)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from treadle.errors import ScheduleError
from treadle.training.costs import traffic_words
from treadle.training.timeline.task import COMPUTE_STREAM, Task
from treadle.training.timeline.timeline import Timeline

MOST_EVENTS = 10**6
"""Viewers fail beyond; about 150 bytes each."""


def step_trace(timeline: Timeline, about: Mapping[str, object]) -> str:
    """JSON in the Trace Event Format: complete events (``"ph": "X"``) in microseconds.

    Parameters
    ----------
    timeline : Timeline
    about : mapping
        What is said of the whole: model, fabric, mesh.

    Raises
    ------
    ScheduleError
        If there are more events than viewers show; a trace with a part missing would mislead.
    """
    if len(timeline.tasks) > MOST_EVENTS:
        raise ScheduleError(
            f"trace: {len(timeline.tasks)} events, expected at most {MOST_EVENTS}; use fewer micro-batches"
        )
    lanes = {lane: place for place, lane in enumerate(lanes_of(timeline))}
    events = [_named("process_name", device, None, f"device {device}") for device in timeline.devices]
    events += [_named("thread_name", device, place, stream) for (device, stream), place in lanes.items()]
    for place, task in enumerate(timeline.tasks):
        begin, end = float(timeline.starts[place]), float(timeline.ends[place])
        events.append(
            {
                "name": task.name,
                "cat": task.category.value,
                "ph": "X",
                "pid": task.device,
                "tid": lanes[task.device, task.stream],
                "ts": round(begin * 1e6, 6),
                "dur": round((end - begin) * 1e6, 6),
                "args": _about(place, task),
            }
        )
    body = ",\n".join(json.dumps(event, separators=(",", ":"), allow_nan=False) for event in events)
    head = json.dumps(dict(about), allow_nan=False)
    return f'{{"displayTimeUnit":"ms","otherData":{head},"traceEvents":[\n{body}\n]}}\n'


def lanes_of(timeline: Timeline) -> tuple[tuple[int, str], ...]:
    """Devices and their streams, the compute stream of each first, others as they begin."""
    found = dict.fromkeys((task.device, task.stream) for task in timeline.tasks)
    return tuple(sorted(found, key=lambda lane: (lane[0], lane[1] != COMPUTE_STREAM)))


def _named(what: str, process: int, thread: int | None, name: str) -> dict[str, object]:
    lane = {} if thread is None else {"tid": thread}
    return {"name": what, "ph": "M", "pid": process, **lane, "args": {"name": name}}


def _about(place: int, task: Task) -> dict[str, object]:
    values: dict[str, object] = {"task": place, "alone_s": float(task.seconds)}
    if task.traffic is not None:
        values |= {"communication": traffic_words(task.traffic), "size_bytes": int(task.size_bytes)}
    return values
