"""Nodes put between links, and links that exchange their ends: from a graph to one of a few nodes more."""

from __future__ import annotations

import numpy as np

from treadle.errors import TopologyError
from treadle.topologies.limits import check_count, check_size
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
        If the graph is not regular, a link does not exist, or their number is no multiple of d.

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
        check_count(name, "each link", link, least=0, most=len(heads) - 1)
        node = topology.n_nodes + place // degree
        if node in (tails[link], heads[link]):
            raise TopologyError(f"{name}: link {link} is one of the node that it is to be cut for")
        tails.append(node)
        heads.append(heads[link])
        heads[link] = node
        source.append(source[link])
    return _changed(topology, name, links, nodes, tails, heads, source)


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
    for one, other in zip(links[::2], links[1::2], strict=True):
        for link in (one, other):
            check_count(name, "each link", link, least=0, most=len(heads) - 1)
        heads[one], heads[other] = heads[other], heads[one]
    source = list(range(topology.n_links))
    return _changed(topology, name, links, topology.n_nodes, topology.tails.tolist(), heads, source)


def _check_graph(function: str, topology: Topology) -> None:
    if topology.switches.size or topology.injection_bytes_per_s.any() or not is_regular(topology):
        raise TopologyError(
            f"{function}: {topology.name[:80]}: expected a regular graph without switches and injection caps"
        )


def _changed(
    topology: Topology,
    function: str,
    links: tuple[int, ...],
    nodes: int,
    tails: list[int],
    heads: list[int],
    source: list[int],
) -> Topology:
    """With the bandwidth and latency that each link has from one of G's."""
    names = (*topology.node_names, *(f"x{i}" for i in range(nodes - topology.n_nodes)))
    label = f"{function}({topology.name}, {', '.join(map(str, links))})"
    return Topology(
        name=label if len(label) <= 200 else f"{label[:200]}...",
        node_names=names if len(set(names)) == nodes else tuple(f"n{i}" for i in range(nodes)),
        is_compute=np.ones(nodes, dtype=np.bool_),
        tails=np.array(tails, dtype=np.int32),
        heads=np.array(heads, dtype=np.int32),
        bandwidths=topology.bandwidths[source],
        latencies_ns=topology.latencies_ns[source],
    )
