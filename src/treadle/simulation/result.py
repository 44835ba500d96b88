"""Result of a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.brief import brief
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.tasks import TaskGraph


@brief("graph", "size_bytes", "is_exact")
@dataclass(frozen=True, eq=False)
class Simulation:
    """Times of a program's tasks on a fabric at one size.

    Parameters
    ----------
    graph : TaskGraph
        The tasks of one slice.
    size_bytes : int
    options : SimulationOptions
    tick_s : Fraction
        Seconds; the unit of all times here.
    is_exact : bool
        The times are exactly the model's.
    finish : int
        End of the last task and of the latency after it.
    last : int
        A task that ends last: slice * tasks + task.
    start : array of int64, shape (slices, tasks)
        Start of each task.
    held : array of int64, shape (tasks,) or (slices, tasks)
        Duration of each task.
    busy : array of int64, shape (resources,)
        Busy time of each link and each port of a host with a cap; under fair sharing, as if messages came one
        at a time.
    binding : array of int64, shape (slices, tasks), or (0, 0)
        The task that each start waited for last, -1 for none; empty unless it was recorded.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring(4, bandwidth='25GB/s')", "allgather")
    >>> simulation = treadle.simulate(plan, "1M").last
    >>> f"{float(simulation.finish * simulation.tick_s) * 1e6:.1f} us", simulation.is_exact
    ('17.4 us', True)
    """

    graph: TaskGraph
    size_bytes: int
    options: SimulationOptions
    tick_s: Fraction
    is_exact: bool
    finish: int
    last: int
    start: Int64Array
    held: Int64Array
    busy: Int64Array
    binding: Int64Array

    @property
    def time(self) -> Fraction:
        """Seconds, the launch included; exactly the model's if `is_exact`."""
        return self.launch + self.finish * self.tick_s

    @property
    def launch(self) -> Fraction:
        """Seconds before the first message."""
        return Fraction(self.options.costs.launch_ns if self.options.costs else 0, 10**9)

    @property
    def time_s(self) -> float:
        """Seconds."""
        return float(self.time)

    @property
    def algbw_bytes_per_s(self) -> float:
        """Size over time; 0 where no time passes."""
        return self.size_bytes / self.time_s if self.time else 0.0

    @property
    def n_transfers(self) -> int:
        """Messages over links, every link and slice counted."""
        return int(np.count_nonzero(self.graph.resource >= 0)) * self.options.slices

    @property
    def utilisation(self) -> NDArray[np.float64]:
        """Share of the time after the launch for which each resource was busy, shape (resources,)."""
        return self.busy / max(1, self.finish)

    @property
    def end(self) -> Int64Array:
        """End of each task, shape (slices, tasks)."""
        return self.start + self.held

    def operation_spans(self) -> tuple[Int64Array, Int64Array]:
        """Return the first start and last end of each operation, ticks, shape (operations,) each.

        A send ends when its last byte has left the last link of its path, before latencies that hold no link.
        """
        n, own = self.graph.program.n_operations, ~self.graph.is_aside
        begin = np.full(n, np.iinfo(np.int64).max, dtype=np.int64)
        end = np.zeros(n, dtype=np.int64)
        np.minimum.at(begin, self.graph.operation[own], self.start[:, own].min(axis=0))
        np.maximum.at(end, self.graph.operation[own], self.end[:, own].max(axis=0))
        return begin, end
