"""Start and end of tasks, and the parts of a device's time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from treadle.brief import brief
from treadle.notebook import displayed, own_fields
from treadle.training.costs import Seconds, exact
from treadle.training.timeline.task import Category, Task


@displayed(own_fields)
@dataclass(frozen=True)
class DeviceTime:
    """Parts of a device's time from the first task's start to the last one's end.

    Parameters
    ----------
    compute_s : number
        Computation at full speed.
    contention_s : number
        Slowdown of computation by concurrent communication.
    exposed_s : mapping from Category to number
        Communication without computation, divided equally among concurrent streams.
    idle_s : number
        Neither computation nor communication.
    """

    compute_s: Seconds
    contention_s: Seconds
    exposed_s: Mapping[Category, Seconds]
    idle_s: Seconds


@brief("total_s", "tasks")
@dataclass(frozen=True)
class Timeline:
    """Start and end of every task.

    Parameters
    ----------
    tasks : tuple of Task
    starts, ends : tuple of numbers
        Seconds from 0, in the order of tasks.
    """

    tasks: tuple[Task, ...]
    starts: tuple[Seconds, ...]
    ends: tuple[Seconds, ...]

    @cached_property
    def total_s(self) -> Seconds:
        """End of the last task."""
        return max(self.ends, default=0)

    @cached_property
    def devices(self) -> tuple[int, ...]:
        """All devices with tasks."""
        return tuple(sorted({task.device for task in self.tasks}))

    def device_time(self, device: int) -> DeviceTime:
        """Return the parts of a device's time, by a sweep over starts and ends of its tasks, O(n log n)."""
        moments: list[tuple[Seconds, int, int]] = []
        compute: Seconds = 0
        for place, task in enumerate(self.tasks):
            if task.device == device and self.starts[place] < self.ends[place]:
                moments += [(self.starts[place], 1, place), (self.ends[place], 0, place)]
            if task.device == device and task.computes:
                compute += task.seconds
        exposed: dict[Category, Seconds] = {}
        running: dict[int, Category] = {}
        n_computing, busy, idle, before = 0, exact(0), exact(0), exact(0)
        for now, begins, place in [*sorted(moments), (self.total_s, 1, -1)]:
            if n_computing:
                busy += now - before
            elif not running:
                idle += now - before
            else:
                for category in running.values():
                    exposed[category] = exposed.get(category, 0) + (now - before) / len(running)
            before = now
            if place < 0:
                continue
            if self.tasks[place].computes:
                n_computing += 1 if begins else -1
            elif begins:
                running[place] = self.tasks[place].category
            else:
                del running[place]
        return DeviceTime(compute, busy - compute, exposed, idle)
