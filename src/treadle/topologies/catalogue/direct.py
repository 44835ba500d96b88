"""Direct-connect fabrics from arcs: compute nodes only, no switches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from treadle.arrays import Int32Array, Int64Array
from treadle.errors import TopologyError
from treadle.topologies.limits import check_count
from treadle.topologies.naming import expression
from treadle.topologies.topology import MAX_BANDWIDTH, Topology


def graph_name(function: str, *arguments: int | str, bandwidth: int, latency: int) -> str:
    """Name of a direct-connect graph: the expression that makes it.

    Parameters
    ----------
    function : str
        Of the catalogue.
    *arguments : int
        Its positional arguments.
    bandwidth, latency : int
        Of every link: bytes/s and nanoseconds; shown where they are not 1 and 0.

    Raises
    ------
    TopologyError
        If the bandwidth or the latency is out of range.

    Examples
    --------
    >>> graph_name("kautz", 2, 3, bandwidth=1, latency=10)
    'kautz(2, 3, latency="10ns")'
    """
    check_count(function, "bandwidth", bandwidth, most=MAX_BANDWIDTH)
    check_count(function, "latency", latency, least=0, most=2**62)
    return expression(function, *arguments, bandwidth=(bandwidth, 1), latency=(latency, 0))


def from_arcs(
    name: str,
    tails: ArrayLike,
    heads: ArrayLike,
    *,
    n: int,
    node_names: Sequence[str] | None = None,
    bandwidth: ArrayLike = 1,
    latency: ArrayLike = 0,
) -> Topology:
    """Fabric of `n` compute nodes with a link per arc, in the order given.

    Parameters
    ----------
    name : str
    tails, heads : array_like of int, shape (m,)
        Ends of each arc; self-loops and parallel arcs are legal.
    n : int
    node_names : sequence of str, optional
        Default n0, n1, ...
    bandwidth, latency : int, or array_like of int, shape (m,)
        Of every link, or of each: bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If an arc leaves the nodes.
    """
    m = len(np.asarray(tails))
    return Topology(
        name=name,
        node_names=tuple(f"n{i}" for i in range(n)) if node_names is None else tuple(node_names),
        is_compute=np.ones(n, dtype=np.bool_),
        tails=np.asarray(tails, dtype=np.int32),
        heads=np.asarray(heads, dtype=np.int32),
        bandwidths=np.full(m, bandwidth, dtype=np.int64),
        latencies_ns=np.full(m, latency, dtype=np.int64),
    )


Call = tuple[Any, ...]
"""A catalogue function and its positional arguments, which are the name of the graph."""


def graph(
    call: Call,
    ends: tuple[ArrayLike, ArrayLike],
    n: int,
    bandwidth: int,
    latency: int,
    node_names: Sequence[str] | None = None,
) -> Topology:
    """Return a graph of the catalogue by the tails and heads of its equal links."""
    name = graph_name(*call, bandwidth=bandwidth, latency=latency)
    return from_arcs(name, *ends, n=n, node_names=node_names, bandwidth=bandwidth, latency=latency)


def graph_of_heads(
    call: Call, heads: Int64Array, bandwidth: int, latency: int, node_names: Sequence[str] | None = None
) -> Topology:
    """Return a graph of the catalogue with a link from node x to each of heads[x]."""
    n, degree = heads.shape
    return graph(call, (np.repeat(np.arange(n), degree), heads.ravel()), n, bandwidth, latency, node_names)


def graph_of_steps(call: Call, n: int, steps: Sequence[int], bandwidth: int, latency: int) -> Topology:
    """Return a graph of the catalogue with links from each of `n` nodes along each of the steps."""
    heads = (np.arange(n, dtype=np.int64)[:, None] + np.array(steps)) % n
    return graph_of_heads(call, heads, bandwidth, latency)


def graph_of_edges(call: Call, edges: ArrayLike, n: int, bandwidth: int, latency: int) -> Topology:
    """Return a graph of the catalogue with a link each way per edge, sorted as by `from_edges`."""
    name = graph_name(*call, bandwidth=bandwidth, latency=latency)
    return from_edges(name, edges, n=n, bandwidth=bandwidth, latency=latency)


def from_edges(name: str, ends: ArrayLike, *, n: int, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Fabric of `n` compute nodes with a link each way per edge, sorted by tail, then by head.

    Parameters
    ----------
    name : str
    ends : array_like of int, shape (e, 2)
        The two nodes of each edge.
    n : int
    bandwidth, latency : int
        Of every link: bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If an edge leaves the nodes.

    Examples
    --------
    >>> from_edges("path", [(0, 1), (2, 1)], n=3).heads.tolist()
    [1, 0, 2, 1]
    """
    pairs = np.asarray(ends, dtype=np.int64).reshape(-1, 2)
    arcs = np.concatenate([pairs, pairs[:, ::-1]])
    arcs = arcs[np.lexsort((arcs[:, 1], arcs[:, 0]))]
    return from_arcs(name, arcs[:, 0], arcs[:, 1], n=n, bandwidth=bandwidth, latency=latency)


def in_links(topology: Topology) -> Int32Array:
    """Links into each node, ascending, shape (N, d); self-loops included.

    Raises
    ------
    TopologyError
        If the nodes have different numbers of incoming links.
    """
    n, m = topology.n_nodes, topology.n_links
    degrees = np.bincount(topology.heads, minlength=n)
    if m == 0 or degrees.min() != degrees.max():
        raise TopologyError(f"{topology.name}: nodes differ in degree; expected a regular graph")
    return np.argsort(topology.heads, kind="stable").astype(np.int32).reshape(n, m // n)
