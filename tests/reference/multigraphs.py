"""Fabrics as graphs of networkx, compared with their parallel links counted."""

import networkx as nx


def networkx_graph(topology):
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(range(topology.n_nodes))
    graph.add_edges_from(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    return graph


def are_isomorphic(one, other):
    """With multiplicities: VF2 compares the number of parallel links when told to."""
    graphs = []
    for graph in (one, other):
        weighted = nx.DiGraph()
        weighted.add_nodes_from(graph)
        for tail, head in graph.edges():
            count = graph.number_of_edges(tail, head)
            weighted.add_edge(tail, head, count=count)
        graphs.append(weighted)
    match = nx.algorithms.isomorphism.numerical_edge_match("count", 1)
    return nx.is_isomorphic(*graphs, edge_match=match)
