"""Runs tasks on streams: each starts when its stream is free and the tasks it waits for have ended.

Event-driven. When a task starts or ends, only tasks of its device whose slowdown changes get a new end, at
most one per stream: O(n log n) for n tasks on few streams. Fractions give exact times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

from treadle.errors import ScheduleError
from treadle.training.costs import Seconds, exact
from treadle.training.timeline.contention import FREE, Contention
from treadle.training.timeline.task import Task
from treadle.training.timeline.timeline import Timeline

_Stream = tuple[int, str]
"""A device and the name of one of its streams."""


def run_tasks(tasks: Sequence[Task], contention: Contention = FREE) -> Timeline:
    """Compute the start and end of every task.

    At each time, first all ending tasks free their streams, then streams start the tasks that they can.

    Parameters
    ----------
    tasks : sequence of Task
        In the order of issue to their streams.
    contention : Contention
        Costs of overlap.

    Raises
    ------
    ScheduleError
        If tasks wait for each other, in a cycle or by the order of their streams; names the first that never
        runs.

    Examples
    --------
    >>> from treadle.training.timeline.task import Category
    >>> first = Task("a", 0, "compute", 2, (), Category.FORWARD)
    >>> moved = Task("b", 0, "communication", 3, (0,), Category.ALLREDUCE)
    >>> second = Task("c", 0, "compute", 4, (), Category.FORWARD)
    >>> run_tasks([first, moved, second], Contention(2)).ends
    (Fraction(2, 1), Fraction(8, 1), Fraction(9, 1))
    """
    starts: list[Seconds] = [0] * len(tasks)
    ends: list[Seconds] = [0] * len(tasks)
    n_waits = [len(set(task.waits_for)) for task in tasks]
    followers: list[list[int]] = [[] for _ in tasks]
    stream_of = [(task.device, task.stream) for task in tasks]
    queues: dict[_Stream, tuple[deque[int], deque[int]]] = {}
    """Tasks by stream that have not begun: urgent ones, and others."""
    for place, task in enumerate(tasks):
        for other in set(task.waits_for):
            if not 0 <= other < len(tasks):
                raise ScheduleError(f"task {task.name}: waits for task {other} of {len(tasks)}")
            followers[other].append(place)
        urgent, waiting = queues.setdefault(stream_of[place], (deque(), deque()))
        (urgent if task.is_urgent else waiting).append(place)
    of_device: dict[int, list[_Stream]] = {}
    for stream in queues:
        of_device.setdefault(stream[0], []).append(stream)
    running: dict[_Stream, int] = {}
    progress: dict[int, tuple[Seconds, Seconds, Seconds, int]] = {}
    """Remaining seconds of running tasks at a time, that time, their slowdown since, and a version."""
    events: list[tuple[Seconds, int, int]] = []
    """(end, task, version); only the latest version is valid."""

    def start(now: Seconds, streams: Iterable[_Stream]) -> set[int]:
        """Start tasks on free streams; return the devices with new tasks."""
        devices = set()
        for stream in streams:
            for queue in queues[stream]:
                if stream not in running and queue and not n_waits[queue[0]]:
                    place = running[stream] = queue.popleft()
                    starts[place] = now
                    progress[place] = exact(tasks[place].seconds), now, 0, 0
                    devices.add(stream[0])
        return devices

    def stretch(now: Seconds, device: int) -> None:
        """Update the ends of a device's running tasks."""
        places = [running[stream] for stream in of_device[device] if stream in running]
        stretches = contention.stretches([tasks[place] for place in places])
        for place, factor in zip(places, stretches, strict=True):
            left, since, before, version = progress[place]
            if factor != before:
                if before:
                    # rounding may leave a negative rest
                    left = max(left - (now - since) / before, exact(0))
                progress[place] = left, now, factor, version + 1
                heappush(events, (now + left * factor, place, version + 1))

    now: Seconds = exact(0)
    for device in start(now, queues):
        stretch(now, device)
    while events:
        now = events[0][0]
        devices: set[int] = set()
        touched: list[_Stream] = []
        while events and events[0][0] == now:
            _, place, version = heappop(events)
            if place not in progress or progress[place][3] != version:
                continue
            del progress[place], running[stream_of[place]]
            ends[place] = now
            touched.append(stream_of[place])
            devices.add(stream_of[place][0])
            for follower in followers[place]:
                n_waits[follower] -= 1
                if not n_waits[follower]:
                    touched.append(stream_of[follower])
        for device in devices | start(now, touched):
            stretch(now, device)
    blocked = [place for pair in queues.values() for queue in pair for place in queue]
    if blocked:
        task = tasks[min(blocked)]
        raise ScheduleError(
            f"task {task.name} never runs on stream {task.stream} of device {task.device}: a task that it "
            "waits for waits for it, or is queued behind it"
        )
    return Timeline(tuple(tasks), tuple(starts), tuple(ends))
