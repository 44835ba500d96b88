"""Search for Cayley digraphs whose line graphs cost less than Theorem 7 says: random sets, then changes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import TopologyError
from treadle.finder.searches.candidates import FAR, GroupSearch, Judge, Searched, is_over
from treadle.finder.searches.cayley_batch import GroupTable, Int16Array, batch_costs
from treadle.finder.searches.cayley_library import LineGraphEntry, pareto_entries
from treadle.finder.searches.cayley_search import least_steps
from treadle.finder.searches.line_graph_value import batch_line_graph_costs, check_power, line_graph_value
from treadle.topologies.catalogue.cayley import cayley_graph
from treadle.topologies.limits import check_count

MAX_BASE_ORDER = 1024
"""Largest base searched."""

_SPAN = 4
_GROUPS = 4
_ROUND = 48


def search_line_graphs(
    n: int, degree: int, *, trials: int, seed: int = 0, power: int = 1
) -> Searched[LineGraphEntry]:
    """Return the front over (T_L, worse T_B of both directions) of L^power of the Cayley digraphs tried.

    Parameters
    ----------
    n : int
        Nodes of the line graph: degree**power times those of the base, 2 to 1024.
    degree : int
        d, 2 to 8.
    trials : int
        Generator sets to try, rounded up to whole blocks; fewer when both lower bounds are met.
    seed : int
    power : int
        n of L^n, 1 to 3.

    Returns
    -------
    Searched
        Entries by rising T_L and falling T_B; none if none of the sets tried connects the nodes within the
        steps considered.
    """
    check_power(power, degree)
    check_count("search_line_graphs", "trials", trials, most=10**9)
    base, rest = divmod(n, degree**power)
    if rest:
        raise TopologyError(f"search_line_graphs: expected a multiple of {degree**power} nodes, found {n}")
    check_count("search_line_graphs", "nodes of the base", base, least=2, most=MAX_BASE_ORDER)
    search = _LineGraphSearch(base, degree, power, seed)
    search.run(trials)
    return Searched(search.front(), search.tried)


class _LineGraphSearch(GroupSearch):
    """State of one search: rounds of climbing in a few groups each; the best bases per target T_L."""

    def __init__(self, n: int, degree: int, power: int, seed: int) -> None:
        least, nodes = least_steps(n, degree), n * degree**power
        targets = range(least, least + (2 * _SPAN if degree == 2 else _SPAN))
        super().__init__(n, degree, targets, nodes, [seed, n, degree, power])
        self.power = power

    def run(self, trials: int) -> None:
        order: list[int] = []
        groups: list[int] = []
        for block, _ in enumerate(range(0, trials, self.block)):
            if not self.targets or (block and is_over()):
                break
            self.tried += self.block
            phase = block % _ROUND
            if phase == 0:
                while len(order) < _GROUPS:
                    order += self.rng.permutation(len(self.groups)).tolist()
                groups, order = order[:_GROUPS], order[_GROUPS:]
                self.pools = {target: [] for target in self.targets}
            if phase < 2 * _GROUPS:
                self.try_block(groups[phase // 2], self._random_sets())
            else:
                self.try_block(*self._next_block(groups))

    def front(self) -> tuple[LineGraphEntry, ...]:
        bases = [cayley_graph(self.expression(one)) for one in self.best.values() if one.cost < FAR]
        return pareto_entries(line_graph_value(base, self.power) for base in bases)

    def _random_sets(self) -> Int64Array:
        return self.rng.integers(1, self.n, size=(self.block, self.degree))

    def _next_block(self, groups: Sequence[int]) -> tuple[int, Int64Array]:
        """Choose changes of one or two generators of a good base, or new sets of its group or another."""
        parent, choice = self.parent(0.15)
        if parent is None:
            return groups[int(self.rng.integers(len(groups)))], self._random_sets()
        if choice < 0.4:
            return parent.group, self._random_sets()
        sets = np.tile(np.array(parent.generators, dtype=np.int64), (self.block, 1))
        rows = np.arange(self.block)
        for chosen in (rows, rows[self.rng.random(self.block) < 0.5]):
            columns = self.rng.integers(self.degree, size=chosen.size)
            sets[chosen, columns] = self.rng.integers(1, self.n, chosen.size)
        return parent.group, sets

    def evaluate(self, table: GroupTable) -> list[Judge]:
        """Return the lower bounds of both directions, then their costs."""
        both = (table.products, table.reversed_products)

        def bound(products: Int16Array, sets: Int64Array, distance: Int16Array) -> Int64Array:
            # what is taken away saves at most what the first n steps cost
            return batch_costs(table, products, sets, distance) * np.int64(self.degree**self.power)

        costs = [partial(batch_line_graph_costs, table, products, n=self.power) for products in both]
        return [*(partial(bound, products) for products in both), *costs]
