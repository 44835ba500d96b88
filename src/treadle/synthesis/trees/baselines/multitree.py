"""MultiTree: all trees extended greedily together, time step by time step."""

from __future__ import annotations

from collections import deque

import numpy as np

from treadle.context import context
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.synthesis.trees.baselines.embedding import GATHERING, ForestBuilder, check_supported, compose
from treadle.synthesis.trees.baselines.logical_hops import Route
from treadle.topologies.topology import Topology


def multitree(topology: Topology, collective: Collective) -> ForestSchedule:
    """One tree per rank, all extended in turns.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Allgather, reduce-scatter or allreduce.

    Returns
    -------
    ForestSchedule

    Raises
    ------
    InfeasibleError
        If some rank cannot be reached.

    Notes
    -----
    In a time step a link of bandwidth b carries floor(b / unit) tree edges, unit = the slowest link's
    bandwidth. The trees take turns; each adds the nearest rank that it lacks, from a rank it had before this
    step, until no tree finds free links; then the next step begins. Hops through switches and forwarders take
    capacity on each of their links. Every rank has one tree, so weights other than 0 scale it.
    Source: Huang et al., MultiTree (ISCA 2021); the unit as in section 4.6.5 of the dissertation.

    Departure: the paper looks for links from a tree's oldest rank first, here the nearest and widest hop of
    any of its ranks goes first, which is 1.2 to 2 times better on A100 and MI250 (2 to 16 boxes).
    """
    check_supported("multitree", topology, collective, GATHERING)
    return compose(topology, collective, _greedy_forest)


def _greedy_forest(topology: Topology, collective: Collective) -> Forest:
    n = collective.n_ranks
    network = _Network(topology, collective)
    builder = ForestBuilder(topology, collective)
    weights = collective.shard_weights
    trees = [_Growth(root, n, network.first_hops(root)) for root in range(n) if weights[root]]
    growing = trees
    while growing:
        network.start_step()
        if not _grow_one_step(growing, network, builder):
            raise InfeasibleError(f"{topology.name}: some rank cannot be reached; connect the fabric")
        growing = [tree for tree in growing if tree.missing]
        for tree in growing:
            tree.start_step(network)
        # whoever went first goes last next time
        growing = growing[1:] + growing[:1]
    for tree in trees:
        builder.add_tree(tree.root, weights[tree.root], tree.parent, tree.paths)
    return builder.build()


class _Growth:
    """A tree under construction.

    Sets of ranks and of first hops (see `_Network`) are bit masks: ranks missing, ranks that may send because
    they joined before this step, first hops of those, and first hops that lead to nothing missing.
    """

    def __init__(self, root: int, n: int, hops: int) -> None:
        self.root = root
        self.parent = np.full(n, -1, dtype=np.int32)
        self.paths = np.full(n, -1, dtype=np.int32)
        self.missing = ((1 << n) - 1) ^ (1 << root)
        self.earlier = 1 << root
        self.hops = hops
        self.closed = 0
        self._joined: list[int] = []

    def start_step(self, network: _Network) -> None:
        for rank in self._joined:
            self.earlier |= 1 << rank
            self.hops |= network.first_hops(rank)
        self._joined = []

    def add(self, rank: int, parent: int, path: int) -> None:
        self.parent[rank], self.paths[rank] = parent, path
        self.missing ^= 1 << rank
        self._joined.append(rank)


def _grow_one_step(trees: list[_Growth], network: _Network, builder: ForestBuilder) -> bool:
    """Let the trees take turns until none can grow; whether any did."""
    grew = False
    turn = trees
    while turn:
        context().report("trees", 0, 0)
        following = []
        for tree in turn:
            found = network.take_edge(tree)
            # free capacity only shrinks within a step, so a tree that failed once is done
            if found is not None:
                parent, rank, links = found
                tree.add(rank, parent, builder.path_number(links))
                grew = True
                if tree.missing:
                    following.append(tree)
        turn = following
    return grew


class _Network:
    """Free tree edges per link in the current time step.

    The nodes that ranks have links to, the first hops, are ordered from the nearest and widest on and make up
    bit masks in that order. For a first hop x, `_senders[x]` are the ranks with a free link to x, and
    `_targets[x]` the ranks that x may still reach: an upper bound, corrected when a search fails.
    """

    def __init__(self, topology: Topology, collective: Collective) -> None:
        self._rank_of = {node: rank for rank, node in enumerate(collective.ranks)}
        self._nodes = collective.ranks
        self._tails, self._heads = topology.tails.tolist(), topology.heads.tolist()
        bandwidths = topology.bandwidths.tolist()
        unit = min(bandwidths)
        self._capacity: list[int] = []
        self._in: list[list[int]] = [[] for _ in range(topology.n_nodes)]
        self._between: dict[tuple[int, int], list[int]] = {}
        for link, (tail, head) in enumerate(zip(self._tails, self._heads, strict=True)):
            self._capacity.append(0 if tail == head else bandwidths[link] // unit)
            if tail != head:
                self._in[head].append(link)
                self._between.setdefault((tail, head), []).append(link)
        # for every node, the ranks with a link to it
        self._first_senders: dict[int, int] = {}
        for tail, head in self._between:
            if tail in self._rank_of:
                self._first_senders[head] = self._first_senders.get(head, 0) | 1 << self._rank_of[tail]
        distances = self._find_targets()
        self._first_targets = {x: sum(1 << rank for rank in found) for x, found in distances.items() if found}

        def nearness(x: int) -> tuple[int, int, int]:
            """Sort key: near first hops first, wide before narrow."""
            widths = [bandwidths[link] for link in self._in[x] if self._tails[link] in self._rank_of]
            reached = sorted(distances[x].values())
            # a switch's senders are usually among its ranks, which costs nothing; count the nearest other
            own = 0 if x in self._rank_of else 1
            return reached[min(own, len(reached) - 1)], -max(widths), x

        self._hops = sorted(self._first_targets, key=nearness)
        self._bit = {x: 1 << i for i, x in enumerate(self._hops)}
        self._hops_of = [0] * len(self._nodes)
        for tail, head in self._between:
            if tail in self._rank_of:
                self._hops_of[self._rank_of[tail]] |= self._bit.get(head, 0)
        self._free = list(self._capacity)
        self._senders: dict[int, int] = {}
        self._targets: dict[int, int] = {}
        self._alive = 0

    def _find_targets(self) -> dict[int, dict[int, int]]:
        """For every first hop, the ranks it reaches through switches, with their distance."""
        out: dict[int, list[int]] = {}
        for tail, head in self._between:
            out.setdefault(tail, []).append(head)
        found: dict[int, dict[int, int]] = {}
        for x in self._first_senders:
            if x in self._rank_of:
                found[x] = {self._rank_of[x]: 0}
                continue
            distance, queue, reached = {x: 0}, deque([x]), {}
            while queue:
                node = queue.popleft()
                for head in out.get(node, ()):
                    if head in distance:
                        continue
                    distance[head] = distance[node] + 1
                    if head in self._rank_of:
                        reached[self._rank_of[head]] = distance[head]
                    else:
                        queue.append(head)
            found[x] = reached
        return found

    def start_step(self) -> None:
        """All links are free again."""
        self._free = list(self._capacity)
        self._senders = dict(self._first_senders)
        self._targets = dict(self._first_targets)
        self._alive = (1 << len(self._hops)) - 1

    def first_hops(self, rank: int) -> int:
        """The first hops that a rank has links to."""
        return self._hops_of[rank]

    def take_edge(self, tree: _Growth) -> tuple[int, int, Route] | None:
        """Take free links to a rank that the tree lacks: (parent, rank, links); None if there are none."""
        candidates = tree.hops & self._alive & ~tree.closed
        while candidates:
            bit = candidates & -candidates
            candidates ^= bit
            x = self._hops[bit.bit_length() - 1]
            if not self._first_targets[x] & tree.missing:
                tree.closed |= bit
                continue
            senders = self._senders[x] & tree.earlier
            if senders:
                found = self._take_through(x, senders, tree)
                if found is not None:
                    return found
        return None

    def _take_through(self, x: int, senders: int, tree: _Growth) -> tuple[int, int, Route] | None:
        sender = _lowest_from(senders, tree.root)
        while wanted := self._targets[x] & tree.missing:
            target = _lowest_from(wanted, sender)
            onward = self._free_path(x, self._nodes[target])
            if onward is None:
                self._targets[x] &= ~(1 << target)
                continue
            first = self._free_link(self._nodes[sender], x)
            assert first is not None, "a sender has a free link"
            for link in (first, *onward):
                self._free[link] -= 1
                tail, head = self._tails[link], self._heads[link]
                if tail in self._rank_of and self._free_link(tail, head) is None:
                    self._senders[head] &= ~(1 << self._rank_of[tail])
                    if not self._senders[head]:
                        self._alive &= ~self._bit.get(head, 0)
            return sender, target, (first, *onward)
        return None

    def _free_link(self, tail: int, head: int) -> int | None:
        return next((link for link in self._between.get((tail, head), ()) if self._free[link]), None)

    def _free_path(self, x: int, goal: int) -> Route | None:
        """Free links, as few as possible, from first hop x to node `goal` through switches, from its end."""
        if x == goal:
            return ()
        after: dict[int, int] = {goal: -1}
        queue = deque([goal])
        while queue:
            node = queue.popleft()
            last = self._free_link(x, node)
            if last is not None:
                links = [last]
                while node != goal:
                    links.append(after[node])
                    node = self._heads[after[node]]
                return tuple(links)
            for link in self._in[node]:
                tail = self._tails[link]
                if self._free[link] and tail not in after and tail not in self._rank_of:
                    after[tail] = link
                    queue.append(tail)
        return None


def _lowest_from(mask: int, start: int) -> int:
    """The first member of a non-empty set at or after `start`, going round."""
    rest = mask >> start
    if rest:
        return start + (rest & -rest).bit_length() - 1
    return (mask & -mask).bit_length() - 1
