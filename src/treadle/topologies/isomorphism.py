"""Isomorphisms between fabrics: maps of nodes that carry links to equal links.

Colour refinement, and where it stops short, individualisation of a node with backtracking. A colour is a hash
of what a node sees, so that the colours of two fabrics can be compared: nodes with different hashes differ.
A map is returned only after every link of it has been compared exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array, frozen, mask_of, positions_of
from treadle.errors import TopologyError
from treadle.math.symmetry import Hashes, hashed
from treadle.topologies.topology import NODE_COLUMNS, Topology, node_columns

DEFAULT_WORK = 500_000_000
"""Nodes and links that a search may visit, each as often as it is refined: about ten seconds."""


class UndecidedError(TopologyError):
    """The work limit was reached before an isomorphism was found or excluded."""


def find_isomorphism(
    topology: Topology, other: Topology, *, work_limit: int = DEFAULT_WORK
) -> Int32Array | None:
    """A map of nodes that carries the links of one fabric to those of another, or None if there is none.

    Parameters
    ----------
    topology, other : Topology
        Parallel links count, self-loops too. Bandwidths, latencies, kinds of nodes, switch capabilities and
        injection caps must agree; names need not.
    work_limit : int
        Nodes and links to visit at most; about 5 * 10**7 are visited per second.

    Returns
    -------
    array of int32, shape (n,), or None
        Entry v is the node of `other` that node v of `topology` becomes: there are as many links from v to w
        as from mapping[v] to mapping[w], of the same bandwidths and latencies.

    Raises
    ------
    UndecidedError
        If the limit was reached first.

    Notes
    -----
    Depth-first search. Exponential at worst, and on none of the catalogue's fabrics. The identity is
    preferred: on equal fabrics it is the answer.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import hypercube, torus
    >>> find_isomorphism(torus(4, 4), hypercube(4)) is None
    False
    >>> find_isomorphism(torus(2, 8), hypercube(4)) is None
    True
    """
    return _search(topology, other, [], Budget(f"{topology.name} and {other.name}", work_limit))


def find_automorphism(
    topology: Topology, node: int, image: int, *, work_limit: int = DEFAULT_WORK
) -> Int32Array | None:
    """Return a map of a fabric to itself that takes `node` to `image`, or None if there is none.

    Parameters
    ----------
    topology : Topology
    node, image : int
        Node indices.
    work_limit : int
        As in `find_isomorphism`.

    Returns
    -------
    array of int32, shape (n,), or None

    Raises
    ------
    TopologyError
        If a node is out of range.
    UndecidedError
        If the limit was reached first.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> find_automorphism(ring(4, bidirectional=False), 0, 1).tolist()
    [1, 2, 3, 0]
    """
    for index in (node, image):
        if not 0 <= index < topology.n_nodes:
            expected = f"expected 0 to {topology.n_nodes - 1}"
            raise TopologyError(f"{topology.name}: node {index} does not exist; {expected}")
    budget = Budget(f"{topology.name} and itself", work_limit)
    return _search(topology, topology, [(node, image)], budget)


def node_kinds(topology: Topology, *, work_limit: int = DEFAULT_WORK) -> Int64Array:
    """Return colours of nodes by their neighbourhoods: an automorphism maps each node to one of its colour.

    Parameters
    ----------
    topology : Topology
    work_limit : int
        As in `find_isomorphism`.

    Returns
    -------
    array of int64, shape (n,)
        The colour of each node. Nodes of one colour need not be equivalent.

    Raises
    ------
    UndecidedError
        If the limit was reached first.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> from treadle.topologies.transforms.changes import with_failed_links
    >>> node_kinds(with_failed_links(ring(5), "n0--n1")).tolist()
    [0, 0, 1, 2, 1]
    """
    graph = merge_equivalent(topology)
    colours, _ = refine(graph, graph.colours, Budget(f"{topology.name} and itself", work_limit))
    _, first, kind = np.unique(colours, return_index=True, return_inverse=True)
    numbered = np.argsort(np.argsort(first))[kind]
    result = np.empty(topology.n_nodes, dtype=np.int64)
    for members, number in zip(graph.classes, numbered.tolist(), strict=True):
        result[members] = number
    return frozen(result, np.int64)


def transpose_isomorphism(topology: Topology, *, work_limit: int = DEFAULT_WORK) -> Int32Array | None:
    """Return a map that carries the transpose of a fabric to the fabric, or None if there is none.

    Parameters
    ----------
    topology : Topology
    work_limit : int
        As in `find_isomorphism`.

    Returns
    -------
    array of int32, shape (n,), or None
        For every link v -> w of `topology` there is an equal link mapping[w] -> mapping[v].

    Raises
    ------
    UndecidedError
        If the limit was reached first.

    Notes
    -----
    Reverse-symmetry is definition 6 of Efficient Direct-Connect Topologies.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> transpose_isomorphism(ring(4, bidirectional=False)).tolist()
    [0, 3, 2, 1]
    """
    return find_isomorphism(topology.transpose(), topology, work_limit=work_limit)


def is_reverse_symmetric(topology: Topology, *, work_limit: int = DEFAULT_WORK) -> bool:
    """Whether a fabric is isomorphic to its transpose (definition 6); UndecidedError beyond the limit."""
    return transpose_isomorphism(topology, work_limit=work_limit) is not None


def _transitive_generators(topology: Topology, root: int, budget: Budget) -> list[Int32Array] | None:
    """Return automorphisms whose products take the root to every node; None if there are none such."""
    reached = mask_of(topology.n_nodes, root)
    generators: list[Int32Array] = []
    for node in range(topology.n_nodes):
        if reached[node]:
            continue
        found = _search(topology, topology, [(root, node)], budget)
        if found is None:
            return None
        generators.append(found)
        count = 0
        while count < reached.sum():
            count = int(reached.sum())
            for generator in generators:
                reached[generator[reached]] = True
    return generators


def is_vertex_transitive(topology: Topology, *, work_limit: int = DEFAULT_WORK) -> bool:
    """Whether automorphisms take every node to every other; UndecidedError beyond the limit."""
    budget = Budget(f"{topology.name} and itself", work_limit)
    return topology.n_nodes == 0 or _transitive_generators(topology, 0, budget) is not None


def link_map(topology: Topology, other: Topology, mapping: NDArray[np.integer]) -> Int32Array:
    """Return the link that each link becomes under a map of nodes, parallel links in order.

    Parameters
    ----------
    topology, other : Topology
    mapping : array of int, shape (n,)
        An isomorphism from `topology` to `other`.

    Returns
    -------
    array of int32, shape (m,)
        Entry e is the link of `other` from mapping[tail of e] to mapping[head of e], with the bandwidth and
        latency of e. Among parallel equal links the k-th becomes the k-th; no two become the same.

    Raises
    ------
    TopologyError
        If the map is not an isomorphism of the links.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> graph = ring(3, bidirectional=False)
    >>> link_map(graph, graph, [1, 2, 0]).tolist()
    [1, 2, 0]
    """
    return LinkMaps(topology, other)(mapping)


class LinkMaps:
    """`link_map` for several maps between the same fabrics, whose links are sorted once."""

    def __init__(self, topology: Topology, other: Topology) -> None:
        self._topology, self._other = topology, other
        self._theirs, self._order = sorted_links(other, np.arange(other.n_nodes))

    def __call__(self, mapping: NDArray[np.integer]) -> Int32Array:
        """Return the link that each link becomes."""
        names = f"map from {self._topology.name} to {self._other.name}"
        images = np.asarray(mapping, dtype=np.int64)
        n = self._other.n_nodes
        if images.shape != (self._topology.n_nodes,) or not np.array_equal(np.sort(images), np.arange(n)):
            raise TopologyError(f"{names}: expected each of {n} nodes once")
        ours, order = sorted_links(self._topology, images)
        if ours.shape != self._theirs.shape or (ours != self._theirs).any():
            raise TopologyError(f"{names}: links do not become links")
        result = np.empty(self._topology.n_links, dtype=np.int32)
        result[order] = self._order
        return frozen(result, np.int32)


@dataclass
class _SearchNode:
    """A node of the search: stable colours on both sides, and the candidates still to try."""

    ours: Colours
    theirs: Colours
    chosen: int = -1
    candidates: list[int] = field(default_factory=list)
    tried: int = 0
    marked: Colours | None = None
    trace: Trace = field(default_factory=list)


def _search(
    topology: Topology, other: Topology, pinned: list[tuple[int, int]], budget: Budget
) -> Int32Array | None:
    """Search depth-first for a map that respects the fixed pairs of nodes."""
    if (topology.n_nodes, topology.n_links) != (other.n_nodes, other.n_links):
        return None
    one = merge_equivalent(topology)
    two = one if other is topology else merge_equivalent(other)
    if (one.n, len(one.tails)) != (two.n, len(two.tails)):
        return None
    ours, theirs = one.colours, two.colours
    for node, image in pinned:
        ours, theirs = _marked(ours, _class_of(one, node)), _marked(theirs, _class_of(two, image))
    refined, trace = refine(one, ours, budget)
    same = refine_like(two, theirs, trace, budget)
    stack = [] if same is None else [_SearchNode(refined, same)]
    while stack:
        level = stack[-1]
        if level.chosen < 0:
            mapping = _completed(topology, other, one, two, level, pinned)
            budget.spend(one.n + len(one.tails))
            if mapping is not None:
                return mapping
            _branch(one, level, budget)
        if not level.candidates:
            stack.pop()
            continue
        is_first = level.tried == 1 and len(np.unique(level.theirs)) == 1
        if is_first and _transitive_generators(other, 0, budget) is not None:
            return None  # one image failed, and automorphisms make all of them equivalent
        assert level.marked is not None
        marked = _marked(level.theirs, level.candidates.pop())
        refined_theirs = refine_like(two, marked, level.trace, budget)
        level.tried += 1
        if refined_theirs is not None:
            stack.append(_SearchNode(level.marked, refined_theirs))
    return None


def _class_of(graph: MergedFabric, node: int) -> int:
    return next(i for i, members in enumerate(graph.classes) if node in members)


def _marked(colours: Colours, place: int) -> Colours:
    """Return the colours with one class separated from all others."""
    marked = colours.copy()
    marked[place] = hashed(~marked[place : place + 1])[0]
    return marked


def _branch(graph: MergedFabric, level: _SearchNode, budget: Budget) -> None:
    """Choose a class to separate, in the largest cell, and list its candidates; none if all are separate.

    The largest cell, because small ones come from local symmetries that seldom decide anything.
    """
    colours, counts = np.unique(level.ours, return_counts=True)
    if len(colours) == graph.n:
        return
    cell = colours[counts.argmax()]
    level.chosen = int(np.flatnonzero(level.ours == cell)[0])
    candidates = np.flatnonzero(level.theirs == cell).tolist()
    # Popped from the end: the class of the same number first, then in ascending order.
    candidates.sort(key=lambda place: (place != level.chosen, place), reverse=True)
    level.candidates = candidates
    level.marked, level.trace = refine(graph, _marked(level.ours, level.chosen), budget)


def _completed(
    topology: Topology,
    other: Topology,
    one: MergedFabric,
    two: MergedFabric,
    level: _SearchNode,
    pinned: list[tuple[int, int]],
) -> Int32Array | None:
    """Return the map that pairs classes of equal colours in order, if it is an isomorphism.

    With one class per colour it is the only candidate; with more it is a guess that is often right.
    """
    order, other_order = (np.argsort(colours, kind="stable") for colours in (level.ours, level.theirs))
    mapping = np.empty(topology.n_nodes, dtype=np.int32)
    for place, image in zip(order.tolist(), other_order.tolist(), strict=True):
        members, images = one.classes[place], two.classes[image]
        if len(members) != len(images):
            return None
        mapping[members] = images
    for node, image in pinned:
        # Twins may be exchanged freely.
        if mapping[node] != image:
            source = int(np.flatnonzero(mapping == image)[0])
            mapping[source], mapping[node] = mapping[node], image
    if not have_equal_nodes(topology, other, mapping):
        return None
    ours, _ = sorted_links(topology, mapping.astype(np.int64))
    theirs, _ = sorted_links(other, np.arange(other.n_nodes))
    return frozen(mapping, np.int32) if np.array_equal(ours, theirs) else None


def have_equal_nodes(topology: Topology, other: Topology, mapping: NDArray[np.integer]) -> bool:
    """Whether a map takes each node to one of the same kind, capabilities and injection cap."""
    images = node_columns(other, mapping)
    return all(np.array_equal(getattr(topology, key), column) for key, column in images.items())


Colours = Hashes
Trace = list[tuple[int, int]]


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
    """Return the hash of the rows of several columns of integers."""
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
    """Return the sums, modulo 2**64, of the words from first[i] to first[i + 1]."""
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
    """Return the coarsest stable refinement, and the summaries of the rounds to it."""
    trace: Trace = []
    for refined, summary in _rounds(graph, colours):
        budget.spend(graph.n + len(graph.tails))
        trace.append(summary)
        if len(trace) > 1 and summary[0] == trace[-2][0]:
            return refined, trace
    raise AssertionError("rounds never end")


def refine_like(graph: MergedFabric, colours: Colours, trace: Trace, budget: Budget) -> Colours | None:
    """Return the colours after the rounds of a trace; None as soon as a summary differs."""
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
