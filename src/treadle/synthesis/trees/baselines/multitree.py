"""MultiTree: all trees extended greedily together, time step by time step."""

from __future__ import annotations

from collections import deque

import numpy as np

from treadle.arrays import mask_of
from treadle.context import context
from treadle.errors import InfeasibleError
from treadle.math.graphs import hops
from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.synthesis.trees.baselines.embedding import GATHERING, ForestBuilder, check_supported, compose
from treadle.synthesis.trees.baselines.logical_hops import Route, Router
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
    builder = ForestBuilder(topology, collective)
    network = _Network(topology, builder.router)
    weights = collective.shard_weights
    trees = [_Tree(root, n, network.first_hops[root]) for root in range(n) if weights[root]]
    turn = trees
    while turn:
        network.start_step()
        if not _extend(turn, network, builder):
            raise InfeasibleError(f"{topology.name}: some rank cannot be reached; connect the fabric")
        turn = [tree for tree in turn if tree.missing]
        for tree in turn:
            tree.start_step(network)
        turn = turn[1:] + turn[:1]  # the first tree of this step is the last of the next
    for tree in trees:
        builder.add_tree(tree.root, weights[tree.root], tree.parent, tree.paths)
    return builder.build()


class _Tree:
    """A tree under construction.

    Sets of ranks and of first hops (see `_Network`) are bit masks: ranks missing, ranks that may send because
    they joined before this step, first hops of those, and first hops that lead to nothing missing.
    """

    def __init__(self, root: int, n: int, hops: int) -> None:
        self.root = root
        self.parent, self.paths = np.full((2, n), -1, dtype=np.int32)
        self.missing = ((1 << n) - 1) ^ (1 << root)
        self.earlier, self.hops, self.closed = 1 << root, hops, 0
        self._joined: list[int] = []

    def start_step(self, network: _Network) -> None:
        for rank in self._joined:
            self.earlier |= 1 << rank
            self.hops |= network.first_hops[rank]
        self._joined = []

    def add(self, rank: int, parent: int, path: int) -> None:
        self.parent[rank], self.paths[rank] = parent, path
        self.missing ^= 1 << rank
        self._joined.append(rank)


def _extend(turn: list[_Tree], network: _Network, builder: ForestBuilder) -> bool:
    """Extend the trees in turn by an edge each until none can be; return whether any was."""
    is_extended = False
    while turn:
        context().report("trees", 0, 0)
        following = []
        for tree in turn:
            found = network.take_edge(tree)
            # free capacity only shrinks within a step, so a tree that cannot be extended once stays so
            if found is not None:
                parent, rank, links = found
                tree.add(rank, parent, builder.path_number(links))
                is_extended = True
                if tree.missing:
                    following.append(tree)
        turn = following
    return is_extended


class _Network:
    """Free tree edges per link in the current time step.

    The nodes that ranks have links to, the first hops, are ordered from the nearest and widest on and make up
    bit masks in that order; `first_hops` has those of each rank. For a first hop x, `_senders[x]` are the
    ranks with a free link to x, and `_targets[x]` the ranks that x may still reach: an upper bound, corrected
    when a search fails.
    """

    def __init__(self, topology: Topology, router: Router) -> None:
        self._router = router
        rank_of, unit = router.rank_of, min(router.bandwidths)
        ends = zip(router.tails, router.heads, router.bandwidths, strict=True)
        self._capacity = [0 if tail == head else bandwidth // unit for tail, head, bandwidth in ends]
        # for every node, the ranks with a link to it
        self._first_senders: dict[int, int] = {}
        for tail, head in router.between:
            if tail in rank_of:
                self._first_senders[head] = self._first_senders.get(head, 0) | 1 << rank_of[tail]
        # the ranks that each first hop reaches through switches, with their distance
        inner = ~mask_of(topology.n_nodes, list(router.nodes))[topology.tails]
        firsts = list(self._first_senders)
        table = hops(topology.n_nodes, topology.tails[inner], topology.heads[inner], np.array(firsts))
        distances = dict(zip(firsts, table[:, list(router.nodes)].tolist(), strict=True))
        self._first_targets = {
            x: sum(1 << rank for rank, far in enumerate(row) if far >= 0)
            for x, row in distances.items()
            if max(row) >= 0
        }

        def nearness(x: int) -> tuple[int, int, int]:
            """Return the sort key: near first hops first, wide before narrow."""
            widths = [router.bandwidths[e] for e in router.in_links[x] if router.tails[e] in rank_of]
            far = sorted(distance for distance in distances[x] if distance >= 0)
            # a switch's senders are usually among its ranks, which costs nothing; count the nearest other
            own = 0 if x in rank_of else 1
            return far[min(own, len(far) - 1)], -max(widths), x

        self._hops = sorted(self._first_targets, key=nearness)
        self._bit = {x: 1 << i for i, x in enumerate(self._hops)}
        self.first_hops = [0] * len(router.nodes)
        for tail, head in router.between:
            if tail in rank_of:
                self.first_hops[rank_of[tail]] |= self._bit.get(head, 0)
        self.start_step()

    def start_step(self) -> None:
        """Free all links."""
        self._free = list(self._capacity)
        self._senders, self._targets = dict(self._first_senders), dict(self._first_targets)
        self._alive = (1 << len(self._hops)) - 1

    def take_edge(self, tree: _Tree) -> tuple[int, int, Route] | None:
        """Take free links to a rank that the tree lacks: (parent, rank, links); None if there are none."""
        candidates = tree.hops & self._alive & ~tree.closed
        while candidates:
            bit = candidates & -candidates
            candidates ^= bit
            x = self._hops[bit.bit_length() - 1]
            if not self._first_targets[x] & tree.missing:
                tree.closed |= bit
            elif found := self._take_through(x, tree):
                return found
        return None

    def _take_through(self, x: int, tree: _Tree) -> tuple[int, int, Route] | None:
        nodes, rank_of = self._router.nodes, self._router.rank_of
        senders = self._senders[x] & tree.earlier
        if not senders:
            return None
        sender = _lowest_from(senders, tree.root)
        while wanted := self._targets[x] & tree.missing:
            target = _lowest_from(wanted, sender)
            onward = self._free_path(x, nodes[target])
            if onward is None:
                self._targets[x] &= ~(1 << target)
                continue
            first = self._free_link(nodes[sender], x)
            assert first is not None, "a sender has a free link"
            for link in (first, *onward):
                self._free[link] -= 1
                tail, head = self._router.tails[link], self._router.heads[link]
                if tail in rank_of and self._free_link(tail, head) is None:
                    self._senders[head] &= ~(1 << rank_of[tail])
                    if not self._senders[head]:
                        self._alive &= ~self._bit.get(head, 0)
            return sender, target, (first, *onward)
        return None

    def _free_link(self, tail: int, head: int) -> int | None:
        return next((e for e in self._router.between.get((tail, head), ()) if self._free[e]), None)

    def _free_path(self, x: int, goal: int) -> Route | None:
        """Return free links, as few as possible, from first hop x to node `goal` through switches."""
        if x == goal:
            return ()
        tails, after, queue = self._router.tails, {goal: -1}, deque([goal])
        while queue:
            node = queue.popleft()
            last = self._free_link(x, node)
            if last is not None:
                links = [last]
                while node != goal:
                    links.append(after[node])
                    node = self._router.heads[after[node]]
                return tuple(links)
            for link in self._router.in_links[node]:
                tail = tails[link]
                if self._free[link] and tail not in after and tail not in self._router.rank_of:
                    after[tail] = link
                    queue.append(tail)
        return None


def _lowest_from(mask: int, start: int) -> int:
    """Return the first member of a non-empty set at or after `start`, cyclically."""
    rest = mask >> start
    return start + (rest & -rest).bit_length() - 1 if rest else (mask & -mask).bit_length() - 1
