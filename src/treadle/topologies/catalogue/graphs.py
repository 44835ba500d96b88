"""Direct-connect graphs: compute nodes only, links of one unit (1 byte/s) by default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from treadle.topologies.catalogue.direct import from_arcs, from_heads, graph_name, with_steps
from treadle.topologies.limits import MAX_NODES, check_count, check_size
from treadle.topologies.topology import Topology
from treadle.topologies.typed_quantities import bandwidth_of

_MAX_DIMENSIONS = 20


def _duplex_graph(
    call: tuple[Any, ...],
    nodes: Sequence[str],
    pairs: ArrayLike,
    bandwidth: int,
    latency: int,
) -> Topology:
    """Compute nodes joined by a link each way per pair (p, 2) of numbers; `call`: function and arguments."""
    ends = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    m = ends.size
    speed = bandwidth_of(bandwidth, "bandwidth")
    return Topology(
        name=graph_name(*call, bandwidth=bandwidth, latency=latency),
        node_names=tuple(nodes),
        is_compute=np.ones(len(nodes), dtype=bool),
        tails=ends.ravel(),
        heads=ends[:, ::-1].ravel(),
        bandwidths=np.full(m, speed),
        latencies_ns=np.full(m, latency),
    )


def ring(n: int, *, bidirectional: bool = True, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Cycle of `n` compute nodes.

    Parameters
    ----------
    n : int
        Nodes, at least 2. Two nodes share one bidirectional link (or a pair of opposite links).
    bidirectional : bool
        False leaves only the links from node i to node i + 1.
    bandwidth : int
        Of each link, bytes/s.
    latency : int
        Of each link, nanoseconds.

    Raises
    ------
    TopologyError
        If `n` is out of range.

    Examples
    --------
    >>> ring(4)
    <Topology ring(4): 4 compute, 0 switches, 8 links>
    """
    check_count("ring", "n", n, least=2)
    check_size("ring", n, 2 * n)
    nodes = [f"n{i}" for i in range(n)]
    if not bidirectional:
        return with_steps(("ring", n, "bidirectional=False"), n, [1], bandwidth, latency)
    places = np.arange(1 if n == 2 else n)
    return _duplex_graph(("ring", n), nodes, np.stack([places, (places + 1) % n], axis=1), bandwidth, latency)


def path(n: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Line of `n` compute nodes, neighbours joined by a link each way.

    Parameters
    ----------
    n : int
        Nodes, at least 1.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.
    """
    check_count("path", "n", n)
    check_size("path", n, 2 * n)
    nodes = [f"n{i}" for i in range(n)]
    return _duplex_graph(("path", n), nodes, list(pairwise(range(n))), bandwidth, latency)


def star(n: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Hub n0, itself a compute node, joined to `n` - 1 leaves by a link each way.

    Parameters
    ----------
    n : int
        Nodes with the hub, at least 2.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.
    """
    check_count("star", "n", n, least=2)
    check_size("star", n, 2 * n)
    nodes = [f"n{i}" for i in range(n)]
    return _duplex_graph(("star", n), nodes, [(0, leaf) for leaf in range(1, n)], bandwidth, latency)


def complete(n: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Complete graph: a link from every node to every other.

    Parameters
    ----------
    n : int
        Nodes, at least 2.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.
    """
    check_count("complete", "n", n, least=2)
    check_size("complete", n, n * (n - 1))
    nodes = [f"n{i}" for i in range(n)]
    return _duplex_graph(("complete", n), nodes, np.stack(np.triu_indices(n, 1), axis=1), bandwidth, latency)


def complete_bipartite(a: int, b: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Complete bipartite graph K_{a,b}: a link each way between any two nodes of different sides.

    Parameters
    ----------
    a, b : int
        Nodes of the two sides, each at least 1: ranks 0 to a - 1 and a to a + b - 1.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Notes
    -----
    Size a + b. Degree b on the side of `a`, a on the other; regular (degree d, size 2d) if a = b = d.
    Diameter 2 (1 for a = b = 1). K_{d,d} is Moore-optimal and bandwidth-optimal by breadth-first broadcast
    (the dissertation, figure 3.1 and table A.3).
    Links are ordered by tail, then by head.

    Examples
    --------
    >>> complete_bipartite(2, 2)
    <Topology complete_bipartite(2, 2): 4 compute, 0 switches, 8 links>
    """
    check_count("complete_bipartite", "a", a)
    check_count("complete_bipartite", "b", b)
    check_size("complete_bipartite", a + b, 2 * a * b)
    left, right = np.arange(a), np.arange(a, a + b)
    return from_arcs(
        graph_name("complete_bipartite", a, b, bandwidth=bandwidth, latency=latency),
        np.concatenate([np.repeat(left, b), np.repeat(right, a)]),
        np.concatenate([np.tile(right, a), np.tile(left, b)]),
        n=a + b,
        bandwidth=bandwidth,
        latency=latency,
    )


def hamming(n: int, q: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Hamming graph H(n, q): words of `n` symbols out of `q`, joined where they differ in one symbol.

    Parameters
    ----------
    n : int
        Symbols of a word, at least 1.
    q : int
        Size of the alphabet, at least 2.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Notes
    -----
    The Cartesian power of the complete graph K_q. Size q^n, degree n(q - 1), diameter n.
    Bandwidth-optimal by breadth-first broadcast with T_L = n (distance-regular: theorem 18; table A.3);
    H(2, q) is Moore-optimal too. H(n, 2) is the hypercube.
    A word's rank reads its symbols as digits, the first most significant. Link
    x * n(q - 1) + i(q - 1) + r - 1 leaves x and adds r modulo q to symbol i, the first symbol being 0.

    Examples
    --------
    >>> hamming(2, 3)
    <Topology hamming(2, 3): 9 compute, 0 switches, 36 links>
    """
    check_count("hamming", "n", n, most=_MAX_DIMENSIONS)
    check_count("hamming", "q", q, least=2)
    size, degree = q**n, n * (q - 1)
    check_size("hamming", size, size * degree)
    place = np.repeat(q ** np.arange(n - 1, -1, -1, dtype=np.int64), q - 1)
    step = np.tile(np.arange(1, q), n)
    nodes = np.arange(size)[:, None]
    digits = nodes // place % q
    heads = nodes + ((digits + step) % q - digits) * place
    return from_heads(("hamming", n, q), heads, bandwidth, latency)


def torus(*dims: int, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Product of rings; a dimension of size 2 is one bidirectional link, so torus(2,2,2) = hypercube(3).

    Parameters
    ----------
    *dims : int
        Sizes of the dimensions, each at least 1; the last one varies fastest in rank order.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        Without dimensions, or if the torus is too large.

    Examples
    --------
    >>> torus(3, 3, 2)
    <Topology torus(3, 3, 2): 18 compute, 0 switches, 90 links>
    """
    return _grid("torus", dims, wraps=True, bandwidth=bandwidth, latency=latency)


def mesh(*dims: int, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Product of paths: a torus without the wrap-around links.

    Parameters
    ----------
    *dims : int
        Sizes of the dimensions, each at least 1; the last one varies fastest in rank order.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.
    """
    return _grid("mesh", dims, wraps=False, bandwidth=bandwidth, latency=latency)


def _grid(function: str, dims: tuple[int, ...], *, wraps: bool, bandwidth: int, latency: int) -> Topology:
    check_count(function, "number of dimensions", len(dims), most=_MAX_DIMENSIONS)
    for dim in dims:
        check_count(function, "each dimension", dim)
    nodes = prod(dims)
    check_count(function, "number of nodes", nodes, most=MAX_NODES)
    check_size(function, nodes, sum(nodes * min(dim - 1, 2) for dim in dims))
    names = _grid_names(dims)
    place, stride = np.arange(nodes), nodes
    pairs = [np.zeros((0, 2), dtype=np.int64)]
    for dim in dims:
        block = stride
        stride //= dim
        last = (place % block) // stride == dim - 1
        near = np.where(last, place - (dim - 1) * stride, place + stride)
        pairs.append(np.stack([place, near], axis=1)[~last | (wraps and dim > 2)])
    return _duplex_graph((function, *dims), names, np.concatenate(pairs), bandwidth, latency)


def _grid_names(dims: tuple[int, ...]) -> list[str]:
    """Names of all positions in a grid, such as ``n2_0_1``, the last dimension fastest."""
    return ["n" + "_".join(map(str, place)) for place in product(*map(range, dims))]


def hypercube(d: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Binary cube of `d` dimensions: 2**d nodes, neighbours differ in one bit.

    Parameters
    ----------
    d : int
        Dimensions, at least 1.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If the cube is too large.
    """
    check_count("hypercube", "d", d, most=_MAX_DIMENSIONS)
    check_size("hypercube", 2**d, d * 2**d)
    cube = _grid("torus", (2,) * d, wraps=True, bandwidth=bandwidth, latency=latency)
    return replace(cube, name=graph_name("hypercube", d, bandwidth=bandwidth, latency=latency))
