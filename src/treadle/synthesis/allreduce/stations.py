"""Capable switches as stations: spanning trees that visit them, pruned to trees of the ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from treadle.schedules.collective import Collective
from treadle.schedules.forest import Direction, Forest, ForestSchedule, Tree, TreeSpec, forest_from_trees
from treadle.synthesis.allreduce.network import Network
from treadle.topologies.topology import Topology

Entries = Sequence[tuple[tuple[int, ...], int]]
"""(links, units) in the order of the units."""


def station_network(network: Network) -> Network:
    """The network whose ranks are the ranks and then the branching switches; no switch is capable."""
    return replace(
        network,
        ranks=(*network.ranks, *network.branching),
        multicast=frozenset(),
        aggregation=frozenset(),
    )


def station_fabric(
    topology: Topology, collective: Collective, network: Network
) -> tuple[Topology, Collective]:
    """The fabric with branching switches as compute nodes, and the allreduce on them too."""
    is_compute = topology.is_compute.copy()
    is_compute[list(network.branching)] = True
    none = np.zeros(topology.n_nodes, dtype=np.bool_)
    fabric = replace(topology, is_compute=is_compute, multicast=none, aggregation=none)
    return fabric, replace(collective, ranks=(*collective.ranks, *network.branching))


def leave_stations(schedule: ForestSchedule, n_ranks: int) -> ForestSchedule:
    """Prune trees on ranks and stations to trees of the first `n_ranks` ranks.

    Parameters
    ----------
    schedule : ForestSchedule
        An allreduce; no tree is rooted at a station.
    n_ranks : int

    Notes
    -----
    Stations that serve no rank drop out. At the others the first child continues the path that arrives from
    the parent; other children's paths begin there (broadcasting, the switch multicasts) or end there
    (reducing, the switch aggregates). Loads never rise.
    """
    forests = [_pruned(forest, n_ranks) for forest in schedule.forests]
    return ForestSchedule(schedule.kind, reduce=forests[0], broadcast=forests[1])


def _pruned(forest: Forest, n_ranks: int) -> Forest:
    specs = [_prune_tree(forest, tree, n_ranks) for root in range(n_ranks) for tree in forest.trees(root)]
    return forest_from_trees(forest.direction, n_ranks, specs)


def _prune_tree(forest: Forest, tree: Tree, n_ranks: int) -> TreeSpec:
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
        for child in children.get(node, ()):
            own = _entries(forest, tree, child)
            stack.append((child, ancestor, _joined(arriving, own, forest.direction) if arriving else own))
            if node >= n_ranks:
                arriving = ()
    return TreeSpec(tree.root, tree.multiplicity, parent, paths)


def _serving_children(tree: Tree, n_ranks: int) -> Mapping[int, list[int]]:
    """Children of each node, without stations below which there is no rank."""
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
    """Join the paths above and below a station, unit by unit."""
    joined = []
    above, below = iter(upper), iter(lower)
    (high, many), (low, some) = next(above), next(below)
    while True:
        units = min(many, some)
        joined.append((high + low if direction is Direction.BROADCAST else low + high, units))
        many, some = many - units, some - units
        if not many:
            following = next(above, None)
            if following is None:
                return joined
            high, many = following
        if not some:
            low, some = next(below)
