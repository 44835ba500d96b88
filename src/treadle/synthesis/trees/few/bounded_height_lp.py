"""The linear program of trees within a height, a column for each, made as trees are needed.

At the prices of links any cheaper tree than what its root's data are worth betters the program. The search
for cheap ones (`low_pricing`) is not exact: where it finds none, the program's value is one that trees
attain, and no bound of what trees within the height may attain. Source: column generation (Dantzig and Wolfe,
1960), with duals smoothed against tailing off (Wentges, 1997).
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
"""Of solving the program and looking for trees; a tenth of a second each at 32 ranks."""

_GAIN = 1e-4
"""Part by which a round has to better the program, or the next one is without smoothing."""

_STALLED = 3
"""Rounds without gain, in which prices are disturbed as well, after which it is given up."""

_DISTURBED = 3
_FLOOR = 1e-9
"""Price of all links besides, so that of equally cheap trees short ones are taken."""


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
    """The program so far: the least time in which all roots send their shards over trees within a height.

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
        """Shares of the time and of the trees, prices of links, and what each root's data are worth."""
        found, m = self._lp.optimum(), len(self.bandwidths)
        if found is None:
            raise InfeasibleError(f"{self.problem.topology.name}: the program of low trees has no optimum")
        values, duals = found
        return values, np.maximum(duals[:m], 0.0), duals[m:]

    def add_at(
        self, prices: Floats, *, starts: Int64Array | None = None, worths: Floats | None = None
    ) -> tuple[int, Int64Array]:
        """Add cheap trees; how many were new, and the cheapest of each root.

        Parameters
        ----------
        prices : array of float, shape (m,)
        starts : array of int64, shape (roots, N), optional
            Trees to search from besides.
        worths : array of float, shape (roots,), optional
            Only trees that are cheaper.
        """
        cost, by_link = self.hops.at(prices + _FLOOR * float(prices.mean()) / self.bandwidths)
        shortest = shortest_trees(cost, self.roots)
        grown, spans = extended_trees(cost, self.roots, self.height)
        families = [shortest, np.where(spans[:, None], grown, shortest)]
        if starts is not None:
            families.append(starts)
        parents, totals = rehung(cost, np.concatenate(families), self.height)
        by_family = totals.reshape(len(families), -1)
        added = 0
        for row, (parent, total) in enumerate(zip(parents, totals.tolist(), strict=True)):
            place = row % len(self.roots)
            if worths is None or total < float(worths[place]) * (1 - _FLOOR) - _FLOOR**2:
                added += self._add(place, parent, by_link)
        best = by_family.argmin(axis=0) * len(self.roots) + np.arange(len(self.roots))
        return added, parents[best]

    def add_tree(self, root: int, parent: Int64Array, prices: Floats) -> bool:
        """Add a tree whose hops take the cheapest paths at these prices; whether it is new."""
        place = int(np.searchsorted(self.roots, root))
        return self._add(place, parent, self.hops.at(prices)[1])

    def _add(self, place: int, parent: Int64Array, by_link: Int64Array) -> bool:
        above = parent.tolist()
        paths = tuple(
            self.hops.path(by_link, sender, rank) if sender >= 0 else () for rank, sender in enumerate(above)
        )
        links, counts = np.unique([link for path in paths for link in path], return_counts=True)
        if not self._lp.is_new((place, links.tobytes(), counts.tobytes())):
            return False
        root = int(self.roots[place])
        self.trees.append(BoundedHeightTree(root, parent.copy(), paths, links.astype(np.int64), counts))
        self._lp.column(0.0, [*links, len(self.bandwidths) + place], [*-counts, 1.0])
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
        Of a unit of weight, in units of 1 / (largest bandwidth).
    prices : array of float, shape (m,)
        Of links, at the end.
    """

    program: BoundedHeightLp
    shares: Floats
    time: float
    prices: Floats

    @property
    def trees(self) -> Sequence[BoundedHeightTree]:
        """Of all roots."""
        return self.program.trees


def bounded_height_trees(
    problem: Instance, height: int, *, rounds: int = ROUNDS, seed: int = 0
) -> BoundedHeightTrees:
    """Trees within a height for which the program's value is high.

    Parameters
    ----------
    problem : Instance
    height : int
    rounds : int
        At most.
    seed : int
        Of disturbed prices.

    Raises
    ------
    InfeasibleError
        If some rank is farther than that from a root.
    TimeLimitError
        When the deadline passed.
    """
    program, chance = BoundedHeightLp(problem, height), np.random.default_rng(seed)
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
                noise = chance.uniform(0.5, 1.5, len(duals))
                program.add_at(
                    duals * noise + 0.1 * float(duals.mean()) * chance.random(len(duals)), starts=starts
                )
            stalled = 0 if last < at_stall * (1 - _GAIN) else stalled + 1
            at_stall = last
            if stalled >= _STALLED:
                break
        plain = not gains
    values, duals, _ = program.solve()
    return BoundedHeightTrees(program, values[1:], float(values[0]), duals)
