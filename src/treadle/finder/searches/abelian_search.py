"""Search for abelian Cayley digraphs, circulants above all: bit sets in the compiled core.

Inversion is an automorphism of an abelian group that reverses every link, so that an allgather and a
reduce-scatter cost the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
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
"""Groups tried besides the cyclic one, those of fewest factors."""

_GLANCE = 20
"""The first search for each number of steps has this part of the work."""

_DEPTH = 3
"""Numbers of steps below the least one with optimal bandwidth that get all of their work."""

_HOPE = 24
"""All of the work is spent only where the first search missed at most this part of the nodes."""


class AbelianProblem(NamedTuple):
    """Search problem of the core: `src/core/search/abelian_sets.hpp`."""

    moduli: Int32Array
    degree: int
    two_way: bool
    target: int


class AbelianPace(NamedTuple):
    """Search limits: words of bit sets touched, a seed, and the cost below which a set is useful."""

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
        """Return it as a library entry."""
        n, d = prod(self.moduli), len(self.generators)
        t_b = Fraction(self.cost * d, load_scale(d) * n)
        return LibraryEntry(d, n, self.is_bidirectional, self.expression, self.steps, t_b)


def inverse(element: int, moduli: Sequence[int]) -> int:
    """Return the inverse of an element in mixed radix, last factor fastest.

    Examples
    --------
    >>> inverse(5, (6, 2)), inverse(3, (10,))
    (9, 7)
    """
    found, weight = 0, 1
    for modulus in reversed(moduli):
        element, digit = divmod(element, modulus)
        found += -digit % modulus * weight
        weight *= modulus
    return found


def least_abelian_steps(n: int, degree: int, *, two_way: bool = False) -> int:
    """Return the fewest steps of an abelian Cayley digraph of `n` nodes: only multiplicities count.

    Bidirectional sets have at most d // 2 pairs of inverses and, for an odd degree, an involution.

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
    """Return the Pareto front over (steps, cost) of the abelian Cayley digraphs tried.

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
    cyclic, *others = sorted(abelian_moduli(n), key=len)
    others = [group for group in others if len(group) <= degree][:_MOST_GROUPS]
    optimum = (n - 1) * load_scale(degree) // degree
    best: dict[int, AbelianSet] = {}
    missed: dict[int, int] = {}
    tried = 0

    def bar(target: int) -> int:
        """Return the cost that a set of `target` steps has to beat."""
        return min((one.cost for steps, one in best.items() if steps <= target), default=2**62)

    def add(found: AbelianSet) -> None:
        if found.cost < bar(found.steps):
            best[found.steps] = found

    def is_met(target: int, work: int) -> bool:
        """Search all groups for sets of at most `target` steps until one has the optimal bandwidth."""
        nonlocal tried
        for moduli in (cyclic, *others):
            if bar(target) <= optimum:
                break
            share = work if moduli is cyclic else max(work // len(others), 1)
            known = [one for one in best.values() if one.moduli == moduli and one.steps <= target]
            problem = AbelianProblem(np.array(moduli, dtype=np.int32), degree, two_way, target)
            pace = AbelianPace(share, seed * 2**20 + target, bar(target))
            first = np.array([one.generators for one in known], dtype=np.int32).ravel()
            _, generators, cost, steps, beyond, more = run_until(
                "graphs", partial(core.search_abelian_sets, problem, pace, first)
            )
            tried += more
            missed[target] = min(beyond, missed.get(target, n))
            if cost >= 0:
                add(AbelianSet(moduli, tuple(sorted(generators.tolist())), steps, cost))
        return bar(target) <= optimum

    for start in starts:
        add(start)
    target = least = least_abelian_steps(n, degree, two_way=two_way)
    # One-way rings are the slowest: n - 1 steps.
    while target < n and bar(target) > optimum and not is_over():
        is_met(target, max(work // _GLANCE, 1))
        target += 1
    for below in range(target - 1, least - 1, -1):
        if below < target - 1 - _DEPTH or is_over():
            break
        if bar(below) > optimum:
            if missed[below] * _HOPE > n:
                break
            if is_met(below, work):
                target = below + 1
    front = [best[steps] for steps in sorted(best) if best[steps].cost < bar(steps - 1)]
    return Searched(tuple(front), tried)
