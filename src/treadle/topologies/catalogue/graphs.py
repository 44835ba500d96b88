"""Direct-connect graphs: compute nodes only, links of one unit (1 byte/s) by default."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from treadle.topologies.catalogue.direct import Call, graph, graph_name, graph_of_heads, graph_of_steps
from treadle.topologies.limits import MAX_NODES, check_count, check_counts, check_size
from treadle.topologies.topology import Topology

_MAX_DIMENSIONS = 20


def _duplex_graph(
    call: Call, n: int, pairs: ArrayLike, bandwidth: int, latency: int, names: Sequence[str] | None = None
) -> Topology:
    """Return `n` compute nodes that are joined by a link each way per pair (p, 2) of numbers."""
    ends = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    return graph(call, (ends.ravel(), ends[:, ::-1].ravel()), n, bandwidth, latency, names)


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
    if not bidirectional:
        return graph_of_steps(("ring", n, "bidirectional=False"), n, [1], bandwidth, latency)
    nodes = np.arange(1 if n == 2 else n)
    return _duplex_graph(("ring", n), n, np.stack([nodes, (nodes + 1) % n], axis=1), bandwidth, latency)


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
    return _duplex_graph(("path", n), n, list(pairwise(range(n))), bandwidth, latency)


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
    return _duplex_graph(("star", n), n, [(0, leaf) for leaf in range(1, n)], bandwidth, latency)


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
    return _duplex_graph(("complete", n), n, np.stack(np.triu_indices(n, 1), axis=1), bandwidth, latency)


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
    check_counts("complete_bipartite", a=a, b=b)
    check_size("complete_bipartite", a + b, 2 * a * b)
    left, right = np.arange(a), np.arange(a, a + b)
    tails = np.append(np.repeat(left, b), np.repeat(right, a))
    heads = np.append(np.tile(right, a), np.tile(left, b))
    return graph(("complete_bipartite", a, b), (tails, heads), a + b, bandwidth, latency)


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
    return graph_of_heads(("hamming", n, q), heads, bandwidth, latency)


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
    check_count(function, "each dimension", *dims)
    nodes = prod(dims)
    check_count(function, "number of nodes", nodes, most=MAX_NODES)
    check_size(function, nodes, sum(nodes * min(dim - 1, 2) for dim in dims))
    names = ["n" + "_".join(map(str, position)) for position in product(*map(range, dims))]
    place, stride = np.arange(nodes), nodes
    pairs = [np.zeros((0, 2), dtype=np.int64)]
    for dim in dims:
        block = stride
        stride //= dim
        last = (place % block) // stride == dim - 1
        near = np.where(last, place - (dim - 1) * stride, place + stride)
        pairs.append(np.stack([place, near], axis=1)[~last | (wraps and dim > 2)])
    return _duplex_graph((function, *dims), nodes, np.concatenate(pairs), bandwidth, latency, names)


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
    return cube.renamed(graph_name("hypercube", d, bandwidth=bandwidth, latency=latency))
