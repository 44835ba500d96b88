"""Runs tasks on streams: each starts when its stream is free and what it waits for has ended.

Event-driven. When a task starts or ends, only those of its device whose stretch changes get a new end,
at most one per stream: O(n log n) for n tasks on few streams. Numbers stay what they are: Fractions give
exact times.
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
    """Time of every task.

    Parameters
    ----------
    tasks : sequence of Task
        In the order in which they are issued to their streams.
    contention : Contention
        What running at once costs.

    Returns
    -------
    Timeline
        At each moment, first all that ends then frees its stream, then streams start what they can.

    Raises
    ------
    ScheduleError
        If tasks wait for each other, in a circle or by the order of their streams: the first that never runs.

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
    """By stream what is yet to run: urgent tasks, and others."""
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
    """By running task the seconds that were left at a time, that time, its stretch since, and a version."""
    events: list[tuple[Seconds, int, int]] = []
    """(end, task, version), of which the latest version counts."""

    def start(now: Seconds, streams: Iterable[_Stream]) -> set[int]:
        """Start what can start on free streams; return the devices where something did."""
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
        """Give a device's running tasks their new ends."""
        places = [running[stream] for stream in of_device[device] if stream in running]
        stretches = contention.stretches([tasks[place] for place in places])
        for place, factor in zip(places, stretches, strict=True):
            left, since, before, version = progress[place]
            if factor != before:
                if before:
                    # Rounded numbers may leave less than nothing.
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
    stuck = [place for place, n in enumerate(n_waits) if n]
    stuck += [place for pair in queues.values() for queue in pair for place in queue]
    if stuck:
        task = tasks[min(stuck)]
        raise ScheduleError(
            f"task {task.name} never runs on stream {task.stream} of device {task.device}: what it waits for "
            "waits for it, or stands behind it"
        )
    return Timeline(tuple(tasks), tuple(starts), tuple(ends))
