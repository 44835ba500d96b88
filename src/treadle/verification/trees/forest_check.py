"""The part of the verifier that walks over one forest: spanning, paths, units, pruned paths, loads.

Shares no code with the generators; `treadle.verification.schedules` is the way in.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, offsets_of
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.trees.forest import Direction, Forest, Tree
from treadle.topologies.topology import Topology
from treadle.verification.trees.switch_groups import GroupCheck, WalkEnds
from treadle.verification.violations import Findings, ViolationKind

_BLOCK = 64  # trees whose parent arrays are chased together: amortises numpy's call overhead
_CELLS = 2**19  # and no more than so many parents at once
_SAFE = 2.0**62  # float sums below this cannot have wrapped in int64
_HALF = 31  # path units are summed in two halves of this many bits


@dataclass(frozen=True)
class _Paths:
    """Facts about each distinct path of a forest, arrays of shape (P,) unless said otherwise."""

    offset: Int64Array
    links: Int64Array
    is_broken: BoolArray
    near: Int64Array  # node at the parent's side
    far: Int64Array  # node at the child's side
    branch_offset: Int64Array  # (P + 1,)
    branch_node: Int64Array  # capable switches that the paths pass through


def _flat_paths(forest: Forest) -> tuple[Int64Array, Int64Array]:
    """Offsets and links of all paths, through the public interface."""
    if isinstance(forest, Forest):
        return forest.path_offset, forest.path_links.astype(np.int64)
    paths = [forest.path(number) for number in range(forest.n_paths)]
    offset = offsets_of([*map(len, paths)])
    return offset, np.concatenate([np.zeros(0, dtype=np.int64), *paths]).astype(np.int64)


def _study_paths(topology: Topology, collective: Collective, forest: Forest, capable: BoolArray) -> _Paths:
    offset, links = _flat_paths(forest)
    m, lengths = topology.n_links, np.diff(offset)
    # a last, unusable entry stands for every link number that does not exist and for "no node"
    tails, heads = (np.append(ends.astype(np.int64), -1) for ends in (topology.tails, topology.heads))
    passable = np.append(~topology.is_compute, False)
    passable[list(collective.forwarders)] = True
    known = np.where((links >= 0) & (links < m), links, m)
    tail, head = tails[known], heads[known]
    owner = np.repeat(np.arange(len(lengths)), lengths)
    is_joint = np.append(owner[1:] == owner[:-1], False)[: len(links)]
    wrong = tail == head
    wrong[:-1] |= is_joint[:-1] & ((head[:-1] != tail[1:]) | ~passable[head[:-1]])
    is_broken = lengths == 0
    is_broken[owner[wrong]] = True
    first = np.full(len(lengths), -1, dtype=np.int64)
    last = first.copy()
    filled = lengths > 0
    first[filled] = tail[offset[:-1][filled]]
    last[filled] = head[offset[1:][filled] - 1]
    is_branch = is_joint & np.append(capable, False)[head]
    counts = np.bincount(owner[is_branch], minlength=len(lengths))
    broadcasts = forest.direction is Direction.BROADCAST
    return _Paths(
        offset=offset,
        links=links,
        is_broken=is_broken,
        near=first if broadcasts else last,
        far=last if broadcasts else first,
        branch_offset=offsets_of(counts),
        branch_node=head[is_branch],
    )


class ForestCheck:
    """One pass over the trees of one forest."""

    def __init__(self, topology: Topology, collective: Collective, forest: Forest, found: Findings) -> None:
        self._topology = topology
        self._collective = collective
        self._forest = forest
        self._found = found
        broadcasts = forest.direction is Direction.BROADCAST
        self._capable = topology.multicast if broadcasts else topology.aggregation
        self._paths = _study_paths(topology, collective, forest, self._capable)
        # index -1, "no parent", finds a node that no path can touch
        self._nodes = np.array([*collective.ranks, -2], dtype=np.int64)
        self._low = np.zeros(forest.n_paths, dtype=np.int64)
        self._high = np.zeros(forest.n_paths, dtype=np.int64)
        self._groups = GroupCheck(topology, collective, forest.direction, self._walks())
        self._block: list[tuple[str, int, Int32Array]] = []
        self._height = 0
        self._total = sum(forest.root_multiplicity.tolist())  # Python's sum: the array's own could wrap
        self._weights = collective.shard_weights
        self._weight = sum(self._weights)

    def run(self) -> int:
        """Check everything; returns the greatest height."""
        self._check_unknown_links()
        for root in range(self._forest.n_ranks):
            planted = 0
            for number, tree in enumerate(self._forest.trees(root)):
                place = f"{self._forest.direction} tree {number} of root {root}"
                planted += int(tree.multiplicity)
                if tree.root != root or tree.multiplicity < 1:
                    self._add(
                        ViolationKind.SHAPE, f"{place}: root {tree.root}, multiplicity {tree.multiplicity}"
                    )
                elif self._fits(tree):
                    self._check_tree(tree, place)
                else:
                    self._add(ViolationKind.SHAPE, f"{place}: its arrays do not fit together")
            self._check_share(root, planted)
        self._check_spans()
        return self._height

    def _add(self, kind: ViolationKind, message: str) -> None:
        self._found.add(kind, message)

    def _walks(self) -> WalkEnds:
        paths, m = self._paths, self._topology.n_links
        outward = self._forest.direction is Direction.BROADCAST
        lengths = np.diff(paths.offset)
        of_two = lengths == 2
        # a last entry for paths without links and for links that do not exist
        links = np.append(np.where((paths.links >= 0) & (paths.links < m), paths.links, 0), 0)
        middle = np.full(len(lengths), -1, dtype=np.int64)
        if m:
            middle[of_two] = self._topology.heads[links[paths.offset[:-1][of_two]]]
        at_parent = links[paths.offset[:-1]] if outward else links[paths.offset[1:] - 1]
        return WalkEnds(paths.near, paths.far, middle, at_parent, lengths)

    def _check_unknown_links(self) -> None:
        """Link numbers must exist even in paths that no tree takes."""
        links, m = self._paths.links, self._topology.n_links
        for position in np.flatnonzero((links < 0) | (links >= m)):
            number = int(np.searchsorted(self._paths.offset, position, side="right")) - 1
            self._add(
                ViolationKind.PATH,
                f"{self._forest.direction} path {number} takes link {links[position]}; the fabric has {m}",
            )

    def _check_share(self, root: int, planted: int) -> None:
        shares = self._forest.root_multiplicity
        place = f"{self._forest.direction} root {root}"
        if planted != shares[root]:
            self._add(ViolationKind.SHARES, f"{place}: {planted} unit trees, {shares[root]} declared")
        total = self._total
        if shares[root] < 0 or total <= 0:
            self._add(ViolationKind.SHARES, f"{place}: {shares[root]} of {total} units")
        if self._collective.kind is CollectiveKind.ALLREDUCE:
            return
        weight = self._weights[root]
        if int(shares[root]) * self._weight != weight * total:
            self._add(
                ViolationKind.SHARES,
                f"{place}: {shares[root]} of {total} units for {weight} of {self._weight} shares",
            )

    def _fits(self, tree: Tree) -> bool:
        n, offset, paths = self._forest.n_ranks, tree.entry_offset, tree.entry_path
        if tree.parent.shape != (n,) or offset.shape != (n + 1,) or paths.shape != tree.entry_units.shape:
            return False
        if tree.parent.min() < -1 or tree.parent.max() >= n or paths.ndim != 1:
            return False
        if offset[0] != 0 or offset[-1] != len(paths) or np.any(offset[1:] < offset[:-1]):
            return False
        if not len(paths):
            return True
        return bool(paths.min() >= 0 and paths.max() < self._forest.n_paths and tree.entry_units.min() > 0)

    def _check_tree(self, tree: Tree, place: str) -> None:
        self._block.append((place, tree.root, tree.parent))
        if len(self._block) == _BLOCK or len(self._block) * self._forest.n_ranks >= _CELLS:
            self._check_spans()
        before = self._found.total
        running = _running_sums(tree.entry_units)
        self._check_units(tree, place, running)
        self._check_paths(tree, place, running, before)
        np.add.at(self._low, tree.entry_path, tree.entry_units & (2**_HALF - 1))
        if len(tree.entry_units) and tree.entry_units.max() >> _HALF:
            np.add.at(self._high, tree.entry_path, tree.entry_units >> _HALF)

    def _check_units(self, tree: Tree, place: str, running: Int64Array) -> None:
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

    def _check_paths(self, tree: Tree, place: str, running: Int64Array, before: int) -> None:
        paths, numbers = self._paths, tree.entry_path
        ranks = np.repeat(np.arange(self._forest.n_ranks), np.diff(tree.entry_offset))
        near, far = paths.near[numbers], paths.far[numbers]
        is_broken = paths.is_broken[numbers]
        is_pruned = near != self._nodes[tree.parent[ranks]]
        is_wrong = ~is_broken & (far != self._nodes[ranks])
        if is_pruned.any():
            is_wrong |= ~is_broken & is_pruned & ~self._capable[near]
        for kind, mask in ((ViolationKind.PATH, is_broken), (ViolationKind.ENDS, is_wrong)):
            entries = np.flatnonzero(mask)
            self._found.add_all(kind, entries, partial(self._describe, tree, place, ranks))
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
            f"{place}, rank {rank}: path {walk} is no walk from {ends[0]} to {ends[1]} through switches and "
            f"forwarders"
        )

    def _check_supply(self, tree: Tree, place: str, ranks: Int64Array, running: Int64Array) -> None:
        """Follow the data of trees with pruned paths from the root, for each class of units alike."""
        begin = running[:-1] - running[tree.entry_offset[ranks]]
        cuts = np.unique(begin)
        low = np.searchsorted(cuts, begin)
        high = np.searchsorted(cuts, begin + tree.entry_units)
        starved = np.zeros(len(ranks), dtype=bool)
        starved[self._groups.unasked(tree, ranks, begin)] = True
        # classes are taken some at a time to bound the memory
        step = min(len(cuts), max(1, 2**20 // self._topology.n_nodes))
        for first in range(0, len(cuts), step):
            start, stop = np.maximum(low, first), np.minimum(high, first + step)
            entries, position = _expand(np.maximum(stop - start, 0))
            unit_class = start[entries] + position - first
            starved[entries[~self._is_supplied(tree, entries, unit_class, step)]] = True
        verb = "reaches" if self._forest.direction is Direction.BROADCAST else "leaves"

        def starving(entry: int) -> str:
            switch = int(self._paths.near[tree.entry_path[entry]])
            asked = " of its parent's; the switch works for ranks that ask" * bool(self._groups.asked[switch])
            return (
                f"{place}, rank {ranks[entry]}: no data of the unit tree {verb} "
                f"{self._topology.node_names[switch]} by another edge{asked}"
            )

        self._found.add_all(ViolationKind.SUPPLY, np.flatnonzero(starved), starving)

    def _is_supplied(
        self, tree: Tree, entries: Int64Array, unit_class: Int64Array, n_classes: int
    ) -> BoolArray:
        """Which (entry, class of units) pairs get data at their near end: the least fixed point."""
        paths, n_nodes = self._paths, self._topology.n_nodes
        row = unit_class * n_nodes
        numbers = tree.entry_path[entries]
        near, far = row + paths.near[numbers], row + paths.far[numbers]
        has_data = np.zeros(n_classes * n_nodes, dtype=bool)
        has_data[np.arange(n_classes) * n_nodes + self._nodes[tree.root]] = True
        done = np.zeros(len(entries), dtype=bool)
        waiting = np.arange(len(entries))
        while waiting.size:
            is_fed = has_data[near[waiting]]
            fed, waiting = waiting[is_fed], waiting[~is_fed]
            if not fed.size:
                break
            done[fed] = True
            has_data[far[fed]] = True
            offset = paths.branch_offset
            pair, position = _expand(offset[numbers[fed] + 1] - offset[numbers[fed]])
            has_data[row[fed[pair]] + paths.branch_node[offset[numbers[fed[pair]]] + position]] = True
        return done

    def _check_spans(self) -> None:
        """Chase the parents of the trees collected so far, doubling the stride each time."""
        if not self._block:
            return
        places = [place for place, _, _ in self._block]
        roots = np.array([root for _, root, _ in self._block])[:, None]
        parent = np.array([parents for _, _, parents in self._block], dtype=np.int64)
        self._block = []
        ranks = np.arange(self._forest.n_ranks)
        has_parent = parent >= 0
        orphaned = has_parent == (ranks == roots)
        above = np.where((ranks == roots) | ~has_parent, ranks, parent)
        depth = (ranks != roots).astype(np.int64)
        row = np.arange(len(places))[:, None] * self._forest.n_ranks
        for _ in range(self._forest.n_ranks.bit_length()):
            if np.array_equal(above, np.broadcast_to(roots, above.shape)):
                break
            place = row + above
            depth += np.take(depth, place)
            above = np.take(above, place)
        reached = above == roots
        self._height = max(self._height, int(depth[reached].max()))
        self._found.add_all(
            ViolationKind.SPAN,
            np.argwhere(orphaned | ~reached),
            lambda cell: (
                f"{places[cell[0]]}, rank {cell[1]}: "
                + (
                    "the root has a parent"
                    if cell[1] == roots[cell[0], 0]
                    else "parents do not lead to the root"
                )
            ),
        )

    def link_loads(self) -> Int64Array:
        """Units across each link as Python ints, shape (m,); links that do not exist are left out."""
        paths, m = self._paths, self._topology.n_links
        lengths = np.diff(paths.offset)
        units = self._low
        is_large = float((units * lengths.astype(np.float64)).sum()) >= _SAFE or bool(self._high.any())
        if is_large:
            units = self._low.astype(object) + (self._high.astype(object) << _HALF)
        loads = np.zeros(m, dtype=units.dtype)
        exists = (paths.links >= 0) & (paths.links < m)
        np.add.at(loads, paths.links[exists], np.repeat(units, lengths)[exists])
        total = loads.astype(object)
        for link, crossings in self._groups.extra.items():
            total[link] += crossings
        return total


def _running_sums(units: Int64Array) -> Int64Array:
    """0 and the running sums; Python ints where int64 could wrap."""
    safe = units if float(units.sum(dtype=np.float64)) < _SAFE else units.astype(object)
    return np.concatenate([np.zeros(1, dtype=safe.dtype), np.cumsum(safe)])


def _expand(counts: Int64Array) -> tuple[Int64Array, Int64Array]:
    """For counts (2, 0, 3): owners (0, 0, 2, 2, 2) and positions (0, 1, 0, 1, 2)."""
    owners = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return owners, np.arange(len(owners)) - starts[owners]
