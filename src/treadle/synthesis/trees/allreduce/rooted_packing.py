"""Fractional packing of in-trees and out-trees on fabrics with capable switches, by column generation.

For small fabrics only: pricing tries every subset of capable switches and groups. A potential for each
rank sees to it that as much is reduced to it as is broadcast from it.
Source: docs/how-it-works/allreduce-and-groups.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

from treadle.context import TimeLimitError, context, under
from treadle.math.columns import RestrictedMaster
from treadle.synthesis.trees.allreduce.in_network_trees import in_network_tree
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork, SwitchGroup
from treadle.synthesis.trees.allreduce.steiner_trees import FabricTree
from treadle.synthesis.trees.allreduce.undirected_packing import MAX_ENUMERATED_SWITCHES, TREE_WORK, subsets

MAX_RANKS = 32
"""Ranks above which an arborescence for each subset of switches and each round takes too long."""

_TOLERANCE = 1e-9
_ROUNDS = 200


@dataclass(frozen=True)
class RootedPacking:
    """In-trees and out-trees with rates, as much of both at every root.

    Parameters
    ----------
    rate : Fraction
        Sum of the rates of either, in units of `PairNetwork.unit`.
    broadcast, reduce : tuple of (FabricTree, Fraction)
        Rates > 0. Edges and operations of in-trees go from the root outwards, too: on the links turned round.
    """

    rate: Fraction
    broadcast: tuple[tuple[FabricTree, Fraction], ...]
    reduce: tuple[tuple[FabricTree, Fraction], ...]

    @property
    def has_operations(self) -> bool:
        """Whether some tree asks a switch."""
        return any(tree.operations for tree, _ in (*self.broadcast, *self.reduce))


def can_pack_rooted_trees(network: PairNetwork) -> bool:
    """Whether the fabric is small enough."""
    able = len(network.multicast | network.aggregation) + len(network.groups)
    return able <= MAX_ENUMERATED_SWITCHES and len(network.ranks) <= MAX_RANKS


def pack_rooted_trees(network: PairNetwork, *, target: Fraction) -> RootedPacking | None:
    """Maximise the total rate of pairs of trees that branch at capable switches and use operations.

    Parameters
    ----------
    network : PairNetwork
        Every rank reaches every other.
    target : Fraction
        A known upper bound; the search ends there.

    Returns
    -------
    RootedPacking or None
        None if no exact solution was found.

    Raises
    ------
    TimeLimitError
        If the deadline passed. Where only its budget is used up, the trees so far are packed.

    Notes
    -----
    The restricted program has a column for each tree found so far, a row for each pair's bandwidth, and one
    for each rank: as much is reduced to it as is broadcast from it. Its duals are lengths of pairs and a
    potential for each rank; the shortest trees for each subset of switches and groups under these lengths,
    roots weighed by their potentials, are new columns, until none is short enough.
    """
    search = _RootedMaster(network)
    search.add_starts()
    try:
        for done in range(_ROUNDS):
            context().report("allreduce trees", done, _ROUNDS)
            rate, lengths, potentials = search.solve()
            if rate >= float(target) * (1 - _TOLERANCE) or not search.add(lengths, potentials):
                break
    except TimeLimitError:  # the trees so far are packed
        if context().is_past_deadline:
            raise
    return search.packing()


class _Side:
    """Trees of one family as out-trees: in-trees on the reversed network."""

    def __init__(self, network: PairNetwork, *, stores: bool) -> None:
        self.stores = stores
        able = network.multicast if stores else network.aggregation
        groups = [g for g in network.groups if (g.multicasts if stores else g.aggregates)]
        if not stores:  # every pair is reversed and keeps its number
            turned = tuple(replace(g, up=g.down, down=g.up) for g in network.groups)
            network = replace(network, tails=network.heads, heads=network.tails, groups=turned)
        self._network = network
        self._optional = (*sorted(able), *(g.node for g in groups))
        self._groups: Mapping[int, SwitchGroup] = {g.node: g for g in network.groups}

    def shortest(self, lengths: Sequence[float], weights: Sequence[float]) -> Iterator[FabricTree]:
        """Yield the shortest tree for every subset of switches and groups, roots weighed."""
        for chosen in subsets(self._optional):
            groups = [self._groups[node] for node in chosen if node in self._groups]
            switches = [node for node in chosen if node not in self._groups]
            context().spend(TREE_WORK * self._network.n_pairs * len(self._network.ranks))
            tree = in_network_tree(self._network, lengths, switches, groups, weights)
            if tree is not None:
                yield tree


class _RootedMaster:
    """The restricted master program and its trees."""

    def __init__(self, network: PairNetwork) -> None:
        self._network = network
        self._sides = (_Side(network, stores=True), _Side(network, stores=False))
        self._lp = RestrictedMaster(max(network.capacity))
        for bandwidth in network.capacity:
            self._lp.add_row({}, bandwidth)
        self._row = {rank: self._lp.add_row({}, equality=True) for rank in network.ranks}
        self._columns: list[tuple[_Side, FabricTree]] = []

    def add_starts(self) -> None:
        """Add a tree of either side at every rank."""
        lengths = [1.0 / b for b in self._network.capacity]
        # more than the length of any tree: only the wanted rank can be its root
        many = 2 * sum(lengths) * (len(lengths) + 1)
        ranks = range(len(self._network.ranks))
        for root, side in product(ranks, self._sides):
            for tree in side.shortest(lengths, [0.0 if rank == root else many for rank in ranks]):
                self._insert(side, tree)

    def add(self, lengths: Sequence[float], potentials: Sequence[float]) -> int:
        """Add the trees of negative reduced cost; return how many."""
        added = 0
        for side in self._sides:
            sign = 1 if side.stores else -1
            weights = [sign * potential for potential in potentials]
            # only out-trees count in the total; the value of in-trees is the potential of their roots
            limit = 1.0 if side.stores else 0.0
            for tree in side.shortest(lengths, weights):
                root = self._network.ranks.index(tree.root or 0)
                length = sum(lengths[pair] * count for pair, count in tree.crossings().items())
                if length + weights[root] < limit - _TOLERANCE:
                    added += self._insert(side, tree)
        return added

    def _insert(self, side: _Side, tree: FabricTree) -> bool:
        crossings = tree.crossings()
        key = side.stores, tree.root, frozenset(crossings.items())
        if tree.root is None or not self._lp.is_new(key):
            return False
        self._columns.append((side, tree))
        sign = 1 if side.stores else -1
        self._lp.add_column(int(side.stores), {**crossings, self._row[tree.root]: sign})
        return True

    def solve(self) -> tuple[float, list[float], list[float]]:
        """Return the total rate, each pair's length and each rank's potential, in floats."""
        values, duals = self._lp.near_optimum()
        rate = sum(v for v, (side, _) in zip(values, self._columns, strict=True) if side.stores)
        m = self._network.n_pairs
        return rate * self._lp.scale, [max(0.0, dual) for dual in duals[:m]], duals[m:]

    def packing(self) -> RootedPacking | None:
        """Return the last solution in exact rationals."""
        with under(replace(context(), budget=None)):
            vertex = self._lp.exact_optimum()
        if vertex is None:
            return None
        found = [pair for pair in zip(self._columns, vertex.primal, strict=True) if pair[1]]
        broadcast, reduce = (
            tuple((tree, rate) for (side, tree), rate in found if side.stores is way) for way in (True, False)
        )
        return RootedPacking(sum((rate for _, rate in broadcast), Fraction(0)), broadcast, reduce)
