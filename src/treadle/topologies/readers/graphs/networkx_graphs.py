"""Fabrics from networkx's graphs, and the way back; networkx is imported by those who have a graph of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from treadle.checking import checked, left_alone, unexpected
from treadle.errors import TopologyError
from treadle.topologies.readers.graphs.attributed import AttributedGraph, GraphEdge
from treadle.topologies.topology import Topology
from treadle.topologies.typed_quantities import bandwidth_of

if TYPE_CHECKING:
    import networkx


def is_networkx_graph(value: object) -> bool:
    """Whether a value is a graph of networkx, without importing it: who has one did."""
    return any(
        kind.__module__.partition(".")[0] == "networkx" and kind.__name__ == "Graph"
        for kind in type(value).__mro__
    )


@checked(graph=left_alone, bandwidth=left_alone)
def from_networkx(
    graph: networkx.Graph, *, bandwidth: float | str | None = None, name: str | None = None
) -> Topology:
    """Return the fabric that a graph of networkx is.

    Parameters
    ----------
    graph : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
        Nodes may have `kind` ("compute", the default, or "switch"), `multicast`, `aggregation`, `turns_round`
        and `injection_bytes_per_s`. Edges may have one of `bandwidth` (text with a unit, or a number of
        bytes/s), `bandwidth_bytes_per_s` and `weight` (a multiple of the parameter `bandwidth`), and
        `latency` (text with a unit) or `latency_ns`. Other attributes are ignored. An undirected edge is
        a link each way. Nodes are named by `str`, and their order is rank order.
    bandwidth : number or str, optional
        Of edges that have none, and the unit of weights: an integer in bytes/s (``25e9`` too),
        or text such as ``25GB/s``.
    name : str, optional
        Default: the graph's own name, or "graph".

    Raises
    ------
    TopologyError
        If `graph` is none, two nodes have one name, an attribute is wrong or a bandwidth is missing.

    Notes
    -----
    If the keys of a multigraph's edges are the integers from 0 on, each once, links are in their order,
    as `Topology.to_networkx` writes them; otherwise in that of the graph.

    Examples
    --------
    >>> import networkx
    >>> import treadle
    >>> treadle.from_networkx(networkx.petersen_graph(), bandwidth="25GB/s")
    <Topology Petersen Graph: 10 compute, 0 switches, 30 links>
    """
    if not is_networkx_graph(graph):
        raise unexpected("from_networkx: graph", "a graph of networkx", graph)

    speed = None if bandwidth is None else bandwidth_of(bandwidth, "from_networkx: bandwidth")
    if speed is not None and speed < 1:
        raise TopologyError(f"from_networkx: bandwidth: expected at least 1 byte/s, found {bandwidth!r}")
    found = AttributedGraph(
        lambda message, _: TopologyError(f"from_networkx: {message}"),
        speed,
        "from_networkx(graph, bandwidth='25GB/s')",
        bare_numbers=True,
    )
    for node, attributes in graph.nodes(data=True):
        found.add_node(str(node), attributes)
    return found.fabric(str(graph.name or "graph") if name is None else name, _edges(graph))


def _edges(graph: networkx.Graph) -> Iterator[GraphEdge]:
    if not graph.is_multigraph():
        rows = [(tail, head, data) for tail, head, data in graph.edges(data=True)]
    else:
        keyed = list(graph.edges(keys=True, data=True))
        keys = [key for _, _, key, _ in keyed]
        if all(type(key) is int for key in keys) and set(keys) == set(range(len(keys))):
            keyed.sort(key=lambda row: row[2])
        rows = [(tail, head, data) for tail, head, _, data in keyed]
    for tail, head, data in rows:
        yield GraphEdge(str(tail), str(head), data, not graph.is_directed())
