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

from treadle.arrays import Int32Array, Int64Array, frozen
from treadle.errors import TopologyError
from treadle.topologies.topology import Topology

DEFAULT_WORK = 500_000_000
"""Nodes and links that a search may visit, each as often as it is refined: about ten seconds."""

_Colours = NDArray[np.uint64]
_Trace = list[tuple[int, int]]


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
    >>> from treadle.topologies.graphs import hypercube, torus
    >>> find_isomorphism(torus(4, 4), hypercube(4)) is None
    False
    >>> find_isomorphism(torus(2, 8), hypercube(4)) is None
    True
    """
    return _search(topology, other, [], _Budget(f"{topology.name} and {other.name}", work_limit))


def find_automorphism(
    topology: Topology, node: int, image: int, *, work_limit: int = DEFAULT_WORK
) -> Int32Array | None:
    """A map of a fabric to itself that takes `node` to `image`, or None if there is none.

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
    >>> from treadle.topologies.graphs import ring
    >>> find_automorphism(ring(4, bidirectional=False), 0, 1).tolist()
    [1, 2, 3, 0]
    """
    for index in (node, image):
        if not 0 <= index < topology.n_nodes:
            raise TopologyError(
                f"{topology.name}: node {index} does not exist; expected 0 to {topology.n_nodes - 1}"
            )
    budget = _Budget(f"{topology.name} and itself", work_limit)
    return _search(topology, topology, [(node, image)], budget)


def transpose_isomorphism(topology: Topology, *, work_limit: int = DEFAULT_WORK) -> Int32Array | None:
    """A map that carries the transpose of a fabric to the fabric, or None if there is none.

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
    >>> from treadle.topologies.graphs import ring
    >>> transpose_isomorphism(ring(4, bidirectional=False)).tolist()
    [0, 3, 2, 1]
    """
    return find_isomorphism(topology.transpose(), topology, work_limit=work_limit)


def is_reverse_symmetric(topology: Topology, *, work_limit: int = DEFAULT_WORK) -> bool:
    """Whether a fabric is isomorphic to its transpose (definition 6); UndecidedError beyond the limit."""
    return transpose_isomorphism(topology, work_limit=work_limit) is not None


def transitive_automorphisms(
    topology: Topology, *, root: int = 0, work_limit: int = DEFAULT_WORK
) -> Int32Array | None:
    """An automorphism from `root` to every node, or None if the fabric is not vertex-transitive.

    Parameters
    ----------
    topology : Topology
    root : int
    work_limit : int
        As in `find_isomorphism`, for all searches together.

    Returns
    -------
    array of int32, shape (n, n), or None
        Row v maps `root` to v; row `root` is the identity.

    Raises
    ------
    TopologyError
        If the root is out of range.
    UndecidedError
        If the limit was reached first.

    Notes
    -----
    Products of automorphisms reach most nodes: log2(n) searches are enough on a Cayley graph without others.

    Examples
    --------
    >>> from treadle.topologies.graphs import ring
    >>> transitive_automorphisms(ring(3)).tolist()
    [[0, 1, 2], [1, 0, 2], [2, 0, 1]]
    """
    n = topology.n_nodes
    if not 0 <= root < n:
        raise TopologyError(f"{topology.name}: node {root} does not exist; expected 0 to {n - 1}")
    generators = _transitive_generators(topology, root, _Budget(f"{topology.name} and itself", work_limit))
    if generators is None:
        return None
    rows = np.full((n, n), -1, dtype=np.int32)
    rows[root] = np.arange(n)
    reached = [root]
    for member in reached:
        for generator in generators:
            image = int(generator[member])
            if rows[image, 0] < 0:
                rows[image] = generator[rows[member]]
                reached.append(image)
    rows.setflags(write=False)
    return rows


def _transitive_generators(topology: Topology, root: int, budget: _Budget) -> list[Int32Array] | None:
    """Automorphisms whose products take the root to every node; None if there are none such."""
    reached = np.zeros(topology.n_nodes, dtype=np.bool_)
    reached[root] = True
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
    budget = _Budget(f"{topology.name} and itself", work_limit)
    return topology.n_nodes == 0 or _transitive_generators(topology, 0, budget) is not None


def link_map(topology: Topology, other: Topology, mapping: Int32Array) -> Int32Array:
    """The link that each link becomes under a map of nodes, parallel links in order.

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
        If the map is no isomorphism of the links.

    Examples
    --------
    >>> from treadle.topologies.graphs import ring
    >>> graph = ring(3, bidirectional=False)
    >>> link_map(graph, graph, [1, 2, 0]).tolist()
    [1, 2, 0]
    """
    images = np.asarray(mapping, dtype=np.int64)
    n, m = topology.n_nodes, topology.n_links
    if images.shape != (n,) or not np.array_equal(np.sort(images), np.arange(other.n_nodes)):
        raise TopologyError(
            f"map from {topology.name} to {other.name}: expected each of {other.n_nodes} nodes once"
        )
    ours, order = _sorted_links(topology, images)
    theirs, other_order = _sorted_links(other, np.arange(n))
    if ours.shape != theirs.shape or (ours != theirs).any():
        raise TopologyError(f"map from {topology.name} to {other.name}: links do not become links")
    result = np.empty(m, dtype=np.int32)
    result[order] = other_order
    return frozen(result, np.int32)


def _sorted_links(topology: Topology, images: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Links as rows (tail, head, bandwidth, latency) with their ends mapped, sorted, and their numbers."""
    tails, heads = images[topology.tails], images[topology.heads]
    order = np.lexsort((topology.latencies_ns, topology.bandwidths, heads, tails))
    rows = np.stack([tails, heads, topology.bandwidths, topology.latencies_ns])[:, order]
    return rows, order


@dataclass
class _Budget:
    """What is left of a work limit."""

    what: str
    limit: int
    spent: int = 0

    def spend(self, work: int) -> None:
        self.spent += work
        if self.spent > self.limit:
            raise UndecidedError(
                f"{self.what}: not decided within {self.limit} visits of nodes and links whether they are "
                f"isomorphic; raise work_limit"
            )


@dataclass(frozen=True, eq=False)
class _Graph:
    """A fabric with its twins merged: what refinement reads.

    Attributes
    ----------
    classes : nodes of the fabric by class of twins, ascending, classes by their first node
    colours : of each class before refinement: kind of the nodes and their number
    tails, heads : ends of the links between classes, sorted by tail
    labels : hash of each link's bandwidth and latency
    by_head : order that sorts the links by head
    first_out, first_in : where each class's links begin in the two orders, shape (n + 1,)
    """

    classes: list[list[int]]
    colours: _Colours
    tails: Int64Array
    heads: Int64Array
    labels: _Colours
    by_head: Int64Array
    first_out: Int64Array
    first_in: Int64Array

    @property
    def n(self) -> int:
        return len(self.classes)


def _hashed(values: _Colours) -> _Colours:
    """A bijection of 64-bit words without structure (the finaliser of splitmix64)."""
    words = values + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _words(*columns: NDArray[np.generic]) -> _Colours:
    """Hash of the rows of several columns of integers."""
    words = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        words = _hashed(words ^ column.astype(np.uint64)) + np.uint64(1)
    return words


def _merged(topology: Topology) -> _Graph:
    """Merge nodes of one kind with equal links from and to the same nodes.

    Any bijection between such twins is an automorphism, so merging loses nothing; unmerged, each pair of them
    would double the work of a search that fails. A class keeps the links of its first node to first nodes.
    """
    n = topology.n_nodes
    kinds = _words(
        topology.is_compute, topology.multicast, topology.aggregation, topology.injection_bytes_per_s
    )
    rows, _ = _sorted_links(topology, np.arange(n))
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
    index = np.full(n, -1, dtype=np.int64)
    index[firsts] = np.arange(len(classes))
    rows = rows[:, (index[rows[0]] >= 0) & (index[rows[1]] >= 0)]
    tails, heads = index[rows[0]], index[rows[1]]
    by_head = np.argsort(heads, kind="stable")
    bounds = np.arange(len(classes) + 1)
    return _Graph(
        classes=classes,
        colours=_words(kinds[firsts], np.array([len(members) for members in classes], dtype=np.int64)),
        tails=tails,
        heads=heads,
        labels=_words(rows[2], rows[3]),
        by_head=by_head,
        first_out=np.searchsorted(tails, bounds),
        first_in=np.searchsorted(heads[by_head], bounds),
    )


def _sums(words: _Colours, first: Int64Array) -> _Colours:
    """Sums, modulo 2**64, of the words from first[i] to first[i + 1]."""
    running = np.zeros(len(words) + 1, dtype=np.uint64)
    np.cumsum(words, out=running[1:])
    return running[first[1:]] - running[first[:-1]]


def _rounds(graph: _Graph, colours: _Colours) -> Iterator[tuple[_Colours, tuple[int, int]]]:
    """Refined colours, round after round, each with a summary: number of colours and hash of their counts."""
    while True:
        yield colours, (len(np.unique(colours)), int(_hashed(colours).sum(dtype=np.uint64)))
        leaving = _hashed(graph.labels ^ colours[graph.heads])
        entering = _hashed(~graph.labels ^ colours[graph.tails])[graph.by_head]
        seen = _hashed(_sums(leaving, graph.first_out)) + _sums(entering, graph.first_in)
        colours = _hashed(_hashed(colours) + seen)


def _refined(graph: _Graph, colours: _Colours, budget: _Budget) -> tuple[_Colours, _Trace]:
    """The coarsest stable refinement, and the summaries of the rounds to it."""
    trace: _Trace = []
    for refined, summary in _rounds(graph, colours):
        budget.spend(graph.n + len(graph.tails))
        trace.append(summary)
        if len(trace) > 1 and summary[0] == trace[-2][0]:
            return refined, trace
    raise AssertionError("rounds never end")


def _refined_like(graph: _Graph, colours: _Colours, trace: _Trace, budget: _Budget) -> _Colours | None:
    """Colours after the rounds of a trace; None as soon as a summary differs."""
    for expected, (refined, summary) in zip(trace, _rounds(graph, colours), strict=False):
        budget.spend(graph.n + len(graph.tails))
        if summary != expected:
            return None
        colours = refined
    return colours


@dataclass
class _Level:
    """A node of the search: stable colours on both sides, and the candidates still to try."""

    ours: _Colours
    theirs: _Colours
    chosen: int = -1
    candidates: list[int] = field(default_factory=list)
    tried: int = 0
    marked: _Colours | None = None
    trace: _Trace = field(default_factory=list)


def _search(
    topology: Topology, other: Topology, pinned: list[tuple[int, int]], budget: _Budget
) -> Int32Array | None:
    """Depth-first search for a map that respects the pinned pairs of nodes."""
    if (topology.n_nodes, topology.n_links) != (other.n_nodes, other.n_links):
        return None
    one, two = _merged(topology), _merged(other)
    if (one.n, len(one.tails)) != (two.n, len(two.tails)):
        return None
    ours, theirs = one.colours, two.colours
    for node, image in pinned:
        ours, theirs = _marked(ours, _class_of(one, node)), _marked(theirs, _class_of(two, image))
    start = _entered(one, two, ours, theirs, budget)
    stack = [start] if start is not None else []
    while stack:
        level = stack[-1]
        if level.chosen < 0:
            mapping = _completed(topology, other, one, two, level, pinned)
            budget.spend(one.n + len(one.tails))
            if mapping is not None:
                return mapping
            if not _branch(one, level, budget):
                stack.pop()
                continue
        if not level.candidates:
            stack.pop()
            continue
        if _is_hopeless(other, level, len(stack), pinned, budget):
            return None
        following = _descended(two, level, level.candidates.pop(), budget)
        level.tried += 1
        if following is not None:
            stack.append(following)
    return None


def _is_hopeless(
    other: Topology, level: _Level, depth: int, pinned: list[tuple[int, int]], budget: _Budget
) -> bool:
    """Whether one image failed for the first node and automorphisms make all images alike."""
    first_failed = depth == 1 and level.tried == 1 and not pinned
    if not first_failed or len(np.unique(level.theirs)) > 1:
        return False
    return _transitive_generators(other, 0, budget) is not None


def _class_of(graph: _Graph, node: int) -> int:
    return next(i for i, members in enumerate(graph.classes) if node in members)


def _marked(colours: _Colours, place: int) -> _Colours:
    """Colours with one class told apart from all others."""
    marked = colours.copy()
    marked[place] = _hashed(~marked[place : place + 1])[0]
    return marked


def _entered(one: _Graph, two: _Graph, ours: _Colours, theirs: _Colours, budget: _Budget) -> _Level | None:
    refined, trace = _refined(one, ours, budget)
    same = _refined_like(two, theirs, trace, budget)
    return None if same is None else _Level(refined, same)


def _branch(graph: _Graph, level: _Level, budget: _Budget) -> bool:
    """Choose a class to tell apart, in the largest cell, and list its candidates; False if all are apart.

    The largest cell, because small ones come from local symmetries that seldom decide anything.
    """
    colours, counts = np.unique(level.ours, return_counts=True)
    if len(colours) == graph.n:
        return False
    cell = colours[counts.argmax()]
    level.chosen = int(np.flatnonzero(level.ours == cell)[0])
    candidates = np.flatnonzero(level.theirs == cell).tolist()
    # Popped from the end: the class of the same number first, then in ascending order.
    candidates.sort(key=lambda place: (place != level.chosen, place), reverse=True)
    level.candidates = candidates
    level.marked, level.trace = _refined(graph, _marked(level.ours, level.chosen), budget)
    return True


def _descended(two: _Graph, level: _Level, place: int, budget: _Budget) -> _Level | None:
    """The level below, where the chosen class becomes `place`; None if the colours then differ."""
    assert level.marked is not None
    theirs = _refined_like(two, _marked(level.theirs, place), level.trace, budget)
    return None if theirs is None else _Level(level.marked, theirs)


def _completed(
    topology: Topology,
    other: Topology,
    one: _Graph,
    two: _Graph,
    level: _Level,
    pinned: list[tuple[int, int]],
) -> Int32Array | None:
    """The map that pairs classes of equal colours in order, if it is an isomorphism.

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
    if not _is_isomorphism(topology, other, mapping):
        return None
    mapping.setflags(write=False)
    return mapping


def _is_isomorphism(topology: Topology, other: Topology, mapping: Int32Array) -> bool:
    """Whether the map carries every property of nodes and links over, compared exactly."""
    for key in ("is_compute", "multicast", "aggregation", "injection_bytes_per_s"):
        if not np.array_equal(getattr(topology, key), getattr(other, key)[mapping]):
            return False
    ours, _ = _sorted_links(topology, mapping.astype(np.int64))
    theirs, _ = _sorted_links(other, np.arange(other.n_nodes))
    return bool(np.array_equal(ours, theirs))
