"""What to say of a program that stops half-way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from treadle.errors import ScheduleError
from treadle.runtime.order import describe
from treadle.simulation.tasks import TaskGraph


def deadlock_error(graph: TaskGraph, start: NDArray[np.int64] | NDArray[np.float64], n: int) -> ScheduleError:
    """One line on the `n` tasks that never start; `start` is negative at those, shape (slices * tasks,)."""
    first = int(np.flatnonzero(start < 0)[0])
    operation = int(graph.operation[first % graph.n_tasks])
    return ScheduleError(
        f"simulation: deadlock: {n} of {start.size} messages and operations never start, the first is "
        f"{describe(graph.program, operation)}; expected dependences without circles"
    )
