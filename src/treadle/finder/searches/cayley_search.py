"""Search for Cayley digraphs of few steps and little traffic: random sets, then changes of the best ones."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from types import MappingProxyType

import numpy as np

from treadle.arrays import Int64Array
from treadle.finder.searches.candidates import FAR, GeneratorSet, GroupSearch, Judge, Searched, is_over
from treadle.finder.searches.cayley_batch import GroupTable, batch_costs
from treadle.finder.searches.cayley_library import LibraryEntry, pareto_entries
from treadle.finder.searches.cayley_value import load_scale
from treadle.topologies.catalogue.cayley import cayley_graph
from treadle.topologies.limits import check_count

MAX_ORDER = 4096
"""Largest group searched: its tables take 64 MB."""

MAX_SEARCH_DEGREE = 8
_SPANS: Mapping[tuple[int, bool], int] = MappingProxyType({(2, False): 12, (3, False): 8, (3, True): 10})


def search_cayley(
    n: int, degree: int, *, trials: int, seed: int = 0, bidirectional: bool = False
) -> Searched[LibraryEntry]:
    """Return the Pareto front over (T_L, worse T_B of both directions) of the Cayley digraphs tried.

    Parameters
    ----------
    n : int
        Nodes, 2 to 4096.
    degree : int
        d, 1 to 8.
    trials : int
        Generator sets to try, rounded up to whole blocks; fewer when both lower bounds are met.
    seed : int
    bidirectional : bool
        Only sets closed under inverses.

    Returns
    -------
    Searched
        Entries by rising T_L and falling T_B; none if none of the sets tried connects the nodes within the
        steps considered.
    """
    check_count("search_cayley", "n", n, least=2, most=MAX_ORDER)
    check_count("search_cayley", "degree", degree, most=MAX_SEARCH_DEGREE)
    check_count("search_cayley", "trials", trials, most=10**9)
    search = _CayleySearch(n, degree, seed, bidirectional)
    search.run(trials)
    return Searched(search.front(), search.tried)


def least_steps(n: int, degree: int, *, bidirectional: bool = False) -> int:
    """Return the least T_L of `n` nodes by Moore: d (d - 1)^(t - 1) nodes at distance t if bidirectional."""
    steps, level, total = 0, 1, 1
    while total < n:
        level *= degree - 1 if bidirectional and steps else degree
        steps, total = steps + 1, total + max(level, 1)
    return steps


class _CayleySearch(GroupSearch):
    """State of one search: the best candidates per target T_L, from several groups."""

    def __init__(self, n: int, degree: int, seed: int, bidirectional: bool) -> None:
        least = least_steps(n, degree, bidirectional=bidirectional)
        targets = range(least, least + _SPANS.get((degree, bidirectional), 8 if bidirectional else 5))
        super().__init__(n, degree, targets, n, [seed, n, degree, int(bidirectional)])
        self.bidirectional = bidirectional

    def run(self, trials: int) -> None:
        order = self.rng.permutation(len(self.groups))
        blocks = 0
        while self.tried < trials and self.targets and not (blocks and is_over()):
            if blocks < len(order) and self.tried < 0.5 * trials:
                group = int(order[blocks])
                generators = self._random_sets(group)
            else:
                group, generators = self._next_block()
            if generators.size:
                self.try_block(group, generators)
            self.tried, blocks = self.tried + self.block, blocks + 1

    def front(self) -> tuple[LibraryEntry, ...]:
        found = [
            LibraryEntry(
                degree=self.degree,
                nodes=self.n,
                bidirectional=cayley_graph(self.expression(best)).is_bidirectional,
                expression=self.expression(best),
                t_l=best.t_l,
                t_b=Fraction(best.cost * self.degree, load_scale(self.degree) * self.n),
            )
            for best in self.best.values()
            if best.cost < FAR
        ]
        return pareto_entries(found)

    def _next_block(self) -> tuple[int, Int64Array]:
        """Choose changes of a good candidate, or sometimes new sets of its group or of any."""
        parent, choice = self.parent(0.1)
        if parent is None:
            group = int(self.rng.integers(len(self.groups)))
            return group, self._random_sets(group)
        if choice < 0.25:
            return parent.group, self._random_sets(parent.group)
        return parent.group, self._changed_sets(parent)

    def _random_sets(self, group: int) -> Int64Array:
        if not self.bidirectional:
            return self.rng.integers(1, self.n, size=(self.block, self.degree))
        pairs, involutions = self._halves(group)
        least = 0 if involutions.size else self.degree // 2
        n_pairs = int(self.rng.integers(least, self.degree // 2 + 1)) if pairs.size else 0
        if 2 * n_pairs < self.degree and not involutions.size:
            return np.zeros((0, self.degree), dtype=np.int64)
        inverses = self.table(group).inverses
        columns: list[Int64Array] = []
        for _ in range(n_pairs):
            chosen = self.rng.choice(pairs, self.block)
            columns += [chosen, inverses[chosen]]
        columns += [self.rng.choice(involutions, self.block) for _ in range(self.degree - 2 * n_pairs)]
        return np.stack(columns, axis=1)

    def _halves(self, group: int) -> tuple[Int64Array, Int64Array]:
        """Return the elements that differ from their inverses; involutions."""
        inverses, nodes = self.table(group).inverses, np.arange(1, self.n)
        return nodes[inverses[1:] != nodes], nodes[inverses[1:] == nodes]

    def _changed_sets(self, parent: GeneratorSet) -> Int64Array:
        """Replace one or two generators, or inverse pairs, of the parent's set."""
        sets = np.tile(np.array(parent.generators, dtype=np.int64), (self.block, 1))
        rows = np.arange(self.block)
        if not self.bidirectional:
            sets[rows, self.rng.integers(self.degree, size=self.block)] = self.rng.integers(
                1, self.n, self.block
            )
            again = rows[self.rng.random(self.block) < 0.4]
            sets[again, self.rng.integers(self.degree, size=again.size)] = self.rng.integers(
                1, self.n, again.size
            )
            return sets
        pairs, involutions = self._halves(parent.group)
        inverses = self.table(parent.group).inverses
        single = inverses[sets[0]] == sets[0]
        units: list[tuple[int, ...]] = []  # columns of an involution or of a pair of inverses
        while (i := sum(map(len, units))) < len(single):
            units.append((i,) if single[i] else (i, i + 1))
        for _ in range(1 + int(self.rng.random() < 0.4)):
            unit = units[int(self.rng.integers(len(units)))]
            chosen = self.rng.choice(involutions if len(unit) == 1 else pairs, self.block)
            for column, values in zip(unit, (chosen, inverses[chosen]), strict=False):
                sets[:, column] = values
        return sets

    def evaluate(self, table: GroupTable) -> list[Judge]:
        """Return the costs of both directions, which are equal where links come in pairs."""
        both = (table.products, table.reversed_products)[: 1 if self.bidirectional else 2]
        return [partial(batch_costs, table, products) for products in both]
