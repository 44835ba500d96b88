"""Writes a plan's trees as ForestColl's XML.

Ranks are written as their numbers and all other nodes by their names. Units of a tree that take different
paths become trees of their own: a `send` has one path.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from xml.sax.saxutils import quoteattr

import numpy as np

from treadle.errors import InfeasibleError
from treadle.formats.request import FileRequest, Written
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.schedule import written_out
from treadle.schedules.trees.forest import Forest, ForestSchedule, Tree
from treadle.topologies.topology import Topology

_MOST_TREES = 10**6


def write(request: FileRequest) -> Written:
    """One XML; InfeasibleError for what is no allgather of trees with equal shards."""
    collective, topology = request.plan.collective, request.plan.topology
    if collective.kind is not CollectiveKind.ALLGATHER:
        raise InfeasibleError(
            f"forestcoll-xml: holds the out-trees of an allgather, found {collective.kind}; ForestColl turns "
            "those round for a reduce-scatter: solve for allgather"
        )
    schedule = written_out(request.entry.schedule)
    if not isinstance(schedule, ForestSchedule) or schedule.broadcast is None:
        raise InfeasibleError(
            "forestcoll-xml: the plan is made of steps; expected trees (--algorithm forestcoll)"
        )
    forest = schedule.broadcast
    per_root = set(forest.root_multiplicity.tolist())
    if len(per_root) != 1:
        raise InfeasibleError(
            "forestcoll-xml: shards differ in size, and the format has one number of chunks"
        )
    names = _names(topology, collective.ranks)
    per_node = per_root.pop() // forest.grain
    lines = [f'<Algo nchunkspernode="{per_node}">']
    count = 0
    for root in range(forest.n_ranks):
        for index, (tree, units, ways) in enumerate(_alike(forest, topology, root)):
            lines += _written(names, tree, index, units // forest.grain, ways)
            count += 1
            if count > _MOST_TREES:
                raise InfeasibleError(f"forestcoll-xml: more than {_MOST_TREES} trees")
    lines += ["</Algo>", ""]
    return Written((("", "\n".join(lines).encode()),))


def _names(topology: Topology, ranks: tuple[int, ...]) -> list[str]:
    """What each node is called; InfeasibleError for a name that would fall apart in a path."""
    numbers = {node: str(rank) for rank, node in enumerate(ranks)}
    names = [numbers.get(node, name) for node, name in enumerate(topology.node_names)]
    for name in names:
        if set(name) & set(",()[]'\"") or name != name.strip():
            raise InfeasibleError(
                f"forestcoll-xml: node {name[:40]!r}: paths are lists of names with commas between; rename it"
            )
    if len(set(names)) < len(names):
        raise InfeasibleError("forestcoll-xml: a switch has a number of a rank for its name; rename it")
    return names


_Ways = dict[int, list[int]]
"""Nodes of the path to each rank but the root, from its parent on."""


def _alike(forest: Forest, topology: Topology, root: int) -> Iterator[tuple[Tree, int, _Ways]]:
    """The trees of a root, cut wherever some edge changes its path."""
    for tree in forest.trees(root):
        ends = {0, tree.multiplicity}
        for rank in range(forest.n_ranks):
            span = slice(int(tree.entry_offset[rank]), int(tree.entry_offset[rank + 1]))
            ends.update(np.cumsum(tree.entry_units[span]).tolist())
        cuts = sorted(ends)
        for low, high in pairwise(cuts):
            yield tree, high - low, _ways(forest, topology, tree, low)


def _ways(forest: Forest, topology: Topology, tree: Tree, unit: int) -> _Ways:
    """The paths that a unit of a tree takes."""
    found: _Ways = {}
    for rank in range(forest.n_ranks):
        entry, before = int(tree.entry_offset[rank]), 0
        if rank == tree.root:
            continue
        while before + int(tree.entry_units[entry]) <= unit:
            before += int(tree.entry_units[entry])
            entry += 1
        links = forest.path(int(tree.entry_path[entry])).tolist()
        found[rank] = [int(topology.tails[links[0]]), *(int(topology.heads[link]) for link in links)]
        if not topology.is_compute[found[rank][0]]:
            raise InfeasibleError(
                "forestcoll-xml: a path begins at a switch that copies, which the format cannot say; solve "
                "without --multicast"
            )
    return found


def _written(names: list[str], tree: Tree, index: int, units: int, ways: _Ways) -> Iterator[str]:
    children: dict[int, list[int]] = {}
    for rank in ways:
        children.setdefault(int(tree.parent[rank]), []).append(rank)
    depth, order = {tree.root: 0}, [tree.root]
    sends = []
    for rank in order:
        for child in children.get(rank, ()):
            depth[child] = depth[rank] + 1
            order.append(child)
            nodes = [names[node] for node in ways[child]]
            path = quoteattr(",".join(nodes))
            sends.append(f"    <send src={quoteattr(nodes[0])} dst={quoteattr(nodes[-1])} path={path}/>")
    height = max(depth.values())
    yield f'  <tree root="{tree.root}" index="{index}" nchunks="{units}" height="{height}">'
    yield from sends
    yield "  </tree>"
