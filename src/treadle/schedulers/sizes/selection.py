"""Candidates timed over sizes, those that cannot win a size left out of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from math import inf, nextafter, sqrt

import numpy as np

from treadle.context import context
from treadle.errors import TreadleError
from treadle.inputs.problem import Problem
from treadle.schedules.schedule import Schedule
from treadle.simulation.costs.cost_model import CostModel
from treadle.simulation.costs.link_classes import CLASSES, link_classes
from treadle.simulation.costs.message_prices import protocol_options
from treadle.simulation.schedule_tasks import schedule_graph
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.slice_search import SliceSearch
from treadle.simulation.tasks import TaskGraph
from treadle.verification.violations import Report

MOST_TASKS = 2**19
"""Limit of one trial of a number of slices, as in `simulate`."""


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
class SelectionRules:
    """Conditions under which all candidates are timed.

    Parameters
    ----------
    problem : Problem
    cost_model : CostModel
    most_tasks : int
        Of one trial of a number of slices.
    """

    problem: Problem
    cost_model: CostModel
    most_tasks: int = MOST_TASKS

    @cached_property
    def variants(self) -> tuple[SimulationOptions, ...]:
        """The simulation's options under each protocol."""
        return protocol_options(SimulationOptions(), self.cost_model)

    @cached_property
    def known(self) -> dict[bytes, SizeCandidate]:
        """First lowered program of each set of equal ones, by its tasks."""
        return {}

    @cached_property
    def least_alpha_s(self) -> float:
        """No message takes less, bytes aside."""
        present = [CLASSES[number] for number in np.unique(link_classes(self.problem.topology)).tolist()]
        return min(
            one.alpha_ns / 1e9
            if (costs := one.costs) is None
            else min(costs.of(kind).alpha_ns + costs.of(kind).occupancy_ns for kind in present) / 1e9
            for one in self.variants
        )


@dataclass(eq=False, repr=False)
class SizeCandidate:
    """A verified schedule, timed at sizes on demand.

    Parameters
    ----------
    rules : SelectionRules
    algorithm, options : str
        Its scheduler and options, as a string.
    schedule : Schedule
    report : Report
        Of the verifier.
    baseline : str
        Its title where it is what people have without Treadle; else "".
    """

    rules: SelectionRules
    algorithm: str
    options: str
    schedule: Schedule
    report: Report
    baseline: str = ""
    times: dict[int, TimedSize] = field(default_factory=dict, init=False)
    _beyond: dict[int, float] = field(default_factory=dict, init=False)
    refusal: str = field(default="", init=False)

    @property
    def title(self) -> str:
        """Scheduler and options."""
        return f"{self.algorithm} {self.options}".strip()

    def under(self, rules: SelectionRules) -> SizeCandidate:
        """The same schedule under other rules, its tasks shared."""
        other = replace(self, rules=rules)
        other.__dict__["graph"] = self.graph
        return other

    @cached_property
    def graph(self) -> TaskGraph:
        """Its tasks."""
        problem = self.rules.problem
        return schedule_graph(
            problem.topology, problem.collective, self.schedule, may_be_whole=not self.baseline
        )

    @cached_property
    def search(self) -> SliceSearch:
        """Candidates to try at a size."""
        return SliceSearch(self.graph, self.rules.variants, self.rules.most_tasks)

    def is_able(self) -> bool:
        """Whether there is a program of it, which is made here; if not, `refusal` says why.

        Notes
        -----
        Schedules that differ may be the same program, such as trees twice and half of them each: such
        candidates share what they take.
        """
        if not self.refusal:
            try:
                twin = self.rules.known.setdefault(_digest(self.graph), self)
            except TreadleError as error:
                self.refusal = str(error)
            else:
                self.times, self._beyond = twin.times, twin._beyond
                self.__dict__["graph"], self.__dict__["search"] = twin.graph, twin.search
        return not self.refusal

    def floor(self, size_bytes: int) -> float:
        """Seconds that it takes at least at a size, as far as is known; before it is lowered little is."""
        if self.refusal:
            return inf
        least = self._beyond.get(size_bytes, 0.0)
        algbw, height = self.report.algbw, self.report.height_max
        if algbw is not None and height is not None:  # else steps need not wait for one another
            least = max(size_bytes / float(algbw), height * self.rules.least_alpha_s, least)
        return max(least, self.search.floor(size_bytes)) if "graph" in self.__dict__ else least

    def time(self, size_bytes: int) -> TimedSize:
        """The time at a size: the best number of slices and protocol."""
        found = self.time_below(size_bytes, inf)
        assert found is not None
        return found

    def time_below(self, size_bytes: int, limit_s: float) -> TimedSize | None:
        """The time at a size if it is below a limit, else None.

        Parameters
        ----------
        size_bytes : int
        limit_s : float
            Seconds.
        """
        if size_bytes not in self.times:
            near = [-one.slices if one.is_bundled else one.slices for one in _around(self.times, size_bytes)]
            best = self.search.fastest(size_bytes, limit_s, near=near)
            if best is None:
                self._beyond[size_bytes] = max(limit_s, self._beyond.get(size_bytes, 0.0))
                return None
            costs = self.rules.variants[best.protocol].costs
            name = "" if costs is None else costs.name
            self.times[size_bytes] = TimedSize(best.seconds, best.slices, name, bool(best.form))
        timed = self.times[size_bytes]
        return timed if timed.seconds < limit_s else None


def _around(times: Mapping[int, TimedSize], size_bytes: int) -> list[TimedSize]:
    """Known times of the nearest sizes below and above a size."""
    below = max((size for size in times if size <= size_bytes), default=None)
    above = min((size for size in times if size >= size_bytes), default=None)
    return [times[size] for size in (below, above) if size is not None]


def _digest(graph: TaskGraph) -> bytes:
    """Key that is equal for programs with equal tasks."""
    program = graph.program
    scale = int(np.gcd.reduce(graph.chunks, initial=0)) or 1
    found = sha256(str(Fraction(program.n_chunks, scale)).encode())
    for one in (
        graph.operation,
        graph.chunks // scale,
        graph.resource,
        graph.pays_alpha,
        graph.is_aside,
        graph.edge_offset,
        graph.edge_target,
        graph.edge_kind,
        program.operation_kind,
        program.operation_rank,
        program.peer,
        program.path,
        program.step,
        program.wait_offset,
        program.waits,
    ):
        found.update(np.ascontiguousarray(one).tobytes())
    return found.digest()


def select(racers: Sequence[SizeCandidate], sizes: Sequence[int]) -> None:
    """Time candidates at all sizes where they may be the fastest of all, or of the baselines.

    Parameters
    ----------
    racers : sequence of SizeCandidate
    sizes : sequence of int
        Rising.

    Notes
    -----
    Sizes are taken from the ends inwards, by halves, and candidates by what they took at sizes around. A
    candidate is left out of a size where it takes at least as long as another by its depth and throughput or
    by what its links have to carry, and its simulation is given up when it cannot be faster. All of that is
    certain: the fastest, and the fastest baseline, are those of all candidates timed at all sizes, of equal
    ones the first.
    """
    order = list(_by_halves(len(sizes)))
    for done, place in enumerate(order):
        context().report("sizes", done, len(order))
        _race_at(racers, sizes[place])


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


@dataclass
class _Lead:
    """The fastest so far, and its place among all."""

    seconds: float = inf
    place: int = 0

    def bar(self, place: int) -> float:
        """Time that another candidate must beat; the first of equal ones is chosen."""
        return self.seconds if self.place < place else nextafter(self.seconds, inf)

    def take(self, seconds: float, place: int) -> None:
        if seconds < self.bar(place):
            self.seconds, self.place = seconds, place


def _race_at(racers: Sequence[SizeCandidate], size: int) -> None:
    of_all, of_baselines = _Lead(), _Lead()
    for place, racer in sorted(enumerate(racers), key=lambda one: _guess(one[1], size)):
        bar = of_baselines.bar(place) if racer.baseline else of_all.bar(place)
        # once it is lowered, its links tell more than its trees
        if racer.floor(size) >= bar or not racer.is_able() or racer.floor(size) >= bar:
            continue
        if timed := racer.time_below(size, bar):
            of_all.take(timed.seconds, place)
            if racer.baseline:
                of_baselines.take(timed.seconds, place)


def _guess(racer: SizeCandidate, size: int) -> float:
    """About how long it takes, from the times at sizes around."""
    floor, known = racer.floor(size), _around(racer.times, size)
    return max(floor, sqrt(known[0].seconds * known[1].seconds)) if len(known) == 2 else floor


def winners(racers: Sequence[SizeCandidate], sizes: Sequence[int]) -> Mapping[int, SizeCandidate]:
    """The fastest at each size that some were timed at; of equal ones the first."""
    found = {}
    for size in sizes:
        timed = [racer for racer in racers if size in racer.times]
        if timed:
            found[size] = min(timed, key=lambda one: one.times[size].seconds)
    return found


def best_baseline(racers: Sequence[SizeCandidate], size: int) -> tuple[str, float] | None:
    """The fastest baseline at a size, and its seconds; None where there is none."""
    timed = [racer for racer in racers if racer.baseline and size in racer.times]
    if not timed:
        return None
    found = min(timed, key=lambda one: one.times[size].seconds)
    return found.baseline, found.times[size].seconds
