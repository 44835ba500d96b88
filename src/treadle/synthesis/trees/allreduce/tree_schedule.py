"""From packed undirected trees to in-trees and out-trees on physical links."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from math import gcd

from treadle.math.exact import over_common_denominator
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import Direction, ForestSchedule, TreeSpec, forest_from_trees
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork
from treadle.synthesis.trees.allreduce.rooted_packing import RootedPacking
from treadle.synthesis.trees.allreduce.steiner_trees import FabricTree
from treadle.synthesis.trees.tree_parts import apportioned, in_largest_unit, schedule_of
from treadle.topologies.topology import Topology

MAX_UNITS = 2**20
"""Default number of unit trees above which rates are rounded."""

_TRIALS = 32
_FEW_UNITS = 64

Neighbours = Mapping[int, Sequence[tuple[int, tuple[int, ...]]]]
"""(neighbour, path of pairs towards it) of every node of a tree."""


def trees_to_schedule(
    topology: Topology,
    network: PairNetwork,
    trees: Sequence[tuple[FabricTree, Fraction]],
    *,
    max_units: int = MAX_UNITS,
) -> ForestSchedule:
    """Root every tree at its centre; reduce towards the root, then broadcast from it along the same tree.

    Parameters
    ----------
    topology : Topology
    network : PairNetwork
        Symmetric, of `topology`.
    trees : sequence of (FabricTree, rate)
        Rates > 0, in units of `PairNetwork.unit`, that fit the network.
    max_units : int
        Most unit trees. Rates whose common denominator needs more are rounded and lose a little.

    Notes
    -----
    A tree with operations keeps its root, which determines the initiator.
    At a branching switch, and at that of a group, the first child continues the path that arrives there;
    the paths of the other children begin (broadcasting) or end (reducing) at the switch.
    """
    trees = _with_few_units(network, trees, max_units)
    units, lanes = _in_units(topology, network, [rate for _, rate in trees])
    rank_of = {node: rank for rank, node in enumerate(network.ranks)}
    specs: dict[Direction, list[TreeSpec]] = {direction: [] for direction in Direction}
    for (tree, _), amount in zip(trees, units, strict=True):
        neighbours = _neighbours(network, tree)
        # data go to the root and back, so that its distance to the farthest rank counts twice
        root = tree.root
        if root is None:  # the centre; in a tree the farthest node from any node is an end of a longest path
            far = _path_to_farthest(neighbours, network.ranks[0], rank_of)[-1]
            path = _path_to_farthest(neighbours, far, rank_of)
            root = path[len(path) // 2]
        parent, paths = _orient(neighbours, rank_of, root)
        for direction in Direction:
            if direction is Direction.REDUCE:
                paths = {rank: _backwards(network, pairs) for rank, pairs in paths.items()}
            spread = {rank: lanes.spread(pairs, amount) for rank, pairs in paths.items()}
            specs[direction].append(TreeSpec(rank_of[root], amount, parent, spread))
    forests = (forest_from_trees(direction, len(rank_of), own) for direction, own in specs.items())
    return schedule_of(CollectiveKind.ALLREDUCE, *forests)


def _backwards(network: PairNetwork, pairs: Sequence[int]) -> tuple[int, ...]:
    return tuple(network.reverse[pair] for pair in reversed(pairs))


def rooted_trees_to_schedule(
    topology: Topology, network: PairNetwork, packing: RootedPacking, *, max_units: int = MAX_UNITS
) -> ForestSchedule | None:
    """Return packed in-trees and out-trees as they are; None if that takes more than `max_units` units."""
    rates = [rate for _, rate in (*packing.broadcast, *packing.reduce)]
    units, lanes = _in_units(topology, network, rates)
    if sum(units[: len(packing.broadcast)]) > max_units:
        return None
    rank_of = {node: rank for rank, node in enumerate(network.ranks)}
    forests = []
    for direction, trees, amounts in (
        (Direction.BROADCAST, packing.broadcast, units[: len(packing.broadcast)]),
        (Direction.REDUCE, packing.reduce, units[len(packing.broadcast) :]),
    ):
        specs = []
        for (tree, _), amount in zip(trees, amounts, strict=True):
            root = network.ranks[0] if tree.root is None else tree.root
            outwards: dict[int, list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
            for one, other, between in tree.edges:
                outwards[one].append((other, between))
            parent, paths = _orient(outwards, rank_of, root)
            step = 1 if direction is Direction.BROADCAST else -1
            spread = {v: lanes.spread(pairs[::step], amount) for v, pairs in paths.items()}
            specs.append(TreeSpec(rank_of[root], amount, parent, spread))
        forests.append(forest_from_trees(direction, len(rank_of), specs))
    return schedule_of(CollectiveKind.ALLREDUCE, *forests)


def _in_units(
    topology: Topology, network: PairNetwork, rates: Sequence[Fraction]
) -> tuple[list[int], _Lanes]:
    """Return rates as integers of the largest unit, and the capacity of parallel links in these units."""
    wide = {pair: members for pair, members in enumerate(network.links) if len(members) > 1}
    widths = [Fraction(int(topology.bandwidths[e]), network.unit) for es in wide.values() for e in es]
    units = iter(in_largest_unit([*rates, *widths]))
    amounts = list(islice(units, len(rates)))
    return amounts, _Lanes(network, {pair: list(islice(units, len(es))) for pair, es in wide.items()})


def unit_trees(network: PairNetwork, trees: Sequence[tuple[FabricTree, Fraction]]) -> int:
    """Return the number of unit trees of a schedule of the trees that loses nothing."""
    return sum(in_largest_unit([rate for _, rate in _with_few_units(network, trees, MAX_UNITS)]))


def _with_few_units(
    network: PairNetwork, trees: Sequence[tuple[FabricTree, Fraction]], max_units: int
) -> Sequence[tuple[FabricTree, Fraction]]:
    """Return rates of the fewest unit trees that lose nothing, or the best rounding to `max_units`."""
    exact, scale = over_common_denominator([rate for _, rate in trees])
    total = Fraction(sum(exact), scale)
    usages = [tree.usage(network) for tree, _ in trees]
    best, best_rates = Fraction(0), [Fraction(0)] * len(trees)
    for units in _unit_numbers(sum(exact) // gcd(*exact), max_units):
        counts = apportioned(exact, units)
        load = Counter[int]()
        for usage, count in zip(usages, counts, strict=True):
            load.update({e: crossings * count for e, crossings in usage.items()})
        unit_rate = min(Fraction(network.capacity[e], loaded) for e, loaded in load.items() if loaded)
        if unit_rate * units > best:
            best, best_rates = unit_rate * units, [unit_rate * count for count in counts]
        if best >= total:
            break
    return [(tree, rate) for (tree, _), rate in zip(trees, best_rates, strict=True) if rate]


def _unit_numbers(exact: int, max_units: int) -> list[int]:
    """Return numbers of units to try, rising: small ones, then the exact one or a spread up to the limit."""
    small = range(1, min(_FEW_UNITS, max_units) + 1)
    if exact <= max_units:
        return sorted({*(units for units in small if units < exact), exact})
    return sorted({*small, *(max(1, max_units * trial // _TRIALS) for trial in range(1, _TRIALS + 1))})


@dataclass(frozen=True)
class _Lanes:
    """Parallel links, filled one after the other; reducing and broadcasting trees share their capacity."""

    network: PairNetwork
    room: dict[int, list[int]]

    def spread(self, pairs: Sequence[int], units: int) -> list[tuple[tuple[int, ...], int]]:
        """Return physical paths along `pairs` for a number of units."""
        paths: list[tuple[tuple[int, ...], int]] = [((), units)]
        for pair in pairs:
            members = self.network.links[pair]
            if pair not in self.room:
                paths = [((*links, members[0]), amount) for links, amount in paths]
                continue
            room, longer = self.room[pair], list[tuple[tuple[int, ...], int]]()
            for links, amount in paths:
                left = amount
                for lane, link in enumerate(members):
                    part = min(left, room[lane])
                    if part:
                        room[lane] -= part
                        left -= part
                        longer.append(((*links, link), part))
                assert not left, "the packing loads a pair beyond its bandwidth"
            paths = longer
        return paths


def _neighbours(network: PairNetwork, tree: FabricTree) -> Neighbours:
    joined: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
    for one, other, pairs in tree.edges:
        joined.setdefault(one, []).append((other, pairs))
        joined.setdefault(other, []).append((one, _backwards(network, pairs)))
    return joined


def _path_to_farthest(neighbours: Neighbours, start: int, rank_of: Mapping[int, int]) -> list[int]:
    """Return the ranks of a path from `start` to a rank with most ranks in between."""
    longest = [start]
    stack = [(start, -1, [start])]
    while stack:
        node, before, path = stack.pop()
        if len(path) > len(longest):
            longest = path
        for other, _ in neighbours[node]:
            if other != before:
                stack.append((other, node, [*path, other] if other in rank_of else path))
    return longest


def _orient(
    neighbours: Neighbours, rank_of: Mapping[int, int], root: int
) -> tuple[list[int], dict[int, tuple[int, ...]]]:
    """Return parents, and the path of pairs that leads to each rank from the root."""
    parent = [-1] * len(rank_of)
    paths: dict[int, tuple[int, ...]] = {}
    stack: list[tuple[int, int, int, tuple[int, ...]]] = [(root, -1, root, ())]
    while stack:
        node, before, ancestor, arriving = stack.pop()
        if node in rank_of:
            if node != root:
                parent[rank_of[node]] = rank_of[ancestor]
                paths[rank_of[node]] = arriving
            ancestor, arriving = node, ()
        for other, pairs in neighbours[node]:
            if other != before:
                stack.append((other, node, ancestor, (*arriving, *pairs)))
                if node not in rank_of:
                    arriving = ()
    return parent, paths
