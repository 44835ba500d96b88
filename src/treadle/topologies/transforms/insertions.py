"""Nodes put between links or taken out, and links that exchange ends: graphs of a few nodes more or less."""

from __future__ import annotations

from itertools import compress

import numpy as np

from treadle.arrays import mask_of
from treadle.errors import TopologyError
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.limits import check_count, check_size
from treadle.topologies.naming import label
from treadle.topologies.properties import is_regular
from treadle.topologies.topology import Topology


def with_inserted_nodes(topology: Topology, *links: int) -> Topology:
    """A regular graph with nodes put between its links, d links for each new node.

    Parameters
    ----------
    topology : Topology
        G, regular of degree d, without switches.
    *links : int
        Links to cut, d for the first new node, then d for the second, and so on.

    Returns
    -------
    Topology
        Link e from a to b becomes e from a to the new node, and a link from there to b is added at the end.
        New nodes have the next numbers and are named ``x0``, ``x1``, ...; links keep bandwidth and latency.

    Raises
    ------
    TopologyError
        If the graph is not regular, a link does not exist, or their number is not a multiple of d.

    Examples
    --------
    >>> from treadle.topologies.catalogue.rings import uni_ring
    >>> with_inserted_nodes(uni_ring(1, 4), 2)
    <Topology with_inserted_nodes(uni_ring(1, 4), 2): 5 compute, 0 switches, 5 links>
    """
    name = "with_inserted_nodes"
    _check_graph(name, topology)
    degree = topology.n_links // topology.n_nodes
    if not links or len(links) % degree:
        raise TopologyError(f"{name}: expected {degree} links for each new node, found {len(links)}")
    nodes = topology.n_nodes + len(links) // degree
    check_size(name, nodes, nodes * degree)
    tails, heads = topology.tails.tolist(), topology.heads.tolist()
    source = list(range(topology.n_links))
    for place, link in enumerate(links):
        check_count(name, "each link", link, least=0, most=len(heads) - 1)  # or one that was added
        node = topology.n_nodes + place // degree
        if node in (tails[link], heads[link]):
            raise TopologyError(f"{name}: link {link} is one of the node that it is to be cut for")
        tails.append(node)
        heads.append(heads[link])
        heads[link] = node
        source.append(source[link])
    names = (*topology.node_names, *(f"x{i}" for i in range(nodes - topology.n_nodes)))
    return _changed(topology, name, links, names, tails, heads, source)


def with_deleted_nodes(topology: Topology, *nodes: int) -> Topology:
    """A regular graph without some nodes, whose in-links go on where their out-links went.

    Parameters
    ----------
    topology : Topology
        G, regular, without switches.
    *nodes : int
        Different nodes without self-loops, taken out one after another.

    Returns
    -------
    Topology
        Of the links into a node the first goes on to the head of the last link out of it, the second to that
        of the last but one, and so on; they keep their bandwidth and latency, and the links out are gone.
        Numbers of nodes and links close up. If links are bidirectional pairs in the same order, so they are
        afterwards.

    Raises
    ------
    TopologyError
        If the graph is not regular, a node does not exist or has a self-loop when its turn comes, or none
        would be left.

    Examples
    --------
    >>> from treadle.topologies.catalogue.rings import uni_ring
    >>> with_deleted_nodes(uni_ring(1, 4), 2) == uni_ring(1, 3)
    False
    >>> with_deleted_nodes(uni_ring(1, 4), 2).heads.tolist()
    [1, 2, 0]
    """
    name = "with_deleted_nodes"
    _check_graph(name, topology)
    check_count(name, "each node", *nodes, least=0, most=topology.n_nodes - 1)
    most = topology.n_nodes - 2
    if not nodes or len(set(nodes)) < len(nodes) or len(nodes) > most:
        raise TopologyError(f"{name}: expected different nodes, at most {most} of them, found {len(nodes)}")
    tails, heads = topology.tails.copy(), topology.heads.copy()
    kept = np.ones(len(heads), dtype=np.bool_)
    for node in nodes:
        into, out = np.flatnonzero(kept & (heads == node)), np.flatnonzero(kept & (tails == node))
        if np.isin(into, out).any():
            raise TopologyError(f"{name}: node {node} has a self-loop, which joins no two of its links")
        heads[into] = heads[out[::-1]]
        kept[out] = False
    stays = ~mask_of(topology.n_nodes, list(nodes))
    index = np.cumsum(stays) - 1
    left = tuple(compress(topology.node_names, stays.tolist()))
    source = np.flatnonzero(kept).tolist()
    ends = index[tails[kept]].tolist(), index[heads[kept]].tolist()
    return _changed(topology, name, nodes, left, *ends, source)


def with_exchanged_heads(topology: Topology, *links: int) -> Topology:
    """A graph in which pairs of links, the first two, the next two and so on, exchange their heads.

    Parameters
    ----------
    topology : Topology
        G, regular, without switches.
    *links : int
        An even number.

    Raises
    ------
    TopologyError
        If the graph is not regular, a link does not exist, or their number is odd.

    Examples
    --------
    >>> from treadle.topologies.catalogue.rings import uni_ring
    >>> with_exchanged_heads(uni_ring(2, 3), 0, 1).heads.tolist() == uni_ring(2, 3).heads.tolist()
    True
    """
    name = "with_exchanged_heads"
    _check_graph(name, topology)
    if not links or len(links) % 2:
        raise TopologyError(f"{name}: expected pairs of links, found {len(links)}")
    heads = topology.heads.tolist()
    check_count(name, "each link", *links, least=0, most=len(heads) - 1)
    for one, other in zip(links[::2], links[1::2], strict=True):
        heads[one], heads[other] = heads[other], heads[one]
    source = list(range(topology.n_links))
    return _changed(topology, name, links, topology.node_names, topology.tails.tolist(), heads, source)


def _check_graph(function: str, topology: Topology) -> None:
    if topology.switches.size or topology.injection_bytes_per_s.any() or not is_regular(topology):
        expected = "expected a regular graph without switches and injection caps"
        raise TopologyError(f"{function}: {topology.name[:80]}: {expected}")


def _changed(
    topology: Topology,
    function: str,
    arguments: tuple[int, ...],
    names: tuple[str, ...],
    tails: list[int],
    heads: list[int],
    source: list[int],
) -> Topology:
    """Return the graph with the bandwidth and latency of G's links."""
    return from_arcs(
        label(function, topology.name, *arguments),
        tails,
        heads,
        n=len(names),
        node_names=names if len(set(names)) == len(names) else None,
        bandwidth=topology.bandwidths[source],
        latency=topology.latencies_ns[source],
    )
