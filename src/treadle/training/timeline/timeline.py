"""When tasks run, and what the time of a device goes to."""

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
    """A device's time from the first task's start to the last one's end, in parts that add up to it.

    Parameters
    ----------
    compute_s : number
        Seconds of its computations as they take alone.
    contention_s : number
        What they took longer because the device communicated meanwhile.
    exposed_s : mapping from Category to number
        Time in which it communicated and did not compute; where several streams did, each gets its share.
    idle_s : number
        Time in which it did neither.
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
        Seconds from 0, as many.
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
        """All that have tasks."""
        return tuple(sorted({task.device for task in self.tasks}))

    def device_time(self, device: int) -> DeviceTime:
        """What the time of a device goes to: a sweep over the ends of its tasks, O(n log n)."""
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
