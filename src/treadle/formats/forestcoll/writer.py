"""Writes a plan's trees as ForestColl's XML.

Ranks are written as their numbers and all other nodes by their names. A `send` has one path, so units of a
tree that use different paths become separate trees.
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
    """Write one XML; InfeasibleError unless the plan is an allgather of trees with equal shards."""
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
        for index, (tree, units, paths) in enumerate(_trees(forest, topology, root)):
            lines += _tree_lines(names, tree, index, units // forest.grain, paths)
            count += 1
            if count > _MOST_TREES:
                raise InfeasibleError(f"forestcoll-xml: more than {_MOST_TREES} trees")
    lines += ["</Algo>", ""]
    return Written((("", "\n".join(lines).encode()),))


def _names(topology: Topology, ranks: tuple[int, ...]) -> list[str]:
    """Return the name of each node in the file; InfeasibleError for a name that is ambiguous in a path."""
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


_Paths = dict[int, list[int]]
"""Nodes of the path to each rank but the root, from its parent on."""


def _trees(forest: Forest, topology: Topology, root: int) -> Iterator[tuple[Tree, int, _Paths]]:
    """Yield the trees of a root, split wherever some edge changes its path, with their numbers of units."""
    for tree in forest.trees(root):
        ends = {0, tree.multiplicity}
        for rank in range(forest.n_ranks):
            span = slice(int(tree.entry_offset[rank]), int(tree.entry_offset[rank + 1]))
            ends.update(np.cumsum(tree.entry_units[span]).tolist())
        for low, high in pairwise(sorted(ends)):
            yield tree, high - low, _paths(forest, topology, tree, low)


def _paths(forest: Forest, topology: Topology, tree: Tree, unit: int) -> _Paths:
    """Return the paths of one unit of a tree."""
    found: _Paths = {}
    for rank in range(forest.n_ranks):
        if rank == tree.root:
            continue
        first, past = int(tree.entry_offset[rank]), int(tree.entry_offset[rank + 1])
        entry = first + int(np.searchsorted(np.cumsum(tree.entry_units[first:past]), unit, side="right"))
        links = forest.path(int(tree.entry_path[entry])).tolist()
        found[rank] = [int(topology.tails[links[0]]), *(int(topology.heads[link]) for link in links)]
        if not topology.is_compute[found[rank][0]]:
            raise InfeasibleError(
                "forestcoll-xml: the plan uses in-network multicast, which the format cannot express; solve "
                "without --multicast"
            )
    return found


def _tree_lines(names: list[str], tree: Tree, index: int, units: int, paths: _Paths) -> Iterator[str]:
    children: dict[int, list[int]] = {}
    for rank in paths:
        children.setdefault(int(tree.parent[rank]), []).append(rank)
    depth, order = {tree.root: 0}, [tree.root]
    sends = []
    for rank in order:
        for child in children.get(rank, ()):
            depth[child] = depth[rank] + 1
            order.append(child)
            nodes = [names[node] for node in paths[child]]
            path = quoteattr(",".join(nodes))
            sends.append(f"    <send src={quoteattr(nodes[0])} dst={quoteattr(nodes[-1])} path={path}/>")
    height = max(depth.values())
    yield f'  <tree root="{tree.root}" index="{index}" nchunks="{units}" height="{height}">'
    yield from sends
    yield "  </tree>"
