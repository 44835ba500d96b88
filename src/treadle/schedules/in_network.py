"""Operations of GPU-initiated switches: their groups, and the links that they load in addition to paths.

The rule is that of NVLink SHARP's multimem instructions. Such a switch (`Topology.turns_round` is false)
multicasts or sums in operations. Each operation belongs to one rank, its initiator, and its group is all
ranks at the switch, including the initiator. A store crosses the initiator's link up and the link down to
every rank of the group. A load that sums crosses the link up from every rank of the group and the initiator's
link down.

In a forest (an out-tree; in-trees are its mirror image) a store of rank r at switch w consists of the
following paths of a unit: the path r, w, child to one child of r, and the copies, which are the paths w,
child to other children. The store also crosses the links of the group that no such path names: the link to r
itself, and those to ranks that receive their data elsewhere. Among parallel links, these crossings use the
one at the index that the link from r to w has among its own parallel links, modulo their number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.schedules.trees.forest import Direction, Forest, Tree
from treadle.topologies.topology import Topology

Lanes = Mapping[tuple[int, int], Sequence[int]]
"""Parallel links from a node to another, rising."""


def inputs_of(topology: Topology) -> Lanes:
    """Return all links by their ends."""
    lanes: dict[tuple[int, int], list[int]] = defaultdict(list)
    for link, ends in enumerate(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)):
        lanes[ends].append(link)
    return dict(lanes)


def members_at(lanes: Lanes, switch: int, ranks: Iterable[int]) -> tuple[int, ...]:
    """Return the group of a switch: the nodes of ranks with links to it and from it, rising."""
    return tuple(sorted({rank for rank in ranks if (rank, switch) in lanes and (switch, rank) in lanes}))


def unnamed_crossings(
    lanes: Lanes, members: Sequence[int], served: Iterable[int], call: tuple[int, int, int], *, outward: bool
) -> list[int]:
    """Return the links that an operation crosses in addition to those that paths name.

    Parameters
    ----------
    `lanes` : mapping
    members : sequence of int
        The group.
    `served` : iterable of int
        Nodes whose crossing a path names.
    call : tuple of (initiator, switch, link)
        The link joins initiator and switch: upwards for a store, downwards for a sum.
    outward : bool
        Whether it is a store; otherwise it is a load that sums.
    """
    initiator, switch, link = call
    index = lanes[(initiator, switch) if outward else (switch, initiator)].index(link)
    others = [lanes[(switch, m) if outward else (m, switch)] for m in members if m not in set(served)]
    return [parallel[index % len(parallel)] for parallel in others]


def group_crossings(topology: Topology, forest: Forest) -> Int64Array:
    """Return the units that cross each link in operations without a path that names them, shape (m,).

    Parameters
    ----------
    topology : Topology
    forest : Forest
        Every rank must be an end of some path, as in all spanning trees.
    """
    crossings = np.zeros(topology.n_links, dtype=np.int64)
    outward = forest.direction is Direction.BROADCAST
    capable = (topology.multicast if outward else topology.aggregation) & ~topology.turns_round
    if not capable.any() or not forest.n_paths:
        return crossings
    first, last = forest.path_ends()
    begins, ends = topology.tails[first], topology.heads[last]
    is_copy = capable[begins if outward else ends]
    if not is_copy.any():
        return crossings
    lanes = inputs_of(topology)
    nodes = [node for node in np.concatenate([begins, ends]).tolist() if topology.is_compute[node]]
    groups = {switch: members_at(lanes, switch, nodes) for switch in np.flatnonzero(capable).tolist()}
    for root in range(forest.n_ranks):
        for tree in forest.trees(root):
            if is_copy[tree.entry_path].any():
                for units, served, call in _runs(topology, forest, tree, is_copy):
                    links = unnamed_crossings(lanes, groups[call[1]], served, call, outward=outward)
                    crossings[links] += units
    return crossings


def _runs(
    topology: Topology, forest: Forest, tree: Tree, is_copy: BoolArray
) -> Iterator[tuple[int, set[int], tuple[int, int, int]]]:
    """Yield units of one operation: their number, the nodes whose crossings paths name, and the call."""
    outward = forest.direction is Direction.BROADCAST
    near, far = (topology.tails, topology.heads) if outward else (topology.heads, topology.tails)
    # by initiating rank and switch: child, first and last unit of copies, and of paths that may be calls
    copies: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    direct: dict[tuple[int, int], list[tuple[int, int, int, tuple[int, int, int]]]] = defaultdict(list)
    for rank, parent in enumerate(tree.parent.tolist()):
        begin = 0
        for entry in range(int(tree.entry_offset[rank]), int(tree.entry_offset[rank + 1])):
            path, end = int(tree.entry_path[entry]), begin + int(tree.entry_units[entry])
            # from the initiator's side to the child's, in either direction of the data
            links = forest.path(path).tolist()[:: 1 if outward else -1]
            child, switch = int(far[links[-1]]), int(near[links[-1]])
            if is_copy[path]:
                copies[parent, switch].append((child, begin, end))
            elif len(links) == 2:
                call = int(near[links[0]]), switch, links[0]
                direct[parent, switch].append((child, begin, end, call))
            begin = end
    for key, copied in copies.items():
        bounds = {bound for _, *span in copied for bound in span}
        bounds |= {bound for _, first, last, _ in direct[key] for bound in (first, last)}
        for low, high in pairwise(sorted(bounds)):
            served = {child for child, first, last in copied if first <= low < last}
            calls = [(child, call) for child, first, last, call in direct[key] if first <= low < last]
            if served and calls:
                child, call = min(calls)
                yield high - low, served | {child}, call
