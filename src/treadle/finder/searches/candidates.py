"""Common parts of the searches of Cayley digraphs: pools of candidates per target T_L, group tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.context import context
from treadle.finder.searches.cayley_batch import GroupTable, Int16Array, batch_distances
from treadle.finder.searches.cayley_groups import groups_of_order
from treadle.finder.searches.cayley_value import load_scale

POOL = 8
"""Candidates kept per target."""

PER_GROUP = 3
"""Most of them from one group."""

FAR = 10**14
"""Cost of a node beyond the target: more than any sum of loads."""

NONE = np.iinfo(np.int64).max
"""Cost of what no pool would take."""


@dataclass(frozen=True, order=True)
class GeneratorSet:
    """A generator set that was tried.

    Parameters
    ----------
    cost : int
        `FAR` per node beyond the target, or the summed loads of the worse direction, scaled.
    group : int
        Number of the group.
    generators : tuple of int
    t_l : int
        T_L / alpha of the digraph.
    """

    cost: int
    group: int
    generators: tuple[int, ...]
    t_l: int = field(compare=False)


Pool = list[GeneratorSet]

Entry = TypeVar("Entry")

Judge = Callable[[Int64Array, Int16Array], Int64Array]
"""Scaled costs of generator sets, shape (B,), from these and their distances."""


@dataclass(frozen=True)
class Searched(Generic[Entry]):
    """Outcome of a search.

    Parameters
    ----------
    entries : tuple
        The Pareto front of what was tried.
    tried : int
        Generator sets; with the search's arguments it decides what the entries are.
    """

    entries: tuple[Entry, ...]
    tried: int


def is_over() -> bool:
    """Whether a search has to end with what it has."""
    return context().is_past_deadline


def scores(distance: NDArray[np.integer], target: int, costs: Int64Array) -> Int64Array:
    """Return each set's cost for a target T_L, given distances (sets, N), negative for unreached nodes."""
    n = distance.shape[1]
    beyond = n - ((distance >= 0) & (distance <= target)).sum(axis=1, dtype=np.int64)
    found: Int64Array = np.where(beyond > 0, beyond * FAR, costs)
    return found


def offer(pool: Pool, group: int, sets: Int64Array, steps: Int64Array, found: Int64Array) -> None:
    """Put the best sets of one group into a pool that they improve."""
    worst = _bar(pool)
    for i in np.argsort(found, kind="stable")[:PER_GROUP]:
        if found[i] < worst:
            pool.append(GeneratorSet(int(found[i]), group, tuple(sets[i].tolist()), int(steps[i])))
    # the best contenders, at most three of a group
    kept: Pool = []
    for one in sorted(set(pool)):
        if len(kept) < POOL and sum(other.group == one.group for other in kept) < PER_GROUP:
            kept.append(one)
    pool[:] = kept


def bars(pools: Mapping[int, Pool], targets: Sequence[int]) -> Int64Array:
    """Return the cost below which some pool takes a set of each T_L, shape (last target + 1,).

    A set counts for every target from its own T_L on.
    """
    found = np.zeros(targets[-1] + 1, dtype=np.int64)
    for target in targets:
        found[target] = _bar(pools[target])
    highest: Int64Array = np.maximum.accumulate(found[::-1])[::-1]
    return highest


def _bar(pool: Pool) -> int:
    return pool[-1].cost if len(pool) == POOL else NONE


_TABLE_BYTES = 2**28
"""Memory for the multiplication tables of a search: each takes 4 N^2 bytes."""


class GroupSearch:
    """Generator sets of groups of one order, tried in blocks; pools of the best ones per target T_L.

    Parameters
    ----------
    n, degree : int
    targets : iterable of int
        Steps for which sets are looked for.
    nodes : int
        Of the graph that the sets make, whose lower bound of loads ends the search.
    key : list of int
        Of the random numbers, the seed first.
    """

    def __init__(self, n: int, degree: int, targets: Sequence[int], nodes: int, key: list[int]) -> None:
        self.n, self.degree, self.targets = n, degree, list(targets)
        self.rng = np.random.default_rng(key)
        self.groups = groups_of_order(n, seed=key[0])
        self.pools: dict[int, Pool] = {target: [] for target in targets}
        self.best: dict[int, GeneratorSet] = {}
        self.optimum = Fraction((nodes - 1) * load_scale(degree), degree)
        self.block = max(64, min(1024, 65536 // (n * degree)))
        most = max(1, _TABLE_BYTES // (4 * n * n))
        self.table = lru_cache(most)(lambda number: GroupTable(self.groups[number].group))
        self.tried = 0

    def expression(self, one: GeneratorSet) -> str:
        """Return the Cayley digraph of a set."""
        return self.groups[one.group].expression(one.generators)

    def parent(self, chance: float) -> tuple[GeneratorSet | None, float]:
        """Return a good set, mostly, and the random number that chose it."""
        pool = self.pools[self.targets[self.rng.integers(len(self.targets))]]
        choice = self.rng.random()
        if not pool or choice < chance:
            return None, choice
        return pool[min(int(self.rng.geometric(0.35)) - 1, len(pool) - 1)], choice

    def try_block(self, group: int, sets: Int64Array) -> None:
        """Put the best of a block into the pools; targets whose optimum is reached end."""
        table = self.table(group)
        distance = batch_distances(table, sets, self.targets[-1])
        steps = np.where((distance < 0).any(axis=1), self.targets[-1] + 1, distance.max(axis=1))
        costs = self._costs(table, sets, distance, steps)
        for target in list(self.targets):
            pool = self.pools[target]
            offer(pool, group, sets, steps, scores(distance, target, costs))
            if pool:
                self.best[target] = min(self.best.get(target, pool[0]), pool[0])
            if pool and pool[0].cost == self.optimum:
                self.targets = [t for t in self.targets if t < target]
                break

    def _costs(
        self, table: GroupTable, sets: Int64Array, distance: Int16Array, steps: Int64Array
    ) -> Int64Array:
        """Return the scaled cost of the worse direction; NONE if T_L is too large or no pool takes it."""
        highest = bars(self.pools, self.targets)
        alive = np.flatnonzero(steps <= self.targets[-1])
        worse = np.zeros(alive.size, dtype=np.int64)
        for judge in self.evaluate(table):
            if alive.size:
                found = judge(sets[alive], distance[alive])
                worse = np.maximum(worse, found)
                keep = worse < highest[steps[alive]]
                alive, worse = alive[keep], worse[keep]
        costs = np.full(len(sets), NONE, dtype=np.int64)
        costs[alive] = worse
        return costs

    def evaluate(self, table: GroupTable) -> list[Judge]:
        """Return functions of sets and distances that give costs or lower bounds."""
        raise NotImplementedError
