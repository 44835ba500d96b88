"""Tasks on streams by walking from moment to moment, with a look at everything: slow, easy to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from treadle.training.timeline.task import Task


def walk(
    tasks: Sequence[Task],
    kappa: Fraction,
    slowdown: Callable[[list[Task], Task], Fraction],
) -> list[tuple[Fraction, Fraction]]:
    """Start and end of every task; `slowdown` of one of several communications of a device at once."""
    left = [Fraction(task.seconds) for task in tasks]
    starts: dict[int, Fraction] = {}
    ends: dict[int, Fraction] = {}
    now = Fraction(0)
    while len(ends) < len(tasks):
        for place in range(len(tasks)):
            if place not in starts and may_start(tasks, place, starts, ends):
                starts[place] = now
        running = [place for place in starts if place not in ends]
        assert running, "stuck"
        speeds = {}
        for place in running:
            beside = [tasks[other] for other in running if tasks[other].device == tasks[place].device]
            speeds[place] = 1 / stretch(tasks[place], beside, kappa, slowdown)
        step = min(left[place] / speeds[place] for place in running)
        now += step
        for place in running:
            left[place] -= step * speeds[place]
            if left[place] == 0:
                ends[place] = now
    return [(starts[place], ends[place]) for place in range(len(tasks))]


def may_start(
    tasks: Sequence[Task], place: int, starts: dict[int, Fraction], ends: dict[int, Fraction]
) -> bool:
    """Its stream is free, it is next there, and what it waits for has ended."""
    task = tasks[place]
    others = [
        other
        for other in range(len(tasks))
        if (tasks[other].device, tasks[other].stream) == (task.device, task.stream) and other != place
    ]
    if any(other in starts and other not in ends for other in others):
        return False
    before = [o for o in others if o < place and o not in starts and tasks[o].is_urgent == task.is_urgent]
    if before or any(other not in ends for other in task.waits_for):
        return False
    urgent = [o for o in others if tasks[o].is_urgent and o not in starts]
    overtakes = bool(urgent) and all(other in ends for other in tasks[min(urgent)].waits_for)
    return task.is_urgent or not overtakes


def stretch(
    task: Task, beside: list[Task], kappa: Fraction, slowdown: Callable[[list[Task], Task], Fraction]
) -> Fraction:
    """Times as long as alone, beside these of the same device and itself."""
    moving = [one for one in beside if one.stream != "compute"]
    factor = kappa if moving and len(moving) < len(beside) else Fraction(1)
    return factor * slowdown(moving, task) if task.stream != "compute" and len(moving) > 1 else factor
