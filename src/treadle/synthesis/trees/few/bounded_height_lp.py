"""The linear program of trees within a height, with a column for each tree, by column generation.

At the dual prices any tree cheaper than its root's dual value improves the program. The search for cheap
trees (`low_pricing`) is not exact: where it finds none, trees attain the program's value, but other trees
within the height may be better. Source: column generation (Dantzig and Wolfe, 1960), with duals smoothed
against tailing off (Wentges, 1997).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int64Array
from treadle.context import context
from treadle.errors import InfeasibleError
from treadle.math.lp import Program
from treadle.synthesis.trees.few.hop_prices import Floats, HopPrices
from treadle.synthesis.trees.few.low_pricing import extended_trees, hop_layers, rehung, shortest_trees
from treadle.synthesis.trees.instance import Instance

Path = tuple[int, ...]
"""Links from a rank to the next, in order from the root outwards."""

ROUNDS = 60
"""Rounds of solving the program and pricing trees; a round takes 0.1 s at 32 ranks."""

_GAIN = 1e-4
"""Relative gain of a round below which the next one is without smoothing."""

_STALLED = 3
"""Rounds without gain, with disturbed prices too, after which the search ends."""

_DISTURBED = 3
_FLOOR = 1e-9
"""Added to the price of every link, so that short trees precede other trees of equal cost."""


@dataclass(frozen=True, eq=False)
class BoundedHeightTree:
    """An out-tree within the height.

    Parameters
    ----------
    root : int
        Rank.
    parent : array of int64, shape (N,)
        -1 at the root.
    paths : tuple of Path, length N
        From each rank's parent to it; empty at the root.
    links, counts : arrays of int64
        Links that it takes, and how often.
    """

    root: int
    parent: Int64Array
    paths: tuple[Path, ...]
    links: Int64Array
    counts: Int64Array


class BoundedHeightLp:
    """The program over the trees so far: the minimum time in which all roots send their shards.

    Parameters
    ----------
    problem : Instance
        With a positive bandwidth on every link.
    height : int
        Hops from rank to rank.

    Raises
    ------
    InfeasibleError
        If some rank is farther than that from a root.
    """

    def __init__(self, problem: Instance, height: int) -> None:
        self.problem, self.height = problem, height
        self.hops = HopPrices(problem)
        self.roots = np.flatnonzero(problem.weights).astype(np.int64)
        self.bandwidths = problem.bandwidths / float(problem.bandwidths.max())
        self.trees: list[BoundedHeightTree] = []
        layers = hop_layers(self.hops.at(np.ones(len(self.bandwidths)))[0], self.roots)
        if (layers < 0).any() or layers.max(initial=0) > height:
            far = "cannot be reached" if (layers < 0).any() else f"is {layers.max()} hops from a root"
            raise InfeasibleError(
                f"{problem.topology.name}: some rank {far}, expected trees of height {height}"
            )
        self._lp = Program()
        self._lp.column(1.0)
        for bandwidth in self.bandwidths.tolist():
            self._lp.row(0.0, np.inf, [0], [bandwidth])
        for weight in problem.weights[self.roots].tolist():
            self._lp.row(float(weight), float(weight))

    def solve(self) -> tuple[Floats, Floats, Floats]:
        """Return the time and the tree rates in one array, duals of links, and duals of roots."""
        found, m = self._lp.optimum(), len(self.bandwidths)
        if found is None:
            raise InfeasibleError(
                f"{self.problem.topology.name}: the LP of trees of bounded height has no optimum"
            )
        values, duals = found
        return values, np.maximum(duals[:m], 0.0), duals[m:]

    def add_at(
        self, prices: Floats, *, starts: Int64Array | None = None, worths: Floats | None = None
    ) -> tuple[int, Int64Array]:
        """Add cheap trees; return how many are new, and the cheapest of each root.

        The search begins with two trees of each root, and with `starts`, shape (roots, N), if given. Where
        `worths`, shape (roots,), are given, only cheaper trees are added.
        """
        cost, by_link = self.hops.at(prices + _FLOOR * float(prices.mean()) / self.bandwidths)
        shortest = shortest_trees(cost, self.roots)
        extended, spans = extended_trees(cost, self.roots, self.height)
        families = [shortest, np.where(spans[:, None], extended, shortest)]
        families += [] if starts is None else [starts]
        parents, totals = rehung(cost, np.concatenate(families), self.height)
        n_roots, added = len(self.roots), 0
        for row, (parent, total) in enumerate(zip(parents, totals.tolist(), strict=True)):
            if worths is None or total < float(worths[row % n_roots]) * (1 - _FLOOR) - _FLOOR**2:
                added += self._add(row % n_roots, parent, by_link)
        best = totals.reshape(len(families), -1).argmin(axis=0) * n_roots + np.arange(n_roots)
        return added, parents[best]

    def add_tree(self, root: int, parent: Int64Array, prices: Floats) -> bool:
        """Add a tree whose hops take the cheapest paths at these prices; return whether it is new."""
        return self._add(int(np.searchsorted(self.roots, root)), parent, self.hops.at(prices)[1])

    def _add(self, position: int, parent: Int64Array, by_link: Int64Array) -> bool:
        paths = tuple(
            self.hops.path(by_link, sender, rank) if sender >= 0 else ()
            for rank, sender in enumerate(parent.tolist())
        )
        links, counts = np.unique([link for path in paths for link in path], return_counts=True)
        if not self._lp.is_new((position, links.tobytes(), counts.tobytes())):
            return False
        root = int(self.roots[position])
        self.trees.append(BoundedHeightTree(root, parent.copy(), paths, links.astype(np.int64), counts))
        self._lp.column(0.0, [*links, len(self.bandwidths) + position], [*-counts, 1.0])
        return True


@dataclass(frozen=True, eq=False)
class BoundedHeightTrees:
    """Trees within a height, and how much the program sends over each.

    Parameters
    ----------
    program : BoundedHeightLp
    shares : array of float, shape (trees,)
        Those of a root sum to its weight.
    time : float
        Time of a unit of weight, in units of 1 / (largest bandwidth).
    prices : array of float, shape (m,)
        Final dual prices.
    """

    program: BoundedHeightLp
    shares: Floats
    time: float
    prices: Floats

    @property
    def trees(self) -> Sequence[BoundedHeightTree]:
        """Trees of all roots."""
        return self.program.trees


def bounded_height_trees(problem: Instance, height: int, *, rounds: int = ROUNDS) -> BoundedHeightTrees:
    """Return trees within a height for which the program's value is high, after at most `rounds` rounds.

    Raises
    ------
    InfeasibleError
        If some rank is farther than that from a root.
    """
    program, random = BoundedHeightLp(problem, height), np.random.default_rng(0)
    prices = 1.0 / program.bandwidths
    _, starts = program.add_at(prices)
    last, at_stall, stalled, plain = np.inf, np.inf, 0, True
    for number in range(rounds):
        context().report("low trees", number, rounds)
        values, duals, worths = program.solve()
        gains = values[0] < last * (1 - _GAIN)
        last, plain = float(values[0]), plain or not gains
        prices = duals if plain else (prices + duals) / 2
        added, starts = program.add_at(prices, starts=starts, worths=worths if plain else None)
        if plain and not added:
            for _ in range(_DISTURBED):
                noise = random.uniform(0.5, 1.5, len(duals))
                disturbed = duals * noise + 0.1 * float(duals.mean()) * random.random(len(duals))
                program.add_at(disturbed, starts=starts)
            stalled = 0 if last < at_stall * (1 - _GAIN) else stalled + 1
            at_stall = last
            if stalled >= _STALLED:
                break
        plain = not gains
    values, duals, _ = program.solve()
    return BoundedHeightTrees(program, values[1:], float(values[0]), duals)
