"""Check of one forest: trees that span, paths, units, pruned paths, and the exact loads of links.

Paths are studied once for all trees. Trees are then checked one by one, with numpy calls over their path
entries; the parents of several trees are followed together. The data of trees with pruned paths (which begin
or end at an in-network switch) are followed from the root.

Shares no code with the generators. `treadle.verification.schedules.verify` is the entry point.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, mask_of, offsets_of, ranges_of
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Direction, Forest, Tree
from treadle.topologies.topology import Topology
from treadle.verification.spans import follow_parents
from treadle.verification.switch_groups import SwitchGroups
from treadle.verification.violations import Findings, ViolationKind

_BLOCK = 64  # trees whose parents are followed together: amortizes the overhead of numpy calls
_CELLS = 2**19  # maximum number of parents followed together
_SAFE = 2.0**62  # float sums below this cannot have wrapped in int64
_HALF = 31  # path units are summed in two halves of this many bits


def check_forest(
    topology: Topology, collective: Collective, forest: Forest, found: Findings
) -> tuple[int, Int64Array]:
    """Check one forest; return the largest tree height and the load of each link as Python ints."""
    check = _ForestCheck(topology, collective, forest, found)
    return check.run(), check.link_loads()


@dataclass(frozen=True)
class _Paths:
    """Facts about each distinct path of a forest, arrays of shape (P,) unless stated otherwise.

    Ends of paths without links or with links that do not exist mean nothing.
    """

    offset: Int64Array
    links: Int64Array
    lengths: Int64Array
    is_broken: BoolArray
    near: Int64Array  # node at the parent's side
    far: Int64Array  # node at the child's side
    near_link: Int64Array
    middle: Int64Array  # node between the two links of a path of two, else -1
    branch_offset: Int64Array  # (P + 1,)
    branch_node: Int64Array  # in-network switches that the paths pass through


def _study_paths(topology: Topology, collective: Collective, forest: Forest, capable: BoolArray) -> _Paths:
    offset, links = forest.path_offset, forest.path_links.astype(np.int64)
    m, lengths = topology.n_links, np.diff(offset)
    # A last, unusable link stands for every link number that does not exist, and ends at "no node".
    tails, heads = (np.append(ends.astype(np.int64), -1) for ends in (topology.tails, topology.heads))
    passable = np.append(~topology.is_compute, False)
    passable[list(collective.forwarders)] = True
    known = np.append(np.where((links >= 0) & (links < m), links, m), m)
    tail, head = tails[known], heads[known]
    owner = np.repeat(np.arange(len(lengths)), lengths)
    is_joint = np.append(owner[1:] == owner[:-1], False)[: len(links)]
    wrong = (tail == head)[:-1]
    wrong |= is_joint & ((head[:-1] != tail[1:]) | ~passable[head[:-1]])
    is_broken = lengths == 0
    is_broken[owner[wrong]] = True
    is_branch = is_joint & np.append(capable, False)[head[:-1]]
    first, last = offset[:-1], offset[1:] - 1
    outward = forest.direction is Direction.BROADCAST
    return _Paths(
        offset=offset,
        links=links,
        lengths=lengths,
        is_broken=is_broken,
        near=tail[first] if outward else head[last],
        far=head[last] if outward else tail[first],
        near_link=known[first if outward else last],
        middle=np.where(lengths == 2, head[first], -1),
        branch_offset=offsets_of(np.bincount(owner[is_branch], minlength=len(lengths))),
        branch_node=head[:-1][is_branch],
    )


class _ForestCheck:
    """One pass over the trees of one forest."""

    def __init__(self, topology: Topology, collective: Collective, forest: Forest, found: Findings) -> None:
        self._topology = topology
        self._collective = collective
        self._forest = forest
        self._found = found
        outward = forest.direction is Direction.BROADCAST
        self._capable = topology.multicast if outward else topology.aggregation
        self._is_initiated = self._capable & ~topology.turns_round
        self._paths = _study_paths(topology, collective, forest, self._capable)
        # The last entry stands for "no parent" (-1): a node that no path touches.
        self._nodes = np.array([*collective.ranks, -2], dtype=np.int64)
        self._low = np.zeros(forest.n_paths, dtype=np.int64)
        self._high = np.zeros(forest.n_paths, dtype=np.int64)
        self._groups = SwitchGroups(topology, collective.ranks)
        self._unnamed: Counter[int] = Counter()  # units of switch operations across links that no path names
        self._block: list[tuple[str, int, Int32Array]] = []
        self._height = 0
        self._total = sum(forest.root_multiplicity.tolist())  # Python ints: the array's own sum could wrap
        self._weights = collective.shard_weights
        self._weight = sum(self._weights)

    def run(self) -> int:
        """Check everything; return the largest tree height."""
        direction, links, m = self._forest.direction, self._paths.links, self._topology.n_links
        owner = np.repeat(np.arange(len(self._paths.lengths)), self._paths.lengths)
        self._found.add_all(
            ViolationKind.PATH,
            np.flatnonzero((links < 0) | (links >= m)),  # also in paths that no tree takes
            lambda i: f"{direction} path {owner[i]} takes link {links[i]}; the fabric has {m}",
        )
        for root in range(self._forest.n_ranks):
            n_trees = 0
            for number, tree in enumerate(self._forest.trees(root)):
                place = f"{direction} tree {number} of root {root}"
                n_trees += int(tree.multiplicity)
                self._check_tree(tree, place)
            self._check_share(root, n_trees)
        self._check_spans()
        return self._height

    def _check_share(self, root: int, n_trees: int) -> None:
        """Check the number of trees of a root against its declared number and its shard."""
        declared, weight = int(self._forest.root_multiplicity[root]), self._weights[root]
        faults = []
        if n_trees != declared:
            faults.append(f"{n_trees} unit trees, {declared} declared")
        if declared < 0 or self._total <= 0:
            faults.append(f"{declared} of {self._total} units")
        is_free = self._collective.kind is CollectiveKind.ALLREDUCE
        if not is_free and declared * self._weight != weight * self._total:
            faults.append(f"{declared} of {self._total} units for {weight} of {self._weight} shares")
        for fault in faults:
            self._found.add(ViolationKind.SHARES, f"{self._forest.direction} root {root}: {fault}")

    def _check_tree(self, tree: Tree, place: str) -> None:
        self._block.append((place, tree.root, tree.parent))
        if len(self._block) == _BLOCK or len(self._block) * self._forest.n_ranks >= _CELLS:
            self._check_spans()
        before = self._found.total
        running = offsets_of(tree.entry_units)
        if float(tree.entry_units.sum(dtype=np.float64)) >= _SAFE:
            running = np.append(0, np.cumsum(tree.entry_units, dtype=object))
        sums = running[tree.entry_offset[1:]] - running[tree.entry_offset[:-1]]
        wrong = sums != tree.multiplicity
        wrong[tree.root] = sums[tree.root] != 0
        if wrong.any():
            self._found.add_all(
                ViolationKind.UNITS,
                np.flatnonzero(wrong),
                lambda i: (
                    f"{place}, rank {i}: its paths carry {sums[i]} units, expected "
                    f"{0 if i == tree.root else tree.multiplicity}"
                ),
            )
        self._check_paths(tree, place, running, before)
        np.add.at(self._low, tree.entry_path, tree.entry_units & (2**_HALF - 1))
        if len(tree.entry_units) and tree.entry_units.max() >> _HALF:
            np.add.at(self._high, tree.entry_path, tree.entry_units >> _HALF)

    def _check_paths(self, tree: Tree, place: str, running: Int64Array, before: int) -> None:
        """Check that paths join the ranks of their edge, or are pruned at a switch that has the data."""
        paths, numbers = self._paths, tree.entry_path
        ranks = np.repeat(np.arange(self._forest.n_ranks), np.diff(tree.entry_offset))
        near, far = paths.near[numbers], paths.far[numbers]
        is_broken = paths.is_broken[numbers]
        is_pruned = near != self._nodes[tree.parent[ranks]]
        is_wrong = far != self._nodes[ranks]
        if is_pruned.any():
            is_wrong |= is_pruned & ~self._capable[near]
        for kind, mask in ((ViolationKind.PATH, is_broken), (ViolationKind.ENDS, is_wrong & ~is_broken)):
            self._found.add_all(kind, np.flatnonzero(mask), partial(self._describe, tree, place, ranks))
        if is_pruned.any() and self._found.total == before:
            self._check_supply(tree, place, ranks, running)

    def _describe(self, tree: Tree, place: str, ranks: Int64Array, entry: int) -> str:
        number = tree.entry_path[entry]
        topology, rank = self._topology, int(ranks[entry])
        links = self._paths.links[self._paths.offset[number] : self._paths.offset[number + 1]]
        names = [topology.link_name(e) if 0 <= e < topology.n_links else f"link {e}" for e in links[:20]]
        walk = " ".join(names) + (" ..." if len(links) > 20 else "") or "(empty)"
        ends = [
            topology.node_names[self._nodes[r]] if r >= 0 else "nothing" for r in (tree.parent[rank], rank)
        ]
        if self._forest.direction is Direction.REDUCE:
            ends.reverse()
        return (
            f"{place}, rank {rank}: path {walk} is not a walk from {ends[0]} to {ends[1]} through switches "
            "and forwarders"
        )

    def _check_supply(self, tree: Tree, place: str, ranks: Int64Array, running: Int64Array) -> None:
        """Follow the data of a tree with pruned paths from the root, once for each class of equal units."""
        begin = running[:-1] - running[tree.entry_offset[ranks]]
        cuts = np.unique(begin)
        low = np.searchsorted(cuts, begin)
        high = np.searchsorted(cuts, begin + tree.entry_units)
        lacks_data = mask_of(len(ranks), self._copies_without_call(tree, ranks, begin))
        # Classes are followed some at a time to limit the memory.
        step = min(len(cuts), max(1, 2**20 // self._topology.n_nodes))
        for first in range(0, len(cuts), step):
            start, stop = np.maximum(low, first), np.minimum(high, first + step)
            entries, unit_class = ranges_of(start - first, np.maximum(stop - start, 0))
            lacks_data[entries[~self._is_supplied(tree, entries, unit_class, step)]] = True
        verb = "reaches" if self._forest.direction is Direction.BROADCAST else "leaves"

        def describe(entry: int) -> str:
            switch = int(self._paths.near[tree.entry_path[entry]])
            sibling = " of its parent; the switch is GPU-initiated" if self._is_initiated[switch] else ""
            return (
                f"{place}, rank {ranks[entry]}: no data of the unit tree {verb} "
                f"{self._topology.node_names[switch]} by another edge{sibling}"
            )

        self._found.add_all(ViolationKind.SUPPLY, np.flatnonzero(lacks_data), describe)

    def _is_supplied(
        self, tree: Tree, entries: Int64Array, unit_class: Int64Array, n_classes: int
    ) -> BoolArray:
        """Whether data arrive at the near end of each (entry, class of units) pair: the least fixed point."""
        paths, n_nodes = self._paths, self._topology.n_nodes
        row = unit_class * n_nodes
        numbers = tree.entry_path[entries]
        near, far = row + paths.near[numbers], row + paths.far[numbers]
        has_data = mask_of(n_classes * n_nodes, np.arange(n_classes) * n_nodes + self._nodes[tree.root])
        done = np.zeros(len(entries), dtype=bool)
        waiting = np.arange(len(entries))
        while waiting.size:
            is_fed = has_data[near[waiting]]
            fed, waiting = waiting[is_fed], waiting[~is_fed]
            if not fed.size:
                break
            done[fed] = True
            has_data[far[fed]] = True
            start, stop = paths.branch_offset[numbers[fed]], paths.branch_offset[numbers[fed] + 1]
            pair, branch = ranges_of(start, stop - start)
            has_data[row[fed[pair]] + paths.branch_node[branch]] = True
        return done

    def _copies_without_call(self, tree: Tree, ranks: Int64Array, begin: Int64Array) -> Int64Array:
        """Return the entries that begin at a GPU-initiated switch without an operation that makes them.

        Parameters
        ----------
        tree : Tree
        ranks, begin : arrays of int64, shape (entries,)
            Rank of the edge of each entry, and its first unit.

        Notes
        -----
        An operation of a parent is called by a path of two links from the parent through the switch, in the
        same units. The links of the group that it crosses without a path are counted as loads.
        """
        paths, numbers = self._paths, tree.entry_path.astype(np.int64)
        near, far = paths.near[numbers], paths.far[numbers]
        copies = np.flatnonzero(self._is_initiated[near])
        parents, end = tree.parent[ranks], begin + tree.entry_units
        wrong = [copies[:0]]
        for parent, switch in {(int(parents[i]), int(near[i])) for i in copies}:
            mine = copies[(parents[copies] == parent) & (near[copies] == switch)]
            calls = np.flatnonzero((parents == parent) & (paths.middle[numbers] == switch))
            group = self._groups.nodes(switch)
            bounds = [side[entries] for side in (begin, end) for entries in (mine, calls)]
            made = np.zeros(len(mine), dtype=np.int64)
            for low, high in pairwise(np.unique(np.concatenate(bounds)).tolist()):
                here = (begin[mine] <= low) & (high <= end[mine])
                called = calls[(begin[calls] <= low) & (high <= end[calls])]
                if not (here.any() and called.size and self._nodes[parent] in group):
                    continue
                made[here] += high - low
                call = called[np.argmin(far[called])]
                served = {int(far[call]), *far[mine[here]].tolist()}
                for member, link in self._groups.links(int(paths.near_link[numbers[call]])).items():
                    if member not in served:
                        self._unnamed[link] += high - low
            fits = (paths.lengths[numbers[mine]] == 1) & np.isin(far[mine], group)
            wrong.append(mine[~fits | (made != tree.entry_units[mine])])
        return np.concatenate(wrong)

    def _check_spans(self) -> None:
        """Follow the parents of the trees collected so far, doubling the stride each time."""
        if not self._block:
            return
        places = [place for place, _, _ in self._block]
        roots = np.array([root for _, root, _ in self._block])[:, None]
        parent = np.array([parents for _, _, parents in self._block], dtype=np.int64)
        self._block = []
        is_root, has_parent = np.arange(self._forest.n_ranks) == roots, parent >= 0
        top, depth = follow_parents(parent, roots)
        is_reached = top == roots
        self._height = max(self._height, int(depth[is_reached].max()))

        def describe(cell: Int64Array) -> str:
            tree, rank = cell
            fault = "the root has a parent" if is_root[tree, rank] else "parents do not lead to the root"
            return f"{places[tree]}, rank {rank}: {fault}"

        wrong = np.argwhere((has_parent == is_root) | ~is_reached)
        self._found.add_all(ViolationKind.SPAN, wrong, describe)

    def link_loads(self) -> Int64Array:
        """Return the units across each link as Python ints, shape (m,); unknown links are left out."""
        paths, m = self._paths, self._topology.n_links
        units = self._low
        if float((units * paths.lengths.astype(np.float64)).sum()) >= _SAFE or self._high.any():
            units = self._low.astype(object) + (self._high.astype(object) << _HALF)
        loads = np.zeros(m, dtype=units.dtype)
        exists = (paths.links >= 0) & (paths.links < m)
        np.add.at(loads, paths.links[exists], np.repeat(units, paths.lengths)[exists])
        total = loads.astype(object)
        for link, crossings in self._unnamed.items():
            total[link] += crossings
        return total
