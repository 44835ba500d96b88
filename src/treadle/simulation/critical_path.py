"""The chain of messages and waits that a simulation's time is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.errors import ScheduleError
from treadle.program.program import OperationKind
from treadle.simulation.result import Simulation
from treadle.spelling import counted


@dataclass(frozen=True)
class CriticalStep:
    """A task on the critical path.

    Parameters
    ----------
    operation : int
        Of the program.
    slice_number : int
    resource : int
        Link, or a capped host's port; -1: none.
    start, held : Fraction
        Seconds.
    waited_for_resource : bool
        Its link was busy with the step before; otherwise the step before brought what it needed.
    """

    operation: int
    slice_number: int
    resource: int
    start: Fraction
    held: Fraction
    waited_for_resource: bool


@dataclass(frozen=True)
class CriticalPath:
    """What bounds the time: each step starts when the one before lets it.

    Parameters
    ----------
    steps : tuple of CriticalStep
        By time.
    total : Fraction
        Seconds, of the whole simulation.
    resource_s : mapping of int to Fraction
        Seconds for which the path holds each link or port; times at which two of its steps overlap
        (cut-through) count once.
    """

    steps: tuple[CriticalStep, ...]
    total: Fraction
    resource_s: Mapping[int, Fraction]

    @property
    def latency(self) -> Fraction:
        """Seconds of the total in which the path holds no link: latencies, sums, and the launch."""
        return self.total - sum(self.resource_s.values(), Fraction(0))


def critical_path(simulation: Simulation) -> CriticalPath:
    """Follow the last task back through what each start waited for last.

    Parameters
    ----------
    simulation : Simulation
        Made with `with_binding`.

    Raises
    ------
    ScheduleError
        If the simulation kept no such record.

    Notes
    -----
    There may be other paths of the same length.
    """
    if not simulation.binding.size:
        raise ScheduleError("critical path: the simulation kept no record of waits; run it with_binding")
    graph, tick = simulation.graph, simulation.tick_s
    binding, start = simulation.binding.ravel(), simulation.start.ravel()
    held = np.broadcast_to(simulation.held, simulation.start.shape).ravel()
    items = [simulation.last]
    while binding[items[-1]] >= 0:
        items.append(int(binding[items[-1]]))
    steps: list[CriticalStep] = []
    on_path: dict[int, Fraction] = {}
    covered = 0
    for before, item in zip([-1, *items[:0:-1]], items[::-1], strict=True):
        task = item % graph.n_tasks
        resource = int(graph.resource[task])
        same = before >= 0 and graph.resource[before % graph.n_tasks] == resource
        begin, end = int(start[item]), int(start[item] + held[item])
        steps.append(
            CriticalStep(
                int(graph.operation[task]),
                item // graph.n_tasks,
                resource,
                begin * tick,
                (end - begin) * tick,
                bool(resource >= 0 and same and int(start[before] + held[before]) == begin),
            )
        )
        if resource >= 0:
            on_path[resource] = on_path.get(resource, Fraction(0)) + max(0, end - max(begin, covered)) * tick
            covered = max(covered, end)
    return CriticalPath(tuple(steps), simulation.time, on_path)


def describe_path(simulation: Simulation, path: CriticalPath, *, most: int = 3) -> tuple[str, ...]:
    """The critical path in a few lines: the links that hold it longest, and what is left.

    Parameters
    ----------
    simulation : Simulation
    path : CriticalPath
        Of that simulation.
    most : int
        Links to name.
    """
    graph = simulation.graph
    sends = [step for step in path.steps if step.resource >= 0]
    kinds = graph.program.operation_kind
    n_sends = len({(s.operation, s.slice_number) for s in sends if kinds[s.operation] == OperationKind.SEND})
    ranked = sorted(path.resource_s.items(), key=lambda entry: (-entry[1], entry[0]))
    total = path.total or Fraction(1)
    lines = [f"{counted(n_sends, 'message')} over {counted(len(ranked), 'link')} one after another"]
    lines += [
        f"{float(seconds / total):6.1%}  {graph.resource_name(resource)}"
        for resource, seconds in ranked[:most]
    ]
    rest = sum((seconds for _, seconds in ranked[most:]), Fraction(0))
    if len(ranked) > most:
        lines.append(f"{float(rest / total):6.1%}  {len(ranked) - most} more")
    lines.append(f"{float(path.latency / total):6.1%}  latency")
    return tuple(lines)
