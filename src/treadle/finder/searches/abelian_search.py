"""Search for abelian Cayley digraphs, circulants above all: bit sets in the compiled core.

Inversion is an automorphism of an abelian group that turns every link round, so that an allgather and a
reduce-scatter cost the same, and one value says both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import prod
from typing import NamedTuple

import numpy as np

from treadle.arrays import Int32Array
from treadle.engine import core, run_until
from treadle.finder.searches.candidates import Searched, is_over
from treadle.finder.searches.cayley_groups import abelian_moduli
from treadle.finder.searches.cayley_library import LibraryEntry
from treadle.finder.searches.cayley_value import load_scale
from treadle.topologies.limits import check_count

MAX_ABELIAN_ORDER = 4096
MAX_ABELIAN_DEGREE = 8
_MOST_GROUPS = 8
"""Groups tried beside the cyclic one, those of fewest factors."""

_GLANCE = 20
"""Part of the work of a target that a first glance at it takes."""

_DEPTH = 3
"""Targets below the least one with optimal bandwidth that get their whole work."""

_HOPE = 24
"""A target gets its whole work where the glance missed at most this part of the nodes."""


class AbelianProblem(NamedTuple):
    """What the core searches: `src/core/search/abelian_sets.hpp`."""

    moduli: Int32Array
    degree: int
    two_way: bool
    target: int


class AbelianPace(NamedTuple):
    """How far: words of bit sets touched, a seed, and the cost below which a set is of use."""

    work: int
    seed: int
    bar: int


@dataclass(frozen=True)
class AbelianSet:
    """A generator set.

    Parameters
    ----------
    moduli : tuple of int
        The group.
    generators : tuple of int
    steps : int
    cost : int
        Sum of the loads over the steps times `load_scale(degree)`.
    """

    moduli: tuple[int, ...]
    generators: tuple[int, ...]
    steps: int
    cost: int

    @property
    def expression(self) -> str:
        """In the catalogue's language."""
        moduli = "x".join(map(str, self.moduli))
        return f'abelian_cayley("{moduli}", {", ".join(map(str, self.generators))})'

    @property
    def is_bidirectional(self) -> bool:
        """Whether it is closed under inverses."""
        return sorted(inverse(one, self.moduli) for one in self.generators) == sorted(self.generators)

    @property
    def entry(self) -> LibraryEntry:
        """As an entry of the libraries."""
        n, d = prod(self.moduli), len(self.generators)
        t_b = Fraction(self.cost * d, load_scale(d) * n)
        return LibraryEntry(d, n, self.is_bidirectional, self.expression, self.steps, t_b)


def inverse(element: int, moduli: Sequence[int]) -> int:
    """The inverse of an element in mixed radix, last factor fastest.

    Examples
    --------
    >>> inverse(5, (6, 2)), inverse(3, (10,))
    (9, 7)
    """
    digits = []
    for modulus in reversed(moduli):
        element, digit = divmod(element, modulus)
        digits.append(-digit % modulus)
    found = 0
    for modulus, digit in zip(moduli, reversed(digits), strict=True):
        found = found * modulus + digit
    return found


def least_abelian_steps(n: int, degree: int, *, two_way: bool = False) -> int:
    """Fewest steps of an abelian Cayley digraph of `n` nodes: only multiplicities of generators count.

    Two-way sets have at most d // 2 pairs of inverses and, for an odd degree, an involution.

    Examples
    --------
    >>> least_abelian_steps(97, 4), least_abelian_steps(97, 4, two_way=True)
    (5, 7)
    """
    reached = [1, *[0] * n]
    for _ in range(degree // 2 if two_way else degree):
        # words by length with one more generator, or pair: convolved with 1, 1, 1, ..., or with 1, 2, 2,
        shorter = accumulate(reached, initial=0)
        weight = 2 if two_way else 1
        reached = [count + weight * fewer for count, fewer in zip(reached, shorter, strict=False)]
    if two_way and degree % 2:
        reached = [now + before for now, before in zip(reached, [0, *reached], strict=False)]
    total = steps = 0
    while (total := total + reached[steps]) < n:
        steps += 1
    return steps


def search_abelian(
    n: int, degree: int, *, work: int, seed: int = 0, two_way: bool = False, starts: Sequence[AbelianSet] = ()
) -> Searched[AbelianSet]:
    """Pareto front over (steps, cost) of the abelian Cayley digraphs tried.

    Parameters
    ----------
    n : int
        Nodes, 2 to 4096.
    degree : int
        d, 1 to 8.
    work : int
        Words of bit sets touched for each number of steps, for the cyclic group and for all others together;
        about half a nanosecond each.
    seed : int
    two_way : bool
        Only sets closed under inverses.
    starts : sequence of AbelianSet
        To begin with.

    Returns
    -------
    Searched
        Sets by rising steps and falling cost.
    """
    check_count("search_abelian", "n", n, least=2, most=MAX_ABELIAN_ORDER)
    check_count("search_abelian", "degree", degree, most=MAX_ABELIAN_DEGREE)
    check_count("search_abelian", "work", work, most=2**60)
    search = _AbelianSearch(n, degree, two_way, seed)
    search.run(work, starts)
    return Searched(search.front(), search.tried)


class _AbelianSearch:
    """State of one search: the best set of each number of steps."""

    def __init__(self, n: int, degree: int, two_way: bool, seed: int) -> None:
        self.n, self.degree, self.two_way, self.seed = n, degree, two_way, seed
        self.least = least_abelian_steps(n, degree, two_way=two_way)
        self.optimum = (n - 1) * load_scale(degree) // degree
        self.best: dict[int, AbelianSet] = {}
        self.missed: dict[int, int] = {}
        self.tried = 0
        cyclic, *others = sorted(abelian_moduli(n), key=len)
        self.cyclic = cyclic
        self.others = [group for group in others if len(group) <= degree][:_MOST_GROUPS]

    def run(self, work: int, starts: Sequence[AbelianSet]) -> None:
        for start in starts:
            self._keep(start)
        target = self.least
        # One-way rings are the slowest: n - 1 steps.
        while target < self.n and not self._is_done(target) and not is_over():
            self._try(target, max(work // _GLANCE, 1))
            target += 1
        for below in range(target - 1, self.least - 1, -1):
            if below < target - 1 - _DEPTH or is_over():
                break
            if not self._is_done(below):
                if self.missed[below] * _HOPE > self.n:
                    break
                self._try(below, work)
                if self._is_done(below):
                    target = below + 1

    def front(self) -> tuple[AbelianSet, ...]:
        kept: list[AbelianSet] = []
        for steps in sorted(self.best):
            one = self.best[steps]
            if not kept or one.cost < kept[-1].cost:
                kept.append(one)
        return tuple(kept)

    def _bar(self, target: int) -> int:
        """Cost that a set of `target` steps has to be below."""
        costs = [one.cost for steps, one in self.best.items() if steps <= target]
        return min(costs, default=2**62)

    def _is_done(self, target: int) -> bool:
        return self._bar(target) <= self.optimum

    def _keep(self, found: AbelianSet) -> None:
        if found.cost < self._bar(found.steps):
            self.best[found.steps] = found

    def _try(self, target: int, work: int) -> None:
        self._try_group(self.cyclic, target, work)
        for group in self.others:
            self._try_group(group, target, max(work // len(self.others), 1))

    def _try_group(self, moduli: tuple[int, ...], target: int, work: int) -> None:
        if self._is_done(target):
            return
        starts = [
            one.generators for one in self.best.values() if one.moduli == moduli and one.steps <= target
        ]
        problem = AbelianProblem(np.array(moduli, dtype=np.int32), self.degree, self.two_way, target)
        pace = AbelianPace(work, self.seed * 2**20 + target, self._bar(target))
        first = np.array(starts, dtype=np.int32).ravel()
        outcome = run_until("graphs", lambda control: core.search_abelian_sets(problem, pace, first, control))
        _, generators, cost, steps, missed, tried = outcome
        self.tried += tried
        self.missed[target] = min(missed, self.missed.get(target, self.n))
        if cost >= 0:
            self._keep(AbelianSet(moduli, tuple(sorted(generators.tolist())), steps, cost))
