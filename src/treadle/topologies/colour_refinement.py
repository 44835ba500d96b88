"""Colour refinement of fabrics: classes of nodes that their links do not distinguish.

A colour is a hash of what a node sees, so that the colours of two fabrics can be compared: where the hashes
differ the nodes do. The converse is not claimed, neither of colours nor of hashes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, positions_of
from treadle.errors import TopologyError
from treadle.math.symmetry import Hashes, hashed
from treadle.topologies.topology import NODE_COLUMNS, Topology

Colours = Hashes
Trace = list[tuple[int, int]]


class UndecidedError(TopologyError):
    """The work limit was reached before an isomorphism was found or excluded."""


@dataclass
class Budget:
    """Remainder of a work limit."""

    what: str
    limit: int
    spent: int = 0

    def spend(self, work: int) -> None:
        """Count work; UndecidedError when nothing is left."""
        self.spent += work
        if self.spent > self.limit:
            reason = f"not decided within {self.limit} visits of nodes and links whether they are isomorphic"
            raise UndecidedError(f"{self.what}: {reason}; raise work_limit")


@dataclass(frozen=True, eq=False)
class MergedFabric:
    """A fabric with equivalent nodes merged, as input of refinement.

    Attributes
    ----------
    classes : nodes of the fabric by class of equivalent nodes, ascending, classes by their first node
    colours : of each class before refinement: kind of the nodes and their number
    tails, heads : ends of the links between classes, sorted by tail
    labels : hash of each link's bandwidth and latency
    by_head : order that sorts the links by head
    first_out, first_in : where each class's links begin in the two orders, shape (n + 1,)
    """

    classes: list[list[int]]
    colours: Colours
    tails: Int64Array
    heads: Int64Array
    labels: Colours
    by_head: Int64Array
    first_out: Int64Array
    first_in: Int64Array

    @property
    def n(self) -> int:
        """Number of classes."""
        return len(self.classes)


def _words(*columns: NDArray[np.generic]) -> Colours:
    """Hash of the rows of several columns of integers."""
    words = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        words = hashed(words ^ column.astype(np.uint64)) + np.uint64(1)
    return words


def merge_equivalent(topology: Topology) -> MergedFabric:
    """Merge nodes of one colour with equal links from and to the same nodes.

    Any bijection between such nodes is an automorphism, so merging loses nothing; unmerged, each pair of them
    would double the work of a search that fails. A class keeps the links of its first node to first nodes.
    """
    n = topology.n_nodes
    kinds = _words(*(getattr(topology, key) for key in NODE_COLUMNS))
    rows, _ = sorted_links(topology, np.arange(n))
    order = np.lexsort((rows[3], rows[2], rows[0], rows[1]))
    out_keys = np.ascontiguousarray(rows[1:].T)
    in_keys = np.ascontiguousarray(rows[[0, 2, 3]][:, order].T)
    first_out = np.searchsorted(rows[0], np.arange(n + 1))
    first_in = np.searchsorted(rows[1][order], np.arange(n + 1))
    twins: dict[tuple[int, bytes, bytes], list[int]] = {}
    for node in range(n):
        leaving = out_keys[first_out[node] : first_out[node + 1]].tobytes()
        entering = in_keys[first_in[node] : first_in[node + 1]].tobytes()
        twins.setdefault((int(kinds[node]), leaving, entering), []).append(node)
    classes = list(twins.values())
    firsts = np.array([members[0] for members in classes], dtype=np.int64)
    index = positions_of(n, firsts)
    rows = rows[:, (index[rows[0]] >= 0) & (index[rows[1]] >= 0)]
    tails, heads = index[rows[0]], index[rows[1]]
    by_head = np.argsort(heads, kind="stable")
    bounds = np.arange(len(classes) + 1)
    return MergedFabric(
        classes=classes,
        colours=_words(kinds[firsts], np.array([len(members) for members in classes], dtype=np.int64)),
        tails=tails,
        heads=heads,
        labels=_words(rows[2], rows[3]),
        by_head=by_head,
        first_out=np.searchsorted(tails, bounds),
        first_in=np.searchsorted(heads[by_head], bounds),
    )


def _sums(words: Colours, first: Int64Array) -> Colours:
    """Sums, modulo 2**64, of the words from first[i] to first[i + 1]."""
    running = np.zeros(len(words) + 1, dtype=np.uint64)
    np.cumsum(words, out=running[1:])
    return running[first[1:]] - running[first[:-1]]


def _rounds(graph: MergedFabric, colours: Colours) -> Iterator[tuple[Colours, tuple[int, int]]]:
    """Refined colours, round after round, each with a summary: number of colours and hash of their counts."""
    while True:
        yield colours, (len(np.unique(colours)), int(hashed(colours).sum(dtype=np.uint64)))
        leaving = hashed(graph.labels ^ colours[graph.heads])
        entering = hashed(~graph.labels ^ colours[graph.tails])[graph.by_head]
        seen = hashed(_sums(leaving, graph.first_out)) + _sums(entering, graph.first_in)
        colours = hashed(hashed(colours) + seen)


def refine(graph: MergedFabric, colours: Colours, budget: Budget) -> tuple[Colours, Trace]:
    """The coarsest stable refinement, and the summaries of the rounds to it."""
    trace: Trace = []
    for refined, summary in _rounds(graph, colours):
        budget.spend(graph.n + len(graph.tails))
        trace.append(summary)
        if len(trace) > 1 and summary[0] == trace[-2][0]:
            return refined, trace
    raise AssertionError("rounds never end")


def refine_like(graph: MergedFabric, colours: Colours, trace: Trace, budget: Budget) -> Colours | None:
    """Colours after the rounds of a trace; None as soon as a summary differs."""
    for expected, (refined, summary) in zip(trace, _rounds(graph, colours), strict=False):
        budget.spend(graph.n + len(graph.tails))
        if summary != expected:
            return None
        colours = refined
    return colours


def sorted_links(topology: Topology, images: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Links as rows (tail, head, bandwidth, latency) with their ends mapped, sorted, and their numbers."""
    tails, heads = images[topology.tails], images[topology.heads]
    pairs = tails * np.int64(topology.n_nodes) + heads
    order = np.argsort(pairs, kind="stable")
    if np.any(pairs[order[1:]] == pairs[order[:-1]]):  # parallel links
        order = np.lexsort((topology.latencies_ns, topology.bandwidths, pairs))
    rows = np.stack([tails, heads, topology.bandwidths, topology.latencies_ns])[:, order]
    return rows, order
