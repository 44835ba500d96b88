"""Runs tasks on streams: each starts when its stream is free and what it waits for has ended.

Event-driven. When a task starts or ends, only those of its device whose stretch changes get a new end,
at most one per stream: O(n log n) for n tasks on few streams. Numbers stay what they are: Fractions give
exact times.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from treadle.errors import ScheduleError
from treadle.training.costs import Seconds, exact
from treadle.training.timeline.contention import FREE, Contention
from treadle.training.timeline.task import Task
from treadle.training.timeline.timeline import Timeline


@dataclass(slots=True)
class _Stream:
    """A device's stream: what it is yet to run, and what it runs."""

    device: int
    waiting: deque[int] = field(default_factory=deque)
    urgent: deque[int] = field(default_factory=deque)
    running: int = -1


@dataclass(slots=True)
class _Progress:
    """A running task: the seconds of it that were left at a time, and its stretch since then."""

    left: Seconds
    since: Seconds
    stretch: Seconds
    version: int


class _Run:
    """The state of a run; `events` are (end, task, version), of which the latest version counts."""

    def __init__(self, tasks: Sequence[Task], contention: Contention) -> None:
        self.tasks, self.contention = tasks, contention
        self.starts: list[Seconds] = [0] * len(tasks)
        self.ends: list[Seconds] = [0] * len(tasks)
        self.n_waits = [len(set(task.waits_for)) for task in tasks]
        self.followers: list[list[int]] = [[] for _ in tasks]
        self.streams: dict[tuple[int, str], _Stream] = {}
        self.of_device: dict[int, list[_Stream]] = {}
        self.progress: dict[int, _Progress] = {}
        self.events: list[tuple[Seconds, int, int]] = []
        for place, task in enumerate(tasks):
            for other in set(task.waits_for):
                if not 0 <= other < len(tasks):
                    raise ScheduleError(f"task {task.name}: waits for task {other} of {len(tasks)}")
                self.followers[other].append(place)
            stream = self.streams.get((task.device, task.stream))
            if stream is None:
                stream = self.streams[task.device, task.stream] = _Stream(task.device)
                self.of_device.setdefault(task.device, []).append(stream)
            (stream.urgent if task.is_urgent else stream.waiting).append(place)

    def start(self, now: Seconds, streams: Iterable[_Stream]) -> set[int]:
        """Starts what can start on free streams; returns the devices where something did."""
        devices = set()
        for stream in streams:
            for queue in (stream.urgent, stream.waiting):
                if stream.running < 0 and queue and not self.n_waits[queue[0]]:
                    place = stream.running = queue.popleft()
                    self.starts[place] = now
                    self.progress[place] = _Progress(exact(self.tasks[place].seconds), now, 0, 0)
                    devices.add(stream.device)
        return devices

    def stretch(self, now: Seconds, device: int) -> None:
        """Gives a device's running tasks their new ends."""
        running = [stream.running for stream in self.of_device[device] if stream.running >= 0]
        stretches = self.contention.stretches([self.tasks[place] for place in running])
        for place, stretch in zip(running, stretches, strict=True):
            task = self.progress[place]
            if stretch != task.stretch:
                if task.stretch:
                    # Rounded numbers may leave less than nothing.
                    task.left = max(task.left - (now - task.since) / task.stretch, exact(0))
                task.since, task.stretch, task.version = now, stretch, task.version + 1
                heappush(self.events, (now + task.left * stretch, place, task.version))

    def end(self, now: Seconds) -> tuple[set[int], list[_Stream]]:
        """Ends all that end now; returns the devices, and the streams on which something may start."""
        devices: set[int] = set()
        touched: list[_Stream] = []
        while self.events and self.events[0][0] == now:
            _, place, version = heappop(self.events)
            if place not in self.progress or self.progress[place].version != version:
                continue
            task = self.tasks[place]
            del self.progress[place]
            self.ends[place] = now
            stream = self.streams[task.device, task.stream]
            stream.running = -1
            touched.append(stream)
            devices.add(task.device)
            for follower in self.followers[place]:
                self.n_waits[follower] -= 1
                if not self.n_waits[follower]:
                    other = self.tasks[follower]
                    touched.append(self.streams[other.device, other.stream])
        return devices, touched


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
    run = _Run(tasks, contention)
    now: Seconds = exact(0)
    for device in run.start(now, run.streams.values()):
        run.stretch(now, device)
    while run.events:
        now = run.events[0][0]
        devices, touched = run.end(now)
        for device in devices | run.start(now, touched):
            run.stretch(now, device)
    stuck = [place for place, n in enumerate(run.n_waits) if n]
    stuck += [place for stream in run.streams.values() for place in (*stream.urgent, *stream.waiting)]
    if stuck:
        task = tasks[min(stuck)]
        raise ScheduleError(
            f"task {task.name} never runs on stream {task.stream} of device {task.device}: what it waits for "
            "waits for it, or stands behind it"
        )
    return Timeline(tuple(tasks), tuple(run.starts), tuple(run.ends))
