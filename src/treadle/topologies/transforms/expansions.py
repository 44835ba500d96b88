"""Large graphs from small ones: line graph, degree expansion, Cartesian power and product.

Section 3.5 and appendix A.4 of the dissertation. The order of nodes and arcs is part of each function's
behaviour: `treadle.synthesis.steps.schedule_expansions` builds schedules on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.errors import TopologyError
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.limits import check_count, check_size, parse_numbers
from treadle.topologies.naming import label
from treadle.topologies.topology import LINK_COLUMNS, Topology
from treadle.topologies.transforms.changes import with_node_order

_MAX_TIMES = 32
_MAX_FACTORS = 32


def line_graph(topology: Topology, n: int = 1) -> Topology:
    """Line graph, taken `n` times: every arc becomes a node (Definition 12).

    Parameters
    ----------
    topology : Topology
        G, without switches. Parallel arcs and self-loops become nodes of their own.
    n : int
        How many times, at least 1.

    Returns
    -------
    Topology
        Node i is arc i of G. Arcs are the pairs (e, f) in which e ends where f starts, sorted by e, then f;
        a self-loop e of G gives the self-loop (e, e). Arc (e, f) has the bandwidth and latency of link e:
        by Definition 1 it carries what link e carried. Nodes are named after walks, such as ``a>b>c``; the
        second of two parallel arcs from a to b is ``a>b#2``.

    Raises
    ------
    TopologyError
        If the graph has switches or injection caps, or the result would be too large.

    Notes
    -----
    A d-regular G with N nodes gives a d-regular graph with dN nodes and a diameter one larger (for d > 1).

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import complete
    >>> kautz = line_graph(complete(3))
    >>> kautz, kautz.link_name(0)
    (<Topology line_graph(complete(3)): 6 compute, 0 switches, 12 links>, 'n0>n1->n1>n0')
    """
    check_count("line_graph", "n", n, most=_MAX_TIMES)
    _check_plain("line_graph", topology)
    _check_walks(topology, n)
    name = label("line_graph", topology.name, *([] if n == 1 else [n]))
    for _ in range(n):
        topology = _line_graph(topology, name)
    return topology


def _line_graph(topology: Topology, name: str) -> Topology:
    tails, heads = topology.tails, topology.heads
    out_degrees = np.bincount(tails, minlength=topology.n_nodes)
    first_out = np.cumsum(out_degrees) - out_degrees
    by_tail = np.argsort(tails, kind="stable")
    followers = out_degrees[heads]
    one = np.repeat(np.arange(topology.n_links), followers)
    rank = np.arange(len(one)) - np.repeat(np.cumsum(followers) - followers, followers)
    other = by_tail[first_out[heads[one]] + rank]
    names = _arc_names(topology)
    return _graph(name, names, one, other, topology.bandwidths[one], topology.latencies_ns[one])


def _check_walks(topology: Topology, n: int) -> None:
    """Reject a result that is too large: its nodes are walks of `n` arcs, its links walks of `n` + 1."""
    ending = np.ones(topology.n_nodes, dtype=np.int64)
    walks = [topology.n_nodes]
    for _ in range(n + 1):
        extended = np.zeros_like(ending)
        np.add.at(extended, topology.heads, ending[topology.tails])
        ending = extended
        walks.append(int(ending.sum()))
        check_size("line_graph", 0, walks[-1])  # now, so that the counts stay far from overflow
    check_size("line_graph", walks[n], walks[n + 1])


def _arc_names(topology: Topology) -> tuple[str, ...]:
    """Return a name per arc: the walk that it stands for, with a number where arcs are parallel."""
    names = topology.node_names
    tails, heads = topology.tails.tolist(), topology.heads.tolist()
    numbers = [f"#{k + 1}" if k else "" for k in _parallel_ranks(topology).tolist()]
    ends = [name.rpartition(">")[2] for name in names]
    # In names of a line graph, tail a>b and head b>c make a>b>c. A comma shows that ">" belongs to a factor.
    if not any("," in name for name in names):
        walks = tuple(f"{names[u]}>{ends[v]}{k}" for u, v, k in zip(tails, heads, numbers, strict=True))
        if len(set(walks)) == len(walks):
            return walks
    return tuple(f"{names[u]}>{names[v]}{k}" for u, v, k in zip(tails, heads, numbers, strict=True))


def _parallel_ranks(topology: Topology) -> Int64Array:
    """Return the number of arcs with the same ends before each arc."""
    keys = topology.tails.astype(np.int64) * topology.n_nodes + topology.heads
    order = np.argsort(keys, kind="stable")
    ranks = np.empty(len(keys), dtype=np.int64)
    ranks[order] = np.arange(len(keys)) - np.searchsorted(keys[order], keys[order])
    return ranks


def degree_expansion(topology: Topology, n: int) -> Topology:
    """Degree expansion G * n: `n` copies, joined wherever G has an arc (Definition 13).

    Parameters
    ----------
    topology : Topology
        G, with N nodes and m arcs, without self-loops and switches.
    n : int
        Copies, at least 1.

    Returns
    -------
    Topology
        Copy i of node v is node i * N + v, named ``v.i``. Arc number (i * n + j) * m + e leads from copy i of
        the tail of arc e to copy j of its head, with the bandwidth and latency of link e.

    Raises
    ------
    TopologyError
        If the graph has self-loops, switches or injection caps, or the result would be too large.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> degree_expansion(ring(4, bidirectional=False), 2)
    <Topology degree_expansion(ring(4, bidirectional=False), 2): 8 compute, 0 switches, 16 links>
    """
    check_count("degree_expansion", "n", n)
    _check_plain("degree_expansion", topology)
    size, m = topology.n_nodes, topology.n_links
    check_size("degree_expansion", n * size, n * n * m)
    for loop in np.flatnonzero(topology.tails == topology.heads).tolist():
        found = f"{topology.name} has the self-loop {topology.link_name(loop)}"
        raise TopologyError(f"degree_expansion: {found}; Definition 13 takes graphs without self-loops")
    first = np.arange(n, dtype=np.int64) * size
    tails = (first[:, None, None] + topology.tails).repeat(n, axis=1).ravel()
    heads = (first[None, :, None] + topology.heads).repeat(n, axis=0).ravel()
    names = [f"{name}.{i}" for i in range(n) for name in topology.node_names]
    columns = (np.tile(column, n * n) for column in (topology.bandwidths, topology.latencies_ns))
    return _graph(label("degree_expansion", topology.name, n), names, tails, heads, *columns)


def cartesian_product(*factors: Topology) -> Topology:
    """Cartesian product of graphs: a node per tuple, arcs along one factor at a time (Definition 3).

    Parameters
    ----------
    *factors : Topology
        G1, ..., Gk without switches; parallel arcs and self-loops stay what they are.

    Returns
    -------
    Topology
        Node (u1, ..., uk) has the number ((u1 * N2 + u2) * N3 + u3) ..., and is named ``x,y,...``. Arcs are
        ordered by factor f, then by the number of the node with coordinate f left out (the rest), then by the
        factor's arc e: arc number = (arcs of the factors before) + rest * m_f + e. Links keep their bandwidth
        and latency.

    Raises
    ------
    TopologyError
        Without factors, if one has switches or injection caps, or if the result would be too large.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import complete, ring
    >>> cartesian_product(ring(4), complete(3))
    <Topology cartesian_product(ring(4), complete(3)): 12 compute, 0 switches, 48 links>
    """
    return _product("cartesian_product", label("cartesian_product", *(g.name for g in factors)), factors)


def cartesian_power(topology: Topology, n: int) -> Topology:
    """Cartesian power: the product of `n` copies of a graph.

    Parameters
    ----------
    topology : Topology
        G, without switches.
    n : int
        Dimensions, at least 1.

    Returns
    -------
    Topology
        `cartesian_product` of n times G, with its order of nodes and arcs.

    Raises
    ------
    TopologyError
        If the graph has switches or injection caps, or the result would be too large.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import complete
    >>> cartesian_power(complete(3), 2)
    <Topology cartesian_power(complete(3), 2): 9 compute, 0 switches, 36 links>
    """
    check_count("cartesian_power", "n", n, most=_MAX_FACTORS)
    return _product("cartesian_power", label("cartesian_power", topology.name, n), (topology,) * n)


def disjoint_copies(topology: Topology, n: int) -> Topology:
    """`n` copies of a graph side by side, without links between them.

    Parameters
    ----------
    topology : Topology
        G, without switches.
    n : int
        Copies, at least 1.

    Returns
    -------
    Topology
        Copy i of node v is node i N + v, named ``i,v``; the m links of copy i begin with
        number i m, in G's order.

    Raises
    ------
    TopologyError
        If the graph has switches or injection caps, or the result would be too large.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import complete_bipartite
    >>> disjoint_copies(complete_bipartite(4, 4), 8)
    <Topology disjoint_copies(complete_bipartite(4, 4), 8): 64 compute, 0 switches, 256 links>
    """
    check_count("disjoint_copies", "n", n)
    _check_plain("disjoint_copies", topology)
    check_size("disjoint_copies", n * topology.n_nodes, n * topology.n_links)
    shift = np.repeat(np.arange(n, dtype=np.int64) * topology.n_nodes, topology.n_links)
    names = [f"{copy},{name}" for copy in range(n) for name in topology.node_names]
    tails, heads, *columns = (np.tile(getattr(topology, key), n) for key in LINK_COLUMNS)
    name = label("disjoint_copies", topology.name, n)
    return _graph(name, names, tails + shift, heads + shift, *columns)


def with_axes_ordered(topology: Topology, sizes: str, order: str) -> Topology:
    """The same graph with its nodes numbered by other axes first: a placement of ranks.

    Parameters
    ----------
    topology : Topology
        G, without switches.
    sizes : str
        Axes by which G's nodes are numbered, the last one fastest: ``"8x4"``.
    order : str
        Axes from 0 in the order in which the result is numbered, the last one fastest: ``"1,0"``.

    Returns
    -------
    Topology
        Node names go with the nodes; links keep their order.

    Raises
    ------
    TopologyError
        If the sizes are not those of the nodes, or `order` does not name each axis once.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import hamming, ring
    >>> with_axes_ordered(cartesian_product(ring(4), hamming(1, 2)), "4x2", "1,0").node_names[:3]
    ('n0,n0', 'n1,n0', 'n2,n0')
    """
    name = "with_axes_ordered"
    _check_plain(name, topology)
    shape, axes = parse_numbers(name, "sizes", sizes, "x"), parse_numbers(name, "order", order, ",")
    if prod(shape) != topology.n_nodes or sorted(axes) != list(range(len(shape))):
        expected = f"expected sizes that multiply to {topology.n_nodes} and each axis once"
        raise TopologyError(f"{name}: {expected}, found {sizes!r} and {order!r}")
    before = np.arange(topology.n_nodes).reshape(shape).transpose(axes).ravel()
    return with_node_order(topology, before, label(name, topology.name, f'"{sizes}"', f'"{order}"'))


def with_nodes_ordered(topology: Topology, order: str) -> Topology:
    """The same graph with its nodes numbered in any order: a placement of ranks.

    Parameters
    ----------
    topology : Topology
        G, without switches.
    order : str
        The node of G that is to be number 0, that to be number 1, and so on: ``"0,2,1,3"``.

    Returns
    -------
    Topology
        Node names go with the nodes; links keep their order.

    Raises
    ------
    TopologyError
        If `order` does not name each node once.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import hamming
    >>> with_nodes_ordered(hamming(2, 2), "0,1,3,2").node_names
    ('n0', 'n1', 'n3', 'n2')
    """
    name = "with_nodes_ordered"
    _check_plain(name, topology)
    before = np.array(parse_numbers(name, "order", order, ","), dtype=np.int64)
    if not np.array_equal(np.sort(before), np.arange(topology.n_nodes)):
        expected = f"expected each node from 0 to {topology.n_nodes - 1} once"
        raise TopologyError(f"{name}: {expected}, found {order[:80]!r}")
    return with_node_order(topology, before, label(name, topology.name, f'"{order}"'))


def _product(function: str, name: str, factors: Sequence[Topology]) -> Topology:
    check_count(function, "number of factors", len(factors), most=_MAX_FACTORS)
    for factor in factors:
        _check_plain(function, factor)
    sizes = [factor.n_nodes for factor in factors]
    n = prod(sizes)
    check_size(function, n, sum(n // factor.n_nodes * factor.n_links for factor in factors))
    columns: list[list[NDArray[np.integer]]] = [[], [], [], []]
    for position, factor in enumerate(factors):
        rest = n // sizes[position]
        stride = prod(sizes[position + 1 :])
        # The node with coordinate 0 in this factor, for each number of the rest.
        high, low = np.divmod(np.arange(rest, dtype=np.int64), stride)
        base = high * (stride * sizes[position]) + low
        columns[0].append((base[:, None] + factor.tails.astype(np.int64) * stride).ravel())
        columns[1].append((base[:, None] + factor.heads.astype(np.int64) * stride).ravel())
        columns[2].append(np.tile(factor.bandwidths, rest))
        columns[3].append(np.tile(factor.latencies_ns, rest))
    names = list(factors[0].node_names)
    for factor in factors[1:]:
        names = [f"{name},{other}" for name in names for other in factor.node_names]
    return _graph(name, names, *map(np.concatenate, columns))


def _graph(name: str, names: Sequence[str], *columns: NDArray[np.integer]) -> Topology:
    """Return a graph with links by columns of tails, heads, bandwidths and latencies.

    Nodes have plain numbers as names where odd names of G make two of `names` equal.
    """
    tails, heads, bandwidths, latencies = columns
    own = names if len(set(names)) == len(names) else None
    return from_arcs(
        name, tails, heads, n=len(names), node_names=own, bandwidth=bandwidths, latency=latencies
    )


def _check_plain(function: str, topology: Topology) -> None:
    """Reject graphs for which the expansions are undefined."""
    if topology.switches.size:
        switch = f"the switch {topology.node_names[topology.switches[0]]!r}"
        raise TopologyError(f"{function}: {topology.name} has {switch}; expected compute nodes only")
    if topology.injection_bytes_per_s.any():
        raise TopologyError(f"{function}: {topology.name} has injection caps; expected none")
    if not topology.n_links:
        raise TopologyError(f"{function}: {topology.name} has no links; nothing to expand")
