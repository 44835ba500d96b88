"""The critical path of a simulation: the chain of messages and waits that determines its time."""

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
        Index in the program.
    slice_number : int
    resource : int
        Link, or the port of a host with a cap; -1: none.
    start, held : Fraction
        Seconds.
    waited_for_resource : bool
        Its link was busy with the step before; otherwise the step before brought its input.
    """

    operation: int
    slice_number: int
    resource: int
    start: Fraction
    held: Fraction
    waited_for_resource: bool


@dataclass(frozen=True)
class CriticalPath:
    """Steps of which each starts as soon as the one before permits.

    Parameters
    ----------
    steps : tuple of CriticalStep
        By time.
    total : Fraction
        Seconds of the entire simulation.
    resource_s : mapping of int to Fraction
        Seconds for which the path holds each link or port. Time in which two steps overlap (cut-through)
        counts once.
    """

    steps: tuple[CriticalStep, ...]
    total: Fraction
    resource_s: Mapping[int, Fraction]

    @property
    def latency(self) -> Fraction:
        """Seconds in which the path holds no link: latencies, additions, and the launch."""
        return self.total - sum(self.resource_s.values(), Fraction(0))


def critical_path(simulation: Simulation) -> CriticalPath:
    """Follow the last task back through the tasks that each start waited for last.

    Other paths may be as long. Raises ScheduleError unless the simulation ran with `with_binding`.
    """
    if not simulation.binding.size:
        raise ScheduleError("critical path: the simulation has no record of waits; run it with_binding")
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
    """Return the critical path in a few lines: the `most` links that hold it longest, and the rest."""
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
