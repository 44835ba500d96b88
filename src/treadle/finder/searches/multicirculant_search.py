"""Search digraphs that a turn of a few orbits of nodes maps to itself, by simulated annealing in the core.

The nodes of an orbit are equivalent, so that a graph is evaluated at one node of each, and few receivers have
to be good together. Where N has no divisor that suits, small orbits make up for it: a node that the turn
leaves in place has links to an orbit of at most d nodes, these to one of at most d - 1 times as many and so
on (`Layout`). Layouts for the same number of steps compete: after each round the worse half drops out
(successive halving).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate, groupby
from math import ceil, log2
from typing import NamedTuple

import numpy as np

from treadle.arrays import Int32Array
from treadle.engine import core, run_until
from treadle.finder.search import FabricCandidate
from treadle.finder.searches.candidates import Searched, is_over
from treadle.finder.searches.cayley_value import load_scale
from treadle.finder.searches.neighbour_search import NeighbourEntry, least_t_b, measured_entry
from treadle.topologies.moore import moore_steps
from treadle.topologies.naming import MAX_NAME, expression

MAX_TURNED_NODES = 2000
MAX_TURNED_DEGREE = 8
_TARGETS = 3
"""Numbers of steps that are searched, from the Moore bound on."""

_LAYOUTS = 24
_NO_GRAPH = 2**62
"""Cost of no graph."""

_PASSES = 3
"""Passes over all numbers of steps; the later ones have the work that is left."""

_HEATS = (0.02, 0.01, 0.005, 0.003)
"""First temperature of each round, relative to the optimal cost."""

_TRIALS = 300
"""Least graphs per layout in the first round; where the work does not suffice, fewer layouts compete."""

_MOST_LEVELS = 4
_GOOD_ORBITS = 20
"""Typical number of orbits of the best graphs that were found."""

_LEVEL_PRICE = 0.4
"""Price of one more size, in doublings of the number of orbits."""

_HEAD_OF_NAME = 80
"""Most characters of an expression without its numbers."""

_ATTEMPTS = 100
"""Most random choices of links until none is a loop."""


class OrbitProblem(NamedTuple):
    """Problem of the core: `src/core/search/orbit_swaps.hpp`."""

    degree: int
    target: int
    size: Int32Array
    tail: Int32Array
    head: Int32Array
    shift: Int32Array
    opposite: Int32Array


class OrbitPace(NamedTuple):
    """Number of graphs, seed, and first temperature."""

    trials: int
    seed: int
    heat: float


@dataclass(frozen=True)
class Layout:
    """Orbits of a graph, by size.

    Parameters
    ----------
    degree : int
    bidirectional : bool
    chain : tuple of int
        Sizes, each a divisor of the next.
    counts : tuple of int
        Orbits of each size.
    up : tuple of int
        Links of a node of each size to the next size, divided by the quotient of both.
    """

    degree: int
    bidirectional: bool
    chain: tuple[int, ...]
    counts: tuple[int, ...]
    up: tuple[int, ...]

    @property
    def sizes(self) -> list[int]:
        """Size of each orbit."""
        return [size for size, count in zip(self.chain, self.counts, strict=True) for _ in range(count)]

    @property
    def work(self) -> int:
        """Work of evaluating one graph, in half nanoseconds as measured."""
        each = 2400 + sum(self.sizes) * (self.degree + 16) * 2 // 3
        return sum(self.counts) * each // (1 + self.bidirectional)


def layouts(nodes: int, degree: int, *, bidirectional: bool) -> list[Layout]:
    """Return the layouts whose graphs have short enough names: those of one size, then the most promising."""
    numbers = (MAX_NAME - _HEAD_OF_NAME) // (len(str(nodes)) + 2)
    most = numbers * (1 + bidirectional) // degree
    found = {
        (layout.chain, layout.counts): layout
        for chain in _chains(nodes, degree, most)
        if (layout := _layout(chain, nodes, degree, bidirectional)) is not None
        and 1 < sum(layout.counts) <= most
    }

    def key(layout: Layout) -> tuple[bool, float, tuple[int, ...]]:
        distance = abs(log2(sum(layout.counts) / _GOOD_ORBITS))
        return len(layout.chain) > 1, distance + _LEVEL_PRICE * len(layout.chain), layout.chain

    return sorted(found.values(), key=key)


def _chains(nodes: int, degree: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield sizes, each a divisor of the next, the largest of which leaves at most `most` orbits."""
    yield from ((size,) for size in range(2, nodes // 2 + 1) if nodes % size == 0)
    heads: list[tuple[int, ...]] = [(1,), *((size,) for size in range(2, degree + 1) if nodes % size == 0)]
    while heads:
        heads = [
            (*chain, chain[-1] * times)
            for chain in heads
            if len(chain) < _MOST_LEVELS
            for times in range(2, degree + (len(chain) == 1))
            if 2 * chain[-1] * times <= nodes
        ]
        yield from (chain for chain in heads if nodes <= most * chain[-1])


def _layout(chain: tuple[int, ...], nodes: int, degree: int, bidirectional: bool) -> Layout | None:
    """Return a layout with the fewest orbits in which the links of smaller ones end; None if impossible."""
    counts: list[int] = []
    ups: list[int] = []
    left, needed = nodes, 0
    for level, size in enumerate(chain):
        is_last = level == len(chain) - 1
        times = 1 if is_last else chain[level + 1] // size
        up = 0 if is_last else (degree if level == 0 and chain[0] == 1 else degree - 1) // times
        own = degree - up * times
        count = left // size if is_last else left // size % times
        while count * own < needed and not is_last:
            count += times
        left -= count * size
        lone = count * own - needed
        if (
            left < 0
            or lone < 0
            or (bidirectional and lone % 2 and size % 2)
            or (size == 1 and own and count == 1)
        ):
            return None
        counts.append(count)
        ups.append(up)
        needed = count * up
    return Layout(degree, bidirectional, chain, tuple(counts), tuple(ups)) if all(counts) else None


class _Links(NamedTuple):
    """Classes of links, as `OrbitProblem` has them."""

    tail: Int32Array
    head: Int32Array
    shift: Int32Array
    opposite: Int32Array


def random_links(layout: Layout, rng: random.Random) -> _Links | None:
    """Choose random links between the orbits of a layout; None where every choice had a self-loop."""
    sizes, degree, bidirectional = layout.sizes, layout.degree, layout.bidirectional
    rows: list[tuple[int, int, int]] = []
    opposite: list[int] = []
    first, lower = 0, range(0)
    for level, size in enumerate(layout.chain):
        orbits = range(first, first + layout.counts[level])
        times = layout.chain[level + 1] // size if level + 1 < len(layout.chain) else 1
        upper = [orbit for orbit in lower for _ in range(layout.up[level - 1])]
        own = [orbit for orbit in orbits for _ in range(degree - layout.up[level] * times)]
        for _ in range(_ATTEMPTS):
            rng.shuffle(own)
            ends = own if bidirectional else rng.sample(own, len(own))
            lone = own[len(upper) :]
            pairs = [*zip(upper, ends, strict=False)]
            if bidirectional:
                pairs += zip(lone[::2], lone[1::2], strict=False)
            else:
                pairs += [*zip(own, upper, strict=False), *zip(lone, ends[len(upper) :], strict=True)]
            if not any(tail == head and (size < 2 or (bidirectional and size < 3)) for tail, head in pairs):
                break
        else:
            return None
        for tail, head in pairs:
            shift = rng.randrange(sizes[head])
            # neither a loop nor, where links bring their opposites, half a turn
            while tail == head and (shift == 0 or (bidirectional and 2 * shift == size)):
                shift = rng.randrange(size)
            rows.append((tail, head, shift))
            if bidirectional:
                opposite += [len(rows), len(rows) - 1]
                rows.append((head, tail, -shift % sizes[tail]))
        if bidirectional and len(lone) % 2:
            opposite.append(len(rows))
            rows.append((lone[-1], lone[-1], size // 2))
        first, lower = first + layout.counts[level], orbits
    tail, head, shift = np.array(rows, dtype=np.int32).T.copy()
    return _Links(tail, head, shift, np.array(opposite, dtype=np.int32))


def expression_of(layout: Layout, links: _Links) -> str:
    """Return the call of the catalogue that makes a graph."""
    sizes = layout.sizes
    starts = list(accumulate(sizes, initial=0))
    heads: list[int] = []
    done: set[int] = set()
    for link in np.argsort(links.tail, kind="stable").tolist():
        if link not in done:
            head = int(links.head[link])
            heads.append(starts[head] + int(links.shift[link]) % sizes[head])
            done |= {link, int(links.opposite[link])} if len(links.opposite) else {link}
    runs = ((size, len(list(run))) for size, run in groupby(sizes))
    orbits = "+".join(f"{count}*{size}" if count > 1 else str(size) for size, count in runs)
    name = "multicirculant" if len(links.opposite) else "directed_multicirculant"
    return expression(name, f'"{orbits}"', layout.degree, *heads)


@dataclass
class _Task:
    """A layout, a number of steps, their best graph, and how many graphs were tried."""

    layout: Layout
    target: int
    links: _Links
    cost: int = _NO_GRAPH
    tried: int = 0

    @property
    def used(self) -> int:
        return self.tried * self.layout.work

    def anneal(self, work: int, heat: float, seed: int) -> None:
        sizes = np.array(self.layout.sizes, dtype=np.int32)
        problem = OrbitProblem(self.layout.degree, self.target, sizes, *self.links)
        pace = OrbitPace(max(work // self.layout.work, 2), seed, heat)
        outcome = run_until("graphs", partial(core.swap_orbits, problem, pace))
        _, *links, cost, tried = outcome
        self.links, self.tried = _Links(*links), self.tried + tried
        if cost >= 0:
            self.cost = cost


def search_multicirculants(
    nodes: int,
    degree: int,
    known: Sequence[FabricCandidate],
    *,
    work: int,
    seed: int = 0,
    bidirectional: bool = False,
) -> Searched[NeighbourEntry]:
    """Find graphs of `nodes` and `degree` that no known one beats, by rising steps.

    Parameters
    ----------
    nodes, degree : int
        At most 2000 nodes and degree 8; others have none.
    known : sequence of FabricCandidate
        Graphs of this size.
    work : int
        In half nanoseconds, about; the result depends on it and the other arguments only.
    seed : int
    bidirectional : bool
        Only graphs with bidirectional links.
    """
    if nodes > MAX_TURNED_NODES or not 2 <= degree <= MAX_TURNED_DEGREE:
        return Searched((), 0)
    rng, scale = random.Random(seed), Fraction(load_scale(degree) * nodes, degree)
    optimum = Fraction(2 * (nodes - 1), nodes) * scale
    least = moore_steps(nodes, degree, bidirectional=bidirectional)
    targets, best, tried = list(range(least, least + _TARGETS)), dict[int, _Task](), 0
    every = layouts(nodes, degree, bidirectional=bidirectional)
    for _ in range(_PASSES):
        share = work // max(len(targets), 1)
        for target in list(targets):
            # cost that a graph of at most this many steps has to beat
            bar = ceil(least_t_b(known, target, nodes) * scale)
            bar = min([bar, *(task.cost for steps, task in best.items() if steps <= target)])
            if bar <= optimum:
                targets = [one for one in targets if one < target]
                break
            tasks = list(_tasks(every, target, share, rng))
            task = _best_of(tasks, share, optimum, rng)
            tried += sum(one.tried for one in tasks)
            work -= sum(one.used for one in tasks)
            if task is not None and task.cost < bar:
                best[target] = task
        # without a graph that beats those of fewer steps, more work is unlikely to pay
        targets = [one for one in targets if not is_over() and (one in best or not best)]
    entries = [
        measured_entry(
            expression_of(task.layout, task.links), nodes, degree, bidirectional, task.cost / scale
        )
        for task in best.values()
    ]
    return Searched(tuple(entries), tried)


def _tasks(every: Sequence[Layout], target: int, work: int, rng: random.Random) -> Iterator[_Task]:
    """Yield the most promising layouts with random links, as many as the work suffices for."""
    spent = count = 0
    for layout in every:
        spent += _TRIALS * layout.work
        if count == _LAYOUTS or (count and spent * len(_HEATS) > work):
            return
        links = random_links(layout, rng)
        if links is not None:
            count += 1
            yield _Task(layout, target, links)


def _best_of(tasks: Sequence[_Task], work: int, optimum: Fraction, rng: random.Random) -> _Task | None:
    """Anneal in rounds, after each of which the worse half drops out; return the best task with a graph."""
    alive = list(tasks)
    for place, heat in enumerate(_HEATS):
        left = work - sum(task.used for task in tasks)
        share = left // ((len(_HEATS) - place) * max(len(alive), 1))
        for task in alive:
            if is_over():
                break
            task.anneal(share, heat, rng.getrandbits(60))
            if task.cost <= optimum:
                return task
        alive = sorted(alive, key=lambda one: one.cost)[: (len(alive) + 1) // 2]
        if is_over() or not alive or (place and alive[0].cost == _NO_GRAPH):
            break
    return alive[0] if alive and alive[0].cost < _NO_GRAPH else None
