"""Rings and double binary trees of concurrent groups, as of separate communicators.

Each group's rings or trees are those of its own part of the fabric; of equally short routes each hop takes
the one that all groups together have used least, as even routing by hash does on average.
"""

from __future__ import annotations

from collections.abc import Callable

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.synthesis.trees.baselines.double_binary_tree import forest_of_trees, trees_over_boxes
from treadle.synthesis.trees.baselines.embedding import ForestBuilder, compose
from treadle.synthesis.trees.baselines.logical_hops import Router
from treadle.synthesis.trees.baselines.ring import forest_of_rings, ring_orders
from treadle.topologies.topology import Topology

OwnFabric = Callable[[int], tuple[Topology, Collective]]
"""Return a group's fabric, without nodes that it cannot use, and its collective on that."""


def rings_in_groups(topology: Topology, collective: Collective, own: OwnFabric) -> GroupSchedule:
    """Rings of each group; see `ring`."""

    def build(builder: ForestBuilder, fabric: Topology, member: Collective) -> Forest:
        return forest_of_rings(builder, ring_orders(fabric, member), member.shard_weights)

    return _in_groups(topology, collective, own, build)


def double_trees_in_groups(topology: Topology, collective: Collective, own: OwnFabric) -> GroupSchedule:
    """Two trees for each channel of each group; see `double_binary_tree`."""

    def build(builder: ForestBuilder, fabric: Topology, member: Collective) -> Forest:
        return forest_of_trees(builder, trees_over_boxes(fabric, member), member.root)

    return _in_groups(topology, collective, own, build)


def _in_groups(
    topology: Topology,
    collective: Collective,
    own: OwnFabric,
    build: Callable[[ForestBuilder, Topology, Collective], Forest],
) -> GroupSchedule:
    forward, backward = [0] * topology.n_links, [0] * topology.n_links
    compute = frozenset(topology.compute_nodes.tolist())

    def schedule_of(group: int) -> ForestSchedule:
        member = collective.member(group)
        part, inner = own(group)
        closed = compute.difference(member.ranks, member.forwarders)

        def one(fabric: Topology, there: Collective) -> Forest:
            is_turned = fabric is not topology
            router = Router(fabric, there, taken=backward if is_turned else forward, closed=closed)
            shape = part.transpose() if is_turned else part
            return build(ForestBuilder(fabric, there, router), shape, inner)

        return compose(topology, member, one)

    groups = range(collective.n_groups or 0)
    return GroupSchedule(CollectiveKind(collective.kind), tuple(map(schedule_of, groups)))
