"""The least cut below one root, by contracting nodes that some minimum cut does not separate.

A cut S holds the root and leaves out a terminal; c(S) is the bandwidth that leaves it, and the least is the
optimum of a broadcast. `best` is the least of the cuts seen so far, around single nodes of the contracted
graph. Two nodes u, v are contracted

(A) if u -> v and v -> u both carry `best` or more, over links or over one node in between (for nodes of many
    neighbours, such as rail switches): a cut between them is no better; or
(B) if as much enters v as leaves it, and at least that much runs between u and v, both directions together:
    moving v to the side of u makes no cut larger. It is a cut still, unless v is the only terminal outside;
    so the other terminals must be able to send v `best` over links to it, or over one relay.

Source: M. Padberg and G. Rinaldi, An efficient algorithm for the minimum capacity cut problem (1990), tests 1
and 2, for directed cuts below a root. What does not contract is left to maximum flows.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, mask_of, sums_of
from treadle.errors import InfeasibleError
from treadle.math.graphs import components
from treadle.schedules.certificate import BottleneckCut
from treadle.synthesis.core_values.tree_values import Arcs
from treadle.synthesis.runs import run_starts
from treadle.synthesis.trees.instance import Instance, graph_instance
from treadle.synthesis.trees.optimality import Optimum, instance_optimum

_HUBS = 64
"""Nodes of the most neighbours whose common neighbours are looked at."""

_MOST_LEFT = 4096
"""Nodes of the contracted graph up to which flows decide what is left."""


def contracted_optimum(problem: Instance) -> Optimum | None:
    """Return the optimum of a problem with one root; None if too many nodes are left, or a rank is cut off.

    Parameters
    ----------
    problem : Instance
        One weight is not 0.
    """
    root = int(problem.terminals[np.flatnonzero(problem.weights)[0]])
    graph = _Graph.of(problem, np.arange(problem.n_nodes, dtype=np.int32))
    best: int | None = None
    cut = np.zeros(problem.n_nodes, dtype=np.bool_)
    while True:
        value, inside = graph.least_cut(graph.label[root])
        if best is None or (value is not None and value < best):
            best, cut = value, inside[graph.label]
        if best is None or not best:
            return None
        if graph.is_terminal.sum() == 1:
            break
        one, other = graph.joined(best, graph.label[root])
        if not len(one):
            one, other = graph.joined_hubs(best)
        if not len(one):
            return _by_flows(problem, graph, root, best, cut)
        merged = components(graph.n_nodes, one, other)
        _, number = np.unique(merged, return_inverse=True)
        graph = _Graph.of(problem, number.astype(np.int32)[graph.label])
    return _optimum(problem, best, cut)


def _optimum(problem: Instance, best: int, inside: BoolArray) -> Optimum:
    weight = int(problem.weights.max())  # of the only root
    return Optimum(
        Fraction(best, weight), Fraction(best), BottleneckCut(tuple(np.flatnonzero(inside).tolist()))
    )


def _by_flows(problem: Instance, graph: _Graph, root: int, best: int, cut: BoolArray) -> Optimum | None:
    """Return the optimum by flows on the contracted graph; None if it is too large."""
    if graph.n_nodes > _MOST_LEFT:
        return None
    terminals = np.flatnonzero(graph.is_terminal).astype(np.int32)
    weights = np.where(terminals == graph.label[root], problem.weights.max(), 0).astype(np.int64)
    arcs, every = Arcs(graph.tails, graph.heads, graph.widths), np.ones(graph.n_nodes, dtype=np.bool_)
    name, direction = problem.topology.name, problem.direction
    try:
        found = instance_optimum(graph_instance(name, every, terminals, weights, arcs, direction))
    except InfeasibleError:  # it names nodes of the contracted graph
        return None
    value = int(found.rate * int(problem.weights.max()))
    if value < best:
        best, cut = value, mask_of(graph.n_nodes, list(found.certificate.nodes))[graph.label]
    return _optimum(problem, best, cut)


@dataclass(frozen=True, eq=False)
class _Graph:
    """A contracted fabric.

    Parameters
    ----------
    label : array of int32, shape (n,)
        Node of the contracted graph that each node is in.
    is_terminal : array of bool
        Nodes that hold a terminal.
    tails, heads : arrays of int32
        Joined pairs, by tail and head.
    widths : array of int64
        Bandwidth of all links of each pair, bytes/s.
    """

    label: Int32Array
    is_terminal: BoolArray
    tails: Int32Array
    heads: Int32Array
    widths: Int64Array

    @staticmethod
    def of(problem: Instance, label: Int32Array) -> _Graph:
        n = int(label.max()) + 1
        tails, heads = label[problem.tails], label[problem.heads]
        crosses = np.flatnonzero(tails != heads)
        pair = tails[crosses].astype(np.int64) * n + heads[crosses]
        order = np.argsort(pair, kind="stable")
        pair = pair[order]
        starts = np.flatnonzero(run_starts(pair))
        widths = np.add.reduceat(problem.bandwidths[crosses[order]], starts) if len(starts) else pair
        tail, head = (end.astype(np.int32) for end in np.divmod(pair[starts], n))
        return _Graph(label, mask_of(n, label[problem.terminals]), tail, head, widths)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.is_terminal)

    def least_cut(self, root: int) -> tuple[int | None, BoolArray]:
        """Return the least cut around a node, and its side with the root; None if one node has all
        terminals."""
        nodes = np.arange(self.n_nodes)
        if self.is_terminal.sum() == 1:
            return None, nodes >= 0
        values = sums_of(self.n_nodes, self.heads, self.widths)
        leaving = int(self.widths[self.tails == root].sum())
        others = np.flatnonzero(self.is_terminal & (nodes != root))
        least = int(others[np.argmin(values[others])])
        if leaving < values[least]:
            return leaving, nodes == root
        return int(values[least]), nodes != least

    def joined(self, best: int, root: int) -> tuple[Int32Array, Int32Array]:
        """Return pairs of nodes that some minimum cut does not separate."""
        n = self.n_nodes
        back = self._backward()
        there = self.tails < self.heads  # each pair once, though links may lead one way only
        wide = np.flatnonzero((self.widths >= best) & (back >= best) & there)
        into, out = (sums_of(n, ends, self.widths) for ends in (self.heads, self.tails))
        between = self.widths + back
        balanced = (into == out) & (np.arange(n) != root)
        free = balanced & (~self.is_terminal | (self._sent_by_terminals() >= best))
        near = np.flatnonzero(free[self.heads] & (between >= into[self.heads]))
        # a node whose links all lead to two neighbours can move to either, but not to both
        _, first = np.unique(self.heads[near], return_index=True)
        chosen = np.concatenate([wide, near[first]])
        return self.tails[chosen], self.heads[chosen]

    def joined_hubs(self, best: int) -> tuple[Int32Array, Int32Array]:
        """Return nodes of very many neighbours that send each other `best` over a link or one node in
        between."""
        n = self.n_nodes
        hubs = np.argsort(-np.bincount(self.tails, minlength=n), kind="stable")[:_HUBS].astype(np.int32)
        out, into = np.zeros((2, len(hubs), n), dtype=np.int64)
        for row, hub in enumerate(hubs.tolist()):
            for table, ends, others in ((out, self.tails, self.heads), (into, self.heads, self.tails)):
                own = ends == hub
                table[row, others[own]] = self.widths[own]
        first = int(hubs[0])
        there = np.minimum(out[0], into).sum(axis=1) + into[:, first]
        back = np.minimum(into[0], out).sum(axis=1) + out[:, first]
        joined = hubs[(there >= best) & (back >= best) & (hubs != first)]
        return np.full(len(joined), first, dtype=np.int32), joined

    def _backward(self) -> Int64Array:
        """Return the width of the opposite of each pair, 0 without one."""
        key = self.tails.astype(np.int64) * self.n_nodes + self.heads
        opposite = self.heads.astype(np.int64) * self.n_nodes + self.tails
        place = np.minimum(np.searchsorted(key, opposite), len(key) - 1)
        return np.where(key[place] == opposite, self.widths[place], 0)

    def _sent_by_terminals(self) -> Int64Array:
        """Return the bandwidth from other terminals to each node over a link, or over one relay each."""
        n = self.n_nodes
        from_terminal = self.is_terminal[self.tails]
        supply = sums_of(n, self.heads[from_terminal], self.widths[from_terminal])
        # a relay has nothing for a node that the node itself sent there
        own = np.where(self.is_terminal[self.heads], self._backward(), 0)
        by_relay = np.minimum(self.widths, supply[self.tails] - own)
        return sums_of(n, self.heads, np.where(from_terminal, self.widths, by_relay))
