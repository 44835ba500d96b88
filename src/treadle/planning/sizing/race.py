"""Candidates timed over sizes, those that cannot win a size left out of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isqrt, sqrt

import numpy as np
from numpy.typing import NDArray

from treadle.errors import TreadleError
from treadle.planning.problem import Problem
from treadle.program.any_schedule import lower_groups
from treadle.schedules.schedule import Schedule
from treadle.simulation.costs.cost_model import CostModel, LinkClass
from treadle.simulation.costs.link_classes import CLASSES, link_classes
from treadle.simulation.costs.message_prices import prices, protocol_options
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulated_sizes import MAX_AUTO_SLICES, slices_at_most
from treadle.simulation.simulation_options import SimulationOptions, default_alpha_ns
from treadle.simulation.tasks import TaskGraph, task_graph
from treadle.verification.violations import Report
from treadle.watch import UNWATCHED, Watch

MOST_TASKS = 2**19
"""Of one trial of a number of slices, as `simulate` has it."""


@dataclass(frozen=True)
class TimedSize:
    """A candidate at a size.

    Parameters
    ----------
    seconds : float
    slices : int
    protocol : str
        Of the cost model; "" without one.
    is_bundled : bool
        Messages of one step from a rank to another are one.
    """

    seconds: float
    slices: int
    protocol: str
    is_bundled: bool


@dataclass(frozen=True)
class RaceRules:
    """What all candidates are timed under.

    Parameters
    ----------
    problem : Problem
    cost_model : CostModel, optional
        Default: one alpha, as `simulate` has it.
    most_tasks : int
        Of one trial of a number of slices.
    """

    problem: Problem
    cost_model: CostModel | None = None
    most_tasks: int = MOST_TASKS

    @cached_property
    def variants(self) -> tuple[SimulationOptions, ...]:
        """The simulation's options under each protocol."""
        alpha_ns = 0 if self.cost_model is not None else default_alpha_ns(self.problem.topology)
        return protocol_options(SimulationOptions(alpha_ns=alpha_ns), self.cost_model)

    @cached_property
    def least_alpha_s(self) -> float:
        """No message takes less, bytes aside."""
        present = {CLASSES[number] for number in np.unique(link_classes(self.problem.topology)).tolist()}
        return min(_least_alpha(one, present) for one in self.variants)


def _least_alpha(options: SimulationOptions, present: set[LinkClass]) -> float:
    costs = options.costs
    if costs is None:
        return options.alpha_ns / 1e9
    return min(costs.of(one).alpha_ns + costs.of(one).occupancy_ns for one in present) / 1e9


class Racer:
    """A verified schedule, timed at sizes as they are asked for.

    Parameters
    ----------
    rules : RaceRules
    algorithm, options : str
        Its scheduler, and what that was told, in words.
    schedule : Schedule
    report : Report
        Of the verifier.
    baseline : str
        Its title where it is what people have without Treadle; else "".
    """

    def __init__(
        self,
        rules: RaceRules,
        algorithm: str,
        options: str,
        schedule: Schedule,
        report: Report,
        *,
        baseline: str = "",
    ) -> None:
        self.rules, self.algorithm, self.options = rules, algorithm, options
        self.schedule, self.report, self.baseline = schedule, report, baseline
        self.times: dict[int, TimedSize] = {}
        self.trials = 0
        self.refusal = ""

    @property
    def title(self) -> str:
        """Scheduler and options."""
        return f"{self.algorithm} {self.options}".strip()

    def under(self, rules: RaceRules) -> Racer:
        """The same schedule under other rules, its tasks shared."""
        other = Racer(
            rules,
            self.algorithm,
            self.options,
            self.schedule,
            self.report,
            baseline=self.baseline,
        )
        other.__dict__["graph"], other.__dict__["graphs"] = self.graph, self.graphs
        return other

    @cached_property
    def graph(self) -> TaskGraph:
        """Its tasks."""
        problem = self.rules.problem
        programs = lower_groups(problem.topology, problem.collective, self.schedule)
        return task_graph(problem.topology, programs.lists)

    @cached_property
    def graphs(self) -> tuple[TaskGraph, ...]:
        """Its tasks message by message, and with messages of a step in one if that differs."""
        bundled = self.graph.bundled
        return (self.graph,) if bundled is self.graph else (self.graph, bundled)

    def is_able(self) -> bool:
        """Whether there is a program of it, which is made here; if not, `refusal` says why."""
        if not self.refusal:
            try:
                _ = self.graph
            except TreadleError as error:
                self.refusal = str(error)
        return not self.refusal

    def floor(self, size_bytes: int) -> float:
        """Seconds that it takes at least at a size, as far as is known; before it is lowered little is."""
        if self.refusal:
            return inf
        least = self._rough(size_bytes)
        for size, timed in self.times.items():
            share = min(1.0, size_bytes / size)  # twice the bytes take twice the time at most, never less
            least = max(least, timed.seconds * share)
        if "graph" in self.__dict__:
            least = max(least, min(_busy(size_bytes, *loads) for loads in self._loads))
        return least

    def _rough(self, size_bytes: int) -> float:
        algbw, height = self.report.algbw, self.report.height_max
        if algbw is None or height is None:  # steps need not wait for one another
            return 0.0
        return max(size_bytes / float(algbw), height * self.rules.least_alpha_s)

    @cached_property
    def _loads(self) -> tuple[tuple[float, NDArray[np.float64], NDArray[np.float64]], ...]:
        """Per protocol the launch, and per resource the seconds it is held, bytes aside, and per byte."""
        return tuple(_loads_of(self.graphs[-1], options) for options in self.rules.variants)

    def time(self, size_bytes: int, watch: Watch = UNWATCHED) -> TimedSize:
        """The time at a size: the best number of slices and protocol."""
        if size_bytes not in self.times:
            found = [self._under(options, size_bytes, watch) for options in self.rules.variants]
            self.times[size_bytes] = min(found, key=lambda one: one.seconds)
        return self.times[size_bytes]

    def _under(self, options: SimulationOptions, size_bytes: int, watch: Watch) -> TimedSize:
        name = "" if options.costs is None else options.costs.name
        near = [one for one in self._neighbours(size_bytes) if one.protocol == name]
        forms = {one.is_bundled for one in near} if len(near) == 2 else set()
        best: TimedSize | None = None
        for number, graph in enumerate(self.graphs):
            if forms and bool(number) not in forms:
                continue
            hint = isqrt(near[0].slices * near[-1].slices) if near else 1
            seconds, slices = self._climb(graph, options, size_bytes, hint, watch)
            if best is None or seconds < best.seconds:
                best = TimedSize(seconds, slices, name, bool(number))
        assert best is not None
        return best

    def _neighbours(self, size_bytes: int) -> list[TimedSize]:
        """Those of the nearest sizes below and above that are known."""
        below = max((size for size in self.times if size < size_bytes), default=None)
        above = min((size for size in self.times if size > size_bytes), default=None)
        return [self.times[size] for size in (below, above) if size is not None]

    def _climb(
        self, graph: TaskGraph, options: SimulationOptions, size_bytes: int, hint: int, watch: Watch
    ) -> tuple[float, int]:
        """Seconds and slices: from a number of slices up and down by doubling for as long as that helps."""
        most = slices_at_most(graph, size_bytes, options, self.rules.most_tasks)
        most = min(MAX_AUTO_SLICES, most)
        known: dict[int, float] = {}

        def seconds(slices: int) -> float:
            if slices not in known:
                self.trials += 1
                made = simulate_graph(graph, size_bytes, replace(options, slices=slices), watch=watch)
                known[slices] = float(made.time)
            return known[slices]

        at = 1
        while at * 2 <= min(hint, most):
            at *= 2
        for step in (2.0, 0.5):
            worse = 0
            other = at * step
            while 1 <= other <= most and worse < 2:
                if seconds(int(other)) < seconds(at):
                    at, worse = int(other), 0
                else:
                    worse += 1
                other *= step
        seconds(at)
        slices = min(known, key=lambda one: (known[one], one))
        return known[slices], slices


def _loads_of(
    graph: TaskGraph, options: SimulationOptions
) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
    priced = prices(graph, options)
    onto = np.flatnonzero(graph.resource >= 0)
    resource = graph.resource[onto]
    occupied = priced.occupancy_ns[graph.operation[onto]] * graph.pays_alpha[onto]
    held = np.bincount(resource, occupied, graph.n_resources) / 1e9
    chunks = np.bincount(resource, graph.chunks[onto], graph.n_resources)
    per_byte = chunks / graph.program.n_chunks / np.maximum(priced.resource_bytes_per_s, 1)
    launch = 0.0 if options.costs is None else options.costs.launch_ns / 1e9
    return launch, held, per_byte


def _busy(size: int, launch: float, held: NDArray[np.float64], per_byte: NDArray[np.float64]) -> float:
    """Seconds until the link that is busy for longest has carried everything."""
    return launch + float((held + per_byte * size).max(initial=0.0))


def race(racers: Sequence[Racer], sizes: Sequence[int], *, watch: Watch = UNWATCHED) -> None:
    """Time candidates at all sizes where they may be the fastest of all, or of the baselines.

    Parameters
    ----------
    racers : sequence of Racer
    sizes : sequence of int
        Rising.
    watch : Watch

    Notes
    -----
    Sizes are taken from the ends inwards, by halves. A candidate is left out of a size where it takes at
    least as long as another by what its links have to carry, or by its times at other sizes: a smaller
    size does not take longer, nor a larger one more in proportion to its bytes.
    """
    order = list(_by_halves(len(sizes)))
    for done, place in enumerate(order):
        watch.beat("sizes", done, len(order))
        _race_at(racers, sizes[place], watch)


def _by_halves(n: int) -> Iterator[int]:
    """All places from 0 to n - 1: the last, the first, the middle, the middles of the halves, ..."""
    if not n:
        return
    yield n - 1
    if n > 1:
        yield 0
    level = [(0, n - 1)]
    while level:
        below = []
        for low, high in level:
            if high - low > 1:
                middle = (low + high) // 2
                yield middle
                below += [(low, middle), (middle, high)]
        level = below


def _race_at(racers: Sequence[Racer], size: int, watch: Watch) -> None:
    best = {False: inf, True: inf}  # of all, and of the baselines
    for racer in sorted(racers, key=lambda one: _guess(one, size)):
        if racer.floor(size) >= (best[True] if racer.baseline else best[False]):
            continue
        if not racer.is_able():  # its links tell more than its trees
            continue
        if racer.floor(size) >= (best[True] if racer.baseline else best[False]):
            continue
        seconds = racer.time(size, watch).seconds
        best[False] = min(best[False], seconds)
        if racer.baseline:
            best[True] = min(best[True], seconds)


def _guess(racer: Racer, size: int) -> float:
    """About how long it takes, from the times at sizes around."""
    known = racer.times
    below = max((one for one in known if one <= size), default=None)
    above = min((one for one in known if one >= size), default=None)
    floor = racer.floor(size)
    if below is None or above is None:
        return floor
    return max(floor, sqrt(known[below].seconds * known[above].seconds))


def winners(racers: Sequence[Racer], sizes: Sequence[int]) -> Mapping[int, Racer]:
    """The fastest at each size that some were timed at; of equal ones the first."""
    found = {}
    for size in sizes:
        timed = [racer for racer in racers if size in racer.times]
        if timed:
            found[size] = min(timed, key=lambda one: one.times[size].seconds)
    return found


def best_baseline(racers: Sequence[Racer], size: int) -> tuple[str, float] | None:
    """The fastest baseline at a size, and its seconds; None where there is none."""
    timed = [racer for racer in racers if racer.baseline and size in racer.times]
    if not timed:
        return None
    found = min(timed, key=lambda one: one.times[size].seconds)
    return found.baseline, found.times[size].seconds
