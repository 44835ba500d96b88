"""Capable switches and groups as terminals: spanning trees that visit them, pruned to trees of the ranks.

A capable switch gets the part of a rank without data, so that the pipeline for rooted trees builds trees that
visit it; pruning turns each visit into a branching (or a sum). A group of ranks that may ask a switch is a
terminal behind its members. What is attained so is real; the cut bound may be higher. Source:
docs/how-it-works/allreduce-and-groups.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count, islice

import numpy as np

from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest import (
    Direction,
    Forest,
    ForestSchedule,
    Tree,
    TreeSpec,
    forest_from_trees,
)
from treadle.synthesis.trees.allreduce.capacities import LinkAllocation
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork
from treadle.synthesis.trees.allreduce.two_family_lp import LpOptimum
from treadle.synthesis.trees.tree_parts import schedule_of
from treadle.topologies.topology import Topology

Entries = Sequence[tuple[tuple[int, ...], int]]
"""(links, units) in the order of the units."""


def terminal_network(network: PairNetwork) -> PairNetwork:
    """The network whose ranks are ranks, then branching switches, then groups; no switch is capable."""
    return replace(
        network,
        ranks=(*network.ranks, *network.branching, *(group.node for group in network.groups)),
        multicast=frozenset(),
        aggregation=frozenset(),
    )


def terminal_fabric(
    topology: Topology, collective: Collective, visiting: PairNetwork
) -> tuple[Topology, Collective, PairNetwork]:
    """The fabric with terminals as compute nodes, the allreduce on them too, and the network of that fabric.

    A group is a node of its own behind the links from and to its members that `_operations` lists.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    visiting : PairNetwork
        From `terminal_network`.
    """
    extra, tails, heads = len(visiting.groups), list[int](), list[int]()
    # group by group, the links that represent operations: from each member, and then to each
    for group in visiting.groups:
        node = [group.node] * len(group.members)
        tails += [*group.members, *node]
        heads += [*node, *group.members]
    is_compute = np.concatenate([topology.is_compute, np.ones(extra, dtype=np.bool_)])
    terminals = visiting.ranks[collective.n_ranks :]
    is_compute[list(terminals)] = True
    fabric = Topology(
        name=topology.name,
        node_names=(*topology.node_names, *_new_names(topology, extra)),
        is_compute=is_compute,
        tails=np.concatenate([topology.tails, tails]).astype(np.int32),
        heads=np.concatenate([topology.heads, heads]).astype(np.int32),
        bandwidths=np.concatenate([topology.bandwidths, [visiting.unit] * len(tails)]).astype(np.int64),
    )
    network = replace(
        visiting,
        n_nodes=visiting.n_vertices,
        tails=(*visiting.tails, *tails),
        heads=(*visiting.heads, *heads),
        capacity=(*visiting.capacity, *[1] * len(tails)),
        links=(*visiting.links, *((topology.n_links + i,) for i in range(len(tails)))),
        groups=(),
    )
    return fabric, replace(collective, ranks=(*collective.ranks, *terminals)), network


def terminal_allocation(topology: Topology, visiting: PairNetwork, found: LpOptimum) -> LinkAllocation:
    """Capacities of the network of `terminal_fabric` for trees that visit terminals.

    Every tree visits every group once, and then its data cross the links from the group to all members, or
    to it from all members: so much is set aside there. Each rank's operations divide among its parallel
    links.
    """
    families, parts = [], []
    for pairs, asked, stores in (
        (found.broadcast, found.asked[0], True),
        (found.reduce, found.asked[1], False),
    ):
        shares = list(pairs)
        for group in visiting.groups:
            everyone = (found.rate,) * len(group.members)
            calls = asked[group.node]
            for pair, rate in zip(group.up if stores else group.down, calls, strict=True):
                width = visiting.capacity[pair] * visiting.unit
                parts += [rate * int(topology.bandwidths[e]) / width for e in visiting.links[pair]]
            shares += [*calls, *everyone] if stores else [*everyone, *calls]
        families.append(tuple(shares))
    rates = [found.root_rates.get(node, Fraction(0)) for node in visiting.ranks]
    return LinkAllocation(rates, families[0], families[1], parts)


def _new_names(topology: Topology, number: int) -> list[str]:
    names = (f"group {i}" for i in count())
    return list(islice((name for name in names if name not in topology.node_names), number))


def prune_to_ranks(
    schedule: ForestSchedule, n_ranks: int, topology: Topology, visiting: PairNetwork
) -> ForestSchedule:
    """Prune an allreduce's trees on ranks and terminals to trees of the first `n_ranks` ranks.

    No tree is rooted at a terminal. The fabric is without terminals; `visiting` is from `terminal_network`.

    Terminals useless for all ranks drop out. At the others the first child continues the path that arrives
    from the parent; other children's paths begin there (broadcasting, the switch multicasts) or end there
    (reducing, the switch aggregates). At a group the links that represent operations become those between
    switch and ranks. Loads never rise above what was set aside.
    """
    lanes = _operation_lanes(topology, visiting)
    forests = []
    for forest in schedule.forests:
        assignment = _LaneAssignment.of(topology, forest, lanes)
        trees = (tree for root in range(n_ranks) for tree in forest.trees(root))
        specs = [_prune_tree(forest, tree, n_ranks, assignment) for tree in trees]
        forests.append(forest_from_trees(forest.direction, n_ranks, specs))
    return schedule_of(schedule.kind, *forests)


def _operation_lanes(topology: Topology, visiting: PairNetwork) -> Mapping[int, tuple[int, ...]]:
    """Return the parallel links between rank and switch for each link that represents operations."""
    pairs = [pair for group in visiting.groups for pair in (*group.up, *group.down)]
    return {topology.n_links + i: visiting.links[pair] for i, pair in enumerate(pairs)}


@dataclass
class _LaneAssignment:
    """Divides each rank's operations among its parallel links to the switch, in proportion to bandwidth."""

    lanes: Mapping[int, tuple[int, ...]]
    ends: dict[int, list[int]]
    """For each link that initiates operations, where each parallel link's units end."""
    assigned: dict[int, int]

    @classmethod
    def of(cls, topology: Topology, forest: Forest, lanes: Mapping[int, tuple[int, ...]]) -> _LaneAssignment:
        units, asked = forest.path_units(), Counter[int]()
        for path in np.flatnonzero(np.diff(forest.all_paths()[0]) == 1).tolist():
            link = int(forest.path(path)[0])
            if link in lanes:
                asked[link] += int(units[path])
        ends = {}
        for link, total in asked.items():
            widths = np.cumsum([int(topology.bandwidths[e]) for e in lanes[link]]).tolist()
            ends[link] = [total * width // widths[-1] for width in widths]
        return cls(lanes, ends, dict.fromkeys(asked, 0))

    def assign(self, link: int, units: int) -> list[tuple[int, int]]:
        """Return positions among parallel links, each with its units, for operations over `link`."""
        found = []
        for place, end in enumerate(self.ends[link]):
            part = min(units, max(0, end - self.assigned[link]))
            if part:
                found.append((place, part))
                self.assigned[link] += part
                units -= part
        return found

    def along(self, link: int, places: Sequence[tuple[int, int]]) -> Entries:
        """Return the paths that `link` represents for units assigned so."""
        lanes = self.lanes[link]
        return [((lanes[place % len(lanes)],), units) for place, units in places]


def _prune_tree(forest: Forest, tree: Tree, n_ranks: int, assignment: _LaneAssignment) -> TreeSpec:
    children = _serving_children(tree, n_ranks)
    parent = [-1] * n_ranks
    paths: dict[int, Entries] = {}
    stack: list[tuple[int, int, Entries]] = [(tree.root, tree.root, ())]
    while stack:
        node, ancestor, arriving = stack.pop()
        if node < n_ranks:
            if node != tree.root:
                parent[node], paths[node] = ancestor, arriving
            ancestor, arriving = node, ()
        places: Sequence[tuple[int, int]] = ()
        if arriving and (asked := arriving[0][0][0]) in assignment.lanes:
            places = assignment.assign(asked, tree.multiplicity)
            arriving = assignment.along(asked, places)
        for child in children.get(node, ()):
            own = _entries(forest, tree, child)
            if places:
                own = assignment.along(own[0][0][0], places)
            stack.append((child, ancestor, _joined(arriving, own, forest.direction) if arriving else own))
            if node >= n_ranks:
                arriving = ()
    return TreeSpec(tree.root, tree.multiplicity, parent, paths)


def _serving_children(tree: Tree, n_ranks: int) -> Mapping[int, list[int]]:
    """Return the children of each node, without terminals that have no rank below."""
    serves = {*range(n_ranks)}
    for rank in range(n_ranks):
        node = int(tree.parent[rank])
        while node >= 0 and node not in serves:
            serves.add(node)
            node = int(tree.parent[node])
    children: dict[int, list[int]] = {}
    for node in sorted(serves):
        if node != tree.root:
            children.setdefault(int(tree.parent[node]), []).append(node)
    return children


def _entries(forest: Forest, tree: Tree, node: int) -> Entries:
    span = range(int(tree.entry_offset[node]), int(tree.entry_offset[node + 1]))
    return [(tuple(forest.path(int(tree.entry_path[j])).tolist()), int(tree.entry_units[j])) for j in span]


def _joined(upper: Entries, lower: Entries, direction: Direction) -> Entries:
    """Join the paths above and below a terminal, unit by unit."""
    joined, below = [], list(reversed(lower))
    for high, left in upper:
        while left:
            low, some = below.pop()
            units = min(left, some)
            joined.append((high + low if direction is Direction.BROADCAST else low + high, units))
            left -= units
            if some > units:
                below.append((low, some - units))
    return joined
