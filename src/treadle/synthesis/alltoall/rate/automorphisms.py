"""Automorphisms of the catalogue's fabrics, proposed by their names and confirmed link by link."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import combinations, pairwise
from math import gcd, prod

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array
from treadle.errors import TreadleError
from treadle.synthesis.alltoall.rate.box_rotations import box_rotations
from treadle.topologies import parse
from treadle.topologies.catalogue.cayley import cayley_graph_of
from treadle.topologies.catalogue.kautz import generalized_kautz
from treadle.topologies.isomorphism import LinkMaps
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.expansions import line_graph

_MAX_DEPTH = 16
_MAX_SWAPS = 16

Proposals = Iterator[NDArray[np.int64]]


def proposed_automorphisms(topology: Topology, depth: int = _MAX_DEPTH) -> tuple[Int64Array, ...]:
    """Automorphisms that the fabric's name suggests; none if it suggests none.

    Parameters
    ----------
    topology : Topology
    depth : int
        How many functions of the name may be taken apart.

    Returns
    -------
    tuple of arrays of int64, shape (n,)
        Each carries links to equal links: a wrong proposal, or a fabric that no longer is what its name
        says, is found out and left out.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> [one.tolist() for one in proposed_automorphisms(ring(4))]
    [[1, 2, 3, 0], [0, 3, 2, 1]]
    """
    return tuple(node_map for node_map, _ in confirmed_maps(topology, depth))


def confirmed_maps(topology: Topology, depth: int = _MAX_DEPTH) -> list[tuple[Int64Array, Int32Array]]:
    """Return the automorphisms with their maps of links."""
    kept: list[tuple[Int64Array, Int32Array]] = []
    seen: set[bytes] = {np.arange(topology.n_nodes, dtype=np.int64).tobytes()}
    link_maps = LinkMaps(topology, topology)
    for proposal in _proposals(topology, depth):
        if proposal.shape == (topology.n_nodes,) and proposal.tobytes() not in seen:
            seen.add(proposal.tobytes())
            try:
                # compared link by link: a wrong proposal costs time only
                kept.append((proposal, link_maps(proposal)))
            except TreadleError:
                continue
    return kept


def _proposals(topology: Topology, depth: int) -> Proposals:
    """Maps of nodes, right or wrong, by the outermost function of the name."""
    call = _call(topology.name)
    if call is None or depth == 0:
        return
    name, numbers, fabrics = call
    n = np.arange(topology.n_nodes, dtype=np.int64)
    if name in ("ring", "circulant", "directed_circulant", "uni_ring", "bi_ring"):
        yield from ((n + 1) % len(n), -n % len(n))
    elif name == "complete":
        yield from _all_alike(len(n))
    elif name == "complete_bipartite" and len(numbers) == 2:
        yield from _bipartite(numbers[0], numbers[1])
    elif name in ("torus", "mesh") and prod(numbers) == len(n):
        yield from _grid(tuple(numbers))
    elif name == "twisted_torus" and len(topology.heads) == 2 * len(numbers) * len(n):
        yield from _twisted_grid(topology, tuple(numbers))
    elif name == "hypercube" and len(numbers) == 1:
        yield from _grid((2,) * numbers[0])
    elif name == "hamming" and len(numbers) == 2:
        yield from _grid((numbers[1],) * numbers[0])
    elif name == "generalized_kautz" and len(numbers) == 2:
        yield from _generalized_kautz(numbers[0], len(n), depth)
    elif name == "kautz" and len(numbers) == 2:
        yield from _kautz_letters(numbers[0], numbers[1], len(n))
    elif name == "de_bruijn" and len(numbers) == 2:
        yield from _letters(numbers[0], numbers[1], len(n))
    elif name.endswith("_cayley"):
        yield from _translations(topology)
    elif fabrics:
        yield from _expanded(topology, name, fabrics, numbers, depth)
    else:
        yield from box_rotations(topology.node_names)


def _call(text: str) -> tuple[str, list[int], list[str]] | None:
    """Function, integers and inner expressions of a catalogue expression."""
    try:
        call = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return None
    numbers = [arg.value for arg in call.args if isinstance(arg, ast.Constant) and type(arg.value) is int]
    fabrics = [ast.unparse(arg) for arg in call.args if isinstance(arg, ast.Call)]
    return call.func.id, numbers, fabrics


def _bipartite(a: int, b: int) -> Proposals:
    n = np.arange(a + b, dtype=np.int64)
    for first, size in ((0, a), (a, b)):
        side = (n >= first) & (n < first + size)
        yield np.where(side, first + (n - first + 1) % size, n)
        if size > 2:
            yield np.where(n == first, first + 1, np.where(n == first + 1, first, n))
    if a == b:
        yield (n + a) % (a + b)


def _grid(dims: tuple[int, ...]) -> Proposals:
    """Shifts and reflections of each coordinate, exchanges of neighbouring ones; last one fastest."""
    places = np.indices(dims).reshape(len(dims), -1)
    for axis, size in enumerate(dims):
        for image in ((places[axis] + 1) % size, -places[axis] % size, size - 1 - places[axis]):
            yield _changed(places, dims, axis, image)
    for axis in range(len(dims) - 1):
        if dims[axis] == dims[axis + 1]:
            yield _changed(places, dims, [axis, axis + 1], places[[axis + 1, axis]])


def _twisted_grid(topology: Topology, dims: tuple[int, ...]) -> Proposals:
    """Steps along each dimension, inversion (the group is abelian), exchanges of equal dimensions."""
    degree = 2 * len(dims)
    for axis in range(len(dims)):
        yield topology.heads[2 * axis :: degree].astype(np.int64)
    places = np.indices(dims).reshape(len(dims), -1)
    k = min(dims)
    # -x along a short dimension is k - x with a shift of k along the long ones
    wraps = ((places > 0) & (np.array(dims)[:, None] == k)).sum(axis=0)
    inverse = [
        -row % size if size == k else (k * wraps - row) % size for row, size in zip(places, dims, strict=True)
    ]
    yield _changed(places, dims, slice(None), np.array(inverse))
    for first, second in combinations(range(len(dims)), 2):
        if dims[first] == dims[second]:
            yield _changed(places, dims, [first, second], places[[second, first]])


def _all_alike(n: int) -> Proposals:
    """Generators of all permutations."""
    nodes = np.arange(n, dtype=np.int64)
    yield (nodes + 1) % n
    if n > 2:
        yield np.concatenate([[1, 0], nodes[2:]])


def _generalized_kautz(d: int, m: int, depth: int) -> Proposals:
    """x -> -x-1 and x -> x + m / gcd(m, d + 1); for multiples of d, those of the graph with m / d nodes.

    Arc e of Pi(d, m) is node d m - 1 - e of Pi(d, d m), its line graph: arc d x + a - 1 runs to -d x - a.
    """
    nodes = np.arange(m, dtype=np.int64)
    yield (-nodes - 1) % m
    yield (nodes + m // gcd(m, d + 1)) % m
    if m <= d + 1:
        yield from _all_alike(m)
    elif m % d == 0 and m // d > 1:
        for one in _lifted_to_lines(generalized_kautz(d, m // d), 1, depth):
            yield m - 1 - one[::-1]


def _letters(d: int, length: int, n: int) -> Proposals:
    """The same permutation of symbols at every position of a de Bruijn word."""
    if d**length != n:
        return
    digits = np.arange(n, dtype=np.int64)[:, None] // d ** np.arange(length) % d
    turn = np.roll(np.arange(d), 1)
    swap = np.arange(d)
    swap[:2] = 1, 0
    for letters in (turn, swap):
        yield (letters[digits] * d ** np.arange(length)).sum(axis=1)


def _kautz_letters(d: int, length: int, n: int) -> Proposals:
    """The same permutation of symbols at every position of a Kautz word.

    A symbol but the first is written as its rank among those that differ from its predecessor.
    """
    if d**length * (d + 1) != n:
        return
    nodes = np.arange(n, dtype=np.int64)
    words = [nodes // d**length]
    for place in range(length - 1, -1, -1):
        rank = nodes // d**place % d
        words.append(rank + (rank >= words[-1]))
    for letters in _all_alike(d + 1):
        image = [letters[word] for word in words]
        number = image[0]
        for before, letter in pairwise(image):
            number = number * d + letter - (letter > before)
        yield number


def _translations(topology: Topology) -> Proposals:
    """Products from the left with each generator, and inversion, which suits abelian groups."""
    graph = cayley_graph_of(topology)
    if graph is None:
        return
    nodes = np.arange(graph.n_nodes)
    for generator in sorted(set(graph.generators)):
        yield graph.translate(generator, nodes)
    yield graph.group.inverse(nodes)


def _expanded(topology: Topology, name: str, fabrics: list[str], numbers: list[int], depth: int) -> Proposals:
    """Lift automorphisms of inner fabrics to a line graph, an expansion, a product, or hosts with cards."""
    try:
        inner = [parse(text) for text in fabrics]
    except TreadleError:
        return
    if name == "line_graph" and len(inner) == 1:
        yield from _lifted_to_lines(inner[0], (numbers or [1])[0], depth)
    elif name == "degree_expansion" and len(inner) == 1 and numbers:
        copies, size = numbers[0], inner[0].n_nodes
        node = np.arange(copies * size, dtype=np.int64)
        yield (node + size) % (copies * size)
        if copies > 1:
            yield np.where(node == 0, size, np.where(node == size, 0, node))
        for one in proposed_automorphisms(inner[0], depth - 1):
            yield node // size * size + one[node % size]
    elif name == "cartesian_power" and len(inner) == 1 and numbers:
        yield from _product_maps(inner * numbers[0], depth)
    elif name == "cartesian_product":
        yield from _product_maps(inner, depth)
    elif name == "with_parallel_links" and len(inner) == 1:
        yield from proposed_automorphisms(inner[0], depth - 1)
    elif name == "with_host_bottleneck" and len(inner) == 1:
        yield from _with_cards(topology, inner[0], depth)


def _with_cards(topology: Topology, inner: Topology, depth: int) -> Proposals:
    """Lift automorphisms of the inner fabric, where cards follow their hosts."""
    hosts = topology.heads[inner.n_links :: 2].astype(np.int64)
    n, n_cards = inner.n_nodes, topology.n_nodes - inner.n_nodes
    if not 0 < len(hosts) <= n_cards or n_cards % len(hosts):
        return
    place = np.full(n, -1, dtype=np.int64)
    place[hosts[hosts < n]] = np.arange(len(hosts))[hosts < n]
    each = n_cards // len(hosts)
    for one in proposed_automorphisms(inner, depth - 1):
        moved = place[one[hosts % n]]
        yield np.concatenate([one, (n + each * moved[:, None] + np.arange(each)).ravel()])


def _lifted_to_lines(inner: Topology, times: int, depth: int) -> list[Int64Array]:
    """Automorphisms of G as maps of the arcs of G, which are the nodes of L(G); repeatedly."""
    graph, maps = inner, [one.astype(np.int32) for one in proposed_automorphisms(inner, depth - 1)]
    for level in range(times):
        maps = [*map(LinkMaps(graph, graph), maps), *_parallel_swaps(graph)]
        if level + 1 < times:
            graph = line_graph(graph)
    return [one.astype(np.int64) for one in maps]


def _parallel_swaps(graph: Topology) -> list[Int32Array]:
    """Exchanges of two arcs with the same ends."""
    ends = graph.tails.astype(np.int64) * graph.n_nodes + graph.heads
    order = np.argsort(ends, kind="stable")
    alike = np.flatnonzero(np.diff(ends[order]) == 0)
    swaps = []
    for place in alike[:_MAX_SWAPS].tolist():
        links = np.arange(graph.n_links, dtype=np.int32)
        one, other = order[place], order[place + 1]
        links[one], links[other] = other, one
        swaps.append(links)
    return swaps


def _product_maps(factors: list[Topology], depth: int) -> Proposals:
    """Automorphisms of each factor, and exchanges of neighbouring equal factors."""
    dims = tuple(factor.n_nodes for factor in factors)
    places = np.indices(dims).reshape(len(dims), -1)
    known: dict[str, tuple[Int64Array, ...]] = {}
    for axis, factor in enumerate(factors):
        if factor.name not in known:
            known[factor.name] = proposed_automorphisms(factor, depth - 1)
        for one in known[factor.name]:
            yield _changed(places, dims, axis, one[places[axis]])
        if axis and factors[axis - 1] == factor:
            yield _changed(places, dims, [axis - 1, axis], places[[axis, axis - 1]])


def _changed(
    places: Int64Array, dims: tuple[int, ...], axes: int | list[int] | slice, rows: Int64Array
) -> Int64Array:
    """Node numbers of coordinates, shape (dimensions, n), of which some are others."""
    moved = places.copy()
    moved[axes] = rows
    return np.asarray(np.ravel_multi_index(tuple(moved), dims), dtype=np.int64)
