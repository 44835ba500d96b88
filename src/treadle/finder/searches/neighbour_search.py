"""Search among the neighbours of known graphs: up to three nodes more or less, then link swaps.

A size without good graphs of its own, a prime above all, mostly has one close by that has. Every known graph
of N - 3 to N + 3 nodes that has less T_B than the best of N for the same steps, or one more, is a task. Tasks
of the same number of steps compete: the worse half gives up after each round (successive halving).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from treadle.errors import TreadleError
from treadle.finder.construction import expression
from treadle.finder.measure import measure_graph
from treadle.finder.search import FabricCandidate, Finder
from treadle.finder.searches.candidates import Searched, is_over
from treadle.finder.searches.cayley_value import load_scale
from treadle.finder.searches.link_swaps import (
    MAX_SWAP_DEGREE,
    Swapped,
    SwapStart,
    expression_of,
    random_start,
    swap_links,
)
from treadle.topologies import parse
from treadle.topologies.naming import MAX_NAME
from treadle.topologies.properties import is_symmetric
from treadle.topologies.topology import Topology

MAX_NEIGHBOUR_NODES = 2000
MOST_MORE = 3
_ROUNDS = 3
_TASKS = 8
"""Per number of steps, in the first round."""

_LEAST_TRIALS, _MOST_TRIALS = 8, 4000

_STARTS = 50
"""Random choices of nodes or links until one fits."""


@dataclass(frozen=True)
class NeighbourEntry:
    """A graph that was found.

    Parameters
    ----------
    nodes, degree : int
    bidirectional : bool
    steps : int
    gather, reduce : Fraction
        T_B of allgather and reduce-scatter in M/B.
    expression : str
    """

    nodes: int
    degree: int
    bidirectional: bool
    steps: int
    gather: Fraction
    reduce: Fraction
    expression: str

    @property
    def t_b_both(self) -> Fraction:
        """T_B both ways together."""
        return self.gather + self.reduce


@dataclass
class _Task:
    """A known graph to start from, and what was made of it."""

    base: Topology
    more: int
    target: int
    gain: Fraction
    best: tuple[int, SwapStart, Swapped] | None = None

    @property
    def cost(self) -> int:
        return 2**62 if self.best is None else self.best[0]


def search_neighbours(
    nodes: int,
    degree: int,
    finder: Finder,
    known: Sequence[FabricCandidate],
    *,
    trials: int,
    seed: int = 0,
    two_way: bool = False,
    most_tasks: int | None = None,
) -> Searched[NeighbourEntry]:
    """Graphs of `nodes` and `degree` that no known one beats, by rising steps.

    Parameters
    ----------
    nodes, degree : int
        At most 2000 nodes and degree 8; others have none.
    finder : Finder
        Of the graphs to start from.
    known : sequence of FabricCandidate
        Of this size.
    trials : int
        Graphs judged in all, about.
    seed : int
    two_way : bool
        Only with links in opposite pairs.
    most_tasks : int, optional
        In all, those that promise most; default: eight for each number of steps.
    """
    if nodes > MAX_NEIGHBOUR_NODES or not 2 <= degree <= MAX_SWAP_DEGREE or (two_way and nodes * degree % 2):
        return Searched((), 0)
    search = _NeighbourSearch(nodes, degree, known, seed, two_way)
    search.run(finder, trials, most_tasks)
    return Searched(search.front(), search.tried)


class _NeighbourSearch:
    """State of one search."""

    def __init__(
        self, nodes: int, degree: int, known: Sequence[FabricCandidate], seed: int, two_way: bool
    ) -> None:
        self.nodes, self.degree, self.two_way = nodes, degree, two_way
        self.known = known
        self.rng = random.Random(seed)
        self.tried = 0
        self.scale = Fraction(load_scale(degree) * nodes, degree)
        self.tasks: list[_Task] = []

    def bar(self, target: int) -> Fraction:
        """T_B both ways of the best that is known within so many steps."""
        return min(
            (one.t_b_both for one in self.known if one.steps <= target), default=Fraction(2 * self.nodes)
        )

    def run(self, finder: Finder, trials: int, most_tasks: int | None) -> None:
        tasks = sorted(self._sources(finder), key=lambda one: (-one.gain, abs(one.more), one.more))
        targets = sorted({task.target for task in tasks})
        if most_tasks is None:
            tasks = [task for aim in targets for task in [one for one in tasks if one.target == aim][:_TASKS]]
        self.tasks = alive = tasks[:most_tasks]
        for rounds_left in range(_ROUNDS, 0, -1):
            share = max((trials - self.tried) // (rounds_left * max(len(alive), 1)), 1)
            for task in alive:
                if is_over():
                    return
                self._advance(task, share)
            rivals = [[task for task in alive if task.target == aim] for aim in targets]
            alive = [
                task
                for tasks in rivals
                for task in sorted(tasks, key=lambda one: one.cost)[: (len(tasks) + 1) // 2]
            ]

    def _sources(self, finder: Finder) -> Iterator[_Task]:
        optimum = Fraction(2 * (self.nodes - 1), self.nodes)
        for more in sorted(range(-MOST_MORE, MOST_MORE + 1), key=abs):
            size = self.nodes - more
            if size <= self.degree + 1 or (self.two_way and more and self.degree % 2):
                continue
            for base in finder.frontier(size, self.degree):
                if base.gather.has_loops:
                    continue
                for target in (base.steps, base.steps + 1):
                    gain = self.bar(target) - max(base.t_b_both, optimum)
                    if gain > 0 and (base.steps == target or more):
                        graph = _graph(base)
                        if graph is not None and (is_symmetric(graph) or not self.two_way):
                            yield _Task(graph, more, target, gain)

    def _advance(self, task: _Task, trials: int) -> None:
        """A new start with half of the trials, and then more of what is best."""
        begun = self.tried
        starts = (random_start(task.base, task.more, self.rng, two_way=self.two_way) for _ in range(_STARTS))
        start = next((start for start in starts if start is not None), None)
        if start is not None:
            self._climb(task, start, trials // 2 if task.best else trials)
        if task.best is not None and self.tried < begun + trials:
            _, start, found = task.best
            self._climb(task, replace(start, heads=found.heads), trials - (self.tried - begun))

    def _climb(self, task: _Task, start: SwapStart, trials: int) -> None:
        bar = ceil(self.bar(task.target) * self.scale)
        found = swap_links(
            start,
            target=task.target,
            trials=max(trials, 1),
            seed=self.rng.getrandbits(60),
            bar=min(bar, task.cost),
        )
        self.tried += found.tried
        if 0 <= found.cost < task.cost:
            task.best = found.cost, start, found

    def front(self) -> tuple[NeighbourEntry, ...]:
        """The best of each number of steps, written as an expression and valued anew from that."""
        kept: list[NeighbourEntry] = []
        for task in sorted(self.tasks, key=lambda one: (one.target, one.cost)):
            if task.best is None:
                continue
            cost, start, found = task.best
            worth = cost / self.scale
            if any(one.steps <= task.target and one.t_b_both <= worth for one in kept):
                continue
            text = expression_of(start, found.heads)
            if len(text) > MAX_NAME:
                continue
            steps, gather, reduce = measure_graph(parse(text))
            assert gather + reduce == worth, (text, gather, reduce, worth)
            kept.append(NeighbourEntry(self.nodes, self.degree, self.two_way, steps, gather, reduce, text))
        return tuple(kept)


def _graph(base: FabricCandidate) -> Topology | None:
    """A candidate's graph under its whole expression; None if that is too long to be told."""
    text = expression(base.construction)
    if len(text) > MAX_NAME // 2:
        return None
    try:
        graph = parse(text)
    except TreadleError:
        return None
    return graph if graph.name == text else None


def neighbour_trials(nodes: int, degree: int, work: int) -> int:
    """Graphs to judge with so much work, in node pairs times (d + 16).

    Examples
    --------
    >>> neighbour_trials(100, 4, 10**8), neighbour_trials(10, 4, 10**9), neighbour_trials(2000, 4, 10**8)
    (500, 4000, 8)
    """
    return min(max(work // (nodes**2 * (degree + 16)), _LEAST_TRIALS), _MOST_TRIALS)
