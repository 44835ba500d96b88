"""The best number of slices, protocol and form of messages at a size: the one search of all commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from treadle.simulation.slice_limits import MAX_AUTO_SLICES, slices_at_most
from treadle.simulation.tasks import TaskGraph


@dataclass(frozen=True)
class Trial:
    """A way to run a program at a size, and what it took.

    Parameters
    ----------
    slices : int
    protocol : int
        Place among the variants of the options.
    form : int
        0: messages one by one; 1: those of a step from a rank to another as one.
    seconds : float
    """

    slices: int
    protocol: int
    form: int
    seconds: float = inf

    def bar(self, other: Trial) -> float:
        """What another has to be below to be taken instead."""
        mine, its = (self.slices, self.protocol, self.form), (other.slices, other.protocol, other.form)
        return self.seconds if mine < its else nextafter(self.seconds, inf)


class SliceSearch:
    """A program under options, for trials at sizes.

    Parameters
    ----------
    graph : TaskGraph
    variants : sequence of SimulationOptions
        Of each protocol; their number of slices does not matter.
    most_tasks : int
        Of one trial.

    Notes
    -----
    Forms are two where messages hold links for a time of their own and some step has several from a rank to
    another (`TaskGraph.coalesced`), else one.
    """

    def __init__(self, graph: TaskGraph, variants: Sequence[SimulationOptions], most_tasks: int) -> None:
        self.graph, self.variants, self._most_tasks = graph, tuple(variants), most_tasks

    @cached_property
    def graphs(self) -> tuple[TaskGraph, ...]:
        """The program's tasks, by form."""
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
        """What links have to carry, by form and by protocol."""
        return tuple(tuple(_loads_of(graph, options) for options in self.variants) for graph in self.graphs)

    @cached_property
    def _clocks(self) -> tuple[tuple[Clock, ...], ...]:
        """Costs of tasks, likewise."""
        return tuple(tuple(Clock(graph, options) for options in self.variants) for graph in self.graphs)

    def floor(self, size_bytes: int) -> float:
        """Seconds that the busiest link takes at least."""
        return min(loads.busy(size_bytes) for loads in self._loads[-1])

    def fastest(self, size_bytes: int, limit_s: float = inf, *, near: Sequence[int] = ()) -> Trial | None:
        """The fastest of all trials at a size if it is below a limit, else None.

        Parameters
        ----------
        size_bytes : int
        limit_s : float
            Seconds.
        near : sequence of int
            Slices that were best at sizes around, with the form in the sign: negative, as one. They decide
            what is tried first and nothing else.

        Notes
        -----
        All powers of two are tried as numbers of slices, all protocols and forms; what its links alone keep
        as long as the best so far is not simulated, and simulations end when they cannot beat it. Of equal
        times the fewest slices count, then the first protocol, then messages one by one.
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
        """What may be tried at a size: first what is like the best of the sizes around."""
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
    """What resources have to carry: seconds each is held, bytes aside, and seconds per byte."""

    launch: float
    held: NDArray[np.float64]
    per_byte: NDArray[np.float64]

    def busy(self, size: int, slices: int = 1) -> float:
        """Seconds until the link that is busy for longest has carried everything; rounding is left aside."""
        whole = float((self.held * slices + self.per_byte * size).max(initial=0.0))
        return self.launch + whole * (1 - 1e-9)


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
