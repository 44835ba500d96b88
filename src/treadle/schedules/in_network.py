"""Operations of switches that work for a rank which asks: their groups, and what they load besides paths.

The rule of NVLink SHARP's multimem instructions. Such a switch (`Topology.turns_round` is false) multicasts
or sums in operations. Each belongs to one rank, the asker, and its group is all ranks at the switch, the
asker included: a store crosses the asker's link up and the link down to every rank of the group; a load that
sums crosses the link up from every rank of the group and the asker's link down.

In a forest (an out-tree; in-trees are its mirror image) a store of rank r at switch w is what these have in
common for a unit: the path r, w, child to one child of r, and the copies, which are the paths w, child to
other children. Those links of the group that no such path names are crossed as well: that to r itself, and
those to ranks that have their data from elsewhere. Of parallel links these crossings take the one at the
place that the link from r to w has among its own parallel links, counted modulo their number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.schedules.trees.forest import Direction, Forest, Tree
from treadle.topologies.topology import Topology

Lanes = Mapping[tuple[int, int], Sequence[int]]
"""The parallel links from a node to another, rising."""


def inputs_of(topology: Topology) -> Lanes:
    """All links by their ends."""
    lanes: dict[tuple[int, int], list[int]] = defaultdict(list)
    for link, ends in enumerate(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)):
        lanes[ends].append(link)
    return dict(lanes)


def members_at(lanes: Lanes, switch: int, ranks: Iterable[int]) -> tuple[int, ...]:
    """The group of a switch: the nodes of ranks with links to it and from it, rising."""
    return tuple(sorted({rank for rank in ranks if (rank, switch) in lanes and (switch, rank) in lanes}))


def unnamed_crossings(
    lanes: Lanes, members: Sequence[int], served: Iterable[int], call: tuple[int, int, int], *, outward: bool
) -> list[int]:
    """Links that an operation crosses besides those that paths name.

    Parameters
    ----------
    lanes : mapping
    members : sequence of int
        The group.
    served : iterable of int
        Nodes whose crossing a path names.
    call : tuple of (asker, switch, link)
        The link joins asker and switch: it goes up where the operation stores, down where it sums.
    outward : bool
        A store; else a load that sums.
    """
    asker, switch, link = call
    place = lanes[(asker, switch) if outward else (switch, asker)].index(link)
    others = [lanes[(switch, m) if outward else (m, switch)] for m in members if m not in set(served)]
    return [lane[place % len(lane)] for lane in others]


def group_crossings(topology: Topology, forest: Forest) -> Int64Array:
    """Units that cross each link in operations and that no path names, shape (m,).

    Parameters
    ----------
    topology : Topology
    forest : Forest
        Every rank is an end of some path, as in all trees that span them.
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


@dataclass
class _Operations:
    """What a rank asks of a switch in a tree."""

    calls: list[tuple[int, int, int, tuple[int, int, int]]] = field(default_factory=list)
    """Child, units from and to, call."""
    copies: list[tuple[int, int, int]] = field(default_factory=list)
    """Child, units from and to."""


def _runs(
    topology: Topology, forest: Forest, tree: Tree, is_copy: BoolArray
) -> Iterator[tuple[int, set[int], tuple[int, int, int]]]:
    """Units of one operation: how many, the nodes whose crossings paths name, and the call."""
    for found in _operations(topology, forest, tree, is_copy).values():
        spans = [(first, last) for _, first, last, _ in found.calls]
        spans += [(first, last) for _, first, last in found.copies]
        for low, high in pairwise(sorted({bound for span in spans for bound in span})):
            served = {child for child, first, last in found.copies if first <= low < last}
            calls = [(child, call) for child, first, last, call in found.calls if first <= low < last]
            if served and calls:
                child, call = min(calls)
                yield high - low, served | {child}, call


def _operations(
    topology: Topology, forest: Forest, tree: Tree, is_copy: BoolArray
) -> dict[tuple[int, int], _Operations]:
    """The tree's operations by the asker's rank and the switch."""
    outward = forest.direction is Direction.BROADCAST
    found: dict[tuple[int, int], _Operations] = defaultdict(_Operations)
    direct: list[tuple[tuple[int, int], tuple[int, int, int, tuple[int, int, int]]]] = []
    for rank, parent in enumerate(tree.parent.tolist()):
        begin = 0
        for entry in range(int(tree.entry_offset[rank]), int(tree.entry_offset[rank + 1])):
            path, end = int(tree.entry_path[entry]), begin + int(tree.entry_units[entry])
            # from the asker's side to the child's, whichever way the data go
            links = forest.path(path).tolist() if outward else forest.path(path).tolist()[::-1]
            near, far = (topology.tails, topology.heads) if outward else (topology.heads, topology.tails)
            child, switch = int(far[links[-1]]), int(near[links[-1]])
            if is_copy[path]:
                found[parent, switch].copies.append((child, begin, end))
            elif len(links) == 2:
                call = int(near[links[0]]), switch, links[0]
                direct.append(((parent, switch), (child, begin, end, call)))
            begin = end
    for key, called in direct:
        if key in found:
            found[key].calls.append(called)
    return found
