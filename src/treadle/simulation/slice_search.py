"""Search for the best number of slices, protocol and form of messages at a size, for all commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from math import inf, isqrt, log2, nextafter

import numpy as np
from numpy.typing import NDArray

from treadle.simulation.clock import Clock
from treadle.simulation.costs.link_classes import CLASSES
from treadle.simulation.costs.message_prices import prices
from treadle.simulation.messages import seconds_below
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulation_options import LatencyModel, Sharing, SimulationOptions
from treadle.simulation.tasks import TaskGraph

MAX_AUTO_SLICES = 64
MAX_AUTO_TASKS = 2**19
"""Largest number of tasks of a trial: a few tenths of a second of CPU time."""


class SliceLimit(StrEnum):
    """Limit that kept more slices from being tried, though one more doubling might have helped.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.value for one in planning.SliceLimit]
    ['least slice', 'most slices', 'messages']
    """

    LEAST_SLICE = "least slice"
    """The smallest message would be cut into parts below `least_slice_bytes`."""
    MOST_SLICES = "most slices"
    """`MAX_AUTO_SLICES`."""
    MESSAGES = "messages"
    """`MAX_AUTO_TASKS`: a trial would take too long."""


def slices_at_most(
    graph: TaskGraph, size_bytes: int, options: SimulationOptions, most_tasks: int | None = None
) -> int:
    """Return the most slices, a power of two, that a trial at a size may have; see `slice_limit`."""
    slices, most = 1, MAX_AUTO_TASKS if most_tasks is None else most_tasks
    while slice_limit(graph, size_bytes, options, 2 * slices, most) is None:
        slices *= 2
    return slices


def slice_limit(
    graph: TaskGraph, size_bytes: int, options: SimulationOptions, slices: int, most_tasks: int
) -> SliceLimit | None:
    """Return the limit that a number of slices (a power of two) exceeds, if any."""
    smallest = int(graph.chunks[graph.resource >= 0].min(initial=graph.program.n_chunks))
    if smallest * size_bytes < options.least_slice_bytes * slices * graph.program.n_chunks:
        return SliceLimit.LEAST_SLICE
    if slices > MAX_AUTO_SLICES:
        return SliceLimit.MOST_SLICES
    return SliceLimit.MESSAGES if slices * graph.n_tasks > most_tasks else None


@dataclass(frozen=True)
class Trial:
    """A choice of slices, protocol and form for a size, and its time.

    Parameters
    ----------
    slices : int
    protocol : int
        Index of the variant of the options.
    form : int
        0: separate messages; 1: those of a step from a rank to another are merged.
    seconds : float
    """

    slices: int
    protocol: int
    form: int
    seconds: float = inf

    def bar(self, other: Trial) -> float:
        """Return the time below which another trial is better; of equal times, the first choice wins."""
        own, its = (self.slices, self.protocol, self.form), (other.slices, other.protocol, other.form)
        return self.seconds if own < its else nextafter(self.seconds, inf)


class SliceSearch:
    """A program under options, for trials at sizes.

    Parameters
    ----------
    graph : TaskGraph
    variants : sequence of SimulationOptions
        One for each protocol; their number of slices does not matter.
    most_tasks : int
        Largest number of tasks of a trial.
    """

    def __init__(self, graph: TaskGraph, variants: Sequence[SimulationOptions], most_tasks: int) -> None:
        self.graph, self.variants, self._most_tasks = graph, tuple(variants), most_tasks

    @cached_property
    def graphs(self) -> tuple[TaskGraph, ...]:
        """Tasks of the program by form; two if merging may save time on links (`TaskGraph.coalesced`)."""
        holds_links = any(  # for a time that does not depend on a message's size
            one.latency_model is LatencyModel.PER_MESSAGE
            or (one.costs is not None and any(one.costs.of(kind).occupancy_ns for kind in CLASSES))
            for one in self.variants
        )
        if not holds_links or self.graph.coalesced is self.graph:
            return (self.graph,)
        return (self.graph, self.graph.coalesced)

    @cached_property
    def _loads(self) -> tuple[tuple[_Loads, ...], ...]:
        """Loads of links, by form and by protocol."""
        return tuple(tuple(_loads_of(graph, options) for options in self.variants) for graph in self.graphs)

    @cached_property
    def _clocks(self) -> tuple[tuple[Clock, ...], ...]:
        """Costs of tasks, by form and by protocol."""
        return tuple(tuple(Clock(graph, options) for options in self.variants) for graph in self.graphs)

    def floor(self, size_bytes: int) -> float:
        """Return a lower bound on the busiest link's time, seconds."""
        return min(loads.busy(size_bytes) for loads in self._loads[-1])

    def fastest(self, size_bytes: int, limit_s: float = inf, *, near: Sequence[int] = ()) -> Trial | None:
        """Return the fastest of all trials at a size if it is below a limit, else None.

        Tries all powers of two as numbers of slices, all protocols and forms. A trial whose links alone take
        as long as the best so far is skipped, and a simulation ends once it cannot beat it. Of equal times
        the fewest slices win, then the first protocol, then separate messages.

        `near` are the best slices at neighbouring sizes, negative if messages were merged. They only decide
        what is tried first.
        """
        best: Trial | None = None
        for trial in self._in_order(size_bytes, near):
            bar = limit_s if best is None else best.bar(trial)
            if self._loads[trial.form][trial.protocol].busy(size_bytes, trial.slices) >= bar:
                continue
            options = replace(self.variants[trial.protocol], slices=trial.slices)
            seconds: float | None
            if options.sharing is Sharing.FAIR:
                seconds = float(simulate_graph(self.graphs[trial.form], size_bytes, options).time)
            else:
                seconds = seconds_below(self._clocks[trial.form][trial.protocol], size_bytes, options, bar)
            if seconds is not None and seconds < bar:
                best = replace(trial, seconds=seconds)
        return best

    def _in_order(self, size_bytes: int, near: Sequence[int]) -> list[Trial]:
        """Return the possible trials at a size, first those similar to the best at neighbouring sizes."""
        trials = []
        for protocol, options in enumerate(self.variants):
            for form, graph in enumerate(self.graphs):
                most = min(MAX_AUTO_SLICES, slices_at_most(graph, size_bytes, options, self._most_tasks))
                trials += [Trial(2**digit, protocol, form) for digit in range(most.bit_length())]
        hint = isqrt(abs(near[0] * near[-1])) if near else 1
        forms = {int(one < 0) for one in near}
        return sorted(
            trials,
            key=lambda one: (abs(log2(one.slices / hint)), one.form not in forms, one.protocol, one.slices),
        )


@dataclass(frozen=True, eq=False)
class _Loads:
    """Loads of resources: seconds for which each is held without bytes, and seconds per byte."""

    launch: float
    held: NDArray[np.float64]
    per_byte: NDArray[np.float64]

    def busy(self, size: int, slices: int = 1) -> float:
        """Return a lower bound on the busiest link's time, seconds, with a margin for rounding."""
        longest = float((self.held * slices + self.per_byte * size).max(initial=0.0))
        return self.launch + longest * (1 - 1e-9)


def _loads_of(graph: TaskGraph, options: SimulationOptions) -> _Loads:
    priced = prices(graph, options)
    onto = np.flatnonzero(graph.resource >= 0)
    resource = graph.resource[onto]
    occupied = priced.occupancy_ns[graph.operation[onto]] * graph.pays_alpha[onto]
    held = np.bincount(resource, occupied, graph.n_resources) / 1e9
    chunks = np.bincount(resource, graph.chunks[onto], graph.n_resources)
    per_byte = chunks / graph.program.n_chunks / np.maximum(priced.resource_bytes_per_s, 1)
    launch = 0.0 if options.costs is None else options.costs.launch_ns / 1e9
    return _Loads(launch, held, per_byte)
