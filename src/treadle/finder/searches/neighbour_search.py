"""Search among the neighbours of known graphs: up to three nodes more or less, then link swaps.

Most sizes without good graphs of their own, primes above all, are close to a size that has some. Every known
graph of N - 3 to N + 3 nodes that has less T_B than the best of N for the same steps, or one more, is a task.
Tasks of the same number of steps compete: the worse half drops out after each round (successive halving).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
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
        """Sum of T_B of both directions."""
        return self.gather + self.reduce


def least_t_b(known: Iterable[FabricCandidate], steps: int, nodes: int) -> Fraction:
    """Return the least T_B of both directions of the known graphs within these steps."""
    return min((one.t_b_both for one in known if one.steps <= steps), default=Fraction(2 * nodes))


def measured_entry(text: str, nodes: int, degree: int, bidirectional: bool, t_b: Fraction) -> NeighbourEntry:
    """Build a graph and measure it: its T_B must be what the core computed."""
    steps, gather, reduce = measure_graph(parse(text))
    assert gather + reduce == t_b, (text, gather, reduce, t_b)
    return NeighbourEntry(nodes, degree, bidirectional, steps, gather, reduce, text)


@dataclass
class _Task:
    """A known graph to start from, and the best graph derived from it with its cost."""

    base: Topology
    more: int
    target: int
    gain: Fraction
    bar: int
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
    """Find graphs of `nodes` and `degree` that no known one beats, by rising steps.

    Parameters
    ----------
    nodes, degree : int
        At most 2000 nodes and degree 8; others have none.
    finder : Finder
        Of the graphs to start from.
    known : sequence of FabricCandidate
        Of this size.
    trials : int
        Approximate number of graphs evaluated.
    seed : int
    two_way : bool
        Only with bidirectional links.
    most_tasks : int, optional
        In all, those that promise most; default: eight for each number of steps.
    """
    if nodes > MAX_NEIGHBOUR_NODES or not 2 <= degree <= MAX_SWAP_DEGREE or (two_way and nodes * degree % 2):
        return Searched((), 0)
    rng, tried = random.Random(seed), 0
    sources = _sources(nodes, degree, finder, known, two_way)
    tasks = sorted(sources, key=lambda one: (-one.gain, abs(one.more), one.more))
    targets = sorted({task.target for task in tasks})
    if most_tasks is None:
        tasks = [task for aim in targets for task in [one for one in tasks if one.target == aim][:_TASKS]]
    alive = tasks = tasks[:most_tasks]
    for rounds_left in range(_ROUNDS, 0, -1):
        share = max((trials - tried) // (rounds_left * max(len(alive), 1)), 1)
        for task in alive:
            if not is_over():
                tried += _advance(task, share, rng, two_way)
        competing = [[task for task in alive if task.target == aim] for aim in targets]
        alive = [
            task
            for rivals in competing
            for task in sorted(rivals, key=lambda one: one.cost)[: (len(rivals) + 1) // 2]
        ]
    # the best of each number of steps, written as an expression and measured again from that
    kept: list[NeighbourEntry] = []
    for task in sorted(tasks, key=lambda one: (one.target, one.cost)):
        if task.best is None:
            continue
        cost, start, found = task.best
        t_b = cost / _scale(nodes, degree)
        if any(one.steps <= task.target and one.t_b_both <= t_b for one in kept):
            continue
        text = expression_of(start, found.heads)
        if len(text) <= MAX_NAME:
            kept.append(measured_entry(text, nodes, degree, two_way, t_b))
    return Searched(tuple(kept), tried)


def _scale(nodes: int, degree: int) -> Fraction:
    """Return the cost, as the core counts it, of T_B = 1 M/B."""
    return Fraction(load_scale(degree) * nodes, degree)


def _sources(
    nodes: int, degree: int, finder: Finder, known: Sequence[FabricCandidate], two_way: bool
) -> Iterator[_Task]:
    """Yield the known graphs of nearby sizes that may lead to one better than those of this size."""
    optimum = Fraction(2 * (nodes - 1), nodes)
    for more in sorted(range(-MOST_MORE, MOST_MORE + 1), key=abs):
        size = nodes - more
        if size <= degree + 1 or (two_way and more and degree % 2):
            continue
        for base in finder.frontier(size, degree):
            if base.gather.has_loops:
                continue
            for target in (base.steps, base.steps + 1):
                best = least_t_b(known, target, nodes)
                gain = best - max(base.t_b_both, optimum)
                if gain > 0 and (base.steps == target or more):
                    graph = _graph(base)
                    if graph is not None and (is_symmetric(graph) or not two_way):
                        yield _Task(graph, more, target, gain, ceil(best * _scale(nodes, degree)))


def _advance(task: _Task, trials: int, rng: random.Random, two_way: bool) -> int:
    """Spend half of the trials on a new start and the rest on the best graph; return how many were used."""
    tried = 0
    starts = (random_start(task.base, task.more, rng, two_way=two_way) for _ in range(_STARTS))
    start = next((start for start in starts if start is not None), None)
    if start is not None:
        tried = _climb(task, start, trials // 2 if task.best else trials, rng)
    if task.best is not None and tried < trials:
        _, start, found = task.best
        tried += _climb(task, replace(start, heads=found.heads), trials - tried, rng)
    return tried


def _climb(task: _Task, start: SwapStart, trials: int, rng: random.Random) -> int:
    found = swap_links(
        start,
        target=task.target,
        trials=max(trials, 1),
        seed=rng.getrandbits(60),
        bar=min(task.bar, task.cost),
    )
    if 0 <= found.cost < task.cost:
        task.best = found.cost, start, found
    return found.tried


def _graph(base: FabricCandidate) -> Topology | None:
    """Return a candidate's graph under its full expression; None if that is too long."""
    text = expression(base.construction)
    if len(text) > MAX_NAME // 2:
        return None
    try:
        graph = parse(text)
    except TreadleError:
        return None
    return graph if graph.name == text else None


def neighbour_trials(nodes: int, degree: int, work: int) -> int:
    """Return the number of graphs to evaluate for this work, in node pairs times (d + 16).

    Examples
    --------
    >>> neighbour_trials(100, 4, 10**8), neighbour_trials(10, 4, 10**9), neighbour_trials(2000, 4, 10**8)
    (500, 4000, 8)
    """
    return min(max(work // (nodes**2 * (degree + 16)), _LEAST_TRIALS), _MOST_TRIALS)
