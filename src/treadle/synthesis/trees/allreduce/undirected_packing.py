"""Fractional packing of undirected trees into a symmetric fabric, by column generation.

On a symmetric fabric one undirected tree is in both families: one direction of its links reduces, the other
broadcasts. Columns are priced by minimum spanning trees under path lengths; without switches the optimum is
the bound of Tutte and Nash-Williams. Source: docs/how-it-works/allreduce-and-groups.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, combinations
from math import lcm
from typing import TypeVar

import numpy as np

from treadle.context import TimeLimitError, context
from treadle.errors import InfeasibleError
from treadle.math.columns import RestrictedMaster
from treadle.math.exact import Vertex
from treadle.synthesis.trees.allreduce.in_network_trees import in_network_tree
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork
from treadle.synthesis.trees.allreduce.separation import Number
from treadle.synthesis.trees.allreduce.steiner_trees import FabricTree, spanning_tree

MAX_ENUMERATED_SWITCHES = 7
"""Branching switches and groups up to which every subset is tried; with more, they are searched locally."""

_TOLERANCE = 1e-9
_TREES_PER_ROUND = 6
_EXACT_ROUNDS = 64
TREE_WORK = 3000
"""Nanoseconds of a shortest tree for each pair; one with operations takes as much for each rank."""
_Value = TypeVar("_Value", float, Fraction)


def subsets(optional: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all subsets of switches and groups, the smallest first."""
    return chain.from_iterable(combinations(optional, size) for size in range(len(optional) + 1))


@dataclass(frozen=True)
class TreePacking:
    """Trees with rates that fit a symmetric fabric together.

    Parameters
    ----------
    rate : Fraction
        Sum of the rates, in units of `PairNetwork.unit`.
    trees : tuple of (FabricTree, Fraction)
        Rates > 0.
    lengths : tuple of Fraction, length m
        The dual: a length per pair, equal for reverse pairs. When `is_priced`, no tree is shorter than 1.
    is_priced : bool
        No better tree exists; False if the search stopped at `target`, or when that for branching switches
        was not exhaustive.
    """

    rate: Fraction
    trees: tuple[tuple[FabricTree, Fraction], ...]
    lengths: tuple[Fraction, ...]
    is_priced: bool


def pack_fabric_trees(
    network: PairNetwork,
    *,
    hint: Sequence[Fraction] | None = None,
    target: Fraction | None = None,
) -> TreePacking:
    """Maximise the total rate of trees on the ranks; each direction of a pair holds what crosses it.

    Parameters
    ----------
    network : PairNetwork
        Symmetric. Trees branch at ranks, at `network.branching` and in operations of `network.full_groups`.
    hint : sequence of Fraction, length m, optional
        Pair lengths near the dual optimum, say of the cut program; speeds the search up.
    target : Fraction, optional
        A known upper bound; the search ends there.

    Raises
    ------
    InfeasibleError
        If the ranks are not connected.
    TimeLimitError
        If the deadline passed. Where only its budget is used up, the trees so far are packed.

    Notes
    -----
    One undirected tree is an in-tree and an out-tree of any of its ranks: reducing crosses a pair one
    way, broadcasting the other. Rates y(t) fit if ``sum of y(t) * crossings(t, e) <= b(e)``; the dual is
    ``min of b.l / shortest tree under l``. That is the allreduce optimum of a symmetric fabric: under
    symmetric lengths an in-tree and an out-tree are at least as long as two shortest trees, so the dual
    bounds every two-family solution too. Columns are priced by minimum spanning trees under path
    distances, over subsets of the branching switches and groups; with groups by minimum arborescences, since
    what an operation crosses depends on its initiator. The in-tree is then the out-tree turned
    round, and together they cross either direction of a pair as often as the tree's `usage` says. Duals are
    mixed with the hint while that still finds improving trees, which damps their oscillation.
    """
    search = _TreeMaster(network)
    lengths = _hint_lengths(network, hint)
    if not search.add(search.candidates(lengths)):
        raise InfeasibleError("allreduce: the ranks are not connected by bidirectional links")
    try:
        _price_in_floats(search, lengths, target)
        return _price_exactly(search, target)
    except TimeLimitError:
        if context().is_past_deadline:
            raise
        return search.packing(None, is_priced=False)


def _price_in_floats(search: _TreeMaster, lengths: Sequence[float], target: Fraction | None) -> None:
    """Add trees until none is shorter than 1 by much, or the target is reached, within float precision."""
    n_ranks = len(search.network.ranks)
    # disturbed lengths give different trees: duals over few trees would not help
    for spread in (0.02, 0.1, 0.5):
        starts = max(4, n_ranks // 4)
        for start in range(starts):
            context().report("allreduce trees", start, starts)
            search.add(search.candidates(search.disturbed(lengths, spread)))
    stop = float("inf") if target is None else float(target) * (1 - _TOLERANCE)
    while True:
        rate, duals = search.solve()
        if rate >= stop:
            return
        mixed = [0.5 * d + 0.5 * h for d, h in zip(duals, lengths, strict=True)]
        found = 0
        for trial in range(_TREES_PER_ROUND):
            context().report("allreduce trees", trial, _TREES_PER_ROUND)
            spread = 0.02 * trial
            found += search.add(search.candidates(search.disturbed(mixed, spread)), duals, 1 - _TOLERANCE)
        if not found and not search.add(search.candidates(duals), duals, 1 - _TOLERANCE):
            return


def _price_exactly(search: _TreeMaster, target: Fraction | None) -> TreePacking:
    """Add trees until exact lengths prove that none is missing, or the target is reached."""
    for done in range(_EXACT_ROUNDS):
        context().report("allreduce trees", done, _EXACT_ROUNDS)
        vertex = search.lp.exact_optimum()
        if vertex is None:
            break
        rate = sum(vertex.primal, Fraction(0))
        if target is not None and rate >= target:
            return search.packing(vertex, is_priced=False)
        per_pair = search.per_pair(vertex.dual)
        scale = lcm(*(length.denominator for length in per_pair))
        whole = [int(length * scale) for length in per_pair]
        # lengths are whole now: shorter than 1 is at most scale - 1
        if not search.add(search.candidates(whole, 0), whole, scale - 1):
            return search.packing(vertex, is_priced=search.is_exhaustive)
        search.solve()
    return search.packing(search.lp.exact_optimum(), is_priced=False)


class _TreeMaster:
    """The restricted master program and the pool of trees."""

    def __init__(self, network: PairNetwork) -> None:
        self.network = network
        self._groups = {group.node: group for group in network.full_groups}
        self._branching = (*network.branching, *self._groups)
        self._random = np.random.default_rng(0)
        self.lp = RestrictedMaster(max(network.capacity))
        self._row = {
            e: self.lp.add_row({}, network.capacity[e])
            for e, opposite in enumerate(network.reverse)
            if e < opposite
        }
        self._pool: dict[frozenset[tuple[int, int]], FabricTree] = {}
        self._subset = frozenset(self._branching)
        self.is_exhaustive = len(self._branching) <= MAX_ENUMERATED_SWITCHES

    def disturbed(self, lengths: Sequence[float], spread: float) -> list[float]:
        """Return lengths times random factors up to 1 + spread, equal for reverse pairs."""
        factors = 1 + spread * self._random.random(len(lengths))
        reverse = self.network.reverse
        return [length * float(factors[min(e, reverse[e])]) for e, length in enumerate(lengths)]

    def candidates(self, lengths: Sequence[Number], tolerance: Number = _TOLERANCE) -> Iterator[FabricTree]:
        """Yield short trees under `lengths`; the shortest one when `is_exhaustive`.

        Lengths are floats, or integers with a tolerance of 0: the share by which another tree must be
        shorter.
        """
        if not self.is_exhaustive:
            yield from self._locally_shortest(lengths, tolerance)
            return
        trees = (self._tree(lengths, chosen) for chosen in subsets(self._branching))
        found = [tree for tree in trees if tree is not None]
        if found:
            yield min(found, key=lambda tree: tree.length(self.network, lengths))

    def _locally_shortest(self, lengths: Sequence[Number], tolerance: Number) -> Iterator[FabricTree]:
        """Add or remove single switches of the last subset while that shortens the tree."""
        best = self._tree(lengths, self._subset)
        if best is None:
            return
        shortest, improved = best.length(self.network, lengths), True
        while improved:
            improved = False
            for switch in self._branching:
                subset = self._subset ^ {switch}
                tree = self._tree(lengths, subset)
                length = shortest if tree is None else tree.length(self.network, lengths)
                if tree is not None and length < shortest - shortest * tolerance:
                    self._subset, best, shortest, improved = subset, tree, length, True
        yield best

    def _tree(self, lengths: Sequence[Number], chosen: Collection[int]) -> FabricTree | None:
        """Return the shortest tree that may branch at the chosen switches and groups."""
        groups = [self._groups[node] for node in sorted(chosen) if node in self._groups]
        context().spend(TREE_WORK * self.network.n_pairs * (len(self.network.ranks) if groups else 1))
        switches = [node for node in sorted(chosen) if node not in self._groups]
        if groups:
            return in_network_tree(self.network, lengths, switches, groups)
        return spanning_tree(self.network, lengths, (*self.network.ranks, *switches))

    def add(
        self, trees: Iterator[FabricTree], lengths: Sequence[Number] | None = None, limit: Number = 1
    ) -> int:
        """Add new trees, with `lengths` only those up to `limit` long; return how many."""
        added = 0
        for tree in trees:
            usage = tree.usage(self.network)
            key = frozenset(usage.items())
            if key in self._pool or (lengths is not None and tree.length(self.network, lengths) > limit):
                continue
            self._pool[key] = tree
            self.lp.add_column(1, {self._row[e]: count for e, count in usage.items()})
            added += 1
        return added

    def solve(self) -> tuple[float, list[float]]:
        """Return the total rate and each pair's length over the trees so far, in floats."""
        values, duals = self.lp.near_optimum()
        return sum(values) * self.lp.scale, self.per_pair([max(0.0, dual) for dual in duals])

    def per_pair(self, duals: Sequence[_Value]) -> list[_Value]:
        """Return the length of each pair, by the rows' duals."""
        reverse = self.network.reverse
        return [duals[self._row[min(e, reverse[e])]] for e in range(self.network.n_pairs)]

    def packing(self, vertex: Vertex | None, *, is_priced: bool) -> TreePacking:
        """Return the rates of an optimum; without one, the last ones in floats, scaled to fit."""
        rates = self._shrunk_to_fit() if vertex is None else vertex.primal
        trees = tuple(pair for pair in zip(self._pool.values(), rates, strict=True) if pair[1])
        lengths = [Fraction(0)] * self.network.n_pairs if vertex is None else self.per_pair(vertex.dual)
        return TreePacking(sum(rates, Fraction(0)), trees, tuple(lengths), is_priced and vertex is not None)

    def _shrunk_to_fit(self) -> list[Fraction]:
        values, _ = self.lp.near_optimum()
        rates = [max(Fraction(0), Fraction(v).limit_denominator(10**6)) * self.lp.scale for v in values]
        load = dict.fromkeys(self._row, Fraction(0))
        for usage, rate in zip(self._pool, rates, strict=True):
            for e, count in usage:
                load[e] += count * rate
        factor = max(Fraction(1), *(held / self.network.capacity[e] for e, held in load.items()))
        return [rate / factor for rate in rates]


def _hint_lengths(network: PairNetwork, hint: Sequence[Fraction] | None) -> list[float]:
    """Return the hint with slightly raised zeros; or 1/b, scaled so that b.l is about 1 per rank."""
    least = [1.0 / b for b in network.capacity]
    if hint is None:
        return [length / len(network.ranks) for length in least]
    return [float(length) + 1e-4 * low / len(network.ranks) for length, low in zip(hint, least, strict=True)]
