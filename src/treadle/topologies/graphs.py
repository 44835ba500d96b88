"""Direct-connect graphs: compute nodes only, links of one unit (1 byte/s) unless told otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, pairwise
from math import prod

from treadle.topologies.limits import MAX_NODES, check_count, check_size
from treadle.topologies.naming import expression
from treadle.topologies.topology import MAX_BANDWIDTH, Topology, TopologyBuilder

_MAX_DIMENSIONS = 20


def _named(function: str, *arguments: int, bandwidth: int, latency: int) -> str:
    """The graph's name; refuses link arguments out of range."""
    check_count(function, "bandwidth", bandwidth, most=MAX_BANDWIDTH)
    check_count(function, "latency", latency, least=0, most=2**62)
    return expression(function, *arguments, bandwidth=(bandwidth, 1), latency=(latency, 0))


def _duplex_graph(
    name: str, nodes: Iterable[str], pairs: Iterable[tuple[str, str]], bandwidth: int, latency: int
) -> Topology:
    """Compute nodes joined by a link each way per pair."""
    builder = TopologyBuilder(name)
    for node in nodes:
        builder.compute(node)
    for one, other in pairs:
        builder.duplex(one, other, bandwidth, latency)
    return builder.build()


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
    name = _named("ring", n, bandwidth=bandwidth, latency=latency)
    if not bidirectional:
        name = name.replace(f"({n}", f"({n}, bidirectional=False", 1)
    builder = TopologyBuilder(name)
    nodes = [builder.compute(f"n{i}") for i in range(n)]
    for i, node in enumerate(nodes):
        following = nodes[(i + 1) % n]
        if not bidirectional:
            builder.link(node, following, bandwidth, latency)
        elif n > 2 or i == 0:
            builder.duplex(node, following, bandwidth, latency)
    return builder.build()


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
    name = _named("path", n, bandwidth=bandwidth, latency=latency)
    return _duplex_graph(name, nodes, pairwise(nodes), bandwidth, latency)


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
    name = _named("star", n, bandwidth=bandwidth, latency=latency)
    return _duplex_graph(name, nodes, (("n0", leaf) for leaf in nodes[1:]), bandwidth, latency)


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
    name = _named("complete", n, bandwidth=bandwidth, latency=latency)
    return _duplex_graph(name, nodes, combinations(nodes, 2), bandwidth, latency)


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
    builder = TopologyBuilder(_named(function, *dims, bandwidth=bandwidth, latency=latency))
    names = [builder.compute(f"n{_coordinates(i, dims)}") for i in range(nodes)]
    stride = nodes
    for dim in dims:
        block = stride
        stride //= dim
        for i in range(nodes):
            last = (i % block) // stride == dim - 1
            if not last:
                builder.duplex(names[i], names[i + stride], bandwidth, latency)
            elif wraps and dim > 2:
                builder.duplex(names[i], names[i - (dim - 1) * stride], bandwidth, latency)
    return builder.build()


def _coordinates(index: int, dims: tuple[int, ...]) -> str:
    """Position in the grid, such as ``2_0_1``."""
    digits: list[str] = []
    for dim in reversed(dims):
        index, digit = divmod(index, dim)
        digits.append(str(digit))
    return "_".join(reversed(digits))


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
    builder = TopologyBuilder(_named("hypercube", d, bandwidth=bandwidth, latency=latency))
    dims = (2,) * d
    names = [builder.compute(f"n{_coordinates(i, dims)}") for i in range(2**d)]
    # Highest bit first: the order of torus(2, ..., 2), so that the two are equal as values.
    for bit in reversed(range(d)):
        for i in range(2**d):
            if not i >> bit & 1:
                builder.duplex(names[i], names[i | 1 << bit], bandwidth, latency)
    return builder.build()
